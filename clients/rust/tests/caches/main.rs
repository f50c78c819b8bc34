//! Tests of caches on stores and on servers.
//!
//! - `cancellation`: calls that are cancelled at any moment, beside others that must get their own replies.
//! - `cluster`: a cluster of three servers.
//! - `computed`: values that are computed where they are missing.
//! - `contract`: every cache does the same.
//! - `dropped`: calls that take something and are dropped before they return.
//! - `ends`: calls of a thread that ends.
//! - `faults`: what servers do wrong, and what callers are told.
//! - `removed`: a store whose file is removed or replaced.
//! - `storm`: readers beside writers that are killed.
//! - `support`: servers that the tests start.
//! - `threads`: the pool for threads.
//! - `tls`: connections that are encrypted.
//! - `watched`: what can be watched: spans, events and counters.

mod cancellation;
#[cfg(feature = "cluster")]
mod cluster;
mod computed;
mod contract;
mod dropped;
mod ends;
mod faults;
mod removed;
mod storm;
mod support;
mod threads;
#[cfg(feature = "tls")]
mod tls;
#[cfg(all(feature = "metrics", feature = "tracing"))]
mod watched;
