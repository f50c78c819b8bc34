//! Savepoints of a transaction of many commands.

use crate::transaction::outbox::Mark;

/// The state of a transaction to which it can be rolled back; see
/// [`Running::savepoint`](crate::Running::savepoint).
#[derive(Clone, Debug, Default)]
pub struct Savepoint {
    pub(crate) changes: undercroft_memory::LogSavepoint,
    pub(crate) outbox: Mark,
    pub(crate) is_sound: bool,
}
