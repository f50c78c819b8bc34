//! Contains the rows of the command table, one file for each of Redis' command groups. Only
//! `lookup` uses this module.
//!
//! - `bitmap`, `cluster`, `connection`, `generic`, `geo`, `hashes`, `hyperloglog`, `lists`,
//!   `pubsub`, `scripting`, `server`, `sets`, `sorted`, `streams`, `strings`, `transaction`: define
//!   the rows of the groups that they are named after.
//! - `diagnostics`: defines the rows of the `server` group for diagnostics and unsupported
//!   features.
//! - `feeds`: defines the rows of the feed commands, which Redis does not have.
//! - `keys`: defines named key specifications for the rows.

mod bitmap;
mod cluster;
mod connection;
mod diagnostics;
mod feeds;
mod generic;
mod geo;
mod hashes;
mod hyperloglog;
mod keys;
mod lists;
mod pubsub;
mod scripting;
mod server;
mod sets;
mod sorted;
mod streams;
mod strings;
mod transaction;

use super::command::Command;

/// All rows of the table, ordered by group.
pub(super) const FAMILIES: [&[Command]; 18] = [
    strings::COMMANDS,
    bitmap::COMMANDS,
    hyperloglog::COMMANDS,
    lists::COMMANDS,
    generic::COMMANDS,
    hashes::COMMANDS,
    sets::COMMANDS,
    sorted::COMMANDS,
    geo::COMMANDS,
    connection::COMMANDS,
    server::COMMANDS,
    diagnostics::COMMANDS,
    transaction::COMMANDS,
    pubsub::COMMANDS,
    scripting::COMMANDS,
    streams::COMMANDS,
    cluster::COMMANDS,
    feeds::COMMANDS,
];
