//! From Python's objects to bytes and words, and from replies to objects; every part of the module may call it.
//!
//! - `codec`: between Python's objects and the store's bytes.
//! - `known`: bytes and arrays as objects, which need none of Python's code.
//! - `references`: objects that must outlive a wait.
//! - `reply`: replies as Python objects, in the shapes of RESP2.
//! - `shape`: from a reply to what a method of redis-py's returns.

pub(crate) mod codec;
pub(crate) mod known;
pub(crate) mod references;
pub(crate) mod reply;
pub(crate) mod shape;
