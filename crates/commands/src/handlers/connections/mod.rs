//! The commands about connections. `execute` calls them, and `server` lists connections.
//!
//! - `client`: CLIENT: the connections of this process, and the processes that map the store.
//! - `connection`: commands about the connection itself, such as PING, SELECT, HELLO, AUTH and
//!   MONITOR.
//! - `pubsub`: Pub/Sub: SUBSCRIBE, PUBLISH, PUBSUB and related commands.
//! - `transaction`: MULTI, EXEC, DISCARD, WATCH, UNWATCH.

pub(crate) mod client;
pub(crate) mod connection;
pub(crate) mod pubsub;
pub(crate) mod transaction;
