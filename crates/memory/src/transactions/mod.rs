//! Transactions over shards: locks, logged changes, publishing and rolling back. The floors above may call it; what a
//! transaction allocates and frees is `allocator`, and its commit `writing`.
//!
//! From the lowest file to the highest:
//!
//! - `moved_runs`: runs and arenas that a transaction moves between shards.
//! - `rare_state`: state that few transactions have.
//! - `transaction`: a transaction: locking, saving, changing, publishing.
//! - `savepoint`: undoing the last part of a transaction.
//! - `notes`: what a transaction notes for its commit.

pub(crate) mod moved_runs;
pub(crate) mod notes;
pub(crate) mod rare_state;
pub(crate) mod savepoint;
pub(crate) mod transaction;

pub use transaction::Transaction;
