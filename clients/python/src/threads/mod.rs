//! State that threads share, and calls that must not block a thread; every part of the module may call it.
//!
//! - `busy`: state that several threads use, each of which may wait for a lock of the store
//!   meanwhile.
//! - `gil_cell`: state that the interpreter's lock guards.
//! - `nonblocking`: calls made in an event loop: they do not wait for locks.

pub(crate) mod busy;
pub(crate) mod gil_cell;
pub(crate) mod nonblocking;
