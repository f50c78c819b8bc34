//! State that higher modules keep in a handle, without the handle depending on them.

use std::any::Any;

/// Values of different types, at most one of each type.
#[derive(Default)]
pub(crate) struct Parts(Vec<Box<dyn Any + Send + Sync>>);

impl Parts {
    /// Adds a value.
    pub(crate) fn with<P: Any + Send + Sync>(mut self, part: P) -> Parts {
        self.0.push(Box::new(part));
        self
    }

    /// Returns the value of type `P`, after a few type comparisons.
    ///
    /// # Panics
    /// Panics if the handle was created without the value, which is a bug in this crate.
    pub(crate) fn get<P: 'static>(&self) -> &P {
        let found = self.0.iter().find_map(|part| part.downcast_ref());
        found.expect("every handle is created with the parts of all modules")
    }
}
