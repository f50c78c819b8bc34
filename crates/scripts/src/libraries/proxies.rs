//! Proxies: empty tables that scripts are given in the place of the libraries and the globals.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_int;

use crate::state::{RegistryKey, State};

/// The proxies of an interpreter.
#[derive(Default)]
pub(crate) struct Proxies {
    /// The address of each, and where the registry keeps the original table.
    known: UnsafeCell<Vec<(usize, RegistryKey)>>,
    /// That of the globals, and their original.
    globals: Cell<(RegistryKey, RegistryKey)>,
}

impl Proxies {
    /// Where the registry keeps the proxy of the globals.
    pub(crate) fn globals(&self) -> RegistryKey {
        self.globals.get().0
    }

    /// Pushes the original globals.
    #[inline]
    pub(crate) fn push_globals(&self, state: &State<'_>) {
        state.push_kept(self.globals.get().1);
    }

    pub(crate) fn set_globals(&self, proxy: RegistryKey, original: RegistryKey) {
        self.globals.set((proxy, original));
    }

    /// Where the registry keeps the original of the table at an index; none if that is no proxy.
    #[inline]
    pub(crate) fn original(&self, state: &State<'_>, index: c_int) -> Option<RegistryKey> {
        let address = state.address(index);
        // SAFETY: the reference ends here, and so does that in `add`.
        let mut known = unsafe { &*self.known.get() }.iter();
        known.find(|proxy| proxy.0 == address).map(|proxy| proxy.1)
    }

    /// Adds the table at an index as the proxy of another one.
    pub(crate) fn add(&self, state: &State<'_>, index: c_int, original: RegistryKey) {
        let address = state.address(index);
        // SAFETY: the reference ends here, and so does that in `original`.
        unsafe { &mut *self.known.get() }.push((address, original));
    }
}
