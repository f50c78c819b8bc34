//! The handlers of all commands, a folder for each family. Only `execute` calls them; each file lists its own.
//!
//! - `collections`: lists, hashes, sets, sorted sets and positions.
//! - `connections`: connections: what they remember, messages, transactions, and who is connected.
//! - `feeds`: FEED.ADD, FEED.RANGE and their like, which Redis does not have.
//! - `keys`: keys of any type.
//! - `scan`: what SCAN, HSCAN and their like have in common.
//! - `scripting`: EVAL, FUNCTION and their like.
//! - `server`: the server: its databases, configuration and figures, and what it has not.
//! - `streams`: XADD, XREAD, XREADGROUP and their like.
//! - `strings`: strings: whole ones, parts, numbers, bits and HyperLogLogs.

pub(crate) mod collections;
pub(crate) mod connections;
pub(crate) mod feeds;
pub(crate) mod keys;
pub(crate) mod scan;
pub(crate) mod scripting;
pub(crate) mod server;
pub(crate) mod streams;
pub(crate) mod strings;
