//! Implements the connection commands. `execute` calls the handlers, and `server` lists
//! connections.
//!
//! - `acl`: implements ACL, which manages the users in the store and their rights.
//! - `client`: implements CLIENT, for the connections of this process and the processes that map
//!   the store.
//! - `connection`: implements the commands that act on the connection itself, such as PING, SELECT,
//!   HELLO, AUTH and MONITOR.
//! - `pubsub`: implements SUBSCRIBE, PUBLISH, PUBSUB and the other publish/subscribe commands.
//! - `tracking`: implements CLIENT TRACKING and the commands that belong to it.
//! - `transaction`: implements transactions: MULTI, EXEC, DISCARD, WATCH and UNWATCH.

pub(crate) mod acl;
pub(crate) mod client;
pub(crate) mod connection;
pub(crate) mod pubsub;
pub(crate) mod tracking;
pub(crate) mod transaction;
