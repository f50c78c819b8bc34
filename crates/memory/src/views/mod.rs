//! Reads shards, with or without their locks. Modules above this one may use it.
//!
//! From the lowest-level file to the highest:
//!
//! - `through_log`: shards as they were before unfinished changes.
//! - `view`: the interface that all reading code uses, with or without locks.
//! - `scratch`: the memory that a read fills, and the bodies of reads.
//! - `retries`: reads that do not succeed on the first attempt.
//! - `reading`: lock-free reads, which are retried until the shards do not change during the read.
//! - `quiescence`: inspects the entire store while no process writes.

pub(crate) mod quiescence;
pub(crate) mod reading;
mod retries;
pub(crate) mod scratch;
pub(crate) mod through_log;
pub(crate) mod view;
