//! Defines scenarios with leases of cached values. A lease contains the index of its holder's entry
//! in the process table, so only the process that acquired the lease can set the value or return
//! the lease. Such a scenario first acquires the lease in a separate transaction. The holder of a
//! lease in a prepared store is dead.

use std::time::Duration;

use undercroft_engine::leases::{Lease, Leased, lease_key};
use undercroft_engine::{Expiry, Store};

use crate::fixture::NOW;
use crate::scenario::changes::{set_expiring, set_with, value};
use crate::scenario::definition::{Scenario, full, log_steps, quick};
use crate::scenario::names::key;
use crate::scenario::stores::some_keys;

/// The term of a lease, which no test outlasts. Terms are measured by the clock of the machine, and a
/// child that runs one instruction at a time takes minutes on a busy machine.
const TERM: Duration = Duration::from_secs(24 * 60 * 60);

/// The scenarios with leases.
pub(super) const SCENARIOS: &[Scenario] = &[
    quick("a lease is taken", some_keys, take_own),
    full("a lease is taken, the value is there", some_keys, |s| {
        take(s, &key(1, 0), 2);
    }),
    full(
        "a lease is taken, its term is over",
        |s| {
            some_keys(s);
            set_with(s, &lease_key(&key(0, 90)), 33, Expiry::At(NOW - 1));
        },
        take_own,
    ),
    full(
        "a lease is taken over from the dead",
        left_by_the_dead,
        take_own,
    ),
    behind_its_lease(quick("a value is set for its lease", some_keys, |s| {
        set_for(s, 64)
    })),
    behind_its_lease(full(
        "a value is set for its lease, over one with EX",
        |s| {
            some_keys(s);
            set_expiring(s, &key(0, 90), 900);
        },
        |s| set_for(s, 64),
    )),
    behind_its_lease(full(
        "a value of 5,000 is set for its lease",
        some_keys,
        |s| set_for(s, 5000),
    )),
    behind_its_lease(log_steps(
        "a value of 300,000 is set for its lease, staged",
        some_keys,
        |s| set_for(s, 300_000),
    )),
    behind_its_lease(full(
        "a value is set for the lease of the dead",
        left_by_the_dead,
        |s| set_for(s, 64),
    )),
    behind_its_lease(quick(
        "a lease of the dead is taken and given back",
        left_by_the_dead,
        |s| {
            let key = key(0, 90);
            let lease = take(s, &key, 2);
            assert!(
                s.release_lease(0, &key, &lease).expect("room"),
                "it is held"
            );
        },
    )),
];

/// Returns a scenario that first acquires the lease.
const fn behind_its_lease(scenario: Scenario) -> Scenario {
    Scenario {
        first: Some(take_own),
        ..scenario
    }
}

fn take(store: &Store, key: &[u8], number: u64) -> Lease {
    match store.take_lease(0, key, TERM, number).expect("room") {
        Leased::Taken(lease, _) => lease,
        Leased::Held => panic!("expected a lease that may be had"),
    }
}

/// Acquires the lease that the changes use.
fn take_own(store: &Store) {
    take(store, &key(0, 90), 2);
}

fn left_by_the_dead(store: &Store) {
    some_keys(store);
    take(store, &key(0, 90), 1);
}

fn set_for(store: &Store, length: usize) {
    let key = key(0, 90);
    let lease = take(store, &key, 2);
    let set = store.set_leased(0, &key, &value(length), Expiry::At(NOW + 5000), &lease);
    assert!(set.expect("room"), "it is held");
}
