//! Tests keyspace notifications between handles of one store, each of which acts as a separate
//! process.

use undercroft_engine::events::EventClasses;
use undercroft_engine::eviction::{Eviction, EvictionPolicy};
use undercroft_engine::lists::End;
use undercroft_engine::messages::{Event, Subscriber, Topic};
use undercroft_engine::strings::{Condition, SetOptions};
use undercroft_engine::{Error, Expiry, Ranges, Scratch, Store};
use undercroft_testkit::fresh;

/// Runs a test with a store that publishes events of the given classes, and a subscriber with a
/// separate handle.
fn listening(classes: &str, test: impl FnOnce(&Store, &mut Subscriber<&Store>)) {
    let directory = fresh::directory();
    let path = directory.path().join("store");
    let (store, other) = (fresh::handle(&path), fresh::handle(&path));
    store.set_time(1000);
    let mut subscriber = other.subscriber();
    subscriber
        .subscribe(Topic::Pattern, &[b"__key*__:*"])
        .expect("room");
    // Set the classes through another handle, because the setting applies to all handles.
    other
        .tell_events(EventClasses::from_letters(classes.as_bytes()))
        .expect("writable");
    test(&store, &mut subscriber);
    assert_eq!(heard(&mut subscriber), Vec::<String>::new());
    let problems = store.check().expect("a check").problems;
    assert_eq!(problems, Vec::<String>::new());
}

/// A subscriber that receives messages while a transaction runs.
struct Listening<'l, 's>(&'l mut Subscriber<&'s Store>);

impl Scratch for Listening<'_, '_> {
    fn clear(&mut self) {}
}

/// Returns the channels and payloads received since the last call, without the constant parts of
/// channel names.
fn heard(subscriber: &mut Subscriber<&Store>) -> Vec<String> {
    let mut heard = Vec::new();
    while let Some(event) = subscriber.try_next().expect("a sound ring") {
        match event {
            Event::Lost(count) => panic!("{count} messages were lost"),
            Event::Message(message) => {
                let channel = String::from_utf8_lossy(message.channel).into_owned();
                let payload = String::from_utf8_lossy(message.payload).into_owned();
                heard.push(format!("{} {payload}", channel.replace("__key", "")));
            }
        }
    }
    heard
}

fn until(time: u64) -> SetOptions {
    SetOptions {
        condition: Condition::Always,
        expiry: Expiry::At(time),
    }
}

#[test]
fn typed_calls_publish_the_same_events_as_commands() {
    listening("KE$lg", |store, subscriber| {
        store.set(3, b"k", b"v").expect("room");
        assert_eq!(
            heard(subscriber),
            ["space@3__:k set", "event@3__:set k"].map(str::to_owned)
        );
        store.increment(0, b"n", 1).expect("room");
        store.list_push(0, b"l", End::Left, &[b"x"]).expect("room");
        store
            .list_pop(0, b"l", End::Right, 5, &mut Ranges::new())
            .expect("room");
        store
            .delete(3, &[b"k", b"none"])
            .expect("no process holds a lock");
        let events: Vec<String> = heard(subscriber).into_iter().skip(1).step_by(2).collect();
        assert_eq!(
            events,
            [
                "event@0__:incrby n",
                "event@0__:lpush l",
                "event@0__:rpop l",
                "event@0__:del l",
                "event@3__:del k"
            ]
        );
        // The event for this change belongs to a class that is not enabled.
        store.set_add(0, b"s", b"x", 10).expect("room");
    });
}

#[test]
fn every_removal_of_an_expired_key_publishes_an_event() {
    listening("Ex", |store, subscriber| {
        for name in [&b"met"[..], b"written", b"swept"] {
            store.set_with(0, name, b"v", until(2000)).expect("room");
        }
        store.set_time(3000);
        // A read leaves the removal of an expired key to the code that runs the command.
        let mut out = Vec::new();
        let found = store.access().get(0, b"met", &mut out);
        assert!(!found.expect("readable"));
        assert_eq!(heard(subscriber), Vec::<String>::new());
        store.remove_met().expect("no process holds a lock");
        assert_eq!(heard(subscriber), ["event@0__:expired met"]);
        store.increment(0, b"written", 1).expect("room");
        // Inserting the new key may also have swept the other expired key.
        while store.keys(0) > 1 {
            store.sweep(100).expect("no process holds a lock");
        }
        assert_eq!(
            heard(subscriber),
            ["event@0__:expired written", "event@0__:expired swept"]
        );
    });
}

#[test]
fn evictions_publish_an_event() {
    listening("Ke", |store, subscriber| {
        store.set(0, b"victim", &[b'v'; 5000]).expect("room");
        let eviction = Eviction {
            policy: EvictionPolicy::AllKeysLru,
            ..store.eviction()
        };
        store.set_eviction(eviction).expect("writable");
        store
            .make_room(store.used_memory() - 2000, 0)
            .expect("a key to evict");
        assert_eq!(heard(subscriber), ["space@0__:victim evicted"]);
    });
}

#[test]
fn rolled_back_changes_publish_no_event() {
    listening("E$g", |store, subscriber| {
        let (kept, undone) = (store.key(b"kept"), store.key(b"undone"));
        let failed = store.write(store.all_shards(), |writer| {
            writer.set(0, &undone, b"v", Expiry::Never)?;
            Err::<(), Error>(Error::WrongType)
        });
        assert!(failed.is_err());
        assert_eq!(heard(subscriber), Vec::<String>::new());
        store
            .transact_into(
                store.all_shards(),
                &mut Listening(&mut *subscriber),
                |running, listening| {
                    running.access().set(0, kept.bytes(), b"1")?;
                    let savepoint = running.savepoint();
                    running.access().set(0, undone.bytes(), b"v")?;
                    running.roll_back_to(&savepoint)?;
                    running.access().increment(0, kept.bytes(), 1)?;
                    // Events are not published before the commit.
                    assert_eq!(heard(listening.0), Vec::<String>::new());
                    Ok::<_, Error>(())
                },
            )
            .expect("room");
        assert_eq!(
            heard(subscriber),
            ["event@0__:set kept", "event@0__:incrby kept"]
        );
    });
}

#[test]
fn no_event_is_published_unless_its_class_is_enabled() {
    for classes in ["", "A", "KE", "Em"] {
        listening(classes, |store, _| {
            store.set(0, b"k", b"v").expect("room");
            store.delete(0, &[b"k"]).expect("no process holds a lock");
        });
    }
}
