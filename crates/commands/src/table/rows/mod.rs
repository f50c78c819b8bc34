//! The rows of the table, a file for each of Redis' groups of commands. Only `lookup` calls this folder.
//!
//! - `bitmap`, `cluster`, `connection`, `generic`, `geo`, `hashes`, `hyperloglog`, `lists`, `pubsub`, `scripting`,
//!   `server`, `sets`, `sorted`, `streams`, `strings`, `transaction`: the rows of these groups.
//! - `diagnostics`: the rows of the group `server` that look at how the server does, and at what it has not.
//! - `feeds`: the rows of commands that Redis does not have.
//! - `keys`: where commands have their keys and what they do with them, by name.

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

/// The rows, group by group.
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
