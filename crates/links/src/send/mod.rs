//! Sends the changes of a store to its replicas, in the replication protocol of Redis.
//!
//! - `commands`: writes the state of keys as commands.
//! - `needs`: decides what a replica needs to receive of each changed key.
//! - `replaced`: remembers which keys were removed or replaced.
//! - `sender`: writes the changes of a store to its stream.

mod commands;
mod needs;
mod replaced;
mod sender;

pub use sender::{Sender, Sent};
