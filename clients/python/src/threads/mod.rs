//! State that threads share, and calls that must not block a thread. Every part of the crate may
//! use them.
//!
//! - `busy`: state shared by several threads that may wait for locks of the store while they hold
//!   it.
//! - `gil_cell`: state that the interpreter's lock protects.
//! - `nonblocking`: calls made in an event loop, which do not wait for locks.

pub(crate) mod busy;
pub(crate) mod gil_cell;
pub(crate) mod nonblocking;
