//! Reading shards, either under their locks or without a lock. The layers above may use it.
//!
//! From the lowest-level file to the highest:
//!
//! - `through_log`: shards as they were before unfinished changes.
//! - `view`: the interface that reading code is written against, whether locked or not.
//! - `scratch`: the memory that a read fills, and bodies of reads.
//! - `retries`: reads that do not succeed at the first attempt.
//! - `reading`: reading without a lock: a body is retried until nothing changes meanwhile.
//! - `quiescence`: inspecting the whole store while nothing is written.

pub(crate) mod quiescence;
pub(crate) mod reading;
mod retries;
pub(crate) mod scratch;
pub(crate) mod through_log;
pub(crate) mod view;
