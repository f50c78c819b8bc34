//! Changing shards: lock, log, publish; and undoing what was not committed.
//!
//! - `moves`: what one transaction moved between shards.
//! - `removal`: the reserve of a full store for removals, and removals in parts.
//! - `room`: room for a transaction: memory and log, reserved before its first lock.
//! - `savepoint`: undoing the last part of a transaction.
//! - `transaction`: transactions over one or several shards.

pub(crate) mod changes;
pub(crate) mod expected_keys;
pub(crate) mod moves;
pub(crate) mod removal;
pub(crate) mod room;
pub(crate) mod savepoint;
pub(crate) mod transaction;
