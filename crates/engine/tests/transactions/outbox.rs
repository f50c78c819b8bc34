//! Tests the work and the messages that follow a commit. Rolled-back changes must leave none, and
//! all of the work and messages must be processed exactly once.

use std::sync::atomic::{AtomicU32, Ordering};

use undercroft_engine::events::{EventClasses, KeyEvent};
use undercroft_engine::eviction::{EvictionChange, EvictionPolicy};
use undercroft_engine::lists::End;
use undercroft_engine::messages::{Event, Subscriber, Topic};
use undercroft_engine::strings::{Condition, SetOptions};
use undercroft_engine::waiting::{Take, Waiters, Wanted};
use undercroft_engine::{Error, Expiry, Ranges, Store};
use undercroft_testkit::fresh;

/// Returns the messages that a subscriber has received, in the form `channel payload`, without the
/// constant parts of event channels.
fn heard(subscriber: &mut Subscriber<&Store>) -> Vec<String> {
    let mut heard = Vec::new();
    while let Some(event) = subscriber.try_next().expect("a sound ring") {
        let Event::Message(message) = event else {
            panic!("{event:?}");
        };
        let channel = String::from_utf8_lossy(message.channel);
        let payload = String::from_utf8_lossy(message.payload);
        heard.push(format!(
            "{} {payload}",
            channel.replace("__keyevent@0__:", "")
        ));
    }
    heard
}

/// Runs a test with a store that publishes events of the given classes, and a subscriber to the
/// events and to the channel `c`.
fn listening(classes: &str, test: impl FnOnce(&Store, &mut Subscriber<&Store>)) {
    let place = fresh::place(4);
    let (store, other) = (place.open(), place.open());
    let mut subscriber = other.subscriber();
    subscriber
        .subscribe(Topic::Pattern, &[b"__keyevent@*"])
        .expect("room");
    subscriber.subscribe(Topic::Channel, &[b"c"]).expect("room");
    store
        .tell_events(EventClasses::from_letters(classes.as_bytes()))
        .expect("writable");
    test(&store, &mut subscriber);
    assert_eq!(heard(&mut subscriber), Vec::<String>::new());
    assert_eq!(
        store.check().expect("a check").problems,
        Vec::<String>::new()
    );
}

#[test]
fn rollback_to_a_savepoint_discards_work_planned_for_after_the_commit() {
    listening("E$gl", |store, subscriber| {
        let wanted = Wanted {
            database: 0,
            keys: &[b"undone"],
            take: Take::Items {
                end: End::Left,
                count: 1,
            },
        };
        let mut waiters = Waiters::new(store);
        waiters.begin(&wanted).expect("room");
        let done = store.transact(store.all_shards(), |running| {
            let access = running.access();
            access.set(0, b"kept", b"v")?;
            access.publish(Topic::Channel, b"c", b"kept")?;
            let savepoint = running.savepoint();
            let undone = access.key(b"undone");
            access.write(access.shards_of([&undone]), |writer| {
                writer.list_push(0, &undone, End::Left, &[b"item"], false)
            })?;
            access.publish(Topic::Channel, b"c", b"undone")?;
            access.flush_all(true)?;
            running.roll_back_to(&savepoint)?;
            access.increment(0, b"number", 1)?;
            access.publish(Topic::Channel, b"c", b"last")?;
            Ok::<_, Error>(())
        });
        done.expect("room");
        let expected = ["set kept", "c kept", "incrby number", "c last"];
        assert_eq!(heard(subscriber), expected);
        let waits: Vec<String> = { store.waits().expect("a look") }
            .into_iter()
            .map(|(wait, _)| wait)
            .collect();
        assert_eq!(waits, ["undone: None"]);
        drop(waiters);
    });
}

#[test]
fn restarted_transaction_discards_its_outbox() {
    listening("E$", |store, subscriber| {
        let first = store.key(b"first");
        let strange = (0..100_u8)
            .map(|number| [number + b' '])
            .find(|name| store.key(name).shard() != first.shard())
            .expect("a key of another shard");
        store
            .change_eviction(EvictionChange::Policy(EvictionPolicy::AllKeysLfu))
            .expect("writable");
        // With this logarithm factor, every use increments the counter.
        store
            .change_eviction(EvictionChange::LfuLogFactor(0))
            .expect("writable");
        store.set(0, b"first", b"v").expect("room");
        let before = store.frequency(&first);
        heard(subscriber);
        let runs = AtomicU32::new(0);
        let done = store.transact(store.shards_of(&[first]), |running| {
            runs.fetch_add(1, Ordering::Relaxed);
            let access = running.access();
            access.set(0, b"first", b"1")?;
            access.publish(Topic::Channel, b"c", b"once")?;
            access.set(0, &strange, b"2")
        });
        done.expect("room");
        assert!(runs.into_inner() > 1, "no shard was missing");
        let set = format!("set {}", char::from(strange[0]));
        assert_eq!(heard(subscriber), ["set first", "c once", &set]);
        assert_eq!(store.frequency(&first), before + 1);
    });
}

#[test]
fn failed_change_that_is_not_rolled_back_spoils_the_transaction() {
    listening("E$", |store, subscriber| {
        let half = |running: &undercroft_engine::Running<'_, '_>| {
            let access = running.access();
            let key = access.key(b"half");
            access.write(access.shards_of([&key]), |writer| {
                writer.set(0, &key, b"v", Expiry::Never)?;
                Err::<(), _>(Error::WrongType)
            })
        };
        let overlooked = store.transact(store.all_shards(), |running| {
            let _ = half(running);
            running.access().set(0, b"whole", b"v")
        });
        assert!(matches!(overlooked, Err(Error::Spoiled)), "{overlooked:?}");
        assert_eq!(store.count_keys(0).expect("no lock is held"), 0);
        // Rolling back to a savepoint from after the failure does not help, whereas a savepoint
        // from before the failure does.
        for (mended, keys) in [(false, 0), (true, 1)] {
            let done = store.transact(store.all_shards(), |running| {
                let before = running.savepoint();
                let _ = half(running);
                let behind = running.savepoint();
                running.roll_back_to(if mended { &before } else { &behind })?;
                running.access().set(0, b"whole", b"v")
            });
            assert_eq!(done.is_ok(), mended, "{done:?}");
            assert_eq!(store.count_keys(0).expect("no lock is held"), keys);
        }
        assert_eq!(heard(subscriber), ["set whole"]);
    });
}

#[test]
fn expired_key_is_removed_even_if_the_change_that_found_it_fails() {
    listening("Ex$", |store, subscriber| {
        store.set_time(1000);
        let options = SetOptions {
            condition: Condition::Always,
            expiry: Expiry::At(2000),
        };
        let old = store.key(b"old");
        let fail = || {
            let failed = store.write(store.all_shards(), |writer| {
                assert!(writer.find(0, &old)?.is_none());
                Err::<(), _>(Error::WrongType)
            });
            assert!(matches!(failed, Err(Error::WrongType)), "{failed:?}");
        };
        let fail_within = || {
            let done = store.transact(store.all_shards(), |running| {
                let access = running.access();
                let failed = access.attempt(|| {
                    access.write(access.all_shards(), |writer| {
                        assert!(writer.find(0, &old)?.is_none());
                        Err::<(), _>(Error::WrongType)
                    })
                })?;
                assert!(matches!(failed, Err(Error::WrongType)), "{failed:?}");
                Ok::<_, Error>(())
            });
            done.expect("room");
        };
        for fail in [&fail as &dyn Fn(), &fail_within] {
            store.set_time(1000);
            store.set_with(0, b"old", b"v", options).expect("room");
            store.set_time(3000);
            heard(subscriber);
            fail();
            assert!(Store::met_expired());
            assert_eq!(store.remove_met().expect("no lock is held"), 1);
            assert_eq!(heard(subscriber), ["expired old"]);
        }
    });
}

#[test]
fn only_the_outermost_of_nested_changes_publishes_an_event() {
    listening("El$", |store, subscriber| {
        let (from, to, text) = (store.key(b"from"), store.key(b"to"), store.key(b"text"));
        store
            .list_push(0, b"from", End::Left, &[b"item"])
            .expect("room");
        heard(subscriber);
        let done = store.write(store.all_shards(), |writer| {
            writer.tell_as(KeyEvent::SortStore, 0, &to, |writer| {
                let mut items = Ranges::new();
                let (from, to) = ((&from, End::Left), (&to, End::Left));
                writer.list_move(0, from, to, &mut items)?;
                writer.set(0, &text, b"v", Expiry::Never)
            })
        });
        done.expect("room");
        assert_eq!(heard(subscriber), ["sortstore to"]);
    });
}
