//! Proxies: empty tables that scripts see instead of the libraries and the globals.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_int;

use crate::state::{RegistryKey, State};

/// The proxies of an interpreter.
#[derive(Default)]
pub(crate) struct Proxies {
    /// Each proxy's address, and the registry key of its original table.
    known: UnsafeCell<Vec<(usize, RegistryKey)>>,
    /// The registry keys of the globals' proxy and of the original globals.
    globals: Cell<(RegistryKey, RegistryKey)>,
}

impl Proxies {
    /// Returns the registry key of the globals' proxy.
    pub(crate) fn globals(&self) -> RegistryKey {
        self.globals.get().0
    }

    /// Pushes the original table of the globals.
    #[inline]
    pub(crate) fn push_globals(&self, state: &State<'_>) {
        state.push_kept(self.globals.get().1);
    }

    pub(crate) fn set_globals(&self, proxy: RegistryKey, original: RegistryKey) {
        self.globals.set((proxy, original));
    }

    /// Returns the registry key of the original of the table at `index`, or `None` if that table is
    /// not a proxy.
    #[inline]
    pub(crate) fn original(&self, state: &State<'_>, index: c_int) -> Option<RegistryKey> {
        let address = state.address(index);
        // SAFETY: no reference to `known` outlives this function or `add`, which do not call each
        // other.
        let mut known = unsafe { &*self.known.get() }.iter();
        known.find(|proxy| proxy.0 == address).map(|proxy| proxy.1)
    }

    /// Adds the table at `index` as a proxy of `original`.
    pub(crate) fn add(&self, state: &State<'_>, index: c_int, original: RegistryKey) {
        let address = state.address(index);
        // SAFETY: no reference to `known` outlives this function or `original`, which do not call
        // each other.
        unsafe { &mut *self.known.get() }.push((address, original));
    }
}
