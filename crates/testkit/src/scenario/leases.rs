//! Leases of cached values. The process that took one in a prepared store is dead. A lease names its holder's entry in the
//! process table, which is not the same one in every process that is executed step by step: so these are not.

use undercroft_engine::{Expiry, Leased, Store, lease_key};

use super::{Scenario, key, set_with, some_keys, steps};
use crate::state::NOW;

const TERM: std::time::Duration = std::time::Duration::from_secs(10);

/// The scenarios of this family.
pub(super) const SCENARIOS: &[Scenario] = &[
    steps("a lease is taken", some_keys, |s| take(s, &key(0, 90), 1)),
    steps("a lease is taken, the value is there", some_keys, |s| {
        take(s, &key(1, 0), 1);
    }),
    steps(
        "a lease is taken, its term is over",
        |s| {
            some_keys(s);
            set_with(s, &lease_key(&key(0, 90)), 33, Expiry::At(NOW - 1));
        },
        |s| {
            take(s, &key(0, 90), 1);
        },
    ),
    steps(
        "a lease is taken over from the dead",
        |s| {
            some_keys(s);
            take(s, &key(0, 90), 1);
        },
        |s| {
            take(s, &key(0, 90), 2);
        },
    ),
];

fn take(store: &Store, key: &[u8], number: u64) {
    let taken = store.take_lease(0, key, TERM, number).expect("room");
    assert!(matches!(taken, Leased::Taken(..)), "it may be had");
}
