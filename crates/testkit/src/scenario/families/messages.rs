//! Defines scenarios for messages to subscribers. The subscribers in a prepared store are dead, and
//! publishers have removed their subscriptions. The only receiver of a message is its publisher.

use std::mem::ManuallyDrop;

use undercroft_engine::Store;
use undercroft_engine::messages::Topic;

use crate::fixture;
use crate::scenario::changes::value;
use crate::scenario::definition::{Scenario, Steps, full, gradual, quick};
use crate::scenario::stores::some_keys;

/// The scenarios for messages to subscribers.
pub(super) const SCENARIOS: &[Scenario] = &[
    quick("SUBSCRIBE, the first name", some_keys, |s| {
        subscribe(s, Topic::Channel, &[b"news"])
    }),
    full("SUBSCRIBE of many", some_keys, |s| {
        subscribe(s, Topic::Shard, &[b"a", b"b", b"c", b"d", b"e"])
    }),
    full("SUBSCRIBE beside the dead", subscribed, |s| {
        subscribe(s, Topic::Channel, &[b"news"])
    }),
    full("PSUBSCRIBE", some_keys, |s| {
        subscribe(s, Topic::Pattern, &[b"n*", b"*s"])
    }),
    publish("PUBLISH, the ring is new", subscribed, |s| send(s, 30)),
    publish("PUBLISH", published, |s| send(s, 30)),
    publish("PUBLISH round the ring's end", nearly_full, |s| {
        send(s, 900)
    }),
    publish("PUBLISH of three at once", published, |s| {
        send_several(s, 30)
    }),
    publish("PUBLISH of three round the ring's end", nearly_full, |s| {
        send_several(s, 900)
    }),
    publish("PUBLISH of more than the ring takes", published, |s| {
        send(s, 20_000)
    }),
    gradual("PUBLISH of a large block", published, |s| send(s, 300_000)),
];

const fn publish(name: &'static str, prepare: fn(&Store), act: fn(&Store)) -> Scenario {
    Scenario {
        name,
        prepare,
        act,
        steps: Steps::Always,
        gradual: true,
        handed: false,
        first: None,
    }
}

/// Subscribes to names until the process dies.
fn subscribe(store: &Store, topic: Topic, names: &[&[u8]]) {
    let mut subscriber = ManuallyDrop::new(store.subscriber());
    subscriber.subscribe(topic, names).expect("room");
}

/// Subscribes to the channel `news`, and publishes a message of `length` bytes to it.
fn send(store: &Store, length: usize) {
    subscribe(store, Topic::Channel, &[b"news"]);
    let payload = value(length);
    store
        .publish(Topic::Channel, b"news", &payload)
        .expect("room");
}

/// Subscribes to the channel `news`, and publishes three messages to it in one call, one of them
/// `length` bytes long.
fn send_several(store: &Store, length: usize) {
    subscribe(store, Topic::Channel, &[b"news"]);
    let payload = value(length);
    let all: [&[u8]; 3] = [b"first", &payload, b""];
    store
        .publish_all(Topic::Channel, b"news", &all)
        .expect("room");
}

/// Creates a subscriber as another process. The process has a slot in the process table that the
/// process under test cannot claim.
fn subscribed(store: &Store) {
    some_keys(store);
    let others = [0; 3].map(|_| {
        let other = fixture::open(store.path()).expect("a whole store");
        other.recover().expect("a whole store");
        other
    });
    let other = &others[2];
    subscribe(other, Topic::Channel, &[b"news"]);
    subscribe(other, Topic::Pattern, &[b"n?ws"]);
}

fn published(store: &Store) {
    subscribed(store);
    let mut living = store.subscriber();
    living.subscribe(Topic::Channel, &[b"other"]).expect("room");
    for length in [100, 0, 3] {
        let payload = value(length);
        store
            .publish(Topic::Channel, b"other", &payload)
            .expect("room");
    }
}

/// Fills the message ring except for its last 20 words.
fn nearly_full(store: &Store) {
    published(store);
    let mut living = store.subscriber();
    living.subscribe(Topic::Channel, &[b"other"]).expect("room");
    let mut left = (64 << 10) - 160;
    for (_, payload) in store.messages().expect("a sound ring") {
        left -= 48 + payload.len().next_multiple_of(8);
    }
    while left > 0 {
        let length = left.min(8000) - 48;
        let payload = value(length);
        store
            .publish(Topic::Channel, b"other", &payload)
            .expect("room");
        left -= 48 + length.next_multiple_of(8);
    }
}
