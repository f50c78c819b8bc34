//! Reading shards: under their locks, or without one.
//!
//! - `counter`: the version counter of a shard: odd while it is changed.
//! - `reading`: reading without a lock: a body is tried until nothing changed meanwhile.
//! - `shards`: a set of shards.
//! - `view`: the ways to read, which reading code is written once against.

pub(crate) mod counter;
pub(crate) mod reading;
pub(crate) mod shards;
pub(crate) mod view;
