//! THE command table, written once: used by the server, the embedded clients, the generated documentation and the
//! COMMAND command.
//!
//! Names, arities, flags, keys, categories and tips are those of Redis 7.0.15; a test compares them with a real
//! server field by field. Only feeds are ours.
//!
//! All floors above it call it, other crates included.
//!
//! - `command`: what the table says of one command.
//! - `flags`: its group, flags and categories, and how it uses keys.
//! - `key_spec`: where its keys stand among its arguments.
//! - `lookup`: from a name to its command, in a few nanoseconds.
//! - `rows`: the rows of the table.
//! - `syntax`: from the syntax of a command to its arguments.

mod command;
mod flags;
mod key_spec;
mod lookup;
mod rows;
mod syntax;

pub use command::Command;
pub use flags::{Categories, Category, Flag, Flags, Group, KeyFlag, KeyFlags};
pub use key_spec::KeySpec;
pub(crate) use lookup::{COUNT, DEBUG, DEL, EXEC, GET, SET, number_of};
pub use lookup::{all, find, find_full, resolve, resolve_name, with_subcommands};
pub(crate) use syntax::{Argument, Kind};

/// The version of Redis whose commands these are.
pub const REDIS_VERSION: &str = "7.0.15";
