//! THE command table, written once: used by the server, the embedded clients, the generated documentation and the
//! COMMAND command.
//!
//! Names, arities, flags, keys, categories and tips are those of Redis 7.0.15; a test compares them with a real
//! server field by field. Only feeds are ours.
//!
//! - `command`: what the table says of one command.
//! - `keys`: where commands have their keys and what they do with them, by name.
//! - `load`: what a command brings with it, so that room is reserved before it takes a lock.
//! - `lookup`: from a name to its command, in a few nanoseconds.
//! - `syntax`: from the syntax of a command to its arguments.
//! - `bitmap`, `cluster`, `connection`, `generic`, `geo`, `hashes`, `hyperloglog`, `lists`, `pubsub`, `scripting`,
//!   `server`, `sets`, `sorted`, `streams`, `strings`, `transaction`: the rows, a file for each of Redis' groups of commands.
//! - `watching`: the rows of the group `server` that look at how the server does, and at what it has not.
//! - `feeds`: the rows of commands that Redis does not have.

mod bitmap;
mod cluster;
mod command;
mod connection;
mod feeds;
mod generic;
mod geo;
mod hashes;
mod hyperloglog;
mod keys;
mod lists;
mod load;
mod lookup;
mod pubsub;
mod scripting;
mod server;
mod sets;
mod sorted;
mod streams;
mod strings;
mod syntax;
mod transaction;
mod watching;

pub use command::{Categories, Category, Command, Flag, Flags, Group, KeyFlag, KeyFlags, KeySpec};
pub(crate) use lookup::{COUNT, DEBUG, DEL, EXEC, GET, SET, number_of};
pub use lookup::{all, find, find_full, resolve, resolve_name, with_subcommands};
pub(crate) use syntax::{Argument, Kind};

/// The version of Redis whose commands these are.
pub const REDIS_VERSION: &str = "7.0.15";
