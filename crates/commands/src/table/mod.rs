//! The command table, the single source for the server, the embedded clients, the generated
//! documentation and the COMMAND command.
//!
//! Names, arities, flags, keys, categories and tips are those of Redis 7.0.15; a test compares them
//! with a real server field by field. Only feeds are Undercroft's.
//!
//! All higher modules may use this folder, and so may other crates.
//!
//! - `command`: a row of the table, which describes one command.
//! - `flags`: groups, flags and categories of commands, and how they use keys.
//! - `key_spec`: the positions of keys among the arguments.
//! - `lookup`: finds a command by its name, in a few nanoseconds.
//! - `rows`: the rows of the table.
//! - `syntax`: parses a command's syntax into its arguments.

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

/// The Redis version whose commands the table describes.
pub const REDIS_VERSION: &str = "7.0.15";
