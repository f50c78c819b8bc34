//! Tells connections which keys have changed, for caches in clients (CLIENT TRACKING).
//!
//! The store records the names of changed keys, whichever process changes them. One thread at a time
//! collects these records, finds the connections that have read the keys, and posts the invalidations
//! to the threads of these connections.
//!
//! - `clients`: the connections that track keys, and the invalidations that changed keys cause.
//! - `collector`: collects changed keys, and passes invalidations to threads.
//! - `prefixes`: the prefixes of connections in BCAST mode.
//! - `push`: an invalidation for one connection, and its form in the protocol.
//! - `table`: the keys that connections have read.

mod clients;
mod collector;
mod prefixes;
mod push;
mod table;

pub(crate) use clients::Reader;
pub(crate) use collector::{Surroundings, Tracking};
pub(crate) use push::{Push, collapse};
