//! Reading shards: under their locks, or without one.
//!
//! - `counter`: the version counter of a shard: odd while it is changed.
//! - `reading`: reading without a lock: a body is tried until nothing changed meanwhile.
//! - `shards`: a set of shards.
//! - `through_log`: reading shards as they were before changes that are not finished.
//! - `view`: the ways to read, which reading code is written once against.

pub(crate) mod counter;
pub(crate) mod reading;
pub(crate) mod shards;
pub(crate) mod through_log;
pub(crate) mod view;
