//! The Redis commands: arguments in, engine calls, reply out.
//!
//! [`table`] names every command once and says how it is called; a handler parses its [`arguments`], works on the
//! store, and writes to a [`reply::Reply`], whoever reads it. [`session`] holds what a connection remembers, and
//! [`host`] is how commands reach the process around them.
//!
//! - `arguments`: strict parsing of arguments, with Redis' rules and error texts.
//! - `config`: the configuration: a table of typed parameters and their present values.
//! - `context`: what every command handler is given.
//! - `double`: doubles as arguments: what C's `strtod` makes of a text, as Redis calls it.
//! - `execute`: the one way in: runs a command whatever it is.
//! - `failure`: how commands fail.
//! - `geohash`: positions on the earth as integers of 52 bits.
//! - `handlers`: the handlers, one file for each family of commands.
//! - `host`: the process that runs commands, as these see it, in parts.
//! - `hyperloglog`: HyperLogLogs as the strings that Redis stores: 16,384 registers of six bits, sparse or dense.
//! - `info`: INFO: figures about the server and the store, in Redis' form.
//! - `latency`: what took long in this process: events, and the samples of each that LATENCY shows.
//! - `lcs`: the longest common subsequence of two strings, as the LCS command finds it.
//! - `monitor`: MONITOR: each command that was run, as a line for the connections that want to see them.
//! - `number`: the floating point of INCRBYFLOAT, bit for bit as Redis on x86-64 computes it.
//! - `partial_sort`: sorting only as much as is shown, with Redis' own choice among equals.
//! - `protocol`: the versions of the protocol.
//! - `reply`: what a command answers: the trait every handler writes to, and writers that keep the answer.
//! - `script`: scripts: their texts, what runs them, and what they do to the store.
//! - `session`: the state of one connection, and what CLIENT tells of it.
//! - `slow`: which commands are timed, and what the slow log takes note of.
//! - `slowlog`: the log of commands that took long, as SLOWLOG shows it.
//! - `statistics`: what INFO tells of commands and of errors: how often, how long, how many failed.
//! - `table`: the command table, written once.

pub mod arguments;
pub mod config;
mod context;
mod double;
mod execute;
mod failure;
mod geohash;
mod handlers;
pub mod host;
pub mod hyperloglog;
pub mod info;
pub mod latency;
pub mod lcs;
mod monitor;
pub mod number;
mod partial_sort;
pub mod protocol;
pub mod reply;
pub mod script;
pub mod session;
mod slow;
pub mod slowlog;
pub mod statistics;
pub mod table;

pub use context::{Context, Pause};
pub use execute::{busy_with_script, execute, execute_staged_set, is_plain};
pub use failure::{Blocked, Failure};
pub use handlers::feeds::{
    append_between as append_feed_between, count_between as count_feed_between,
    selection as feed_selection,
};
pub use undercroft_engine::glob;
