//! Functions that the program of a library registers.

use std::ffi::c_int;

use undercroft_commands::script::LibraryFunction;

/// A function that the program of a library has registered, and its place in the registry.
pub(crate) type RegisteredFunction = (LibraryFunction, c_int);

/// The functions of the library that is being loaded.
#[derive(Default)]
pub(crate) struct Registrations {
    /// Whether functions may be registered.
    pub(super) is_open: bool,
    pub(crate) functions: Vec<RegisteredFunction>,
    /// Bytes that their names and descriptions take.
    pub(super) bytes: usize,
}

impl Registrations {
    /// Begins with none, and accepts functions.
    pub(crate) fn begin(&mut self) {
        self.functions.clear();
        self.bytes = 0;
        self.is_open = true;
    }

    /// Accepts no more functions. Returns those that were registered.
    pub(crate) fn end(&mut self) -> Vec<RegisteredFunction> {
        self.is_open = false;
        std::mem::take(&mut self.functions)
    }
}
