//! Compares the removal of many elements in one call, and combinations of several sets, with naive
//! models.

use std::collections::{BTreeMap, BTreeSet};

use undercroft_engine::sets::SetOperation;
use undercroft_engine::sorted_sets::{AddRule, Aggregate, Scored, Weighted};
use undercroft_engine::{Error, Limits, Ranges, Store, Writer};
use undercroft_testkit::fresh;

/// The sizes of the collections, below and above the number of elements that one call removes.
const COUNTS: [usize; 6] = [3, 200, 511, 600, 3000, 20_000];

fn write<R>(
    store: &Store,
    keys: &[&[u8]],
    body: impl Fn(&mut Writer<'_, '_>) -> Result<R, Error> + Sync,
) -> R {
    let keys: Vec<_> = keys.iter().map(|key| store.key(key)).collect();
    let written = store.write(store.shards_of(&keys), |writer| body(writer));
    written.expect("room")
}

fn name(number: usize) -> Vec<u8> {
    format!("member:{number}").into_bytes()
}

fn slices(texts: &[Vec<u8>]) -> Vec<&[u8]> {
    texts.iter().map(Vec::as_slice).collect()
}

fn assert_sound(store: &Store) {
    let problems = store.check().expect("checked").problems;
    assert!(problems.is_empty(), "{problems:?}");
}

/// Returns the contents of a key as a flat list in no particular order.
fn items(store: &Store, key: &[u8]) -> Vec<Vec<u8>> {
    let key = store.key(key);
    let read = store.read(store.shards_of([&key]), |reader| {
        let mut out = Ranges::new();
        if let Some(entry) = reader.find(0, &key)? {
            entry.append_items(reader.view(), &mut out)?;
        }
        Ok::<_, Error>(out.iter().map(<[u8]>::to_vec).collect())
    });
    read.expect("a sound store")
}

/// Returns names to remove, in random order, including duplicates and names that do not exist.
fn some(random: &mut fastrand::Rng, count: usize, share: usize) -> Vec<Vec<u8>> {
    let mut taken: Vec<usize> = (0..count)
        .filter(|number| number * 7 % 100 < share)
        .collect();
    taken.extend(taken.clone().iter().step_by(3));
    taken.extend(count..count + count / 5);
    random.shuffle(&mut taken);
    taken.into_iter().map(name).collect()
}

#[test]
fn bulk_removal_removes_exactly_the_named_elements() {
    let mut random = fastrand::Rng::with_seed(fresh::seed());
    for count in COUNTS {
        for share in [1, 40, 60, 99, 100] {
            let (_directory, store) = fresh::store(2);
            let all: Vec<Vec<u8>> = (0..count).map(name).collect();
            let pairs: Vec<&[u8]> = all
                .iter()
                .flat_map(|name| [&name[..], &name[3..]])
                .collect();
            let scored: Vec<(&[u8], f64)> = (0_u32..)
                .zip(&all)
                .map(|(number, name)| (&name[..], f64::from(number % 97)))
                .collect();
            let limits = Limits::DEFAULT;
            write(&store, &[b"h", b"s", b"z"], |writer| {
                writer.hash_set(0, &store.key(b"h"), &pairs, &limits.hash)?;
                writer.set_add(0, &store.key(b"s"), &slices(&all), limits.integers)?;
                let rule = AddRule::default();
                writer.sorted_add(0, &store.key(b"z"), &scored, rule, &limits.sorted)
            });
            let taken = some(&mut random, count, share);
            let gone: BTreeSet<&Vec<u8>> = taken.iter().filter(|name| all.contains(name)).collect();
            let removed = write(&store, &[b"h", b"s", b"z"], |writer| {
                let taken = slices(&taken);
                Ok([
                    writer.hash_delete(0, &store.key(b"h"), &taken)?,
                    writer.set_remove(0, &store.key(b"s"), &taken)?,
                    writer.sorted_remove(0, &store.key(b"z"), &taken)?,
                ])
            });
            assert_eq!(removed, [gone.len() as u64; 3], "{count} {share}");
            let kept: BTreeSet<Vec<u8>> = all
                .iter()
                .filter(|name| !gone.contains(name))
                .cloned()
                .collect();
            let fields: BTreeSet<Vec<u8>> = items(&store, b"h").into_iter().step_by(2).collect();
            let members: BTreeSet<Vec<u8>> = items(&store, b"s").into_iter().collect();
            assert!(fields == kept && members == kept, "{count} {share}");
            let mut ranked: Vec<(u32, Vec<u8>)> = (0_u32..)
                .zip(&all)
                .filter(|(_, name)| kept.contains(*name))
                .map(|(number, name)| (number % 97, name.clone()))
                .collect();
            ranked.sort();
            let order = items(&store, b"z").into_iter().step_by(2);
            assert!(
                order.eq(ranked.into_iter().map(|(_, name)| name)),
                "{count} {share}"
            );
            for name in &kept {
                let mut value = Vec::new();
                let found = store.hash_get(0, b"h", name, &mut value);
                assert!(found.expect("a hash") && value == name[3..]);
                assert!(store.set_contains(0, b"s", name).expect("a set"));
            }
            assert_sound(&store);
        }
    }
}

/// Fills a set or sorted set with a random selection of numbers, both in the store and in the
/// model.
fn fill(store: &Store, random: &mut fastrand::Rng, key: &[u8]) -> (bool, BTreeMap<Vec<u8>, f64>) {
    let count = [0, 3, 100, 2000][random.usize(..4)];
    let plain = random.bool();
    let mut model = BTreeMap::new();
    for _ in 0..count {
        let score = if plain {
            1.0
        } else {
            f64::from(random.i16(..) / 64)
        };
        model.insert(name(random.usize(..3000)), score);
    }
    let limits = Limits::DEFAULT;
    let members: Vec<(&[u8], f64)> = model
        .iter()
        .map(|(text, score)| (&text[..], *score))
        .collect();
    write(store, &[key], |writer| {
        writer.remove(0, &store.key(key))?;
        if members.is_empty() {
            return Ok(());
        }
        if plain {
            let texts: Vec<&[u8]> = members.iter().map(|(text, _)| *text).collect();
            writer.set_add(0, &store.key(key), &texts, limits.integers)?;
        } else {
            let rule = AddRule::default();
            writer.sorted_add(0, &store.key(key), &members, rule, &limits.sorted)?;
        }
        Ok(())
    });
    (plain, model)
}

#[test]
fn combinations_match_the_naive_model() {
    let mut random = fastrand::Rng::with_seed(fresh::seed());
    let (_directory, store) = fresh::store(4);
    let names = [&b"a"[..], b"b", b"c"];
    for round in 0..400 {
        let models: Vec<_> = names
            .iter()
            .map(|key| fill(&store, &mut random, key))
            .collect();
        let keys: Vec<_> = names.iter().map(|key| store.key(key)).collect();
        let operation = [
            SetOperation::Union,
            SetOperation::Intersection,
            SetOperation::Difference,
        ][round % 3];
        let aggregate = [Aggregate::Sum, Aggregate::Least, Aggregate::Greatest][random.usize(..3)];
        let weights = [1.0, 2.0, -0.5];
        let limit = if random.bool() {
            usize::MAX
        } else {
            random.usize(1..60)
        };
        let read = store.read(store.shards_of(&keys), |reader| {
            let mut sources: Vec<Weighted> = Vec::new();
            for (key, weight) in keys.iter().zip(weights) {
                sources.push((reader.source(0, key)?, weight));
            }
            let mut out = Scored::new();
            reader.combine_scored(&sources, operation, aggregate, limit, &mut out)?;
            Ok::<_, Error>(out)
        });
        let out = read.expect("combined");
        let mut wanted: BTreeMap<Vec<u8>, Vec<f64>> = BTreeMap::new();
        for ((_, model), weight) in models.iter().zip(weights) {
            for (text, score) in model {
                wanted.entry(text.clone()).or_default().push(score * weight);
            }
        }
        let in_all = |text: &Vec<u8>| models.iter().all(|(_, model)| model.contains_key(text));
        match operation {
            SetOperation::Union => {}
            SetOperation::Intersection => wanted.retain(|text, _| in_all(text)),
            SetOperation::Difference => {
                wanted = models[0]
                    .1
                    .iter()
                    .map(|(text, score)| (text.clone(), vec![*score]))
                    .collect();
                wanted.retain(|text, _| {
                    !models[1..]
                        .iter()
                        .any(|(_, model)| model.contains_key(text))
                });
            }
        }
        let got: BTreeMap<Vec<u8>, f64> = out
            .iter()
            .map(|(text, score)| (text.to_vec(), score))
            .collect();
        assert_eq!(got.len(), out.len(), "each once");
        let most = if operation == SetOperation::Intersection {
            limit
        } else {
            usize::MAX
        };
        assert_eq!(got.len(), wanted.len().min(most), "round {round}");
        for (text, score) in &got {
            // All scores and weights are chosen so that sums are exact in any order of addition.
            let sum = wanted[text]
                .iter()
                .copied()
                .reduce(|one, other| match aggregate {
                    Aggregate::Sum => one + other,
                    Aggregate::Least => one.min(other),
                    Aggregate::Greatest => one.max(other),
                });
            assert_eq!(Some(*score), sum, "round {round}");
        }
        if models
            .iter()
            .all(|(plain, model)| *plain || model.is_empty())
        {
            let read = store.read(store.shards_of(&keys), |reader| {
                let mut out = Ranges::new();
                reader.combine_sets(0, &keys, operation, most, &mut out)?;
                Ok::<_, Error>(out)
            });
            let texts: BTreeSet<Vec<u8>> =
                read.expect("combined").iter().map(<[u8]>::to_vec).collect();
            assert_eq!(texts.len(), wanted.len().min(most), "round {round}");
            assert!(
                texts.iter().all(|text| wanted.contains_key(text)),
                "round {round}"
            );
        }
    }
}
