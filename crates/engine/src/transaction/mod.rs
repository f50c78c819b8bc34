//! Changing keys: by itself or over many commands, and what follows behind the commit.
//!
//! - `access`: what commands reach keys through: the store, or a transaction that runs already.
//! - `backlog`: what is still to be done behind commits, where a lock stood in the way.
//! - `effect`: the one way that every change of a key takes.
//! - `load`: what a command brings with it, told before its first lock.
//! - `outbox`: what a transaction leaves to be done and told behind its commit.
//! - `running`: a transaction over many commands, while it runs.
//! - `watch`: watched keys: whether a key was changed since somebody looked.
//! - `writer`: changing keys within a transaction.

pub(crate) mod access;
pub(crate) mod backlog;
pub(crate) mod effect;
pub(crate) mod load;
pub(crate) mod outbox;
pub(crate) mod running;
pub(crate) mod watch;
pub(crate) mod writer;
