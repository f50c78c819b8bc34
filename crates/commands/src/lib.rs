//! The Redis commands: arguments in, engine calls, reply out.
//!
//! [`table`] names every command once and says how it is called; a handler parses its [`arguments`], works on the
//! store, and writes to a [`reply::Reply`], whoever reads it. [`session`] holds what a connection remembers, and
//! [`context`] is how commands reach the process around them.
//!
//! - `algorithms`: geohashes, HyperLogLogs, numbers, LCS and sorting, which know nothing of commands.
//! - `arguments`: strict parsing of arguments, with Redis' rules and error texts.
//! - `config`: the configuration: a table of typed parameters and their present values.
//! - `context`: what every command handler is given.
//! - `execute`: the one way in: runs a command whatever it is.
//! - `failure`: how commands fail.
//! - `handlers`: the handlers, one file for each family of commands.
//! - `protocol`: the versions of the protocol.
//! - `reply`: what a command answers: the trait every handler writes to, and writers that keep the answer.
//! - `scripts`: scripts: their texts, the libraries of functions, and what one run of a script is about.
//! - `session`: the state of one connection, and what CLIENT tells of it.
//! - `statistics`: what INFO, LATENCY and SLOWLOG tell of commands and of errors.
//! - `table`: the command table, written once.

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
