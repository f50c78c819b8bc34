//! Shard locks: acquiring them, recovering a shard whose owner died, and shrinking undo logs under
//! them. Every module above this one may use it. A lock is released by its guard or its
//! transaction.
//!
//! From the lowest-level file to the highest:
//!
//! - `recovery`: rolls back a dead writer's change in a shard, or keeps it if it was committed.
//! - `shard_locks`: acquires shard locks.
//! - `log_retirement`: returns the memory of undo logs to the system.

pub(crate) mod log_retirement;
pub(crate) mod recovery;
pub(crate) mod shard_locks;
