//! Defines scenarios that evict keys to free memory.

use undercroft_engine::Store;
use undercroft_engine::eviction::{Eviction, EvictionPolicy};

use crate::scenario::changes::set;
use crate::scenario::definition::{Scenario, full, gradual, quick};
use crate::scenario::names::key;
use crate::scenario::stores::{expiring_keys, some_keys, two_databases};

/// The scenarios for eviction.
pub(super) const SCENARIOS: &[Scenario] = &[
    quick("eviction of a key", some_keys, |s| {
        evict(s, EvictionPolicy::AllKeysRandom, 1)
    }),
    full(
        "eviction of the key that expires first",
        expiring_keys,
        |s| evict(s, EvictionPolicy::VolatileTtl, 1),
    ),
    full("eviction of a large block", large_only, |s| {
        evict(s, EvictionPolicy::AllKeysLru, 1)
    }),
    gradual("eviction after a flush", flushed, |s| {
        evict(s, EvictionPolicy::AllKeysLru, 300)
    }),
];

fn large_only(store: &Store) {
    set(store, &key(1, 90), 100_000);
}

fn flushed(store: &Store) {
    two_databases(store);
    store.flush(&[0], false).expect("room");
}

/// Evicts keys until `bytes` bytes are free. Does not change the store's own limit, because
/// otherwise a process that inspects the store would evict keys, too.
fn evict(store: &Store, policy: EvictionPolicy, bytes: u64) {
    let eviction = Eviction {
        policy,
        ..store.eviction()
    };
    // Use a fixed seed, so that every run evicts the same keys.
    store.set_random(7);
    store.set_eviction(eviction).expect("a store to write to");
    let limit = store.used_memory() - bytes;
    store.make_room(limit, bytes).expect("room is made");
}
