//! The top layer of the engine: opening a store, and operations that involve all modules. Only
//! `lib.rs` uses this module.
//!
//! - `above`: callbacks through which `transaction` calls modules that it does not depend on.
//! - `applied`: waits until a replica has applied a position of its source's stream.
//! - `cluster`: the source of a replica's keys if it is a cluster.
//! - `dead_processes`: cleanup of the waits and subscriptions of dead processes.
//! - `durability`: the journal and the checkpoints of a store.
//! - `flush`: removing all keys of databases.
//! - `journal_keys`: the keys that the records of a journal changed.
//! - `name`: names of stores, and listing them.
//! - `open`: opening and creating stores.
//! - `outgoing`: the stream of changes for replicas.
//! - `replication`: the source of a replica's keys.
//! - `terms`: limits that a process requests when it opens a store.
//! - `upkeep`: the store's background work, one bounded step at a time.

mod above;
mod applied;
pub(crate) mod cluster;
mod dead_processes;
mod durability;
mod flush;
pub(crate) mod journal_keys;
pub(crate) mod name;
mod open;
pub(crate) mod outgoing;
pub(crate) mod replication;
pub(crate) mod terms;
pub(crate) mod upkeep;
