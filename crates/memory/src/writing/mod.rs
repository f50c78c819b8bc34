//! Writing: committing a transaction, running its body, and making room for the next run. The floors above may call it.
//!
//! From the lowest file to the highest:
//!
//! - `give_back`: memory that was freed in a shard goes back to the heap.
//! - `commit`: the commit of a transaction, or of a part of it.
//! - `run`: one run of a body.
//! - `reservation`: what is reserved before a transaction's first lock, or after it ran short.
//! - `write`: a body is run until it is committed.

pub(crate) mod commit;
pub(crate) mod give_back;
pub(crate) mod reservation;
pub(crate) mod run;
pub(crate) mod write;
