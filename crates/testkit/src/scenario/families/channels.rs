//! Defines scenarios for channels. A message contains the index of its holder's process table
//! entry, which differs between the traced processes, so no test run steps through these scenarios.

use std::mem::ManuallyDrop;

use undercroft_engine::channels::{Channel, Received, Sent};
use undercroft_engine::waiting::{Look, Take, WaitOutcome, Waiters, Wanted};
use undercroft_engine::{Ranges, Store};

use super::blocking::{handed, with_another};
use crate::scenario::definition::{Scenario, Steps, full, log_steps};
use crate::scenario::stores::some_keys;

/// The scenarios for channels.
pub(super) const SCENARIOS: &[Scenario] = &[
    full("a channel gets several messages", some_keys, |s| {
        let sent = s.send(0, &jobs(), 2, &[b"one", b"two", b"three"]);
        assert_eq!(sent.expect("room"), Sent::Some(2));
    }),
    full("messages are taken", filled, |s| {
        let mut out = Ranges::new();
        let taken = s.receive(0, &jobs(), 9, &|_| true, &mut out);
        assert_eq!(taken.expect("room"), Received::Some);
    }),
    handed(
        "a message wakes who looks for one",
        some_keys,
        Steps::Always,
        |s| {
            look(s, Look::Item);
            look(s, Look::Item);
            s.send(0, &jobs(), 2, &[b"one"]).expect("room");
        },
    ),
    handed("room wakes who looks for it", filled, Steps::Full, |s| {
        look(s, Look::Room(2));
        let mut out = Ranges::new();
        s.receive(0, &jobs(), 1, &|_| true, &mut out).expect("room");
    }),
    handed("the end wakes all who look", some_keys, Steps::Full, |s| {
        look(s, Look::Item);
        look(s, Look::Item);
        let [_, closed] = jobs().looked_at().map(<[u8]>::to_vec);
        s.set(0, &closed, b"1").expect("room");
    }),
    log_steps("a message is taken to be held", filled, hold),
    log_steps(
        "what the dead hold goes back",
        |s| {
            filled(s);
            with_another(s, hold);
        },
        |s| {
            assert_eq!(s.recall(0, &jobs()).expect("room"), 2);
        },
    ),
];

fn jobs() -> Channel {
    Channel::new(b"jobs")
}

fn filled(store: &Store) {
    some_keys(store);
    store.send(0, &jobs(), 2, &[b"one", b"two"]).expect("room");
}

fn hold(store: &Store) {
    let mut out = Ranges::new();
    let held = store.receive_and_hold(0, &jobs(), 2, &|_| true, &mut out);
    assert_eq!(held.expect("room").0, Received::Some);
}

/// Starts to watch a channel for messages, and watches until the process dies.
fn look(store: &Store, look: Look) {
    let jobs = jobs();
    let wanted = Wanted {
        database: 0,
        keys: &jobs.looked_at(),
        take: Take::Look(look),
    };
    let mut waiters = ManuallyDrop::new(Waiters::new(store));
    assert!(matches!(
        waiters.begin(&wanted),
        Ok(WaitOutcome::Waiting(_))
    ));
}
