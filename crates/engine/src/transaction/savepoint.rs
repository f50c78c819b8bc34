//! Points of a transaction over many commands to go back to.

use crate::transaction::outbox::Mark;

/// What commands had done so far, to go back to; see [`Running::savepoint`](crate::Running::savepoint).
#[derive(Clone, Debug, Default)]
pub struct Savepoint {
    pub(crate) changes: undercroft_memory::LogSavepoint,
    pub(crate) outbox: Mark,
    pub(crate) is_sound: bool,
}
