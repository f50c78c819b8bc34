//! Reading shards: under their locks, or without one.
//!
//! - `reading`: reading without a lock: a body is tried until nothing changed meanwhile.
//! - `through_log`: reading shards as they were before changes that are not finished.
//! - `view`: the ways to read, which reading code is written once against.

pub(crate) mod reading;
pub(crate) mod through_log;
pub(crate) mod view;
