//! Servers that the tests start.
//!
//! - `cluster`: a cluster of the test's own.
//! - `redis`: a Redis of the test's own.
//! - `script`: a server that sends what a test says.

#[cfg(feature = "cluster")]
pub(crate) mod cluster;
#[allow(dead_code, reason = "without some features not all of it is needed")]
pub(crate) mod redis;
pub(crate) mod script;
