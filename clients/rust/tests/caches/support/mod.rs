//! Servers that the tests start.
//!
//! - `redis`: a Redis of the test's own.
//! - `script`: a server that sends what a test says.

pub(crate) mod redis;
pub(crate) mod script;
