//! The commands about the server. Only `execute` calls them.
//!
//! - `administration`: the server and its databases: FLUSHALL, INFO, CONFIG, SLOWLOG, DEBUG, SHUTDOWN.
//! - `command`: COMMAND: the table, told to clients.
//! - `info`: INFO: figures about the server and the store, in Redis' form.
//! - `latency`: LATENCY: what took long, and how long commands take.
//! - `lolwut`: LOLWUT: a picture and the version.
//! - `memory`: MEMORY DOCTOR, STATS, PURGE and MALLOC-STATS: the memory of the store.
//! - `unsupported`: what other servers have and this one has not: a cluster, replicas, a master to follow, modules.

pub(crate) mod administration;
pub(crate) mod command;
pub(crate) mod info;
pub(crate) mod latency;
pub(crate) mod lolwut;
pub(crate) mod memory;
pub(crate) mod unsupported;
