//! Collects the functions that a library's program registers.

use std::cell::Cell;

use undercroft_commands::scripts::LibraryFunction;

use crate::state::RegistryKey;

/// A registered function with its registry key.
pub(crate) type RegisteredFunction = (LibraryFunction, RegistryKey);

/// The functions that the library being loaded has registered so far.
#[derive(Default)]
pub(crate) struct Registrations {
    /// Whether a library is being loaded, so that functions can be registered.
    is_open: Cell<bool>,
    functions: Cell<Vec<RegisteredFunction>>,
    /// The memory that `functions` occupies, in bytes.
    bytes: Cell<usize>,
}

impl Registrations {
    /// Clears the list of functions, and starts to accept registrations.
    pub(crate) fn begin(&self) {
        self.functions.take();
        self.bytes.set(0);
        self.is_open.set(true);
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open.get()
    }

    /// Adds a function whose registry key will be set later. Returns the memory that all functions
    /// occupy, in bytes, or `None` if the name already exists.
    pub(super) fn add(&self, function: LibraryFunction) -> Option<usize> {
        let mut functions = self.functions.take();
        let is_new = !functions
            .iter()
            .any(|(known, _)| known.name == function.name);
        if is_new {
            let description = function.description.as_ref().map_or(0, Vec::len);
            let bytes = size_of::<RegisteredFunction>() + function.name.len() + description;
            self.bytes.set(self.bytes.get() + bytes);
            functions.push((function, RegistryKey::default()));
        }
        self.functions.set(functions);
        is_new.then(|| self.bytes.get())
    }

    /// Sets the registry key of the function that was registered last.
    pub(super) fn set_last_key(&self, key: RegistryKey) {
        let mut functions = self.functions.take();
        if let Some(last) = functions.last_mut() {
            last.1 = key;
        }
        self.functions.set(functions);
    }

    /// Removes the function that was registered last, and returns its registry key.
    pub(crate) fn pop(&self) -> Option<RegistryKey> {
        let mut functions = self.functions.take();
        let last = functions.pop();
        self.functions.set(functions);
        last.map(|(_, key)| key)
    }

    /// Stops accepting registrations, and returns the registered functions.
    pub(crate) fn end(&self) -> Vec<RegisteredFunction> {
        self.is_open.set(false);
        self.functions.take()
    }
}
