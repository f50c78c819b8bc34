//! Writing: runs a transaction's body, commits it, and reserves memory for the next attempt.
//! Modules above this one may use it.
//!
//! From the lowest-level file to the highest:
//!
//! - `memory_return`: returns a shard's freed memory to the heap.
//! - `commit`: commits a transaction, or a part of it.
//! - `run`: runs a body once.
//! - `reservation`: reserves memory before a transaction's first lock, or after it ran out of
//!   memory.
//! - `write`: runs a body until it is committed.
//! - `changed_settings`: changes settings that all processes share.

mod changed_settings;
pub(crate) mod commit;
pub(crate) mod memory_return;
pub(crate) mod reservation;
pub(crate) mod run;
pub(crate) mod write;
