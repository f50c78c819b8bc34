//! State that higher modules keep in a store handle, so that the handle does not depend on them.

use std::any::Any;

/// A set of values with different types, at most one of each type.
#[derive(Default)]
pub(crate) struct Parts(Vec<Box<dyn Any + Send + Sync>>);

impl Parts {
    /// Adds a value, which must be the first of its type.
    pub(crate) fn with<P: Any + Send + Sync>(mut self, part: P) -> Parts {
        self.0.push(Box::new(part));
        self
    }

    /// Returns the value of type `P`. The cost is a few type comparisons.
    ///
    /// # Panics
    /// Panics if the handle was created without a value of this type, which is a bug in this crate.
    pub(crate) fn get<P: 'static>(&self) -> &P {
        let found = self.0.iter().find_map(|part| part.downcast_ref());
        found.expect("every handle is created with the parts of all modules")
    }
}
