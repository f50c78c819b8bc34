//! Tests that exactly one client holds the lease of a key, despite deaths, late holders and
//! concurrent attempts.

use std::collections::HashMap;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use undercroft_engine::leases::{Lease, Leased, lease_key};
use undercroft_engine::{Error, Expiry, Random, Store};
use undercroft_testkit::fresh;

const TERM: Duration = Duration::from_secs(10);
/// A timeout that expires only if a test fails.
const LONG: Duration = Duration::from_secs(60);

fn take(store: &Store, number: u64) -> Option<(Lease, Option<Vec<u8>>)> {
    match store.take_lease(0, b"key", TERM, number).expect("room") {
        Leased::Taken(lease, value) => Some((lease, value)),
        Leased::Held => None,
    }
}

fn taken(store: &Store, number: u64) -> Lease {
    take(store, number).expect("no process has it").0
}

fn value(store: &Store) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let found = store.get(0, b"key", &mut out).expect("readable");
    found.then_some(out)
}

fn set(store: &Store, text: &[u8], lease: &Lease) -> bool {
    let set = store.set_leased(0, b"key", text, Expiry::Never, lease);
    set.expect("room")
}

fn check(store: &Store) {
    let problems = store.check().expect("checked").problems;
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn dead_holder_loses_its_lease_at_once_and_the_next_one_sees_the_value() {
    let place = fresh::place(2);
    let (first, second) = (place.open(), place.open());
    let lost = taken(&first, 1);
    assert!(take(&second, 2).is_none(), "its holder lives");
    drop(first);
    let began = Instant::now();
    second.wait_for_lease(0, b"key", LONG).expect("no wait");
    assert!(
        began.elapsed() < LONG,
        "told of the death, not of the end of time"
    );
    second
        .set(0, b"key", b"set by another client")
        .expect("room");
    let (lease, there) = take(&second, 2).expect("its holder is dead");
    assert_eq!(there.as_deref(), Some(&b"set by another client"[..]));
    assert!(!set(&second, b"x", &lost), "not the lease of this process");
    assert!(set(&second, b"made", &lease));
    assert_eq!(value(&second).as_deref(), Some(&b"made"[..]));
    assert_eq!(second.keys(0), 1, "nothing is left of the leases");
    check(&second);
}

#[test]
fn late_holder_loses_its_lease_to_exactly_one_client_and_stores_nothing() {
    let place = fresh::place(2);
    let first = place.open();
    first.set_boot_time(1_000_000);
    let late = taken(&first, 1);
    let after = 1_000_000 + TERM.as_millis() as u64;
    let barrier = Barrier::new(8);
    let heirs: usize = thread::scope(|scope| {
        let heirs: Vec<_> = (0..8)
            .map(|number| {
                let (place, barrier) = (&place, &barrier);
                scope.spawn(move || {
                    let store = place.open();
                    store.set_boot_time(after - 1);
                    assert!(take(&store, 10 + number).is_none(), "its term is not over");
                    store.set_boot_time(after);
                    barrier.wait();
                    let heir = take(&store, 20 + number);
                    // Wait until every thread has tried to take the lease, before any thread exits.
                    barrier.wait();
                    let is_heir = heir.is_some();
                    if let Some((lease, _)) = heir {
                        assert!(set(&store, b"in time", &lease));
                    }
                    usize::from(is_heir)
                })
            })
            .collect();
        heirs
            .into_iter()
            .map(|heir| heir.join().expect("no panic"))
            .sum()
    });
    assert_eq!(heirs, 1);
    first.set_boot_time(after);
    assert!(!set(&first, b"too late", &late));
    assert!(!first.release_lease(0, b"key", &late).expect("room"));
    assert_eq!(value(&first).as_deref(), Some(&b"in time"[..]));
}

#[test]
fn all_waiters_are_woken_by_a_value_and_by_a_release() {
    let place = fresh::place(2);
    let holder = place.open();
    for store_value in [true, false] {
        let lease = taken(&holder, 1);
        thread::scope(|scope| {
            let waiters: Vec<_> = (0..20)
                .map(|_| {
                    scope.spawn(|| {
                        let store = place.open();
                        let began = Instant::now();
                        store.wait_for_lease(0, b"key", LONG).expect("no wait");
                        assert!(began.elapsed() < LONG);
                        value(&store)
                    })
                })
                .collect();
            match store_value {
                true => assert!(set(&holder, b"made", &lease)),
                false => assert!(holder.release_lease(0, b"key", &lease).expect("room")),
            }
            for waiter in waiters {
                assert_eq!(waiter.join().expect("no panic").is_some(), store_value);
            }
        });
        holder.delete(0, &[b"key"]).expect("room");
    }
    let began = Instant::now();
    let lease = taken(&holder, 1);
    let short = Duration::from_millis(20);
    holder.wait_for_lease(0, b"key", short).expect("no error");
    assert!(began.elapsed() >= short, "it waits for as long as it may");
    assert!(holder.release_lease(0, b"key", &lease).expect("room"));
}

#[test]
fn lease_of_a_server_client_is_respected_until_it_expires() {
    let (_directory, store) = fresh::store(2);
    let name = lease_key(b"key");
    store.set(0, &name, b"0123456789abcdef").expect("room");
    assert!(take(&store, 1).is_none());
    // A lease in the format of a process's lease that names no existing process counts as the lease
    // of a dead process.
    store
        .set(0, &name, &[b"@", &b"f"[..].repeat(48)[..]].concat())
        .expect("room");
    assert!(take(&store, 1).is_some());
}

#[test]
fn clock_step_never_allows_a_second_holder() {
    let place = fresh::place(2);
    let (first, second) = (place.open(), place.open());
    let hour = 60 * 60 * 1000;
    for now in [0, second.now() + 10_000, second.now() + 20 * hour, 1_000] {
        let lease = taken(&first, 1);
        second.set_time(now);
        assert!(take(&second, 2).is_none(), "its term goes on at {now}");
        assert!(set(&first, b"made", &lease));
        first.delete(0, &[b"key"]).expect("room");
    }
    second.set_time(0);
    // A holder whose system clock was stepped can still store a value before its term ends.
    let lease = taken(&first, 1);
    first.set_time(first.now() + hour);
    assert!(set(&first, b"made", &lease));
}

#[test]
fn value_of_another_type_is_an_error_and_stays() {
    let (_directory, store) = fresh::store(2);
    let name = lease_key(b"key");
    for key in [&b"key"[..], &name] {
        let end = undercroft_engine::lists::End::Left;
        store.list_push(0, key, end, &[b"item"]).expect("room");
        let refused = store.take_lease(0, b"key", TERM, 1);
        assert!(matches!(refused, Err(Error::WrongType)), "{refused:?}");
        assert_eq!(store.keys(0), 1);
        store.delete(0, &[key]).expect("room");
    }
}

#[test]
fn values_of_every_size_are_stored() {
    let (_directory, store) = fresh::store(2);
    for length in [0, 100, 5000, 70_000, 3_000_000] {
        let text: Vec<u8> = (0..length).map(|at: u32| (at * 7) as u8).collect();
        let lease = taken(&store, 1);
        assert!(set(&store, &text, &lease));
        assert!(value(&store).is_some_and(|found| found == text));
        assert!(!set(&store, b"again", &lease));
        assert!(value(&store).is_some_and(|found| found == text));
        store.delete(0, &[b"key"]).expect("room");
    }
    check(&store);
}

/// Three processes take, lose, store and release leases of a few keys in random order. The results
/// are compared with a naive model.
#[test]
fn random_changes_match_the_model() {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("SEED={seed}");
    let mut random = Random::new(seed);
    let place = fresh::place(2);
    let mut now = 1_000_000;
    let open = |now: u64| {
        let store = place.open();
        store.set_boot_time(now);
        store
    };
    let mut stores = [open(now), open(now), open(now)];
    // For each key, its value, and its lease with the holder and the end of the term.
    let mut values: HashMap<u8, Vec<u8>> = HashMap::new();
    let mut leases: HashMap<u8, (usize, Lease, u64)> = HashMap::new();
    let mut all: Vec<(u8, usize, Lease)> = Vec::new();
    for number in 0..3000 {
        let (who, key) = (random.below(3) as usize, random.below(4) as u8);
        leases.retain(|_, (_, _, end)| *end > now);
        match random.below(8) {
            0..=2 => {
                let term = 1 + random.below(50);
                let took = Duration::from_millis(term);
                let leased = stores[who]
                    .take_lease(0, &[key], took, number)
                    .expect("room");
                match (leased, leases.get(&key)) {
                    (Leased::Held, Some(_)) => {}
                    (Leased::Taken(lease, value), None) => {
                        assert_eq!(value.as_ref(), values.get(&key));
                        all.push((key, who, lease.clone()));
                        leases.insert(key, (who, lease, now + term));
                    }
                    (leased, known) => panic!("{number}: {leased:?} where it is {known:?}"),
                }
            }
            3..=5 => {
                // Choose one of the most recently taken leases, most of which have ended.
                let recent = all.len().saturating_sub(6);
                let Some((key, holder, lease)) = all.get(recent + random.below(6) as usize) else {
                    continue;
                };
                let is_held = leases.get(key).is_some_and(|(_, held, _)| held == lease);
                let done = if random.below(2) == 0 {
                    let text = number.to_string().into_bytes();
                    if is_held {
                        values.insert(*key, text.clone());
                    }
                    stores[*holder].set_leased(0, &[*key], &text, Expiry::Never, lease)
                } else {
                    stores[*holder].release_lease(0, &[*key], lease)
                };
                assert_eq!(done.expect("room"), is_held, "{number}");
                if is_held {
                    leases.remove(key);
                }
            }
            6 => {
                now += random.below(30);
                stores.iter().for_each(|store| store.set_boot_time(now));
            }
            _ if random.below(4) == 0 => {
                // The process dies, and a new process replaces it.
                stores[who] = open(now);
                leases.retain(|_, (holder, _, _)| *holder != who);
                // A process that was found alive counts as alive for a moment, so wait until its
                // death has been noticed.
                for (store, key) in stores
                    .iter()
                    .flat_map(|store| (0..4).map(move |key| (store, key)))
                {
                    if !leases.contains_key(&key) {
                        store.wait_for_lease(0, &[key], LONG).expect("no error");
                    }
                }
                all.retain(|(_, holder, _)| *holder != who);
            }
            _ => {}
        }
    }
    check(&stores[0]);
}
