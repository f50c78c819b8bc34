//! Tests caches on stores and on servers.
//!
//! - `cancellation`: calls that are cancelled at any moment.
//! - `cluster`: a cluster of three servers.
//! - `computed`: the computation of missing values.
//! - `contract`: the behavior that all caches share.
//! - `dropped`: calls that take an item or a lease and are dropped before they return.
//! - `ends`: calls from a thread that is exiting.
//! - `exchange`: channels, objects and feeds on servers.
//! - `faults`: server faults, and the errors that callers receive.
//! - `removed`: a store whose file is removed or replaced.
//! - `storm`: readers that run while writers are killed.
//! - `support`: servers that the tests start.
//! - `threads`: the pool for threads.
//! - `tls`: encrypted connections.
//! - `watched`: spans, events and counters.

mod cancellation;
#[cfg(feature = "cluster")]
mod cluster;
mod computed;
mod contract;
mod dropped;
mod ends;
mod exchange;
mod faults;
mod removed;
mod storm;
mod support;
mod threads;
#[cfg(feature = "tls")]
mod tls;
#[cfg(all(feature = "metrics", feature = "tracing"))]
mod watched;
