//! Maintains proxies: empty tables that scripts see in place of the libraries and the globals.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_int;

use crate::state::{RegistryKey, State};

/// All proxies of an interpreter.
#[derive(Default)]
pub(crate) struct Proxies {
    /// Each proxy's address, with the registry key of the proxied table.
    known: UnsafeCell<Vec<(usize, RegistryKey)>>,
    /// The registry keys of the globals' proxy and of the proxied globals.
    globals: Cell<(RegistryKey, RegistryKey)>,
}

impl Proxies {
    /// Returns the registry key of the globals' proxy.
    pub(crate) fn globals(&self) -> RegistryKey {
        self.globals.get().0
    }

    /// Pushes the table of globals for which the globals' proxy stands in.
    #[inline]
    pub(crate) fn push_globals(&self, state: &State<'_>) {
        state.push_kept(self.globals.get().1);
    }

    pub(crate) fn set_globals(&self, proxy: RegistryKey, original: RegistryKey) {
        self.globals.set((proxy, original));
    }

    /// Returns the registry key of the table that the proxy at `index` stands in for, or `None` if
    /// the table at `index` is not a proxy.
    #[inline]
    pub(crate) fn original(&self, state: &State<'_>, index: c_int) -> Option<RegistryKey> {
        let address = state.address(index);
        // SAFETY: only this function and `add` access `known`. Neither calls the other or returns a
        // reference to `known`.
        let mut known = unsafe { &*self.known.get() }.iter();
        known.find(|proxy| proxy.0 == address).map(|proxy| proxy.1)
    }

    /// Records the table at `index` as the proxy of the table `original`.
    pub(crate) fn add(&self, state: &State<'_>, index: c_int, original: RegistryKey) {
        let address = state.address(index);
        // SAFETY: only this function and `original` access `known`. Neither calls the other or
        // returns a reference to `known`.
        unsafe { &mut *self.known.get() }.push((address, original));
    }
}
