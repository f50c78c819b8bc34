//! Contains the rows of the command table, one file for each of Redis' command groups. Only
//! `lookup` uses this module.
//!
//! - `acl`: defines the rows of the `server` group for users and their rights.
//! - `bitmap`, `cluster`, `connection`, `generic`, `geo`, `hashes`, `hyperloglog`, `lists`,
//!   `pubsub`, `scripting`, `server`, `sets`, `sorted`, `streams`, `strings`, `transaction`: define
//!   the rows of the groups that they are named after.
//! - `diagnostics`: defines the rows of the `server` group for diagnostics and unsupported
//!   features.
//! - `feeds`: defines the rows of the feed commands, which Redis does not have.

mod acl;
mod bitmap;
mod cluster;
mod connection;
mod diagnostics;
mod feeds;
mod generic;
mod geo;
mod hashes;
mod hyperloglog;
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
pub(super) const FAMILIES: [&[Command]; 19] = [
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
    acl::COMMANDS,
    diagnostics::COMMANDS,
    transaction::COMMANDS,
    pubsub::COMMANDS,
    scripting::COMMANDS,
    streams::COMMANDS,
    cluster::COMMANDS,
    feeds::COMMANDS,
];
