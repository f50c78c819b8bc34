//! Changing shards: lock, log, publish; and undoing what was not committed.
//!
//! - `moves`: what one transaction moved between shards.
//! - `recovery`: recovering what the dead left in a shard.
//! - `removal`: the reserve of a full store for removals, and removals in parts.
//! - `room`: room for a transaction: memory and log, reserved before its first lock.
//! - `savepoint`: undoing the last part of a transaction.
//! - `shrink`: how an undo log grows, and how its memory goes back.
//! - `transaction`: transactions over one or several shards.

pub(crate) mod changes;
pub(crate) mod expected_keys;
pub(crate) mod moves;
pub(crate) mod recovery;
pub(crate) mod removal;
pub(crate) mod room;
pub(crate) mod savepoint;
pub(crate) mod shrink;
pub(crate) mod transaction;
