//! The state outside the store that a transaction's commands change, and that is restored before
//! each run.

use undercroft_engine::Scratch;

use super::Context;
use crate::session::SavedState;

/// The connection of a transaction and the results of its commands; the store resets both before
/// each run (W10).
pub(crate) struct SessionScratch<'c, 'a, T> {
    pub(crate) context: &'c mut Context<'a>,
    before: SavedState,
    /// The results of the commands.
    pub(crate) made: T,
}

impl<'c, 'a, T: Default> SessionScratch<'c, 'a, T> {
    pub(crate) fn new(context: &'c mut Context<'a>) -> SessionScratch<'c, 'a, T> {
        SessionScratch {
            before: context.session.save(),
            context,
            made: T::default(),
        }
    }
}

impl<T: Default> Scratch for SessionScratch<'_, '_, T> {
    fn clear(&mut self) {
        self.context.session.restore(&self.before);
        self.made = T::default();
    }
}
