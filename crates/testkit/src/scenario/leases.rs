//! Leases of cached values. Who has one in a prepared store is dead, or is the process that makes the change: that one
//! gets the slot of the process which prepared the store, and is the next in it.

use undercroft_engine::{Condition, Expiry, Lease, Leased, SetOptions, Store, lease_key};

use super::{Scenario, full, key, quick, set, set_with, some_keys, steps, value};
use crate::state::NOW;

const TERM: std::time::Duration = std::time::Duration::from_secs(10);

/// The scenarios of this family.
pub(super) const SCENARIOS: &[Scenario] = &[
    quick("a lease is taken", some_keys, |s| {
        take(s, &key(0, 90), 1);
    }),
    full("a lease is taken, the value is there", some_keys, |s| {
        take(s, &key(1, 0), 1);
    }),
    full(
        "a lease is taken, its term is over",
        |s| {
            some_keys(s);
            set_with(s, &lease_key(&key(0, 90)), 33, Expiry::At(NOW - 1));
        },
        |s| {
            take(s, &key(0, 90), 1);
        },
    ),
    quick(
        "a lease is taken over from the dead",
        |s| {
            some_keys(s);
            take(s, &key(0, 90), 1);
        },
        |s| {
            take(s, &key(0, 90), 2);
        },
    ),
    quick("a value is set for its lease", leased, |s| {
        keep(s, &key(0, 90), 64)
    }),
    full(
        "a value is set for its lease, over another",
        |s| {
            leased(s);
            set(s, &key(0, 90), 900);
        },
        |s| keep(s, &key(0, 90), 64),
    ),
    full("a value of 5,000 is set for its lease", leased, |s| {
        keep(s, &key(0, 90), 5000)
    }),
    steps(
        "a value of 300,000 is set for its lease, staged",
        leased,
        |s| keep(s, &key(0, 90), 300_000),
    ),
    full("a lease is given back", leased, |s| {
        let name = key(0, 90);
        let given = s.release_lease(0, &name, &held(s, &name));
        assert!(given.expect("room"), "it is the caller's");
    }),
];

fn take(store: &Store, key: &[u8], number: u64) -> Lease {
    match store.take_lease(0, key, TERM, number).expect("room") {
        Leased::Taken(lease, _) => lease,
        Leased::Held => panic!("expected a lease that may be had"),
    }
}

fn keep(store: &Store, key: &[u8], length: usize) {
    let expiry = Expiry::At(NOW + 5000);
    let set = store.set_leased(0, key, &value(length), expiry, &held(store, key));
    assert!(set.expect("room"), "it is the caller's");
}

/// The lease that is in the store.
fn held(store: &Store, key: &[u8]) -> Lease {
    let mut held = Vec::new();
    let found = store.get(0, &lease_key(key), &mut held).expect("a string");
    assert!(found, "expected a lease");
    Lease::from_bytes(&held)
}

/// A lease of whoever opens the store next: its seat is this process' with the next generation.
fn leased(store: &Store) {
    some_keys(store);
    let (key, number) = (key(0, 90), 1);
    let lease = take(store, &key, number);
    let name = std::str::from_utf8(lease.as_bytes()).expect("digits");
    let seat = u64::from_str_radix(&name[1..17], 16).expect("a seat") + (1 << 32);
    let next = format!("@{seat:016x}{number:016x}");
    let name = lease_key(&key);
    let options = SetOptions {
        condition: Condition::Always,
        expiry: Expiry::At(NOW + 10_000),
    };
    store
        .set_with(0, &name, next.as_bytes(), options)
        .expect("room");
}
