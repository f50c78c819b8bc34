//! State that the modules above keep in a handle, without the handle knowing them.

use std::any::Any;

/// Values of different types, one of each.
#[derive(Default)]
pub(crate) struct Parts(Vec<Box<dyn Any + Send + Sync>>);

impl Parts {
    /// These and one more.
    pub(crate) fn with<P: Any + Send + Sync>(mut self, part: P) -> Parts {
        self.0.push(Box::new(part));
        self
    }

    /// The value of a type. A few comparisons.
    ///
    /// # Panics
    /// Where the handle was made without it, which is an error of this crate.
    pub(crate) fn get<P: 'static>(&self) -> &P {
        let found = self.0.iter().find_map(|part| part.downcast_ref());
        found.expect("each handle is made with the parts of all modules")
    }
}
