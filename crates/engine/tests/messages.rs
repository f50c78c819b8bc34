//! Tests messages between handles of one store, each of which acts as a separate process. Compares
//! receivers with naive lists, and covers receivers that are lapped or die.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use undercroft_engine::Store;
use undercroft_engine::messages::{Event, Subscriber, Topic};
use undercroft_testkit::fresh;

fn sound(store: &Store) {
    assert_eq!(
        store.check().expect("a check").problems,
        Vec::<String>::new()
    );
}

/// A received message, with its topic, channel and payload, whether the receiver is subscribed to
/// the channel itself, and the matching patterns.
type Got = (Topic, Vec<u8>, Vec<u8>, bool, Vec<Vec<u8>>);

fn receive(subscriber: &mut Subscriber<&Store>) -> Option<Result<Got, u64>> {
    let event = subscriber.try_next().expect("a sound ring")?;
    Some(match event {
        Event::Lost(count) => Err(count),
        Event::Message(message) => Ok((
            message.topic,
            message.channel.to_vec(),
            message.payload.to_vec(),
            message.direct,
            message
                .patterns
                .iter()
                .map(|pattern| pattern.to_vec())
                .collect(),
        )),
    })
}

fn receives(subscriber: &mut Subscriber<&Store>, channel: &[u8], payload: &[u8]) {
    let got = receive(subscriber).expect("a message").expect("none lost");
    assert_eq!((&got.1[..], &got.2[..]), (channel, payload));
}

/// The model of a receiver, with its subscriptions and a naive list of its messages.
#[derive(Default)]
struct Model {
    counts: BTreeMap<(usize, Vec<u8>), u64>,
    patterns: Vec<Vec<u8>>,
    queue: VecDeque<Got>,
}

#[test]
fn receivers_match_naive_lists() {
    let mut random = fastrand::Rng::with_seed(fresh::seed());
    let directory = fresh::directory();
    let path = directory.path().join("store");
    let stores: Vec<Store> = (0..4).map(|_| fresh::handle(&path)).collect();
    let mut receivers: Vec<(Subscriber<&Store>, Model)> = (0..6)
        .map(|index| (stores[index % 4].subscriber(), Model::default()))
        .collect();
    let names: Vec<Vec<u8>> = (0..12).map(|n| format!("news:{n}").into_bytes()).collect();
    let patterns = [&b"news:*"[..], b"news:1?", b"*3", b"none*"];
    let mut messages = 0;
    for round in 0..30_000 {
        let which = random.usize(..receivers.len());
        match random.u32(..10) {
            0 => {
                let (subscriber, model) = &mut receivers[which];
                let topic = Topic::ALL[random.usize(..3)];
                let name = if topic == Topic::Pattern {
                    patterns[random.usize(..4)]
                } else {
                    &names[random.usize(..12)]
                };
                let count = model
                    .counts
                    .entry((topic as usize, name.to_vec()))
                    .or_default();
                if random.bool() {
                    subscriber.subscribe(topic, &[name]).expect("room");
                    *count += 1;
                    if topic == Topic::Pattern && *count == 1 {
                        model.patterns.push(name.to_vec());
                    }
                } else {
                    subscriber.unsubscribe(topic, &[name]).expect("room");
                    *count = count.saturating_sub(1);
                    if *count == 0 {
                        if topic == Topic::Pattern {
                            model.patterns.retain(|known| known != name);
                        }
                        // The canceled subscription no longer covers the messages that the receiver
                        // has not read yet.
                        for got in &mut model.queue {
                            if topic == Topic::Pattern {
                                got.4.retain(|pattern| pattern != name);
                            } else if got.0 == topic && got.1 == name {
                                got.3 = false;
                            }
                        }
                        model.queue.retain(|got| got.3 || !got.4.is_empty());
                    }
                }
            }
            1..6 => {
                let topic = [Topic::Channel, Topic::Shard][random.usize(..2)];
                let name = &names[random.usize(..12)];
                let several = if random.u32(..3) == 0 { 3 } else { 1 };
                let payloads: Vec<Vec<u8>> = (0..several)
                    .map(|number| format!("{round}:{number}").into_bytes())
                    .collect();
                let mut expected = 0;
                for (_, model) in &mut receivers {
                    let direct = model.counts.get(&(topic as usize, name.clone())).copied();
                    let direct = direct.unwrap_or(0);
                    let mut matching = Vec::new();
                    if topic == Topic::Channel {
                        for pattern in &model.patterns {
                            if undercroft_engine::glob::matches(
                                pattern,
                                name,
                                undercroft_engine::glob::Case::Sensitive,
                            ) == Ok(true)
                            {
                                expected +=
                                    model.counts[&(Topic::Pattern as usize, pattern.clone())];
                                matching.push(pattern.clone());
                            }
                        }
                    }
                    expected += direct;
                    if direct > 0 || !matching.is_empty() {
                        for payload in &payloads {
                            model.queue.push_back((
                                topic,
                                name.clone(),
                                payload.clone(),
                                direct > 0,
                                matching.clone(),
                            ));
                        }
                    }
                }
                let sender = &stores[random.usize(..4)];
                let received = match &payloads[..] {
                    [payload] => sender.publish(topic, name, payload),
                    _ => {
                        let all: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
                        sender.publish_all(topic, name, &all)
                    }
                };
                assert_eq!(received.expect("room"), expected, "round {round}");
                messages += several;
            }
            _ => {
                let (subscriber, model) = &mut receivers[which];
                for _ in 0..random.u32(..200) {
                    let expected = model.queue.pop_front();
                    assert_eq!(
                        receive(subscriber),
                        expected.clone().map(Ok),
                        "round {round}"
                    );
                    if expected.is_none() {
                        break;
                    }
                }
            }
        }
    }
    assert!(messages > 1000);
    let subscribed = |topic: Topic| {
        let mut all: Vec<Vec<u8>> = receivers
            .iter()
            .flat_map(|(_, model)| &model.counts)
            .filter(|((of, _), count)| *of == topic as usize && **count > 0)
            .map(|((_, name), _)| name.clone())
            .collect();
        all.sort();
        all.dedup();
        all
    };
    for topic in Topic::ALL {
        let mut found = stores[0].topics(topic).expect("a walk");
        found.sort();
        assert_eq!(found, subscribed(topic));
    }
    sound(&stores[0]);
    drop(receivers);
    stores[1].free_all_of_the_dead().expect("a walk");
    assert_eq!(stores[0].used_memory(), 0, "nothing is left of them");
    sound(&stores[0]);
}

#[test]
fn message_without_receivers_takes_no_memory() {
    let directory = fresh::directory();
    let store = fresh::handle(&directory.path().join("store"));
    assert_eq!(store.publish(Topic::Channel, b"c", b"m").expect("room"), 0);
    assert_eq!(store.statistics().ring, 0);
    let mut subscriber = store.subscriber();
    subscriber.subscribe(Topic::Channel, &[b"c"]).expect("room");
    assert_eq!(store.publish(Topic::Shard, b"c", b"m").expect("room"), 0);
    assert_eq!(store.publish(Topic::Channel, b"d", b"m").expect("room"), 0);
    assert_eq!(store.statistics().ring, 0);
    assert_eq!(store.publish(Topic::Channel, b"c", b"m").expect("room"), 1);
    assert_eq!(store.statistics().ring, 64 << 10);
}

#[test]
fn lapped_subscriber_learns_how_many_messages_it_lost() {
    let directory = fresh::directory();
    let store = fresh::handle(&directory.path().join("store"));
    let subscribe = |topic, name: &[u8]| {
        let mut subscriber = store.subscriber();
        subscriber.subscribe(topic, &[name]).expect("room");
        subscriber
    };
    let mut slow = subscribe(Topic::Channel, b"busy");
    let mut quiet = subscribe(Topic::Channel, b"quiet");
    let mut all = subscribe(Topic::Pattern, b"*");
    let publish = |name: &[u8], payload: &[u8]| {
        store.publish(Topic::Channel, name, payload).expect("room");
    };
    publish(b"busy", b"first");
    receives(&mut slow, b"busy", b"first");
    let payload = vec![b'x'; 1000];
    for _ in 0..500 {
        publish(b"busy", &payload);
    }
    assert_eq!(receive(&mut slow), Some(Err(500)));
    assert_eq!(receive(&mut slow), None);
    assert_eq!(receive(&mut all), Some(Err(501)));
    // The overwritten messages were not for this subscriber.
    assert_eq!(receive(&mut quiet), None);
    publish(b"quiet", b"last");
    receives(&mut quiet, b"quiet", b"last");
    receives(&mut all, b"quiet", b"last");
    publish(b"busy", b"last");
    receives(&mut slow, b"busy", b"last");
}

#[test]
fn dead_receivers_are_not_counted_and_are_removed() {
    let directory = fresh::directory();
    let path = directory.path().join("store");
    let (store, victim) = (fresh::handle(&path), fresh::handle(&path));
    let mut living = store.subscriber();
    living.subscribe(Topic::Channel, &[b"c"]).expect("room");
    let mut dying = victim.subscriber();
    dying
        .subscribe(Topic::Channel, &[b"c", b"d"])
        .expect("room");
    dying.subscribe(Topic::Pattern, &[b"*"]).expect("room");
    assert_eq!(store.publish(Topic::Channel, b"c", b"1").expect("room"), 3);
    std::mem::forget(dying);
    victim.abandon();
    // A process that was found alive counts as alive for a few more milliseconds.
    while store.receivers(Topic::Channel, b"c").expect("a read") != 1 {
        std::thread::yield_now();
    }
    assert_eq!(store.publish(Topic::Channel, b"c", b"2").expect("room"), 1);
    assert_eq!(store.publish(Topic::Channel, b"d", b"3").expect("room"), 0);
    assert_eq!(store.topics(Topic::Channel).expect("a walk"), [b"c"]);
    assert!(store.topics(Topic::Pattern).expect("a walk").is_empty());
    drop(living);
    store.free_all_of_the_dead().expect("a walk");
    assert_eq!(store.used_memory(), 0);
    sound(&store);
}

#[test]
fn sleeping_receiver_is_woken_and_its_descriptor_becomes_readable() {
    let directory = fresh::directory();
    let path = directory.path().join("store");
    let done = AtomicBool::new(false);
    let ready = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let store = fresh::handle(&path);
            let mut subscriber = store.subscriber();
            subscriber.set_spin(Duration::ZERO);
            subscriber.subscribe(Topic::Channel, &[b"c"]).expect("room");
            assert!(
                subscriber
                    .next(Some(Duration::ZERO))
                    .expect("sound")
                    .is_none()
            );
            ready.store(true, Ordering::Release);
            for number in 0..200 {
                let event = subscriber
                    .next(None)
                    .expect("sound")
                    .expect("no end of time");
                let Event::Message(message) = event else {
                    panic!("expected message {number}, got {event:?}");
                };
                assert_eq!(message.payload, format!("{number}").as_bytes());
            }
            done.store(true, Ordering::Release);
        });
        while !ready.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let store = fresh::handle(&path);
        for number in 0..200 {
            let payload = format!("{number}");
            let received = store.publish(Topic::Channel, b"c", payload.as_bytes());
            assert_eq!(received.expect("room"), 1);
            if number % 3 == 0 {
                std::thread::yield_now();
            }
        }
    });
    assert!(done.load(Ordering::Acquire));

    let store = fresh::handle(&path);
    let mut subscriber = store.subscriber();
    subscriber.subscribe(Topic::Pattern, &[b"?"]).expect("room");
    let descriptor = subscriber.descriptor().expect("a socket");
    let descriptor = descriptor.try_clone_to_owned().expect("a descriptor");
    for _ in 0..3 {
        assert!(subscriber.try_next().expect("sound").is_none());
        store.publish(Topic::Channel, b"c", b"m").expect("room");
        let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
        assert_eq!(poll(&mut polled, None), Ok(1));
        receives(&mut subscriber, b"c", b"m");
    }
}

#[test]
fn message_of_a_transaction_is_sent_at_its_commit_or_never() {
    let directory = fresh::directory();
    let store = fresh::handle(&directory.path().join("store"));
    let mut subscriber = store.subscriber();
    subscriber.subscribe(Topic::Pattern, &[b"*"]).expect("room");
    for commits in [false, true] {
        let done = store.transact(store.all_shards(), |running| {
            let both: [&[u8]; 2] = [b"m", b"n"];
            let receivers = running.access().publish_all(Topic::Channel, b"c", &both)?;
            assert_eq!(receivers, 1);
            assert_eq!(store.statistics().messages, 0, "not before the commit");
            if commits {
                Ok(())
            } else {
                Err(undercroft_engine::Error::Overflow)
            }
        });
        assert_eq!(done.is_ok(), commits);
        assert_eq!(store.statistics().messages, 2 * u64::from(commits));
    }
    receives(&mut subscriber, b"c", b"m");
    receives(&mut subscriber, b"c", b"n");
}

/// The size in bytes of the message ring of these stores.
const RING: usize = 256 << 10;

/// Returns a message of the given length in which each byte depends on its position.
fn long(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 7 % 251) as u8).collect()
}

#[test]
fn message_longer_than_the_ring_is_received_and_its_memory_is_freed() {
    let directory = fresh::directory();
    let path = directory.path().join("store");
    let (publisher, receiver) = (fresh::handle(&path), fresh::handle(&path));
    for store in [&publisher, &receiver] {
        store.leave_upkeep_to_a_timer();
        store.set_time(1000);
    }
    let mut subscriber = receiver.subscriber();
    subscriber.subscribe(Topic::Channel, &[b"c"]).expect("room");
    subscriber.subscribe(Topic::Pattern, &[b"?"]).expect("room");
    let before = publisher.used_memory();
    let most = RING / 4;
    let bodies = [
        long(most - 100),
        long(most + 1),
        long(3 * most),
        b"short".to_vec(),
    ];
    for body in &bodies {
        let sent = publisher.publish(Topic::Channel, b"c", body);
        assert_eq!(sent.expect("room"), 2);
    }
    let all: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
    publisher
        .publish_all(Topic::Channel, b"c", &all)
        .expect("room");
    for body in bodies.iter().chain(&bodies) {
        receives(&mut subscriber, b"c", body);
    }
    assert!(receive(&mut subscriber).is_none());
    sound(&publisher);
    // A long message without receivers occupies no memory in the store.
    let used = publisher.used_memory();
    assert_eq!(
        publisher
            .publish(Topic::Shard, b"c", &bodies[1])
            .expect("room"),
        0
    );
    assert_eq!(publisher.used_memory(), used);
    // A parcel (a stored long message) is not a key that clients can see.
    assert_eq!(publisher.flush_all(true).expect("flushed"), 0);
    publisher.set_time(100_000);
    publisher.upkeep_all().expect("upkeep");
    assert_eq!(publisher.used_memory(), before);
    sound(&publisher);
}

#[test]
fn late_receiver_learns_that_a_long_message_was_lost() {
    let directory = fresh::directory();
    let store = fresh::handle(&directory.path().join("store"));
    store.set_time(1000);
    let mut subscriber = store.subscriber();
    subscriber.subscribe(Topic::Channel, &[b"c"]).expect("room");
    let body = long(RING / 2);
    store.publish(Topic::Channel, b"c", &body).expect("room");
    store.publish(Topic::Channel, b"c", b"after").expect("room");
    store.set_time(100_000);
    assert_eq!(receive(&mut subscriber), Some(Err(1)));
    receives(&mut subscriber, b"c", b"after");
}

#[test]
fn long_message_of_a_transaction_is_sent_at_its_commit_or_never() {
    let directory = fresh::directory();
    let store = fresh::handle(&directory.path().join("store"));
    store.leave_upkeep_to_a_timer();
    let mut subscriber = store.subscriber();
    subscriber.subscribe(Topic::Channel, &[b"c"]).expect("room");
    let body = long(RING / 2);
    let before = store.used_memory();
    for commits in [false, true] {
        // The transaction has not locked the shard in which the parcel (the stored long message)
        // will be.
        let done = store.transact(undercroft_memory::ShardSet::one(0), |running| {
            let access = running.access();
            assert_eq!(access.publish(Topic::Channel, b"c", &body)?, 1);
            assert_eq!(access.publish(Topic::Channel, b"c", &body)?, 1);
            match commits {
                true => Ok(()),
                false => Err(undercroft_engine::Error::Overflow),
            }
        });
        assert_eq!(done.is_ok(), commits);
        assert_eq!(store.used_memory() > before, commits);
    }
    receives(&mut subscriber, b"c", &body);
    receives(&mut subscriber, b"c", &body);
    assert!(receive(&mut subscriber).is_none());
    sound(&store);
}

#[test]
fn full_store_refuses_a_long_message_and_keeps_working() {
    let directory = fresh::directory();
    let store = fresh::handle(&directory.path().join("store"));
    let mut subscriber = store.subscriber();
    subscriber.subscribe(Topic::Channel, &[b"c"]).expect("room");
    let body = long(RING / 2);
    store.set_max_memory(100_000).expect("writable");
    let set = |key: u32| store.set(0, &key.to_le_bytes(), &body[..1000]);
    assert!((0..1000).any(|key| set(key).is_err()));
    let refused = store
        .publish(Topic::Channel, b"c", &body)
        .expect_err("no room");
    assert!(refused.to_string().contains("memory"), "{refused}");
    store.set_max_memory(0).expect("writable");
    store.publish(Topic::Channel, b"c", &body).expect("room");
    receives(&mut subscriber, b"c", &body);
}
