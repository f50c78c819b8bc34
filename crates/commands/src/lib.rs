//! The Redis commands: arguments in, engine calls, reply out.
//!
//! [`table`] declares each command once, with its calling conventions. A handler parses its
//! [`arguments`], works on the store, and writes to a [`reply::Reply`], regardless of the reply's
//! format. [`session`] holds a connection's state, and [`context`] connects commands to the
//! surrounding process.
//!
//! - `algorithms`: geohashes, HyperLogLogs, numbers, LCS and sorting, independent of commands.
//! - `arguments`: strict parsing of arguments, with Redis' rules and error texts.
//! - `config`: the configuration: a table of typed parameters and their current values.
//! - `context`: the environment that every command handler receives.
//! - `execute`: the single entry point: runs any command.
//! - `failure`: the ways in which commands fail.
//! - `handlers`: the handlers, one file for each family of commands.
//! - `protocol`: the versions of the protocol.
//! - `reply`: the replies of commands: the trait that handlers write to, and recorders.
//! - `scripts`: scripts: their texts, the libraries of functions, and the state of a script run.
//! - `session`: the state of one connection, and its description for CLIENT.
//! - `statistics`: the figures that INFO, LATENCY and SLOWLOG show about commands and errors.
//! - `table`: the command table.

pub mod algorithms;
pub mod arguments;
pub mod config;
pub mod context;
mod execute;
mod failure;
mod handlers;
pub mod protocol;
pub mod reply;
pub mod scripts;
pub mod session;
pub mod statistics;
pub mod table;

pub use context::Context;
pub use execute::{busy_with_script, execute, execute_staged_set, is_plain};
pub use failure::{Blocked, Failure};
pub use handlers::feeds::{
    append_between as append_feed_between, count_between as count_feed_between,
    selection as feed_selection,
};
