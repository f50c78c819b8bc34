//! Compares hashes with a naive model, below and above every conversion threshold.

use std::collections::{BTreeMap, BTreeSet};

use undercroft_engine::hashes::Parts;
use undercroft_engine::{Error, PackedLimits, Random, Ranges, Store};
use undercroft_testkit::fresh;

type Model = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>;

const LIMITS: PackedLimits = PackedLimits {
    entries: 20,
    value: 64,
};

/// Returns a random field name. Some names are long, and the length of one name does not fit in an
/// element's header.
fn field(random: &mut fastrand::Rng, fields: u64) -> Vec<u8> {
    let number = random.u64(0..fields);
    match number % 50 {
        7 => number.to_string().into_bytes(),
        11 => format!("{number}{}", "f".repeat(70)).into_bytes(),
        13 if number < 50 => [b"long".repeat(5000), number.to_string().into_bytes()].concat(),
        17 if number < 50 => Vec::new(),
        _ => format!("field:{number}").into_bytes(),
    }
}

fn value(random: &mut fastrand::Rng) -> Vec<u8> {
    let length = match random.u32(..) % 20 {
        0 => random.usize(..10_000),
        1 => random.usize(50..80),
        _ => random.usize(..30),
    };
    match random.u32(..) % 3 {
        0 => (random.i64(..) >> random.u32(..64))
            .to_string()
            .into_bytes(),
        _ => (0..length).map(|_| random.u8(..)).collect(),
    }
}

fn content(store: &Store, key: &[u8]) -> Option<BTreeMap<Vec<u8>, Vec<u8>>> {
    let key = store.key(key);
    let mut texts = Ranges::new();
    let there = store.read_into(store.shards_of([&key]), &mut texts, |reader, texts| {
        let Some(hash) = reader.hash(0, &key)? else {
            return Ok(false);
        };
        hash.append_all(reader.view(), Parts::Both, texts)?;
        assert_eq!(hash.length(reader.view())?, texts.len() as u64 / 2);
        Ok::<_, Error>(true)
    });
    let there = there.expect("a whole store");
    let all: Vec<Vec<u8>> = texts.iter().map(<[u8]>::to_vec).collect();
    let map: BTreeMap<_, _> = all
        .chunks(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect();
    assert_eq!(map.len() * 2, all.len(), "each field once");
    there.then_some(map)
}

fn compare(store: &Store, model: &Model, keys: &[Vec<u8>]) {
    for key in keys {
        assert_eq!(content(store, key), model.get(key).cloned(), "{key:?}");
    }
    let problems = store.check().expect("checked").problems;
    assert!(problems.is_empty(), "{problems:?}");
}

fn step(
    store: &Store,
    model: &mut Model,
    random: &mut fastrand::Rng,
    keys: &[Vec<u8>],
    fields: u64,
) {
    let name = &keys[random.usize(..keys.len())];
    let key = store.key(name);
    let other_name = &keys[random.usize(..keys.len())];
    let other = store.key(other_name);
    let both = store.shards_of([&key, &other]);
    match random.u32(..) % 100 {
        0..50 => {
            let texts: Vec<Vec<u8>> = (0..random.usize(1..6))
                .flat_map(|_| [field(random, fields), value(random)])
                .collect();
            let pairs: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
            let new = store.write(store.shards_of([&key]), |writer| {
                writer.hash_set(0, &key, &pairs, &LIMITS)
            });
            let hash = model.entry(name.clone()).or_default();
            let before = hash.len();
            for pair in texts.chunks(2) {
                hash.insert(pair[0].clone(), pair[1].clone());
            }
            assert_eq!(new.expect("room"), (hash.len() - before) as u64);
        }
        50..75 => {
            let gone: Vec<Vec<u8>> = (0..random.usize(1..8))
                .map(|_| field(random, fields))
                .collect();
            let gone: Vec<&[u8]> = gone.iter().map(Vec::as_slice).collect();
            let removed = store.write(store.shards_of([&key]), |writer| {
                writer.hash_delete(0, &key, &gone)
            });
            let mut count = 0;
            if let Some(hash) = model.get_mut(name) {
                count = gone
                    .iter()
                    .filter(|field| hash.remove(**field).is_some())
                    .count();
                if hash.is_empty() {
                    model.remove(name);
                }
            }
            assert_eq!(removed.expect("room"), count as u64);
        }
        75..93 => {
            let field = field(random, fields);
            let mut out = b"before".to_vec();
            let found = store.hash_get(0, name, &field, &mut out).expect("read");
            let expected = model.get(name).and_then(|hash| hash.get(&field));
            assert_eq!(found, expected.is_some());
            assert_eq!(out, expected.map_or(&[][..], Vec::as_slice));
            let looked_up = store.key(&field);
            let length = store.read(store.shards_of([&key]), |reader| {
                match reader.hash(0, &key)? {
                    None => Ok((false, 0)),
                    Some(hash) => Ok::<_, Error>((
                        hash.contains(reader.view(), &looked_up)?,
                        hash.value_length(reader.view(), &looked_up)?,
                    )),
                }
            });
            let expected = (expected.is_some(), expected.map_or(0, Vec::len) as u64);
            assert_eq!(length.expect("read"), expected);
        }
        93..95 => {
            let copied = store.write(both, |writer| {
                if name == other_name || writer.find(0, &key)?.is_none() {
                    return Ok(false);
                }
                writer.remove(0, &other)?;
                writer.copy((0, &key), (0, &other))
            });
            if copied.expect("room") {
                let hash = model[name].clone();
                model.insert(other_name.clone(), hash);
            }
        }
        95..97 => {
            let renamed = store.write(both, |writer| writer.rename(0, &key, &other));
            if renamed.expect("room")
                && let Some(hash) = model.remove(name)
            {
                model.insert(other_name.clone(), hash);
            }
        }
        97 => {
            store.delete(0, &[name.as_slice()]).expect("removed");
            model.remove(name);
        }
        98 => {
            let later = store.now() + 1_000_000;
            store.expire_at(0, name, later).expect("room");
        }
        _ => {
            store.sweep(random.u64(1..50)).expect("swept");
        }
    }
}

#[test]
fn random_operations_match_a_map() {
    let mut random = fastrand::Rng::with_seed(fresh::seed());
    let keys: Vec<Vec<u8>> = (0..8)
        .map(|index| format!("hash:{index}").into_bytes())
        .collect();
    for fields in [10, 40, 3000] {
        let (_directory, store) = fresh::store(2);
        let mut model = Model::new();
        for round in 0..40 {
            for _ in 0..150 {
                step(&store, &mut model, &mut random, &keys, fields);
            }
            if round % 4 == 0 {
                compare(&store, &model, &keys);
            }
        }
        compare(&store, &model, &keys);
        store.flush_all(true).expect("emptied");
        assert_eq!(store.used_memory(), 0);
    }
}

#[test]
fn scan_returns_permanent_fields_while_the_table_grows_and_shrinks() {
    let mut random = fastrand::Rng::with_seed(fresh::seed());
    let (_directory, store) = fresh::store(2);
    let key = store.key(b"walked");
    let shards = store.shards_of([&key]);
    let name = |number: u32| format!("field:{number}").into_bytes();
    let set = |number: u32| {
        store
            .hash_set(0, b"walked", &name(number), b"v", &LIMITS)
            .expect("room")
    };
    (0..1000).for_each(|number| {
        set(number);
    });
    for _ in 0..20 {
        let (mut met, mut cursor, mut extra) = (BTreeSet::new(), 0, 1000);
        loop {
            let (mut texts, count) = (Ranges::new(), random.u64(1..40));
            cursor = store
                .read_into(shards, &mut texts, |reader, texts| {
                    let hash = reader.hash(0, &key)?.expect("it exists");
                    hash.scan(reader.view(), cursor, count, texts)
                })
                .expect("read");
            met.extend(texts.iter().step_by(2).map(<[u8]>::to_vec));
            if cursor == 0 {
                break;
            }
            // Add and remove other fields during the scan.
            let until = random.u32(1000..9000);
            while extra < until.min(extra + 700) {
                set(extra);
                extra += 1;
            }
            while extra > until.max(extra.saturating_sub(700)).max(1000) {
                extra -= 1;
                store
                    .write(shards, |writer| {
                        writer.hash_delete(0, &key, &[&name(extra)])
                    })
                    .expect("room");
            }
        }
        let missing = (0..1000).find(|&number| !met.contains(&name(number)));
        assert_eq!(missing, None);
        while extra > 1000 {
            extra -= 1;
            store
                .write(shards, |writer| {
                    writer.hash_delete(0, &key, &[&name(extra)])
                })
                .expect("room");
        }
    }
}

#[test]
fn random_fields_exist_and_are_distinct() {
    let (_directory, store) = fresh::store(2);
    let mut random = Random::new(fresh::seed());
    for fields in [1_u64, 5, 20, 21, 700] {
        let name = format!("chance:{fields}").into_bytes();
        for number in 0..fields {
            let field = number.to_string().into_bytes();
            store
                .hash_set(0, &name, &field, &field, &LIMITS)
                .expect("room");
        }
        let key = store.key(&name);
        let mut sample = |count: i64| {
            let (mut texts, seed) = (Ranges::new(), random.next_word());
            store
                .read_into(store.shards_of([&key]), &mut texts, |reader, texts| {
                    let hash = reader.hash(0, &key)?.expect("it exists");
                    hash.sample(reader.view(), &mut Random::new(seed), count, texts)
                })
                .expect("read");
            let all: Vec<Vec<u8>> = texts.iter().map(<[u8]>::to_vec).collect();
            assert!(all.chunks(2).all(|pair| pair[0] == pair[1]));
            all.into_iter().step_by(2).collect::<Vec<_>>()
        };
        for count in [0, 1, 3, 100, 10_000] {
            let chosen = sample(count as i64);
            let different: BTreeSet<_> = chosen.iter().collect();
            assert_eq!(
                different.len() as u64,
                fields.min(count),
                "{count} of {fields}"
            );
            assert_eq!(chosen.len(), different.len());
        }
        // All fields are equally likely, so each count must be within wide bounds.
        let mut seen = BTreeMap::new();
        for field in sample(-(fields as i64) * 400) {
            *seen.entry(field).or_insert(0) += 1;
        }
        assert_eq!(seen.len() as u64, fields);
        assert!(
            seen.values().all(|count| (250..600).contains(count)),
            "{seen:?}"
        );
    }
}

#[test]
fn wrong_type_is_refused_and_changes_nothing() {
    let (_directory, store) = fresh::store(2);
    store.set(0, b"string", b"x").expect("room");
    store
        .hash_set(0, b"hash", b"f", b"v", &LIMITS)
        .expect("room");
    let mut out = Vec::new();
    let wrong = |result: Result<bool, Error>| matches!(result, Err(Error::WrongType));
    assert!(wrong(store.hash_set(0, b"string", b"f", b"v", &LIMITS)));
    assert!(wrong(store.hash_get(0, b"string", b"f", &mut out)));
    assert!(wrong(store.get(0, b"hash", &mut out)));
    assert!(out.is_empty());
    // SET replaces a value of any type.
    store.set(0, b"hash", b"text").expect("room");
    assert!(store.get(0, b"hash", &mut out).expect("read"));
    assert_eq!(out, b"text");
}
