//! The replicas of the server: other servers that receive all changes to the store, whichever
//! process makes them.
//!
//! One thread appends the changes to the stream in the store, and one thread for each replica sends
//! them. Workers hand over the connections that become replicas.
//!
//! - `data_set`: sends a snapshot of the store to a replica.
//! - `messages`: the messages of PUBLISH and SPUBLISH that replicas receive.
//! - `publisher`: the thread that appends changes to the stream.
//! - `serving`: the thread that serves a replica.
//! - `socket`: a socket that waits with a deadline.

mod data_set;
mod messages;
mod publisher;
pub(crate) mod serving;
mod socket;
