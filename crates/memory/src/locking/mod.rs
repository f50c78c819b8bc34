//! The locks of shards: taking them, recovering a shard whose holder died, and shrinking undo logs
//! under them. The folders above may use this one. A lock is held by a guard or by a transaction.
//!
//! From the lowest file to the highest:
//!
//! - `recovery`: rolling back the change of a dead writer in a shard, or keeping it if it was
//!   committed.
//! - `shard_locks`: taking the locks of shards.
//! - `log_retirement`: how the memory of undo logs goes back to the system.

pub(crate) mod log_retirement;
pub(crate) mod recovery;
pub(crate) mod shard_locks;
