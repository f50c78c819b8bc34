//! The commands about the server. Only `execute` calls them.
//!
//! - `administration`: administration of the server and its databases: FLUSHALL, INFO, CONFIG,
//!   SLOWLOG, DEBUG, SHUTDOWN.
//! - `command`: COMMAND and its subcommands, which describe the command table to clients.
//! - `info`: INFO: statistics about the server and the store, in Redis' format.
//! - `latency`: LATENCY: slow events, and the distribution of command latencies.
//! - `lolwut`: LOLWUT: draws a picture and reports the version.
//! - `memory`: MEMORY DOCTOR, STATS, PURGE and MALLOC-STATS: memory use of the store.
//! - `unsupported`: replies for features that this server lacks: clustering, replication and
//!   modules.

pub(crate) mod administration;
pub(crate) mod command;
pub(crate) mod info;
pub(crate) mod latency;
pub(crate) mod lolwut;
pub(crate) mod memory;
pub(crate) mod unsupported;
