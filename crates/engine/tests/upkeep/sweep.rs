//! Tests that the sweep skips keys that it cannot or must not remove, and removes the others.

use std::cell::RefCell;
use std::time::Duration;

use undercroft_engine::changes::{Change, Effect};
use undercroft_engine::strings::{Condition, SetOptions};
use undercroft_engine::{Expiry, Stream};
use undercroft_testkit::fresh;

#[test]
fn locked_shard_does_not_block_the_sweep_of_others() {
    const START: u64 = 1_000_000;
    let place = fresh::place(4);
    let (store, sweeper) = (place.open(), place.open());
    sweeper.set_patience(Duration::from_millis(1));
    store.set_time(START);
    sweeper.set_time(START + 1_000);
    let keys: Vec<String> = (0..400).map(|number| format!("key {number}")).collect();
    for key in &keys {
        let options = SetOptions {
            condition: Condition::Always,
            expiry: Expiry::At(START + 1),
        };
        store
            .set_with(0, key.as_bytes(), b"v", options)
            .expect("room");
    }
    // Lock the first shard, which the sweep visits first.
    let in_first = |key: &&String| store.key(key.as_bytes()).shard() == 0;
    let locked = keys
        .iter()
        .find(in_first)
        .expect("400 keys reach every shard");
    let locked = store.key(locked.as_bytes());
    let here = keys.iter().filter(in_first).count();
    let held = store.hold(store.shards_of([&locked]), || sweeper.sweep(1 << 10));
    let removed = held
        .expect("the lock is this thread's")
        .expect("others are skipped");
    assert_eq!(removed, keys.len() - here);
    assert_eq!(sweeper.sweep(1 << 10).expect("no lock is held"), here);
    assert_eq!(sweeper.count_keys(0).expect("no lock is held"), 0);
}

#[test]
fn key_is_not_swept_during_its_insertion() {
    const NOW: u64 = 1_000_000;
    let (_directory, store) = fresh::store(1);
    store.leave_upkeep_to_a_timer();
    store.set_time(NOW);
    let stream = Stream {
        id: [b'a'; 40],
        earlier: None,
        file: 0,
        is_old: false,
        start: 0,
        end: 0,
    };
    store.begin_stream(&stream).expect("room");
    let ends = RefCell::new(store.log_starts().expect("sound"));
    // Simulate an expiry that passes between reading the clock and inserting the key.
    let options = SetOptions {
        condition: Condition::Always,
        expiry: Expiry::At(NOW),
    };
    store.set_with(0, b"k", b"v", options).expect("room");
    let change = |effect| format!("{:?}", Change::Key(0, b"k", effect));
    let logged = || {
        let found = store.changes_after(&ends.borrow()).expect("sound");
        ends.replace(found.ends.clone());
        let changes = found.iter().map(|change| format!("{change:?}"));
        changes.collect::<Vec<String>>()
    };
    assert_eq!(logged(), [change(Effect::Changed)]);
    assert_eq!(store.sweep(1 << 10).expect("no lock is held"), 1);
    assert_eq!(logged(), [change(Effect::Expired)]);
}
