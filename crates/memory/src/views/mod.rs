//! Reading shards: under their locks, or without one. The floors above may call it.
//!
//! From the lowest file to the highest:
//!
//! - `through_log`: shards as they were before changes that are not finished.
//! - `view`: the ways to read, which reading code is written once against.
//! - `scratch`: what a read fills, and bodies of reads.
//! - `retries`: reads that do not succeed at once.
//! - `reading`: reading without a lock: a body is tried until nothing changed meanwhile.
//! - `quiescence`: looking at all of a store while nothing is written.

pub(crate) mod quiescence;
pub(crate) mod reading;
mod retries;
pub(crate) mod scratch;
pub(crate) mod through_log;
pub(crate) mod view;
