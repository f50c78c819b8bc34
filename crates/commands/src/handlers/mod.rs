//! The handlers, one file for each family of commands.

pub(crate) mod bitfield;
pub(crate) mod bits;
pub(crate) mod blocking;
pub(crate) mod client;
pub(crate) mod command;
pub(crate) mod connection;
pub(crate) mod embedded;
pub(crate) mod expire;
pub(crate) mod geo;
pub(crate) mod hashes;
pub(crate) mod hyperloglog;
pub(crate) mod keys;
pub(crate) mod lists;
pub(crate) mod object;
pub(crate) mod parts;
pub(crate) mod pubsub;
pub(crate) mod replication;
pub(crate) mod scripting;
pub(crate) mod server;
pub(crate) mod sets;
pub(crate) mod sort;
pub(crate) mod sorted;
pub(crate) mod strings;
pub(crate) mod transaction;
pub(crate) mod walk;
