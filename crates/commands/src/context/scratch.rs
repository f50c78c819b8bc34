//! Restores the state outside the store that a transaction's commands change, before each run of
//! the transaction.

use undercroft_engine::Scratch;

use super::Context;
use crate::session::SavedState;

/// The connection that runs a transaction, and the results of the transaction's commands. The store
/// resets both before each run (W10).
pub(crate) struct SessionScratch<'c, 'a, T> {
    pub(crate) context: &'c mut Context<'a>,
    before: SavedState,
    /// The results of the transaction's commands.
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
