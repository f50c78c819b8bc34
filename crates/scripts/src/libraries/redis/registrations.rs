//! What the program of a library has registered.

use std::ffi::c_int;

use undercroft_commands::script::LibraryFunction;

/// A function that the program of a library has registered, and its place in the registry.
pub(crate) type Registered = (LibraryFunction, c_int);

/// What is being loaded.
#[derive(Default)]
pub(crate) struct Loading {
    /// Whether functions may be registered.
    pub(super) is_open: bool,
    pub(crate) registered: Vec<Registered>,
    /// Bytes of what was registered.
    pub(super) taken: usize,
}

impl Loading {
    /// Nothing is registered yet, and functions may be.
    pub(crate) fn begin(&mut self) {
        self.registered.clear();
        self.taken = 0;
        self.is_open = true;
    }

    /// What was registered; nothing is loaded any more.
    pub(crate) fn end(&mut self) -> Vec<Registered> {
        self.is_open = false;
        std::mem::take(&mut self.registered)
    }
}
