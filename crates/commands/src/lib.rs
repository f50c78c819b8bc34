//! Implements the Redis commands. Each command parses its arguments, calls the engine and writes a
//! reply.
//!
//! [`table`] declares each command once, with its calling conventions. A handler parses its
//! [`arguments`], operates on the store, and writes to a [`reply::Reply`], independently of the
//! output format. [`session`] contains the state of a connection, and [`context`] connects commands
//! to the host process.
//!
//! - `algorithms`: contains algorithms that do not depend on commands, such as geohashes,
//!   HyperLogLogs and LCS.
//! - `arguments`: parses arguments strictly, using Redis' rules and error texts.
//! - `audit`: defines the events of the audit log.
//! - `config`: manages the configuration, a table of typed parameters and their current values.
//! - `context`: defines the environment that every command handler receives.
//! - `execute`: provides the single entry point that runs any command.
//! - `failure`: defines how commands fail.
//! - `handlers`: contains the command handlers, one file for each family of commands.
//! - `protocol`: defines the protocol versions.
//! - `reply`: defines the trait that handlers write replies to, and types that record replies.
//! - `scripts`: manages scripts, function libraries, and the state of a running script.
//! - `session`: stores the state of one connection, and describes the connection for CLIENT.
//! - `statistics`: collects the statistics that INFO, LATENCY and SLOWLOG show about commands and
//!   errors.
//! - `table`: contains the command table.
//! - `users`: manages the users of servers and their rights (ACL).

pub mod algorithms;
pub mod arguments;
pub mod audit;
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
pub mod users;

pub use context::Context;
pub use execute::{busy_with_script, execute, execute_staged_set, is_plain};
pub use failure::{Blocked, Failure};
pub use handlers::feeds::{
    append_between as append_feed_between, count_between as count_feed_between,
    selection as feed_selection,
};
