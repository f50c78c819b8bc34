//! Implements the commands that manage the server. Only `execute` calls the handlers.
//!
//! - `administration`: implements the commands that administer the server and its databases:
//!   FLUSHALL, INFO, CONFIG, SLOWLOG, DEBUG and SHUTDOWN.
//! - `command`: implements COMMAND and its subcommands, which describe the command table to
//!   clients.
//! - `info`: implements INFO, which reports statistics about the server and the store in Redis'
//!   format.
//! - `latency`: implements LATENCY, which reports slow events and the latency distributions of
//!   commands.
//! - `lolwut`: implements LOLWUT, which draws a picture and reports the version.
//! - `memory`: implements MEMORY DOCTOR, STATS, PURGE and MALLOC-STATS.
//! - `migrate`: implements MIGRATE, which moves keys to another server.
//! - `persistence`: implements the commands that make changes durable: SAVE, BGSAVE,
//!   BGREWRITEAOF, LASTSAVE and WAITAOF.
//! - `protected`: refuses DEBUG and MODULE unless the operator has allowed them.
//! - `replica`: implements REPLICA.WAIT, which waits for the changes of a replica's source.
//! - `replicas`: implements the commands that replicas send, and WAIT.
//! - `replication`: implements REPLICAOF and ROLE.
//! - `unsupported`: replies to commands for features that Undercroft does not have: clustering and
//!   modules.

pub(crate) mod administration;
pub(crate) mod command;
pub(crate) mod info;
pub(crate) mod latency;
pub(crate) mod lolwut;
pub(crate) mod memory;
pub(crate) mod migrate;
pub(crate) mod persistence;
pub(crate) mod protected;
pub(crate) mod replica;
pub(crate) mod replicas;
pub(crate) mod replication;
pub(crate) mod unsupported;
