//! Changing keys: by itself or over many commands, and what follows the commit. Types and all modules above them use it.
//!
//! - `above`: calls of a transaction to the modules above, which it does not know.
//! - `access`: what commands reach keys through: the store, or a transaction that runs already.
//! - `changed`: the one way that every change of a key takes.
//! - `effect`: what becomes of keys, as others are told of it.
//! - `keys`: inserting, removing, moving, renaming and copying keys.
//! - `load`: what a command brings with it, told before its first lock.
//! - `look_up`: the end of a look-up.
//! - `message`: messages that a transaction leaves to be sent.
//! - `notice`: queues of waiting clients whose keys a transaction changed.
//! - `notify`: telling of the events of keys.
//! - `outbox`: what a transaction leaves to be done and told after its commit.
//! - `read`: reading the keys of some shards as they were at one moment.
//! - `retry`: another try of a transaction.
//! - `running`: a transaction over many commands, while it runs.
//! - `savepoint`: points of it to go back to.
//! - `watch`: watched keys: whether a key was changed since it was looked at.
//! - `write`: changing keys of some shards.
//! - `writer`: write access to keys within a transaction.

pub(crate) mod above;
pub(crate) mod access;
pub(crate) mod changed;
pub(crate) mod effect;
mod keys;
pub(crate) mod load;
mod look_up;
pub(crate) mod message;
pub(crate) mod notice;
mod notify;
pub(crate) mod outbox;
mod read;
mod retry;
pub(crate) mod running;
pub(crate) mod savepoint;
pub(crate) mod watch;
mod write;
pub(crate) mod writer;
