//! Conversions from Python objects to bytes and words, and from replies to objects. Every part of
//! the crate may use them.
//!
//! - `codec`: converts between Python objects and the store's bytes.
//! - `known`: stores bytes and arrays as objects without running Python code.
//! - `references`: references to objects that must outlive a wait.
//! - `reply`: replies as Python objects, in the shapes of RESP2.
//! - `shape`: converts a reply to the result of a redis-py method.

pub(crate) mod codec;
pub(crate) mod known;
pub(crate) mod references;
pub(crate) mod reply;
pub(crate) mod shape;
