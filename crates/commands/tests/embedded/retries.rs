//! Tests the effects of commands that fail or are retried: nothing happens twice, and expired keys
//! are removed.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use undercroft_commands::reply::Tree;
use undercroft_engine::Store;
use undercroft_engine::events::EventClasses;
use undercroft_engine::eviction::{EvictionChange, EvictionPolicy};
use undercroft_engine::messages::{Event, Topic};

use super::Client;

#[test]
fn failed_command_still_removes_expired_keys() {
    for line in [
        "LSET k 0 v",
        "RENAME k other",
        "RENAMENX k other",
        "LSET k x v",
        "GETEX k EX 0",
    ] {
        for within in [false, true] {
            let mut client = Client::new(None);
            client.store.set_time(1000);
            let other = Store::open(client.store.path(), true).expect("the same store");
            let mut subscriber = other.subscriber();
            let expired: &[u8] = b"__keyevent@0__:expired";
            subscriber
                .subscribe(Topic::Channel, &[expired])
                .expect("room");
            client
                .store
                .tell_events(EventClasses::from_letters(b"Ex"))
                .expect("writable");
            client.run("SET k v PXAT 2000");
            client.store.set_time(3000);
            let error = if within {
                client.run("MULTI");
                client.run(line);
                match client.run("EXEC") {
                    Tree::Array(replies) => replies.into_iter().next().expect("one reply"),
                    other => panic!("{line}: {other:?}"),
                }
            } else {
                client.run(line)
            };
            let error = matches!(error, Tree::Error(_)) || line.starts_with("GETEX");
            assert!(error, "{line}");
            assert_eq!(client.run("DBSIZE"), Tree::Integer(0), "{line}");
            let mut events = 0;
            while let Some(event) = subscriber.try_next().expect("a look") {
                assert!(matches!(event, Event::Message(message) if message.payload == b"k"));
                events += 1;
            }
            assert_eq!(events, 1, "{line}, within a transaction: {within}");
        }
    }
}

#[test]
fn retried_command_counts_its_lookup_once() {
    let mut client = Client::new(None);
    client.store.set_patience(Duration::from_millis(1));
    client.run("PFADD k a");
    let before = client.session.activity.counters;
    let path = client.directory.path().join("store");
    let (held, wait_held) = mpsc::channel();
    let (go_on, wait_go_on) = mpsc::channel::<()>();
    let holder = thread::spawn(move || {
        let store = Store::open(&path, true).expect("the same store");
        store.hold(store.all_shards(), || {
            held.send(()).expect("a client is waiting");
            wait_go_on.recv().expect("a word to go on");
        })
    });
    wait_held.recv().expect("the locks are held");
    client
        .try_run(&[b"GETEX", b"k", b"PERSIST"])
        .expect_err("a lock");
    // The reply is computed, but the cardinality cannot be cached in the value while another
    // process holds the lock.
    assert_eq!(client.run("PFCOUNT k"), Tree::Integer(1));
    go_on.send(()).expect("the holder waits");
    let held = holder.join().expect("the holder ends");
    held.expect("its transaction does nothing");
    client.run("GETEX k PERSIST");
    assert_eq!(client.session.activity.counters.hits, before.hits + 2);
}

#[test]
fn key_accesses_within_exec_are_counted_after_the_commit() {
    let mut client = Client::new(None);
    for change in [
        EvictionChange::Policy(EvictionPolicy::AllKeysLfu),
        EvictionChange::LfuLogFactor(0),
    ] {
        client.store.change_eviction(change).expect("writable");
    }
    for line in ["EXPIRE k 1000", "EXPIRE k 1000 NX", "PERSIST k", "GET k"] {
        client.run("SET k v");
        client.run("GET k");
        let before = client.store.frequency(&client.store.key(b"k"));
        client.run("MULTI");
        client.run(line);
        assert!(matches!(client.run("EXEC"), Tree::Array(_)), "{line}");
        let after = client.store.frequency(&client.store.key(b"k"));
        assert_eq!(after, before + 1, "{line}");
    }
}
