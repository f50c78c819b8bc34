//! The commands about connections. `execute` calls them, and `server` lists connections.
//!
//! - `client`: CLIENT: connections, this one and the others, and the processes that map the store.
//! - `connection`: the connection itself: PING, SELECT, HELLO, AUTH, MONITOR and their like.
//! - `pubsub`: messages: SUBSCRIBE, PUBLISH, PUBSUB and their like.
//! - `transaction`: MULTI, EXEC, DISCARD, WATCH, UNWATCH.

pub(crate) mod client;
pub(crate) mod connection;
pub(crate) mod pubsub;
pub(crate) mod transaction;
