//! Lists all scenarios, grouped by the data that they change. Re-exported by `scenario`.
//!
//! - `bits`: the bits of strings.
//! - `blocking`: clients that are blocked on keys.
//! - `channels`: channels, which pass messages between processes.
//! - `every_type`: changes that every type supports.
//! - `eviction`: keys that are evicted to make room.
//! - `feeds`: feeds.
//! - `hashes`: hashes.
//! - `in_place`: values that are read in place.
//! - `leases`: leases of cached values.
//! - `lists`: lists.
//! - `messages`: messages to subscribers.
//! - `replication`: the changes and data sets of a replica's source.
//! - `scripts`: script texts, users of servers, and transactions that restart.
//! - `sets`: sets.
//! - `sorted`: sorted sets.
//! - `streams`: streams.
//! - `strings`: strings, keys of any type, and entire databases.
//! - `transactions`: transactions of several commands.
//! - `upkeep`: steps of upkeep.

mod bits;
mod blocking;
mod channels;
mod every_type;
mod eviction;
mod feeds;
mod hashes;
mod in_place;
mod leases;
mod lists;
mod messages;
mod replication;
mod scripts;
mod sets;
mod sorted;
mod streams;
mod strings;
mod transactions;
mod upkeep;

use super::definition::Scenario;

/// Returns all scenarios, one family after the other.
pub fn all() -> impl Iterator<Item = &'static Scenario> {
    [
        strings::SCENARIOS,
        messages::SCENARIOS,
        bits::SCENARIOS,
        hashes::SCENARIOS,
        leases::SCENARIOS,
        channels::SCENARIOS,
        lists::SCENARIOS,
        sets::SCENARIOS,
        sorted::SCENARIOS,
        feeds::SCENARIOS,
        streams::SCENARIOS,
        eviction::SCENARIOS,
        transactions::SCENARIOS,
        scripts::SCENARIOS,
        replication::SCENARIOS,
        blocking::SCENARIOS,
        upkeep::SCENARIOS,
        every_type::SCENARIOS,
        in_place::SCENARIOS,
    ]
    .into_iter()
    .flatten()
}
