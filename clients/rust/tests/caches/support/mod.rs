//! Provides the servers that the tests start.
//!
//! - `cluster`: a temporary Redis Cluster.
//! - `redis`: a temporary Redis server.
//! - `script`: a server whose replies are written by the test.

#[cfg(feature = "cluster")]
pub(crate) mod cluster;
#[allow(dead_code, reason = "some features leave parts unused")]
pub(crate) mod redis;
pub(crate) mod script;
