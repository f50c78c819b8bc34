//! Tests that trackers learn of every changed key, whatever kind of change it is and whenever a
//! process dies. Handles of one store act as separate processes.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use undercroft_engine::messages::{ChangedKey, Tracker};
use undercroft_engine::strings::{Condition, SetOptions};
use undercroft_engine::{DATABASES, Error, Expiry, Origin, Store};
use undercroft_memory::fault::die_after;
use undercroft_testkit::fresh::{self, Extent};
use undercroft_testkit::image::Image;
use undercroft_testkit::scenario::{self, Scenario, choose_names};
use undercroft_testkit::state::{self, Content, content_of};

/// The keys that a tracker has returned.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    keys: BTreeSet<Vec<u8>>,
    all: bool,
}

impl Told {
    fn by(tracker: &mut Tracker<&Store>) -> Told {
        let mut told = Told::default();
        let collected = tracker.collect(|changed| match changed {
            ChangedKey::Key(key, _) => drop(told.keys.insert(key.to_vec())),
            ChangedKey::All => told.all = true,
        });
        collected.expect("no lock is held");
        told
    }

    /// Checks that the tracker was told of each key that differs.
    fn check(&self, before: &Content, after: &Content, context: &str) {
        let keys = before.keys().chain(after.keys());
        for key in keys.filter(|(database, _)| *database < DATABASES) {
            let is_same = before.get(key) == after.get(key);
            assert!(
                is_same || self.all || self.keys.contains(&key.1),
                "{context}: key {:?} of database {} changed",
                String::from_utf8_lossy(&key.1),
                key.0
            );
        }
    }
}

fn tracker(store: &Store) -> Tracker<&Store> {
    let mut tracker = Tracker::new(store);
    tracker.begin().expect("room");
    tracker.track_all().expect("no lock");
    tracker
}

/// Returns the image of a store that a process has prepared for a change before it ended, and a
/// directory for copies.
fn prepared(scenario: &Scenario) -> (tempfile::TempDir, Image) {
    let directory = fresh::directory();
    let base = directory.path().join("base");
    let store = state::create(&base);
    (scenario.prepare)(&store);
    drop(store);
    let file = std::fs::File::open(&base).expect("just made");
    (directory, Image::read(&file).expect("an image"))
}

#[test]
fn every_kind_of_change_is_told() {
    choose_names();
    let mut changes = 0;
    for scenario in scenario::all() {
        let (directory, image) = prepared(scenario);
        let path = directory.path().join("store");
        image.write_to(&path).expect("room for a copy");
        let store = state::open(&path).expect("a whole store");
        let watching = state::open(&path).expect("a whole store");
        let mut tracker = tracker(&watching);
        let before = content_of(&watching).expect("a whole store");
        (scenario.act)(&store);
        let after = content_of(&watching).expect("a whole store");
        changes += usize::from(before != after);
        Told::by(&mut tracker).check(&before, &after, scenario.name);
    }
    assert!(changes > 100, "{changes} changes");
}

/// Dies after `steps` steps of a change that a tracker watches. Returns false if the change was
/// completed first.
fn die_watched(scenario: &Scenario, (image, path): (&Image, &Path), steps: u64) -> bool {
    image.write_to(path).expect("room for a copy");
    let watching = state::open(path).expect("a whole store");
    let mut tracker = tracker(&watching);
    let before = content_of(&watching).expect("a whole store");
    let store = state::open(path).expect("a whole store");
    let died = die_after(steps, || (scenario.act)(&store)).is_none();
    if died {
        store.abandon();
    }
    // Reads see the old or the new state even before the recovery, and the records of that state.
    let between = content_of(&watching).expect("a whole store");
    let mut told = Told::by(&mut tracker);
    let context = format!("{}, dead after {steps} steps", scenario.name);
    told.check(&before, &between, &context);
    watching.recover().expect("a recovery");
    let after = content_of(&watching).expect("a whole store");
    let later = Told::by(&mut tracker);
    told.keys.extend(later.keys);
    told.all |= later.all;
    told.check(&before, &after, &context);
    let problems = watching.check().expect("a check").problems;
    assert_eq!(problems, Vec::<String>::new(), "{context}");
    died
}

#[test]
fn change_of_a_killed_process_is_told_if_it_is_kept() {
    choose_names();
    let mut random = fastrand::Rng::with_seed(fresh::seed());
    let (mut deaths, deaths_each) = (0, 12);
    for scenario in fresh::chosen(Extent::Part, &mut random, |_| true) {
        let (directory, image) = prepared(scenario);
        let path = directory.path().join("store");
        let mut steps = random.u64(..8);
        for _ in 0..deaths_each {
            let died = die_watched(scenario, (&image, &path), steps);
            std::fs::remove_file(&path).expect("just made");
            if !died {
                break;
            }
            deaths += 1;
            steps += random.u64(1..20);
        }
    }
    assert!(deaths > 100, "{deaths} deaths");
}

#[test]
fn rolled_back_change_is_not_told() {
    let (_directory, store) = fresh::store(1);
    let mut tracker = tracker(&store);
    let failed = store.transact(store.all_shards(), |running| {
        running.access().set(0, b"key", b"value")?;
        Err::<(), _>(Error::Overflow)
    });
    assert!(failed.is_err());
    assert_eq!(Told::by(&mut tracker), Told::default());
    let done = store.transact(store.all_shards(), |running| {
        let access = running.access();
        access.set(0, b"kept", b"value")?;
        let savepoint = running.savepoint();
        access.set(0, b"undone", b"value")?;
        running.roll_back_to(&savepoint)
    });
    done.expect("room");
    let told = Told::by(&mut tracker);
    assert!(told.keys.iter().eq([&b"kept"[..]]) && !told.all, "{told:?}");
}

#[test]
fn more_keys_than_a_ring_holds_stand_for_all() {
    let (_directory, store) = fresh::store(1);
    let (mut fast, mut slow) = (tracker(&store), tracker(&store));
    let long = [b'k'; 4000];
    let set = |number: u32| {
        let key = [&number.to_le_bytes()[..], &long].concat();
        store.set(0, &key, b"value").expect("room");
        key
    };
    for number in 0..100 {
        let key = set(number);
        let told = Told::by(&mut fast);
        assert!(told.keys.iter().eq([&key]) && !told.all);
    }
    assert!(Told::by(&mut slow).all, "it was overwritten");
    let key = set(100);
    for tracker in [&mut fast, &mut slow] {
        let told = Told::by(tracker);
        assert!(told.keys.iter().eq([&key]) && !told.all);
    }
    // One transaction does not record more than half a ring.
    let done = store.transact(store.all_shards(), |running| {
        for number in 0..100_u32 {
            let key = [&number.to_le_bytes()[..], &long].concat();
            running.access().set(0, &key, b"other")?;
        }
        Ok::<_, Error>(())
    });
    done.expect("room");
    assert!(Told::by(&mut fast).all);
    // Nor a key that is longer than a part of it.
    store.set(0, &[b'k'; 100_000], b"value").expect("room");
    assert!(Told::by(&mut fast).all);
}

#[test]
fn changes_are_attributed_to_clients() {
    let (_directory, store) = fresh::store(1);
    let mut tracker = tracker(&store);
    let origin = NonZero::new(tracker.origin_of(7)).expect("not 0");
    store.set_time(1000);
    let expires = SetOptions {
        condition: Condition::Always,
        expiry: Expiry::At(2000),
    };
    store.set(0, b"other", b"value").expect("room");
    {
        let _origin = Origin::set(origin);
        store.set_with(0, b"own", b"value", expires).expect("room");
        store.set_time(3000);
        // The key has expired, although it is found by a client.
        assert!(!store.delete(0, &[b"own"]).is_ok_and(|count| count > 0));
    }
    let mut told = Vec::new();
    let collected = tracker.collect(|changed| match changed {
        ChangedKey::Key(key, origin) => told.push((key.to_vec(), origin)),
        ChangedKey::All => panic!("few keys were changed"),
    });
    collected.expect("no lock is held");
    let expected = [(&b"other"[..], 0), (b"own", origin.get()), (b"own", 0)];
    assert!(
        told.iter()
            .map(|(key, origin)| (&key[..], *origin))
            .eq(expected),
        "{told:?}"
    );
}

#[test]
fn nothing_is_recorded_without_trackers() {
    let (_directory, store) = fresh::store(1);
    let mut first = tracker(&store);
    store.set(0, b"a", b"value").expect("room");
    assert_eq!(Told::by(&mut first).keys.len(), 1);
    first.end();
    store.set(0, b"b", b"value").expect("room");
    first.begin().expect("room");
    first.track_all().expect("no lock");
    assert_eq!(Told::by(&mut first), Told::default());
    store.set(0, b"c", b"value").expect("room");
    assert_eq!(Told::by(&mut first).keys.len(), 1);
}

#[test]
fn place_of_a_dead_tracker_is_cleared() {
    let directory = fresh::directory();
    let path = directory.path().join("store");
    let (store, dead) = (fresh::handle(&path), fresh::handle(&path));
    let mut lost = tracker(&dead);
    store.set(0, b"key", b"value").expect("room");
    assert_eq!(Told::by(&mut lost).keys.len(), 1);
    let tracked = |store: &Store| store.access().is_tracked();
    assert!(tracked(&store));
    std::mem::forget(lost);
    dead.abandon();
    assert!(store.free_all_of_the_dead().expect("no lock is held") > 0);
    assert!(!tracked(&store));
}

#[test]
fn descriptor_announces_changes() {
    let directory = fresh::directory();
    let path = directory.path().join("store");
    let (store, other) = (fresh::handle(&path), fresh::handle(&path));
    let mut tracker = tracker(&other);
    let _ = tracker.descriptor().expect("a descriptor");
    let mut rung = false;
    for number in 0..20_u32 {
        assert!(!tracker.arm(rung) || Told::by(&mut tracker) == Told::default());
        store.set(0, &number.to_le_bytes(), b"value").expect("room");
        let descriptor = tracker.descriptor().expect("a descriptor");
        let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
        assert_eq!(poll(&mut polled, None).expect("no signal"), 1);
        rung = true;
        let told = Told::by(&mut tracker);
        assert!(
            told.keys.iter().eq([&number.to_le_bytes().to_vec()]),
            "{told:?}"
        );
    }
}

#[test]
fn only_tracked_keys_are_told() {
    let (_directory, store) = fresh::store(1);
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut tracker = Tracker::new(&store);
    let mut tracked = tracker.begin().expect("room");
    let mut model = BTreeSet::new();
    let (mut changes, mut spurious) = (0, 0);
    for round in 0..2000 {
        let key = format!("key {}", random.u32(..100)).into_bytes();
        match random.u32(..20) {
            0..5 => drop(tracked.add(&key, model.insert(key.clone()))),
            5..9 if model.remove(&key) => tracked.remove(&key),
            9 if random.bool() => {
                tracked.clear();
                model.clear();
            }
            _ => {}
        }
        let key = format!("key {}", random.u32(..100)).into_bytes();
        let database = random.usize(..DATABASES);
        store.set(database, &key, &[round as u8]).expect("room");
        let told = Told::by(&mut tracker);
        assert!(!told.all && told.keys.iter().all(|told| *told == key));
        let is_tracked = model.contains(&key);
        assert!(told.keys.len() == 1 || !is_tracked, "seed {seed}");
        changes += 1;
        spurious += usize::from(!is_tracked && told.keys.len() == 1);
    }
    assert!(spurious < changes / 20, "{spurious} (seed {seed})");
    tracker.track_all().expect("no lock");
    store.set(0, b"other", b"value").expect("room");
    assert_eq!(Told::by(&mut tracker).keys.len(), 1);
    tracker.track_fewer();
    store.set(0, b"other", b"value").expect("room");
    assert_eq!(Told::by(&mut tracker).keys.len(), 0, "seed {seed}");
}

#[test]
fn key_that_is_read_during_a_transaction_is_in_doubt() {
    let directory = fresh::directory();
    let path = directory.path().join("store");
    let (store, server) = (fresh::handle(&path), fresh::handle(&path));
    let mut tracker = Tracker::new(&server);
    let mut tracked = tracker.begin().expect("room");
    let mut in_doubt = false;
    let done = store.transact(store.all_shards(), |running| {
        running.access().set(0, b"key", b"value")
    });
    done.expect("room");
    let tracked = std::sync::Mutex::new(&mut tracked);
    let doubt = std::sync::Mutex::new(&mut in_doubt);
    let done = store.transact(store.all_shards(), |running| {
        running.access().set(0, b"key", b"other")?;
        **doubt.lock().expect("one thread") = tracked.lock().expect("one thread").add(b"key", true);
        Ok::<_, Error>(())
    });
    done.expect("room");
    assert!(in_doubt);
}

#[test]
fn change_after_a_read_is_told_or_was_in_doubt() {
    const ROUNDS: u64 = 50_000;
    let directory = fresh::directory();
    let path = directory.path().join("store");
    let (store, server) = (fresh::handle(&path), fresh::handle(&path));
    let seed = fresh::seed();
    // One change is made in each round, at any moment.
    let (begun, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let wait_for = |counter: &AtomicU64, round: u64| {
        while counter.load(Ordering::Acquire) < round {
            std::hint::spin_loop();
        }
    };
    let pause = |most: u32, random: &mut fastrand::Rng| {
        (0..random.u32(..most)).for_each(|_| std::hint::spin_loop());
    };
    let set = |round: u64| {
        let done = store.transact(store.all_shards(), |running| {
            running.access().set(0, b"key", &round.to_le_bytes())?;
            // The transaction lasts for a while after the change.
            (0..10_u8).try_for_each(|other| running.access().set(0, &[other], b"value"))
        });
        done.expect("room");
    };
    set(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = fastrand::Rng::with_seed(seed);
            for round in 1..=ROUNDS {
                wait_for(&begun, round);
                pause(5, &mut random);
                set(round);
                done.store(round, Ordering::Release);
            }
        });
        let mut random = fastrand::Rng::with_seed(!seed);
        let mut tracker = Tracker::new(&server);
        let mut tracked = tracker.begin().expect("room");
        let (mut outdated, mut doubts, mut missed) = (0, 0, Vec::new());
        for round in 1..=ROUNDS {
            begun.store(round, Ordering::Release);
            pause(100, &mut random);
            let in_doubt = tracked.add(b"key", true);
            let mut found = Vec::new();
            server.get(0, b"key", &mut found).expect("no lock");
            wait_for(&done, round);
            let told = Told::by(&mut tracker);
            let is_told = told.all || told.keys.contains(&b"key"[..]);
            if found != round.to_le_bytes() {
                outdated += 1;
                doubts += usize::from(!is_told);
                if !is_told && !in_doubt {
                    missed.push(round);
                }
            }
            tracked.remove(b"key");
        }
        println!("{outdated} outdated values, {doubts} of them only in doubt (seed {seed})");
        assert_eq!(missed, [], "the changes of these rounds were not told");
    });
}
