//! Tests of caches on stores and on servers.
//!
//! - `cancellation`: calls that are cancelled at any moment, beside others that must get their own replies.
//! - `contract`: every cache does the same.
//! - `faults`: what servers do wrong, and what callers are told.
//! - `support`: servers that the tests start.
//! - `threads`: the pool for threads.
//! - `tls`: connections that are encrypted.

mod cancellation;
mod contract;
mod faults;
mod support;
mod threads;
#[cfg(feature = "tls")]
mod tls;
