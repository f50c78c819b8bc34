//! Compares sets with a naive model, below and above every conversion threshold.

use std::collections::{BTreeMap, BTreeSet};

use undercroft_engine::sets::{NewMembers, SetOperation};
use undercroft_engine::{Encoding, Error, Random, Ranges, Store};
use undercroft_testkit::fresh;

type Members = BTreeSet<Vec<u8>>;
type Model = BTreeMap<Vec<u8>, Members>;

/// The maximum number of members in an intset.
const INTEGERS: u64 = 20;

/// Returns a random member from one of three families, which contain only integers, texts of all
/// lengths, or both.
fn member(random: &mut fastrand::Rng, family: usize, members: u64) -> Vec<u8> {
    let number = random.u64(0..members);
    match (family, number % 40) {
        (0, _) => ((number as i64 - 5) << (number % 4 * 18))
            .to_string()
            .into_bytes(),
        (_, 3) => Vec::new(),
        (_, 7) => format!("{number}{}", "m".repeat(80)).into_bytes(),
        (_, 11) if number < 40 => vec![b'l'; 20_000],
        (1, _) => format!("member:{number}").into_bytes(),
        _ if number.is_multiple_of(2) => number.to_string().into_bytes(),
        _ => format!("0{number}").into_bytes(),
    }
}

fn content(store: &Store, key: &[u8]) -> Option<Members> {
    let key = store.key(key);
    let mut texts = Ranges::new();
    let there = store.read_into(store.shards_of([&key]), &mut texts, |reader, texts| {
        let Some(set) = reader.set(0, &key)? else {
            return Ok(false);
        };
        set.append_all(reader.view(), texts)?;
        assert_eq!(set.length(reader.view())?, texts.len() as u64);
        Ok::<_, Error>(true)
    });
    let members: Members = texts.iter().map(<[u8]>::to_vec).collect();
    assert_eq!(members.len(), texts.len(), "each member once");
    there.expect("a whole store").then_some(members)
}

fn encoding(store: &Store, key: &[u8]) -> Option<Encoding> {
    let key = store.key(key);
    let found = store.read(store.shards_of([&key]), |reader| {
        let entry = reader.find(0, &key)?;
        entry.map(|entry| entry.encoding()).transpose()
    });
    found.expect("a whole store")
}

fn compare(store: &Store, model: &Model, keys: &[Vec<u8>]) {
    for key in keys {
        assert_eq!(content(store, key), model.get(key).cloned(), "{key:?}");
    }
    let problems = store.check().expect("checked").problems;
    assert!(problems.is_empty(), "{problems:?}");
}

/// Computes the expected result of a set operation with naive sets.
fn combine(sets: &[Members], operation: SetOperation) -> Members {
    let (first, others) = sets.split_first().expect("a set");
    match operation {
        SetOperation::Union => sets.iter().flatten().cloned().collect(),
        SetOperation::Intersection => first
            .iter()
            .filter(|member| others.iter().all(|set| set.contains(*member)))
            .cloned()
            .collect(),
        SetOperation::Difference => first
            .iter()
            .filter(|member| !others.iter().any(|set| set.contains(*member)))
            .cloned()
            .collect(),
    }
}

fn step(
    store: &Store,
    model: &mut Model,
    random: &mut fastrand::Rng,
    keys: &[Vec<u8>],
    (family, members): (usize, u64),
) {
    let name = &keys[random.usize(..keys.len())];
    let key = store.key(name);
    let shards = store.shards_of([&key]);
    match random.u32(..) % 100 {
        0..50 => {
            let new: Vec<Vec<u8>> = (0..random.usize(1..8))
                .map(|_| member(random, family, members))
                .collect();
            let texts: Vec<&[u8]> = new.iter().map(Vec::as_slice).collect();
            let added = store.write(shards, |writer| writer.set_add(0, &key, &texts, INTEGERS));
            let set = model.entry(name.clone()).or_default();
            let before = set.len();
            set.extend(new);
            assert_eq!(added.expect("room"), (set.len() - before) as u64);
        }
        50..72 => {
            let gone: Vec<Vec<u8>> = (0..random.usize(1..8))
                .map(|_| member(random, family, members))
                .collect();
            let texts: Vec<&[u8]> = gone.iter().map(Vec::as_slice).collect();
            let removed = store.write(shards, |writer| writer.set_remove(0, &key, &texts));
            let mut count = 0;
            if let Some(set) = model.get_mut(name) {
                count = gone.iter().filter(|member| set.remove(*member)).count();
                if set.is_empty() {
                    model.remove(name);
                }
            }
            assert_eq!(removed.expect("room"), count as u64);
        }
        72..88 => {
            let member = member(random, family, members);
            let there = store.set_contains(0, name, &member).expect("read");
            let expected = model.get(name).is_some_and(|set| set.contains(&member));
            assert_eq!(there, expected);
        }
        88..91 => {
            let count = random.u64(0..6);
            let chance = random.u64(..);
            let mut popped = Ranges::new();
            let there = store.write_into(shards, &mut popped, |writer, popped| {
                writer.set_pop(0, &key, &mut Random::new(chance), count, popped)
            });
            assert_eq!(there.expect("room"), model.contains_key(name));
            if let Some(set) = model.get_mut(name) {
                assert_eq!(popped.len() as u64, count.min(set.len() as u64));
                assert!(popped.iter().all(|member| set.remove(member)));
                if set.is_empty() {
                    model.remove(name);
                }
            }
        }
        91..97 => {
            let operation = [
                SetOperation::Union,
                SetOperation::Intersection,
                SetOperation::Difference,
            ][random.usize(..3)];
            let names: Vec<&Vec<u8>> = (0..random.usize(1..4))
                .map(|_| &keys[random.usize(..keys.len())])
                .collect();
            let sources: Vec<_> = names.iter().map(|name| store.key(name)).collect();
            let sets: Vec<Members> = names
                .iter()
                .map(|name| model.get(*name).cloned().unwrap_or_default())
                .collect();
            let expected = combine(&sets, operation);
            let mut texts = Ranges::new();
            store
                .read_into(store.shards_of(&sources), &mut texts, |reader, texts| {
                    reader.combine_sets(0, &sources, operation, usize::MAX, texts)
                })
                .expect("read");
            let found: Members = texts.iter().map(<[u8]>::to_vec).collect();
            assert_eq!((found.len(), &found), (texts.len(), &expected));
            let all = store.shards_of(sources.iter().chain([&key]));
            store
                .write_into(all, &mut texts, |writer, texts| {
                    let most = writer.combine_sets(0, &sources, operation, INTEGERS, texts)?;
                    writer.set_store(0, &key, &NewMembers::of(store, texts), most)
                })
                .expect("room");
            if expected.is_empty() {
                model.remove(name);
            } else {
                model.insert(name.clone(), expected);
            }
        }
        97 => {
            store.delete(0, &[name.as_slice()]).expect("removed");
            model.remove(name);
        }
        _ => {
            store.sweep(random.u64(1..50)).expect("swept");
        }
    }
}

#[test]
fn random_operations_match_a_naive_set() {
    let mut random = fastrand::Rng::with_seed(fresh::seed());
    let keys: Vec<Vec<u8>> = (0..6)
        .map(|index| format!("set:{index}").into_bytes())
        .collect();
    for kind in [(0, 15), (0, 60), (1, 100), (1, 400), (2, 60), (2, 2000)] {
        let (_directory, store) = fresh::store(2);
        let mut model = Model::new();
        for round in 0..16 {
            for _ in 0..150 {
                step(&store, &mut model, &mut random, &keys, kind);
            }
            if round % 4 == 3 {
                compare(&store, &model, &keys);
            }
        }
        store.flush_all(true).expect("emptied");
        assert_eq!(store.used_memory(), 0);
    }
}

#[test]
fn intset_converts_at_its_thresholds_and_never_converts_back() {
    let (_directory, store) = fresh::store(2);
    let add = |key: &[u8], member: &[u8]| {
        assert!(store.set_add(0, key, member, INTEGERS).expect("room"));
        encoding(&store, key)
    };
    let remove = |key: &[u8], member: &[u8]| {
        let key = store.key(key);
        store
            .write(store.shards_of([&key]), |writer| {
                writer.set_remove(0, &key, &[member])
            })
            .expect("room")
    };
    for number in 0..INTEGERS {
        let found = add(b"many", number.to_string().as_bytes());
        assert_eq!(found, Some(Encoding::IntSet), "{number}");
    }
    assert_eq!(add(b"many", b"1000"), Some(Encoding::HashTable));
    assert_eq!(remove(b"many", b"1000"), 1);
    assert_eq!(encoding(&store, b"many"), Some(Encoding::HashTable));
    assert_eq!(add(b"mixed", b"1"), Some(Encoding::IntSet));
    assert_eq!(add(b"mixed", b"01"), Some(Encoding::HashTable));
    assert_eq!(remove(b"mixed", b"01"), 1);
    assert_eq!(encoding(&store, b"mixed"), Some(Encoding::HashTable));
    assert_eq!(remove(b"mixed", b"1"), 1);
    assert_eq!(encoding(&store, b"mixed"), None);
    // Adding an existing member and removing a missing text leave the encoding unchanged.
    assert_eq!(add(b"same", b"1"), Some(Encoding::IntSet));
    assert!(!store.set_add(0, b"same", b"1", INTEGERS).expect("room"));
    assert_eq!(remove(b"same", b"text"), 0);
    assert_eq!(encoding(&store, b"same"), Some(Encoding::IntSet));
}
