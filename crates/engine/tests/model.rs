//! Compares keys and strings with a naive model. Each run of random operations is followed by a
//! comparison of all data and a structural check.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use undercroft_engine::strings::{Condition, SetOptions};
use undercroft_engine::{Error, Expiry, Options, Store};
use undercroft_numbers::parse_integer;

const START: u64 = 1_000_000;

#[derive(Clone, Debug, PartialEq)]
struct Value {
    bytes: Vec<u8>,
    expiry: Option<u64>,
}

/// The naive model, which consists of a map for each database and the current time.
#[derive(Default)]
struct Model {
    databases: [BTreeMap<Vec<u8>, Value>; 2],
    now: u64,
}

impl Model {
    fn live(&mut self, database: usize, key: &[u8]) -> Option<Value> {
        let now = self.now;
        let map = &mut self.databases[database];
        if map
            .get(key)
            .is_some_and(|value| value.expiry.is_some_and(|at| at <= now))
        {
            map.remove(key);
        }
        map.get(key).cloned()
    }

    fn put(&mut self, database: usize, key: &[u8], bytes: Vec<u8>, expiry: Option<u64>) {
        self.databases[database].insert(key.to_vec(), Value { bytes, expiry });
    }
}

#[derive(Clone, Debug)]
enum Op {
    Set(u16, Vec<u8>),
    SetNx(u16, Vec<u8>, u64),
    SetKeep(u16, Vec<u8>),
    Get(u16),
    Delete(Vec<u16>),
    Increment(u16, i64),
    Append(u16, Vec<u8>),
    SetRange(u16, u64, Vec<u8>),
    Expire(u16, Option<u64>),
    Rename(u16, u16),
    Copy(u16, u16),
    Move(u16),
    SetMany(Vec<(u16, Vec<u8>)>),
    GetMany(Vec<u16>),
    Fill(u16, u16),
    Clear(u16, u16),
    Advance(u64),
    Swap,
    Flush(bool),
    Sweep,
    Scan(u64),
    Switch,
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..100),
        3 => any::<i64>().prop_map(|value| value.to_string().into_bytes()),
        2 => (0_i64..100).prop_map(|value| value.to_string().into_bytes()),
        2 => (any::<u8>(), 0_usize..6000).prop_map(|(byte, length)| vec![byte; length]),
        1 => (any::<u8>(), 10_000_usize..400_000).prop_map(|(byte, length)| vec![byte; length]),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0_u16..60;
    prop_oneof![
        8 => (key(), bytes()).prop_map(|(key, value)| Op::Set(key, value)),
        3 => (key(), bytes(), 1_u64..5000).prop_map(|(key, value, ms)| Op::SetNx(key, value, ms)),
        2 => (key(), bytes()).prop_map(|(key, value)| Op::SetKeep(key, value)),
        6 => key().prop_map(Op::Get),
        4 => prop::collection::vec(key(), 1..5).prop_map(Op::Delete),
        3 => (key(), prop_oneof![any::<i64>(), -10_i64..10]).prop_map(|(key, by)| Op::Increment(key, by)),
        4 => (key(), bytes()).prop_map(|(key, value)| Op::Append(key, value)),
        4 => (key(), 0_u64..9000, bytes()).prop_map(|(key, at, value)| Op::SetRange(key, at, value)),
        4 => (key(), prop::option::of(0_u64..5000)).prop_map(|(key, at)| Op::Expire(key, at)),
        3 => (key(), key()).prop_map(|(from, to)| Op::Rename(from, to)),
        3 => (key(), key()).prop_map(|(from, to)| Op::Copy(from, to)),
        2 => key().prop_map(Op::Move),
        2 => prop::collection::vec((key(), bytes()), 1..6).prop_map(Op::SetMany),
        2 => prop::collection::vec(key(), 1..6).prop_map(Op::GetMany),
        2 => (0_u16..2000, 1_u16..600).prop_map(|(from, count)| Op::Fill(from, count)),
        2 => (0_u16..2000, 1_u16..900).prop_map(|(from, count)| Op::Clear(from, count)),
        2 => (1_u64..3000).prop_map(Op::Advance),
        1 => Just(Op::Swap),
        1 => any::<bool>().prop_map(Op::Flush),
        1 => Just(Op::Sweep),
        2 => (1_u64..50).prop_map(Op::Scan),
        1 => Just(Op::Switch),
    ]
}

fn name(key: u16) -> Vec<u8> {
    // Some keys are long, and the length of one key does not fit in an entry's header.
    match key % 20 {
        7 => format!("{key}-{}", "k".repeat(3000)).into_bytes(),
        13 if key == 33 => vec![b'x'; 70_000],
        _ => format!("key:{key}").into_bytes(),
    }
}

fn apply(store: &Store, model: &mut Model, database: &mut usize, op: &Op) {
    let db = *database;
    match op {
        Op::Set(key, value) => {
            store.set(db, &name(*key), value).unwrap();
            model.put(db, &name(*key), value.clone(), None);
        }
        Op::SetNx(key, value, after) => {
            let options = SetOptions {
                condition: Condition::IfMissing,
                expiry: Expiry::At(model.now + after),
            };
            let done = store.set_with(db, &name(*key), value, options).unwrap();
            assert_eq!(done, model.live(db, &name(*key)).is_none());
            if done {
                model.put(db, &name(*key), value.clone(), Some(model.now + after));
            }
        }
        Op::SetKeep(key, value) => {
            let options = SetOptions {
                condition: Condition::IfPresent,
                expiry: Expiry::Keep,
            };
            let done = store.set_with(db, &name(*key), value, options).unwrap();
            let old = model.live(db, &name(*key));
            assert_eq!(done, old.is_some());
            if let Some(old) = old {
                model.put(db, &name(*key), value.clone(), old.expiry);
            }
        }
        Op::Get(key) => {
            let mut out = b"before".to_vec();
            let found = store.get(db, &name(*key), &mut out).unwrap();
            let expected = model.live(db, &name(*key)).map(|value| value.bytes);
            assert_eq!(found.then_some(out), expected);
        }
        Op::Delete(keys) => {
            let names: Vec<_> = keys.iter().map(|&key| name(key)).collect();
            let slices: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
            let mut expected = 0;
            for key in &names {
                expected += u64::from(model.live(db, key).is_some());
                model.databases[db].remove(key);
            }
            assert_eq!(store.delete(db, &slices).unwrap(), expected);
        }
        Op::Increment(key, by) => {
            let result = store.increment(db, &name(*key), *by);
            let old = model.live(db, &name(*key));
            let number = match &old {
                None => Some(0),
                Some(value) => parse_integer(&value.bytes),
            };
            match (number, number.and_then(|number| number.checked_add(*by))) {
                (None, _) => assert!(matches!(result, Err(Error::NotAnInteger)), "{result:?}"),
                (_, None) => assert!(matches!(result, Err(Error::Overflow)), "{result:?}"),
                (_, Some(sum)) => {
                    assert_eq!(result.unwrap(), sum);
                    let expiry = old.and_then(|old| old.expiry);
                    model.put(db, &name(*key), sum.to_string().into_bytes(), expiry);
                }
            }
        }
        Op::Append(key, more) => {
            let name = name(*key);
            let hashed = store.key(&name);
            let length = store
                .write(store.shards_of([&hashed]), |writer| {
                    writer.append(db, &hashed, more)
                })
                .unwrap();
            let old = model.live(db, &name);
            let expiry = old.as_ref().and_then(|old| old.expiry);
            let mut bytes = old.map(|old| old.bytes).unwrap_or_default();
            bytes.extend_from_slice(more);
            assert_eq!(length, bytes.len() as u64);
            model.put(db, &name, bytes, expiry);
        }
        Op::SetRange(key, at, more) => {
            let name = name(*key);
            let hashed = store.key(&name);
            let length = store
                .write(store.shards_of([&hashed]), |writer| {
                    writer.set_range(db, &hashed, *at, more)
                })
                .unwrap();
            let old = model.live(db, &name);
            let expiry = old.as_ref().and_then(|old| old.expiry);
            let there = old.is_some();
            let mut bytes = old.map(|old| old.bytes).unwrap_or_default();
            if !more.is_empty() {
                let end = *at as usize + more.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[*at as usize..end].copy_from_slice(more);
            }
            assert_eq!(length, bytes.len() as u64);
            if there || !more.is_empty() {
                model.put(db, &name, bytes, expiry);
            }
        }
        Op::Expire(key, after) => {
            let name = name(*key);
            let at = after.map(|after| model.now + after);
            let done = match at {
                Some(at) => store.expire_at(db, &name, at).unwrap(),
                None => {
                    let hashed = store.key(&name);
                    store
                        .write(store.shards_of([&hashed]), |writer| {
                            writer.set_expiry(db, &hashed, None)
                        })
                        .unwrap()
                }
            };
            let old = model.live(db, &name);
            assert_eq!(done, old.is_some());
            if let Some(old) = old {
                model.put(db, &name, old.bytes, at);
                let left = model.live(db, &name).map(|value| value.expiry);
                assert_eq!(store.expiry(db, &name).unwrap(), left);
            }
        }
        Op::Rename(from, to) => {
            let (from, to) = (name(*from), name(*to));
            let keys = [store.key(&from), store.key(&to)];
            let done = store
                .write(store.shards_of(&keys), |writer| {
                    writer.rename(db, &keys[0], &keys[1])
                })
                .unwrap();
            let value = model.live(db, &from);
            assert_eq!(done, value.is_some());
            if let Some(value) = value {
                model.databases[db].remove(&from);
                model.databases[db].insert(to, value);
            }
        }
        Op::Copy(from, to) => {
            let (from, to) = (name(*from), name(*to));
            let keys = [store.key(&from), store.key(&to)];
            let free = model.live(1 - db, &to).is_none();
            let done = store
                .write(store.shards_of(&keys), |writer| {
                    if writer.find(1 - db, &keys[1])?.is_some() {
                        return Ok::<_, Error>(false);
                    }
                    writer.copy((db, &keys[0]), (1 - db, &keys[1]))
                })
                .unwrap();
            let value = model.live(db, &from);
            assert_eq!(done, value.is_some() && free);
            if done {
                model.databases[1 - db].insert(to, value.unwrap());
            }
        }
        Op::Move(key) => {
            let name = name(*key);
            let hashed = store.key(&name);
            let done = store
                .write(store.shards_of([&hashed]), |writer| {
                    if writer.find(1 - db, &hashed)?.is_some() {
                        return Ok::<_, Error>(false);
                    }
                    writer.move_to(&hashed, db, 1 - db)
                })
                .unwrap();
            let free = model.live(1 - db, &name).is_none();
            let value = model.live(db, &name);
            assert_eq!(done, value.is_some() && free);
            if done {
                model.databases[db].remove(&name);
                model.databases[1 - db].insert(name, value.unwrap());
            }
        }
        Op::SetMany(pairs) => {
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(key, value)| (name(*key), value))
                .collect();
            let slices: Vec<(&[u8], &[u8])> = pairs
                .iter()
                .map(|(key, value)| (key.as_slice(), value.as_slice()))
                .collect();
            store.set_many(db, &slices).unwrap();
            for (key, value) in pairs {
                model.put(db, &key, value.clone(), None);
            }
        }
        Op::GetMany(keys) => {
            let names: Vec<_> = keys.iter().map(|&key| name(key)).collect();
            let slices: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
            let expected: Vec<_> = names
                .iter()
                .map(|key| model.live(db, key).map(|value| value.bytes))
                .collect();
            assert_eq!(store.get_many(db, &slices).unwrap(), expected);
        }
        Op::Fill(from, count) => {
            for key in *from..from + count {
                store.set(db, &name(key), b"filled with a text").unwrap();
                model.put(db, &name(key), b"filled with a text".to_vec(), None);
            }
        }
        Op::Clear(from, count) => {
            for key in *from..from + count {
                let there = model.live(db, &name(key)).is_some();
                model.databases[db].remove(&name(key));
                assert_eq!(store.delete(db, &[&name(key)]).unwrap(), u64::from(there));
            }
        }
        Op::Advance(by) => {
            model.now += by;
            store.set_time(model.now);
        }
        Op::Swap => {
            store
                .write(store.all_shards(), |writer| writer.swap_databases(0, 1))
                .unwrap();
            model.databases.swap(0, 1);
        }
        Op::Flush(wait) => {
            store.flush(&[db], *wait).unwrap();
            model.databases[db].clear();
        }
        Op::Sweep => {
            store.sweep(100).unwrap();
        }
        Op::Scan(count) => {
            let mut seen = BTreeSet::new();
            let mut cursor = 0;
            loop {
                cursor = store
                    .scan(
                        db,
                        cursor,
                        *count,
                        |_, _| Ok(Some(())),
                        |key, ()| {
                            seen.insert(key.to_vec());
                        },
                    )
                    .unwrap();
                if cursor == 0 {
                    break;
                }
            }
            let now = model.now;
            let expected: BTreeSet<_> = model.databases[db]
                .iter()
                .filter(|(_, value)| value.expiry.is_none_or(|at| at > now))
                .map(|(key, _)| key.clone())
                .collect();
            assert_eq!(seen, expected);
            if let Some(key) = store.random_key(db, seen.len() as u64 * 31).unwrap() {
                assert!(expected.contains(&key));
            }
        }
        Op::Switch => *database = 1 - db,
    }
}

fn compare(store: &Store, model: &mut Model) {
    let report = store.check().unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    for database in 0..2 {
        let keys: Vec<_> = model.databases[database].keys().cloned().collect();
        for key in keys {
            let expected = model.live(database, &key);
            let mut out = Vec::new();
            let found = store.get(database, &key, &mut out).unwrap();
            assert_eq!(
                found.then_some(out),
                expected.as_ref().map(|value| value.bytes.clone())
            );
            assert_eq!(
                store.expiry(database, &key).unwrap(),
                expected.map(|value| value.expiry)
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn store_matches_its_model(ops in prop::collection::vec(op(), 1..120), shards in 0_u32..3) {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let options = Options { capacity: Some(256 << 20), shards: Some(1 << shards), ring: None };
        let store = Store::create(&directory.path().join("store"), &options).unwrap();
        let mut model = Model { now: START, ..Model::default() };
        store.set_time(START);
        let mut database = 0;
        for op in &ops {
            apply(&store, &mut model, &mut database, op);
        }
        compare(&store, &mut model);
        store.flush_all(true).unwrap();
        model.databases = Default::default();
        compare(&store, &mut model);
        prop_assert_eq!(store.used_memory(), 0, "everything is freed");
    }
}

/// Tests SCAN's guarantee that a key that exists during the entire scan is returned, even if the
/// table grows and shrinks during the scan.
#[test]
fn scan_returns_every_key_that_exists_throughout() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = Options {
        capacity: Some(256 << 20),
        shards: Some(2),
        ring: None,
    };
    let store = Store::create(&directory.path().join("store"), &options).unwrap();
    let stays: BTreeSet<Vec<u8>> = (0..500)
        .map(|key| format!("stays:{key}").into_bytes())
        .collect();
    for key in &stays {
        store.set(0, key, b"1").unwrap();
    }
    let mut filler = 0_u32;
    for round in 0..40 {
        let mut seen = BTreeSet::new();
        let mut cursor = 0;
        let mut calls = 0;
        loop {
            cursor = store
                .scan(
                    0,
                    cursor,
                    10,
                    |_, _| Ok(Some(())),
                    |key, ()| {
                        seen.insert(key.to_vec());
                    },
                )
                .unwrap();
            if cursor == 0 {
                break;
            }
            calls += 1;
            // In the middle of the scan, grow the table in even rounds and shrink it in odd rounds.
            for _ in 0..200 {
                if round % 2 == 0 && calls < 50 {
                    store
                        .set(0, format!("f:{filler}").as_bytes(), b"1")
                        .unwrap();
                    filler += 1;
                } else if filler > 0 {
                    filler -= 1;
                    store
                        .delete(0, &[format!("f:{filler}").as_bytes()])
                        .unwrap();
                }
            }
        }
        assert!(seen.is_superset(&stays), "round {round}");
    }
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}
