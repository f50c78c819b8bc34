//! Tests that need access to internals, such as tests of damaged stores and of locks that must not
//! be acquired.

use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use undercroft_memory::{ShardSet, WaitHook};
use undercroft_testkit::fresh;

use super::record::Ticket;
use super::{Take, WaitOutcome, Waiters, Wanted};
use crate::error::Error;
use crate::handle::store::Store;
use crate::types::limits::PackedLimits;
use crate::types::list::End;
use crate::types::sorted::AddRule;

const LEFT: Take = Take::Items {
    end: End::Left,
    count: 1,
};

fn open(path: &Path) -> Store {
    Store::open(path, true).expect("a whole store")
}

/// Makes `clients` clients wait for a key whose shard differs from the shard of their records.
/// Returns the key and the shard of the records.
fn wait(waiters: &mut Waiters<&Store>, clients: usize) -> (Vec<u8>, usize) {
    let store = waiters.store;
    let seat = waiters.seated().expect("a seat");
    let home = store.home_of(seat);
    let keys = (0..100_u8).map(|number| vec![number]);
    let key = { keys }
        .find(|key| store.key(key).shard() != home)
        .expect("a key in another shard");
    let wanted = Wanted {
        database: 0,
        keys: &[&key],
        take: LEFT,
    };
    for _ in 0..clients {
        let begun = waiters.begin(&wanted).expect("room");
        assert!(matches!(begun, WaitOutcome::Waiting(_)));
    }
    (key, home)
}

/// Holds the lock of a shard while `body` runs, or until `body` drops the sender that is passed to
/// it.
fn while_held<R>(path: &Path, shard: usize, body: impl FnOnce(Sender<()>) -> R) -> R {
    let (release, released) = channel::<()>();
    let (holding, held) = channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let store = open(path);
            let done = store.hold(ShardSet::one(shard), || {
                holding.send(()).expect("a client to notify");
                // No value is ever sent, so `recv` fails once the sender is dropped.
                assert!(released.recv().is_err());
            });
            done.expect("the lock");
        });
        held.recv().expect("the lock");
        body(release)
    })
}

#[test]
fn task_delayed_by_a_lock_is_noted_once_and_tried_once() {
    let place = fresh::place(8);
    let (plain, store) = (open(&place.path), open(&place.path));
    store.set_patience(Duration::from_millis(1));
    let mut waiters = Waiters::new(&plain);
    let (key, home) = wait(&mut waiters, 3);
    while_held(&place.path, home, |_release| {
        for _ in 0..20 {
            store
                .list_push(0, &key, End::Right, &[b"item"])
                .expect("room");
        }
        assert_eq!(store.tasks(), 1);
        assert!(store.settle_waits().is_some());
        assert_eq!(store.tasks(), 1);
    });
    assert_eq!(store.settle_waits(), None);
    assert_eq!(plain.list_length(0, &key).expect("a list"), 17);
}

#[test]
fn key_of_another_type_is_skipped_without_a_lock() {
    let place = fresh::place(8);
    let (plain, store) = (open(&place.path), open(&place.path));
    store.set_patience(Duration::from_millis(1));
    let mut waiters = Waiters::new(&plain);
    let (key, home) = wait(&mut waiters, 3);
    while_held(&place.path, home, |_release| {
        let key = store.key(&key);
        let added = store.write(store.shards_of(&[key]), |writer| {
            let (rule, limits) = (AddRule::default(), PackedLimits::SORTED_SET);
            writer.sorted_add(0, &key, &[(b"member", 1.0)], rule, &limits)
        });
        added.expect("room");
        assert_eq!(store.tasks(), 0);
    });
}

/// An action that runs when a thread first sleeps.
struct Meanwhile<F>(Mutex<Option<F>>);

impl<F: FnOnce() + Send> WaitHook for Meanwhile<F> {
    fn blocked(&self, block: &mut dyn FnMut()) {
        let meanwhile = self.0.lock().expect("no panic").take();
        meanwhile.map_or_else(block, |meanwhile| meanwhile());
    }

    fn interrupted(&self) -> bool {
        false
    }
}

#[test]
fn clients_answered_meanwhile_do_not_hide_the_next_waiter() {
    let place = fresh::place(8);
    let plain = open(&place.path);
    let mut waiters = Waiters::new(&plain);
    let (key, home) = wait(&mut waiters, 100);
    let tickets: Vec<Ticket> = waiters.waiting.keys().copied().collect();
    let mut store = open(&place.path);
    while_held(&place.path, home, |release| {
        let other = open(&place.path);
        let first: Vec<Ticket> = tickets[..64].to_vec();
        store.set_wait_hook(Box::new(Meanwhile(Mutex::new(Some(move || {
            drop(release);
            for ticket in first {
                assert!(other.unblock(ticket, false).expect("room"));
            }
        })))));
        store
            .list_push(0, &key, End::Right, &[b"item"])
            .expect("room");
    });
    assert_eq!(plain.list_length(0, &key).expect("a list"), 0);
    let next = waiters.finish(tickets[64]).expect("no lock is held");
    assert!(next.is_some());
}

#[test]
fn ticket_of_a_missing_shard_is_reported_as_damage() {
    let place = fresh::place(8);
    let store = open(&place.path);
    assert_eq!(store.waiter(Ticket::new(7, 1, LEFT)).expect("a look"), None);
    let refused = store.waiter(Ticket::new(8, 1, LEFT));
    assert!(matches!(refused, Err(Error::Memory(_))), "{refused:?}");
}
