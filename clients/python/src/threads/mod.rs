//! State that threads share, and calls that must not block a thread. Any module in the crate may
//! use them.
//!
//! - `busy`: a lock for shared state whose owner may wait for store locks.
//! - `gil_cell`: state that the interpreter lock protects.
//! - `nonblocking`: calls made in an event loop, which do not wait for locks.

pub(crate) mod busy;
pub(crate) mod gil_cell;
pub(crate) mod nonblocking;
