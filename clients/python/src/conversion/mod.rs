//! Converts Python objects to bytes and words, and replies to objects. Any module in the crate may
//! use these conversions.
//!
//! - `codec`: converts between Python objects and the store's bytes.
//! - `known`: stores bytes and arrays as objects without running Python code.
//! - `references`: owns references to objects during a wait.
//! - `reply`: builds Python objects from replies, in the shapes of RESP2.
//! - `shape`: converts a reply to the result of a redis-py method.

pub(crate) mod codec;
pub(crate) mod known;
pub(crate) mod references;
pub(crate) mod reply;
pub(crate) mod shape;
