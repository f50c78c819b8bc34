//! Signals that come while a thread waits behind a commit.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use undercroft_engine::{
    Answer, Begun, End, Event, EventClasses, Options, Store, Subscriber, Take, Topic, WaitHook,
    Waiters, Wanted,
};
use undercroft_memory::Segment;

const LEFT: Take = Take::Items {
    end: End::Left,
    count: 1,
};

/// A runtime with a signal to handle, whose first sleep lets the holder of the
/// lock go on.
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

struct Place {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

fn place() -> Place {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    let path = directory.path().join("store");
    let options = Options {
        capacity: Some(64 << 20),
        shards: Some(8),
        ring: None,
    };
    drop(Store::create(&path, &options).expect("a new store"));
    Place {
        _directory: directory,
        path,
    }
}

/// A store whose threads get a signal when they first sleep, and how often they
/// looked for one. Its first sleep drops `release`.
fn signalled(path: &Path, release: Sender<()>) -> (Store, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let mut store = Store::open(path, true).expect("a whole store");
    store.set_wait_hook(Box::new(Signalled {
        release: Mutex::new(Some(release)),
        asked: asked.clone(),
    }));
    (store, asked)
}

/// Lets another user of the store hold a lock until the other end is dropped.
fn hold(
    path: &Path,
    hold: impl FnOnce(&Path, &mut dyn FnMut()) + Send + 'static,
) -> (Sender<()>, JoinHandle<()>) {
    let (release, released): (_, Receiver<()>) = channel();
    let (holding, held) = channel();
    let path = path.to_owned();
    let holder = thread::spawn(move || {
        hold(&path, &mut || {
            holding.send(()).expect("somebody to tell");
            // It never gets anything: its other end is dropped.
            assert!(released.recv().is_err());
        });
    });
    held.recv().expect("the lock");
    (release, holder)
}

/// Holds the shard of a key.
fn hold_shard(path: &Path, key: &'static [u8]) -> (Sender<()>, JoinHandle<()>) {
    hold(path, move |path, wait| {
        let store = Store::open(path, true).expect("a whole store");
        let shards = store.shards_of(&[store.key(key)]);
        let held = store.write(shards, |_| {
            wait();
            Ok::<_, undercroft_engine::Error>(())
        });
        held.expect("the lock");
    })
}

#[test]
fn a_push_that_is_committed_is_not_interrupted() {
    let place = place();
    let plain = Store::open(&place.path, true).expect("a whole store");
    let mut waiters = Waiters::new(&plain);
    // The destination is in another shard than the source.
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
    let Begun::Waiting(ticket) = waiters.begin(&wanted).expect("room") else {
        panic!("expected to wait");
    };
    let (release, holder) = hold_shard(&place.path, to);
    let (store, asked) = signalled(&place.path, release);
    let length = store.push(0, b"from", End::Left, &[b"item"]);
    assert_eq!(length.expect("the commit stands"), 1);
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    holder.join().expect("no panic");
    let answer = waiters.finish(ticket).expect("no lock is held");
    assert!(matches!(answer, Some(Answer::Taken(_))), "{answer:?}");
}

#[test]
fn a_change_that_is_told_of_is_not_interrupted() {
    let place = place();
    let plain = Store::open(&place.path, true).expect("a whole store");
    plain
        .tell_events(EventClasses::from_letters(b"KA"))
        .expect("room");
    let mut subscriber = Subscriber::new(&plain);
    subscriber
        .subscribe(Topic::Channel, &[b"__keyspace@0__:k"])
        .expect("room");
    let (release, holder) = hold(&place.path, |path, wait| {
        let segment = Segment::open(path, true).expect("a whole store");
        segment.ring_counts(|_| wait()).expect("the lock");
    });
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
fn a_write_that_has_not_begun_is_interrupted() {
    let place = place();
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
    let short = std::time::Duration::from_millis(1);
    let answer = store.take_or_wait(&wanted, Some(short));
    assert_eq!(answer.expect("no signal"), Answer::TimedOut);
}
