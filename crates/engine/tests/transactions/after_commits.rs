//! Tests that signals do not interrupt the work after a commit, and that work delayed by a lock is
//! done later.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use undercroft_engine::events::EventClasses;
use undercroft_engine::lists::End;
use undercroft_engine::messages::{Event, Subscriber, Topic};
use undercroft_engine::waiting::{Answer, Take, WaitOutcome, Waiters, Wanted};
use undercroft_engine::{Store, WaitHook};
use undercroft_memory::Segment;
use undercroft_testkit::fresh;

const LEFT: Take = Take::Items {
    end: End::Left,
    count: 1,
};

/// A language runtime with a pending signal. When a thread first sleeps, the holder of the lock
/// continues.
struct Signalled {
    release: Mutex<Option<Sender<()>>>,
    asked: Arc<AtomicUsize>,
}

impl WaitHook for Signalled {
    fn blocked(&self, block: &mut dyn FnMut()) {
        self.release.lock().expect("no panic").take();
        block();
    }

    fn interrupted(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) == 0
    }
}

/// Opens a store whose threads have a pending signal. Also returns the number of times that they
/// have checked for a signal. The first sleep drops `release`.
fn signalled(path: &Path, release: Sender<()>) -> (Store, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let mut store = Store::open(path, true).expect("a whole store");
    store.set_wait_hook(Box::new(Signalled {
        release: Mutex::new(Some(release)),
        asked: asked.clone(),
    }));
    (store, asked)
}

/// Makes another handle hold a lock until the returned sender is dropped.
fn hold(
    path: &Path,
    hold: impl FnOnce(&Path, &mut dyn FnMut()) + Send + 'static,
) -> (Sender<()>, JoinHandle<()>) {
    let (release, released): (_, Receiver<()>) = channel();
    let (holding, held) = channel();
    let path = path.to_owned();
    let holder = thread::spawn(move || {
        hold(&path, &mut || {
            holding.send(()).expect("a client to notify");
            // No value is ever sent, so `recv` fails once the sender is dropped.
            assert!(released.recv().is_err());
        });
    });
    held.recv().expect("the lock");
    (release, holder)
}

/// Holds the lock of a key's shard until the returned sender is dropped.
fn hold_shard(path: &Path, key: &'static [u8]) -> (Sender<()>, JoinHandle<()>) {
    hold(path, move |path, wait| {
        let store = Store::open(path, true).expect("a whole store");
        let shards = store.shards_of(&[store.key(key)]);
        store.hold(shards, wait).expect("the lock");
    })
}

/// Holds the lock of the message ring until the returned sender is dropped.
fn hold_ring(path: &Path) -> (Sender<()>, JoinHandle<()>) {
    hold(path, |path, wait| {
        let segment = Segment::open(path, true).expect("a whole store");
        segment.ring_counts(|_| wait()).expect("the lock");
    })
}

/// Returns the messages that a subscriber has received, each as a channel and a payload.
fn received(subscriber: &mut Subscriber<&Store>) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut all = Vec::new();
    while let Some(event) = subscriber.try_next().expect("a look") {
        let Event::Message(message) = event else {
            panic!("{event:?}");
        };
        all.push((text(message.channel), text(message.payload)));
    }
    all
}

#[test]
fn committed_push_is_not_interrupted() {
    let place = fresh::place(8);
    let plain = place.open();
    let mut waiters = Waiters::new(&plain);
    // The destination must be in a different shard than the source.
    let to: &'static [u8] = (b"0123456789".chunks(1))
        .find(|to| plain.key(to).shard() != plain.key(b"from").shard())
        .expect("a key in another shard");
    let wanted = Wanted {
        database: 0,
        keys: &[b"from", to],
        take: Take::Move {
            from: End::Left,
            to: End::Left,
        },
    };
    let WaitOutcome::Waiting(ticket) = waiters.begin(&wanted).expect("room") else {
        panic!("expected to wait");
    };
    let (release, holder) = hold_shard(&place.path, to);
    let (store, asked) = signalled(&place.path, release);
    let length = store.list_push(0, b"from", End::Left, &[b"item"]);
    assert_eq!(length.expect("the commit stands"), 1);
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    holder.join().expect("no panic");
    let answer = waiters.finish(ticket).expect("no lock is held");
    assert!(matches!(answer, Some(Answer::Taken(_))), "{answer:?}");
}

#[test]
fn change_with_a_notification_is_not_interrupted() {
    let place = fresh::place(8);
    let plain = place.open();
    plain
        .tell_events(EventClasses::from_letters(b"KA"))
        .expect("room");
    let mut subscriber = Subscriber::new(&plain);
    subscriber
        .subscribe(Topic::Channel, &[b"__keyspace@0__:k"])
        .expect("room");
    let (release, holder) = hold_ring(&place.path);
    let (store, asked) = signalled(&place.path, release);
    store.set(0, b"k", b"v").expect("the commit stands");
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    holder.join().expect("no panic");
    let event = subscriber.try_next().expect("a look");
    assert!(
        matches!(&event, Some(Event::Message(message)) if message.payload == b"set"),
        "{event:?}"
    );
}

#[test]
fn write_that_has_not_begun_is_interrupted() {
    let place = fresh::place(8);
    let (release, holder) = hold_shard(&place.path, b"k");
    let (store, asked) = signalled(&place.path, release);
    let interrupted = store.set(0, b"k", b"v");
    assert!(
        matches!(&interrupted, Err(error) if error.is_wait() && !error.is_busy()),
        "{interrupted:?}"
    );
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    holder.join().expect("no panic");
    assert_eq!(store.count_keys(0).expect("no lock is held"), 0);
    let wanted = Wanted {
        database: 0,
        keys: &[b"k"],
        take: LEFT,
    };
    let short = Duration::from_millis(1);
    let answer = store.take_or_wait(&wanted, Some(short));
    assert_eq!(answer.expect("no signal"), Answer::TimedOut);
}

#[test]
fn messages_delayed_by_a_lock_are_sent_later_in_order() {
    let place = fresh::place(8);
    let (store, plain) = [(); 2].map(|()| place.open()).into();
    store.set_patience(Duration::from_millis(1));
    plain
        .tell_events(EventClasses::from_letters(b"E$"))
        .expect("room");
    let mut subscriber = Subscriber::new(&plain);
    subscriber.subscribe(Topic::Pattern, &[b"*"]).expect("room");
    let (release, holder) = hold_ring(&place.path);
    store.set(0, b"a", b"1").expect("the commit stands");
    let answered = store.transact(store.all_shards(), |running| {
        running.access().publish(Topic::Channel, b"c", b"2")
    });
    assert_eq!(answered.expect("the commit stands"), 1);
    let refused = store.publish(Topic::Channel, b"c", b"never");
    assert!(
        matches!(&refused, Err(error) if error.is_busy()),
        "{refused:?}"
    );
    assert!(store.settle_waits().is_some());
    drop(release);
    holder.join().expect("no panic");
    assert_eq!(store.publish(Topic::Channel, b"c", b"3").expect("room"), 1);
    let expected = [("__keyevent@0__:set", "a"), ("c", "2"), ("c", "3")];
    let expected = expected.map(|(channel, payload)| (channel.into(), payload.into()));
    assert_eq!(received(&mut subscriber), expected);
    assert!(store.settle_waits().is_none());
}

#[test]
fn messages_of_a_transaction_keep_the_order_of_its_commands() {
    let place = fresh::place(8);
    let store = place.open();
    store
        .tell_events(EventClasses::from_letters(b"E$"))
        .expect("room");
    let mut subscriber = Subscriber::new(&store);
    subscriber.subscribe(Topic::Pattern, &[b"*"]).expect("room");
    let done = store.transact(store.all_shards(), |running| {
        let access = running.access();
        access.publish(Topic::Channel, b"c", b"0")?;
        access.set(0, b"a", b"")?;
        access.publish(Topic::Channel, b"c", b"1")?;
        access.publish(Topic::Channel, b"c", b"2")?;
        access.set(0, b"b", b"")
    });
    done.expect("room");
    let set = "__keyevent@0__:set";
    let expected = [("c", "0"), (set, "a"), ("c", "1"), ("c", "2"), (set, "b")];
    let expected = expected.map(|(channel, payload)| (channel.into(), payload.into()));
    assert_eq!(received(&mut subscriber), expected);
}

#[test]
fn delayed_end_of_a_wait_happens_before_the_next_change() {
    let place = fresh::place(8);
    let (store, plain) = [(); 2].map(|()| place.open()).into();
    store.set_patience(Duration::from_millis(1));
    let wanted = Wanted {
        database: 0,
        keys: &[b"k"],
        take: LEFT,
    };
    let mut waiters = Waiters::new(&store);
    assert!(matches!(
        waiters.begin(&wanted),
        Ok(WaitOutcome::Waiting(_))
    ));
    let (release, holder) = hold_shard(&place.path, b"k");
    drop(waiters);
    assert_eq!(plain.waits().expect("a look").len(), 1);
    drop(release);
    holder.join().expect("no panic");
    store.set(0, b"other", b"").expect("room");
    assert_eq!(plain.waits().expect("a look").len(), 0);
    assert_eq!(
        plain
            .list_push(0, b"k", End::Left, &[b"item"])
            .expect("room"),
        1
    );
    assert_eq!(plain.list_length(0, b"k").expect("a list"), 1);
}

#[test]
fn delayed_end_of_a_subscriber_happens_before_the_next_change() {
    let place = fresh::place(8);
    let (store, plain) = [(); 2].map(|()| place.open()).into();
    store.set_patience(Duration::from_millis(1));
    let mut subscriber = Subscriber::new(&store);
    subscriber.subscribe(Topic::Channel, &[b"c"]).expect("room");
    subscriber.subscribe(Topic::Shard, &[b"d"]).expect("room");
    let (release, holder) = hold_shard(&place.path, b"c");
    drop(subscriber);
    assert!(store.settle_waits().is_some());
    assert_eq!(plain.receivers(Topic::Channel, b"c").expect("a look"), 1);
    drop(release);
    holder.join().expect("no panic");
    store.set(0, b"other", b"").expect("room");
    assert!(store.settle_waits().is_none());
    for (topic, name) in [(Topic::Channel, b"c"), (Topic::Shard, b"d")] {
        assert_eq!(plain.receivers(topic, name).expect("a look"), 0);
    }
    // The subscriber's seat (its futex slot) has been released and has no remaining subscriptions.
    for _ in 0..1000 {
        let mut other = Subscriber::new(&store);
        other.subscribe(Topic::Channel, &[b"e"]).expect("room");
    }
}

#[test]
fn subscriber_without_its_seat_subscribes_again_as_soon_as_possible() {
    let place = fresh::place(8);
    let (store, plain) = [(); 2].map(|()| place.open()).into();
    let mut subscriber = Subscriber::new(&store);
    let names: [&[u8]; 2] = [b"c", b"d"];
    subscriber.subscribe(Topic::Shard, &names).expect("room");
    // As in a forked child, the seat (the futex slot) now belongs to another process.
    store.abandon();
    store.set_patience(Duration::from_millis(1));
    let (release, holder) = hold_shard(&place.path, b"c");
    assert!(matches!(subscriber.try_next(), Err(error) if error.is_busy()));
    assert!(matches!(subscriber.try_next(), Err(error) if error.is_busy()));
    drop(release);
    holder.join().expect("no panic");
    assert!(subscriber.try_next().expect("a look").is_none());
    for name in ["c", "d"] {
        let receivers = plain.publish(Topic::Shard, name.as_bytes(), b"news");
        assert_eq!(receivers.expect("room"), 1);
        let got = received(&mut subscriber);
        assert_eq!(got, [(name.to_owned(), "news".to_owned())]);
    }
}
