//! Sends the changes of a store to its replicas, in the replication protocol of Redis.
//!
//! - `commands`: writes the state of keys as commands.
//! - `sender`: writes the changes of a store to its stream.

mod commands;
mod sender;

pub use sender::{Sender, Sent};
