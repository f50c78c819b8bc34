//! Implements the command handlers, with one folder per command family. Each file lists its
//! handlers in a table, and only `execute` calls them.
//!
//! - `collections`: implements the commands for lists, hashes, sets, sorted sets and geospatial
//!   indexes.
//! - `connections`: implements the commands for connections, Pub/Sub, transactions and the client
//!   list.
//! - `feeds`: implements FEED.ADD, FEED.RANGE and the other feed commands, which Redis does not
//!   have.
//! - `keys`: implements the commands for keys of any type.
//! - `scan`: contains the code that SCAN, HSCAN, SSCAN and ZSCAN share.
//! - `scripting`: implements EVAL, FUNCTION and related commands.
//! - `server`: implements the commands for databases, configuration and statistics, as well as the
//!   unsupported commands.
//! - `streams`: implements XADD, XREAD, XREADGROUP and the other stream commands.
//! - `strings`: implements the commands for strings, substrings, numbers, bits and HyperLogLogs.

pub(crate) mod collections;
pub(crate) mod connections;
pub(crate) mod feeds;
pub(crate) mod keys;
pub(crate) mod scan;
pub(crate) mod scripting;
pub(crate) mod server;
pub(crate) mod streams;
pub(crate) mod strings;
