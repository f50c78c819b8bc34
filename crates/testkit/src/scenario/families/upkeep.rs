//! Defines scenarios for upkeep steps, including steps that complete a flush.

use undercroft_engine::Store;
use undercroft_engine::lists::End;

use crate::scenario::changes::set;
use crate::scenario::definition::{Scenario, full, gradual, quick};
use crate::scenario::names::key;
use crate::scenario::stores::{expired_keys, fill, some_keys, with};

/// The scenarios for upkeep steps.
pub(super) const SCENARIOS: &[Scenario] = &[
    gradual("a step of upkeep removes expired keys", expired_keys, step),
    gradual(
        "a step of upkeep goes on with a resize",
        |s| fill(s, 41),
        step,
    ),
    quick("FLUSHALL leaves all behind", some_keys, |s| {
        s.flush_all(false).expect("room");
    }),
    full("FLUSHALL leaves what is left of one behind", flushed, |s| {
        s.flush_all(false).expect("room");
    }),
    gradual(
        "a step of upkeep frees what was left behind",
        flushed,
        change_and_step,
    ),
    gradual(
        "a step of upkeep frees large blocks left behind",
        large,
        change_and_step,
    ),
    gradual("a step of upkeep frees arenas left behind", arenas, |s| {
        set(s, &key(0, 1), 62);
        while step_on(s) {}
    }),
];

fn step(store: &Store) {
    step_on(store);
}

/// Performs a step of upkeep. First overwrites a key in place, so that the states before and after
/// differ: the memory that upkeep frees after a flush is not part of the compared contents.
fn change_and_step(store: &Store) {
    set(store, &key(0, 1), 62);
    step_on(store);
}

/// Performs a step of upkeep. Returns whether the number of bytes in use has changed.
fn step_on(store: &Store) -> bool {
    let before = store.used_memory();
    store.upkeep_step().expect("room");
    store.used_memory() != before
}

fn flushed(store: &Store) {
    some_keys(store);
    store.flush_all(false).expect("room");
    set(store, &key(0, 1), 64);
    set(store, &key(1, 2), 900);
}

fn large(store: &Store) {
    with(store, 100_000);
    store.flush_all(false).expect("room");
    set(store, &key(0, 1), 64);
}

fn arenas(store: &Store) {
    let items: Vec<String> = (0..4000)
        .map(|number| format!("item {number:08}"))
        .collect();
    let items: Vec<&[u8]> = items.iter().map(String::as_bytes).collect();
    for name in [7, 8] {
        let name = key(0, name);
        store.list_push(0, &name, End::Right, &items).expect("room");
    }
    store.flush_all(false).expect("room");
    set(store, &key(0, 1), 64);
}
