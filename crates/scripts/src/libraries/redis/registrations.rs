//! The functions that a library's program registers.

use std::cell::Cell;

use undercroft_commands::scripts::LibraryFunction;

use crate::state::RegistryKey;

/// A registered function, and its registry key.
pub(crate) type RegisteredFunction = (LibraryFunction, RegistryKey);

/// The functions of the library that is being loaded.
#[derive(Default)]
pub(crate) struct Registrations {
    /// Whether functions can be registered now.
    is_open: Cell<bool>,
    functions: Cell<Vec<RegisteredFunction>>,
    /// The memory of `functions`, in bytes.
    bytes: Cell<usize>,
}

impl Registrations {
    /// Clears the list, and accepts registrations.
    pub(crate) fn begin(&self) {
        self.functions.take();
        self.bytes.set(0);
        self.is_open.set(true);
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open.get()
    }

    /// Adds a function unless its name is taken; its registry key is set later. Returns the bytes
    /// that all functions take.
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

    /// Sets the registry key of the last function.
    pub(super) fn set_last_key(&self, key: RegistryKey) {
        let mut functions = self.functions.take();
        if let Some(last) = functions.last_mut() {
            last.1 = key;
        }
        self.functions.set(functions);
    }

    /// Removes the last function, and returns its registry key.
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
