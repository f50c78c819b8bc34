//! Tests of transactions that consist of many commands.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use undercroft_engine::{Access, Error, Expiry, ShardSet, Store};
use undercroft_testkit::fresh;

fn get(store: &Store, key: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    store
        .get(0, key, &mut out)
        .expect("readable")
        .then_some(out)
}

#[test]
fn command_sees_the_changes_of_earlier_commands() {
    let (_directory, store) = fresh::store(4);
    store.set(0, b"counter", b"5").expect("room");
    let keys = [store.key(b"counter"), store.key(b"other")];
    let seen = store.transact(store.shards_of(&keys), |running| {
        let access = running.access();
        assert_eq!(access.increment(0, b"counter", 2)?, 7);
        access.set(0, b"other", b"new")?;
        assert_eq!(access.exists(0, &[b"counter", b"other", b"none"])?, 2);
        let mut out = Vec::new();
        assert!(access.get(0, b"counter", &mut out)?);
        Ok::<_, Error>(out)
    });
    assert_eq!(seen.expect("no lock is held"), b"7");
    assert_eq!(get(&store, b"other").as_deref(), Some(&b"new"[..]));
}

#[test]
fn error_rolls_back_all_commands() {
    let (_directory, store) = fresh::store(4);
    store.set(0, b"text", b"not a number").expect("room");
    let failed = store.transact(store.all_shards(), |running| {
        let access = running.access();
        access.set(0, b"new", b"value")?;
        access.delete(0, &[b"text"])?;
        access.set(0, b"text", b"still none")?;
        access.increment(0, b"text", 1)
    });
    assert!(matches!(failed, Err(Error::NotAnInteger)), "{failed:?}");
    assert_eq!(get(&store, b"new"), None);
    assert_eq!(get(&store, b"text").as_deref(), Some(&b"not a number"[..]));
}

#[test]
fn failed_command_rolls_back_only_its_own_changes() {
    let (_directory, store) = fresh::store(4);
    let kept = store.transact(store.all_shards(), |running| {
        let access = running.access();
        access.attempt(|| access.set(0, b"first", b"1"))??;
        let failed = access.attempt(|| {
            access.set(0, b"first", b"2")?;
            access.set(0, b"second", b"2")?;
            Err::<(), _>(Error::TooLong)
        })?;
        assert!(matches!(failed, Err(Error::TooLong)), "{failed:?}");
        Ok::<_, Error>(())
    });
    kept.expect("no lock is held");
    assert_eq!(get(&store, b"first").as_deref(), Some(&b"1"[..]));
    assert_eq!(get(&store, b"second"), None);
}

#[test]
fn unforeseen_shard_makes_the_transaction_run_again() {
    let (_directory, store) = fresh::store(4);
    let runs = AtomicU32::new(0);
    let first = store.key(b"first");
    let strange = (0..100_u8)
        .map(|number| [number])
        .find(|name| store.key(name).shard() != first.shard())
        .expect("a key of another shard");
    let done = store.transact(store.shards_of([&first]), |running| {
        runs.fetch_add(1, Ordering::Relaxed);
        let access = running.access();
        access.set(0, b"first", b"1")?;
        // A command can ignore this error, but the transaction still runs again.
        let _ = access.set(0, &strange, b"2");
        Ok::<_, Error>(access.count_keys(0).unwrap_or(0))
    });
    assert_eq!(done.expect("no lock is held"), 2);
    assert!(runs.into_inner() > 1, "no shard was missing");
    assert_eq!(get(&store, &strange).as_deref(), Some(&b"2"[..]));
}

#[test]
fn transaction_runs_again_with_more_memory() {
    let (_directory, store) = fresh::store(4);
    let value = vec![b'x'; 100_000];
    let runs = AtomicU32::new(0);
    store
        .transact(store.all_shards(), |running| {
            runs.fetch_add(1, Ordering::Relaxed);
            for number in 0..50_u8 {
                let set = running.access().set(0, &[number], &value);
                assert_eq!(set.is_err(), running.starts_again());
                set?;
            }
            Ok::<_, Error>(())
        })
        .expect("room");
    assert!(runs.into_inner() > 1, "all memory was there from the start");
    assert_eq!(store.count_keys(0).expect("no lock is held"), 50);
    let report = store.check().expect("no lock is held");
    assert_eq!(report.problems, Vec::<String>::new());
}

#[test]
fn scans_and_flushes_work_within_a_transaction() {
    let (_directory, store) = fresh::store(4);
    for number in 0..100_u8 {
        store.set(0, &[number], b"value").expect("room");
    }
    store.set(3, b"elsewhere", b"value").expect("room");
    let counts = store.transact(ShardSet::EMPTY, |running| {
        let access = running.access();
        let before = access.keys_where(0, |_| Ok(true))?.len();
        assert!(access.random_key(0, 7)?.is_some());
        let removed = access.flush(&[0], true)?;
        assert_eq!(access.random_key(0, 7)?, None);
        access.write(access.all_shards(), |writer| writer.swap_databases(0, 3))?;
        access.write(access.shards_of([&access.key(b"x")]), |writer| {
            writer.set(0, &writer.key(b"x"), b"y", Expiry::Never)
        })?;
        Ok::<_, Error>((before, removed, access.count_keys(0)?))
    });
    assert_eq!(counts.expect("no lock is held"), (100, 100, 2));
    assert_eq!(get(&store, b"elsewhere").as_deref(), Some(&b"value"[..]));
    assert_eq!(store.count_keys(3).expect("no lock is held"), 0);
}

/// Runs one command of a random transaction, both on the store and on its model.
fn random_command(random: &mut fastrand::Rng, access: &Access<'_>, twin: &mut Twin) -> bool {
    let names: Vec<Vec<u8>> = (0..12_u8).map(|number| vec![b'k', number]).collect();
    let (name, other) = (&names[random.usize(..12)], &names[random.usize(..12)]);
    let database = random.usize(..2);
    let (key, other_key) = (access.key(name), access.key(other));
    let place = (database, name.clone());
    let length = [3, 60, 900, 5_000, 70_000][random.usize(..5)];
    let value: Vec<u8> = std::iter::repeat_n(random.u8(..), length).collect();
    let done = match random.u8(..6) {
        0 | 1 => {
            twin.insert(place, value.clone());
            access.set(database, name, &value)
        }
        2 => {
            twin.entry(place).or_default().extend(&value);
            access.write(access.shards_of([&key]), |writer| {
                writer.append(database, &key, &value).map(drop)
            })
        }
        3 => {
            twin.remove(&place);
            access.delete(database, &[name]).map(drop)
        }
        4 => {
            if name != other
                && let Some(value) = twin.remove(&place)
            {
                twin.insert((database, other.clone()), value);
            }
            access.write(access.shards_of([&key, &other_key]), |writer| {
                writer.rename(database, &key, &other_key).map(drop)
            })
        }
        _ => {
            let target = (1 - database, name.clone());
            let free = !twin.contains_key(&target);
            if free && let Some(value) = twin.remove(&place) {
                twin.insert(target, value);
            }
            access.write(access.shards_of([&key]), |writer| {
                if free {
                    writer.move_to(&key, database, 1 - database)?;
                }
                Ok(())
            })
        }
    };
    assert!(matches!(&done, Ok(()) | Err(Error::Memory(_))), "{done:?}");
    done.is_ok()
}

type Twin = BTreeMap<(usize, Vec<u8>), Vec<u8>>;

#[test]
fn random_commands_roll_back_to_any_savepoint() {
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let (_directory, store) = fresh::store(4);
    let mut twin = Twin::new();
    let (mut undone, mut aborted) = (0, 0);
    for round in 0..400 {
        let abort = random.u8(..8) == 0;
        let seed_of_round = random.u64(..);
        let done = store.transact(store.all_shards(), |running| {
            let (mut twin, mut random) = (twin.clone(), fastrand::Rng::with_seed(seed_of_round));
            let mut undone = 0;
            let access = running.access();
            let mut savepoints = Vec::new();
            for _ in 0..random.usize(1..25) {
                match random.u8(..10) {
                    0 | 1 => savepoints.push((running.savepoint(), twin.clone())),
                    2 if !savepoints.is_empty() => {
                        savepoints.truncate(random.usize(1..=savepoints.len()));
                        let (savepoint, old) = &savepoints[savepoints.len() - 1];
                        running.roll_back_to(savepoint)?;
                        twin = old.clone();
                        undone += 1;
                    }
                    _ if !random_command(&mut random, &access, &mut twin) => {
                        assert!(running.starts_again(), "seed {seed}, round {round}");
                        return Err(Error::Overflow);
                    }
                    _ => {}
                }
            }
            if abort {
                Err(Error::TooLong)
            } else {
                Ok((twin, undone))
            }
        });
        match done {
            Ok((after, count)) => {
                assert!(!abort);
                twin = after;
                undone += count;
            }
            Err(Error::TooLong) if abort => aborted += 1,
            Err(error) => panic!("seed {seed}, round {round}: {error}"),
        }
        let count = |database| store.count_keys(database).expect("no lock is held");
        assert_eq!(
            count(0) + count(1),
            twin.len() as u64,
            "seed {seed}, round {round}"
        );
        for ((database, name), value) in &twin {
            let mut out = Vec::new();
            assert!(store.get(*database, name, &mut out).expect("readable"));
            assert_eq!(out, *value, "seed {seed}, round {round}");
        }
        let report = store.check().expect("no lock is held");
        assert_eq!(
            report.problems,
            Vec::<String>::new(),
            "seed {seed}, round {round}"
        );
    }
    assert!(
        undone > 100_u32 && aborted > 10,
        "{undone} undone, {aborted} aborted"
    );
    (0..2).for_each(|database| {
        store.flush(&[database], true).expect("no lock is held");
    });
    assert_eq!(store.used_memory(), 0, "seed {seed}");
}

#[test]
fn clock_is_frozen_within_a_transaction() {
    let (_directory, store) = fresh::store(4);
    let system = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.expect("a time since 1970").as_millis() as u64
    };
    let times = store.transact(store.all_shards(), |running| {
        let (first, start) = (running.access().now(), system());
        // Wait until the system clock has advanced.
        while system() <= start + 1 {
            std::hint::spin_loop();
        }
        Ok::<_, Error>((first, running.access().now()))
    });
    let (first, second) = times.expect("no lock is held");
    assert_eq!(first, second);
    assert!(store.now() > second);
}
