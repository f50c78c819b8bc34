//! Keyspace notifications between handles on one store, which are processes to each other.

use undercroft_engine::events::EventClasses;
use undercroft_engine::eviction::{Eviction, EvictionPolicy};
use undercroft_engine::lists::End;
use undercroft_engine::messages::{Event, Subscriber, Topic};
use undercroft_engine::strings::{Condition, SetOptions};
use undercroft_engine::{Error, Expiry, Ranges, Scratch, Store};
use undercroft_testkit::fresh;

/// A store, told to tell, and who listens to it through a handle of its own.
fn listening(classes: &str, test: impl FnOnce(&Store, &mut Subscriber<&Store>)) {
    let directory = fresh::directory();
    let path = directory.path().join("store");
    let (store, other) = (fresh::handle(&path), fresh::handle(&path));
    store.set_time(1000);
    let mut subscriber = other.subscriber();
    subscriber
        .subscribe(Topic::Pattern, &[b"__key*__:*"])
        .expect("room");
    // Told to one process, obeyed by all.
    other
        .tell_events(EventClasses::from_letters(classes.as_bytes()))
        .expect("writable");
    test(&store, &mut subscriber);
    assert_eq!(heard(&mut subscriber), Vec::<String>::new());
    let problems = store.check().expect("a check").problems;
    assert_eq!(problems, Vec::<String>::new());
}

/// Who listens while a transaction runs.
struct Listening<'l, 's>(&'l mut Subscriber<&'s Store>);

impl Scratch for Listening<'_, '_> {
    fn clear(&mut self) {}
}

/// Channels and payloads since the last time, the constant parts left out.
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
fn typed_calls_tell_as_commands_do() {
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
            .expect("nobody holds a lock");
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
        // A class that is not among them.
        store.set_add(0, b"s", b"x", 10).expect("room");
    });
}

#[test]
fn whoever_removes_an_expired_key_tells_of_it() {
    listening("Ex", |store, subscriber| {
        for name in [&b"met"[..], b"written", b"swept"] {
            store.set_with(0, name, b"v", until(2000)).expect("room");
        }
        store.set_time(3000);
        // A command's read leaves it to whoever runs the command.
        let mut out = Vec::new();
        let found = store.access().get(0, b"met", &mut out);
        assert!(!found.expect("readable"));
        assert_eq!(heard(subscriber), Vec::<String>::new());
        store.remove_met().expect("nobody holds a lock");
        assert_eq!(heard(subscriber), ["event@0__:expired met"]);
        store.increment(0, b"written", 1).expect("room");
        // The new key's insertion may have swept as well.
        while store.keys(0) > 1 {
            store.sweep(100).expect("nobody holds a lock");
        }
        assert_eq!(
            heard(subscriber),
            ["event@0__:expired written", "event@0__:expired swept"]
        );
    });
}

#[test]
fn evictions_are_told() {
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
fn what_is_undone_is_not_told() {
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
                    // Nothing before the commit.
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
fn nothing_is_told_unless_somebody_asked() {
    for classes in ["", "A", "KE", "Em"] {
        listening(classes, |store, _| {
            store.set(0, b"k", b"v").expect("room");
            store.delete(0, &[b"k"]).expect("nobody holds a lock");
        });
    }
}
