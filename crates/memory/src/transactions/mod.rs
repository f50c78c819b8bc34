//! Transactions over shards: locks, logged changes, publishing and rolling back. Modules above this
//! one may use it. Allocation and freeing within a transaction are in `allocator`, and the commit
//! is in `writing`.
//!
//! From the lowest-level file to the highest:
//!
//! - `moved_runs`: runs and arenas that a transaction moves between shards.
//! - `rare_state`: the rarely used state of a transaction.
//! - `transaction`: locking shards, saving and changing words, and publishing the changes.
//! - `journaled`: appends a transaction's changes to the journal's ring.
//! - `savepoint`: undoes the last part of a transaction.
//! - `notes`: what a transaction records for its commit.
//! - `changed_keys`: records the names of changed keys in the shard's ring.

pub(crate) mod changed_keys;
pub(crate) mod journaled;
pub(crate) mod moved_runs;
pub(crate) mod notes;
pub(crate) mod rare_state;
pub(crate) mod savepoint;
pub(crate) mod transaction;

pub use transaction::Transaction;
