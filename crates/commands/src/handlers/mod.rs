//! The command handlers, one folder per command family. Only `execute` calls the handlers, which
//! each file lists in a table.
//!
//! - `collections`: commands on lists, hashes, sets, sorted sets and geospatial indexes.
//! - `connections`: connection state, Pub/Sub, transactions, and the list of clients.
//! - `feeds`: FEED.ADD, FEED.RANGE and the other feed commands, which Redis does not have.
//! - `keys`: commands on keys of any type.
//! - `scan`: code shared by SCAN, HSCAN, SSCAN and ZSCAN.
//! - `scripting`: EVAL, FUNCTION and related commands.
//! - `server`: databases, configuration and statistics of the server, and unsupported commands.
//! - `streams`: XADD, XREAD, XREADGROUP and the other stream commands.
//! - `strings`: commands on whole strings, substrings, numbers, bits and HyperLogLogs.

pub(crate) mod collections;
pub(crate) mod connections;
pub(crate) mod feeds;
pub(crate) mod keys;
pub(crate) mod scan;
pub(crate) mod scripting;
pub(crate) mod server;
pub(crate) mod streams;
pub(crate) mod strings;
