//! Writing: committing a transaction, running its body, and making room for the next run. The
//! layers above may use it.
//!
//! From the lowest-level file to the highest:
//!
//! - `give_back`: returning freed memory of a shard to the heap.
//! - `commit`: the commit of a transaction, or of a part of it.
//! - `run`: one run of a body.
//! - `reservation`: what is reserved before a transaction's first lock, or after it ran short.
//! - `write`: running a body until it is committed.

pub(crate) mod commit;
pub(crate) mod give_back;
pub(crate) mod reservation;
pub(crate) mod run;
pub(crate) mod write;
