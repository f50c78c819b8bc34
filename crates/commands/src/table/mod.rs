//! Contains the command table, which is the single source of information about commands for the
//! server, the embedded clients, the generated documentation and COMMAND.
//!
//! Names, arities, flags, keys, categories and tips are those of Redis 7.0.15. A test compares them
//! with a real server field by field. Only the feed commands are specific to Undercroft.
//!
//! All higher modules and other crates can use this module.
//!
//! - `command`: defines a row of the table, which describes one command.
//! - `flags`: defines the groups, flags and categories of commands, and how commands use keys.
//! - `key_spec`: describes the positions of keys and channels among the arguments.
//! - `keys`: defines named key specifications for the rows.
//! - `lookup`: finds commands by name, in a few nanoseconds.
//! - `renames`: the names that `rename-command` gives to commands.
//! - `rows`: contains the rows of the table.
//! - `syntax`: parses a command's syntax into its arguments.

mod command;
mod flags;
mod key_spec;
mod keys;
mod lookup;
mod renames;
mod rows;
mod syntax;

pub use command::Command;
pub use flags::{Categories, Category, Flag, Flags, Group, KeyFlag, KeyFlags};
pub use key_spec::{ChannelSpec, KeySpec};
pub(crate) use lookup::{COUNT, DEL, EXEC, GET, SET, number_of};
pub use lookup::{all, find, find_full, resolve, resolve_name, with_subcommands};
pub use renames::Renames;
pub(crate) use syntax::{Argument, Kind};

/// The Redis version whose commands the table describes.
pub const REDIS_VERSION: &str = "7.0.15";
