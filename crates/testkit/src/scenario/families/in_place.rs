//! Defines scenarios with strings that are read in place, removed in place, or changed while a
//! process reads them in place.

use undercroft_engine::Store;

use crate::scenario::changes::{append, delete, set};
use crate::scenario::definition::{Scenario, full, gradual, quick};
use crate::scenario::names::key;
use crate::scenario::stores::with;

/// The length of the string, in bytes. Its block consists of whole pages.
const LONG: usize = 40_000;

/// The scenarios with strings that are read in place.
pub(super) const SCENARIOS: &[Scenario] = &[
    quick("a string is read in place", there, |s| {
        let found = s.get_in_place(0, &key(0, 90)).expect("a read");
        s.let_go(found.expect("it exists"));
        delete(s, &[key(0, 90)]);
    }),
    parking(quick("a string is taken", there, take)),
    parking(quick("DEL of what is read in place", there, |s| {
        while_read(s, |s| delete(s, &[key(0, 90)]))
    })),
    parking(full("SET over what is read in place", there, |s| {
        while_read(s, |s| set(s, &key(0, 90), 64))
    })),
    parking(full("APPEND to what is read in place", there, |s| {
        while_read(s, |s| append(s, &key(0, 90), 40))
    })),
    parking(full(
        "a string is taken that is read in place",
        there,
        |s| while_read(s, take),
    )),
    gradual("FLUSHALL of what is read in place", there, |s| {
        while_read(s, |s| {
            s.flush_all(true).expect("room");
        })
    }),
];

/// Returns a scenario in which a block remains parked, awaiting its readers. If a reader dies,
/// upkeep frees the block.
const fn parking(scenario: Scenario) -> Scenario {
    Scenario {
        gradual: true,
        ..scenario
    }
}

fn there(store: &Store) {
    with(store, LONG);
}

fn take(store: &Store) {
    let taken = store
        .take_in_place(0, &key(0, 90), |_, _| true)
        .expect("room");
    store.let_go(taken.expect("it exists"));
}

/// Calls `act` while two reads of the string in place are in progress in this process.
fn while_read(store: &Store, act: impl Fn(&Store)) {
    let read = || store.get_in_place(0, &key(0, 90)).expect("a read");
    let readers = [read(), read()];
    act(store);
    for reader in readers.into_iter().flatten() {
        store.let_go(reader);
    }
}
