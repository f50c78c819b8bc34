//! The locks of shards, and what their holders settle: everything below transactions that takes such a lock. The floors
//! above may call it; a lock is held by a guard, or by a transaction.
//!
//! From the lowest file to the highest:
//!
//! - `recovery`: rolling back what a dead writer left in a shard, or keeping what it had committed.
//! - `shard_locks`: taking the locks of shards.
//! - `log_retirement`: how the memory of undo logs goes back to the system.

pub(crate) mod log_retirement;
pub(crate) mod recovery;
pub(crate) mod shard_locks;
