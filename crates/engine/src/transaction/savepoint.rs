//! Savepoints, to which a transaction of many commands can be rolled back.

use crate::transaction::outbox::Mark;

/// A state of a transaction to which it can be rolled back; see
/// [`Running::savepoint`](crate::Running::savepoint).
#[derive(Clone, Debug, Default)]
pub struct Savepoint {
    pub(crate) changes: undercroft_memory::LogSavepoint,
    pub(crate) outbox: Mark,
    pub(crate) is_sound: bool,
}
