//! All scenarios, by what they change. The door of `scenario` shows them.
//!
//! - `bits`: the bits of strings.
//! - `blocking`: what clients wait for.
//! - `channels`: messages between processes.
//! - `every_type`: values of every type.
//! - `eviction`: keys that go for want of memory.
//! - `feeds`: feeds.
//! - `hashes`: hashes.
//! - `in_place`: values that are read in place.
//! - `leases`: leases of keys.
//! - `lists`: lists.
//! - `messages`: messages to subscribers.
//! - `scripts`: the texts of scripts.
//! - `sets`: sets.
//! - `sorted`: sorted sets.
//! - `streams`: streams.
//! - `strings`: strings, keys of any type, whole databases.
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
mod scripts;
mod sets;
mod sorted;
mod streams;
mod strings;
mod transactions;
mod upkeep;

use super::definition::Scenario;

/// All scenarios, family by family.
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
        blocking::SCENARIOS,
        upkeep::SCENARIOS,
        every_type::SCENARIOS,
        in_place::SCENARIOS,
    ]
    .into_iter()
    .flatten()
}
