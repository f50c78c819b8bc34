//! Compares collections that a single call created with naive models, below and above every
//! conversion threshold, and bounds the number of steps that the call takes.

use std::collections::{BTreeMap, BTreeSet};

use undercroft_engine::lists::End;
use undercroft_engine::sets::NewMembers;
use undercroft_engine::sorted_sets::{AddRule, Scored};
use undercroft_engine::{Encoding, Error, Limits, PackedLimits, Ranges, Store, Writer};
use undercroft_memory::fault;
use undercroft_testkit::fresh;

/// The conversion thresholds. They differ between the types, and some calls exceed each of them.
const LIMITS: Limits = Limits {
    hash: PackedLimits {
        entries: 100,
        value: 64,
    },
    integers: 300,
    sorted: PackedLimits {
        entries: 40,
        value: 64,
    },
};
/// The numbers of items in one call, which are near the thresholds and far above them.
const COUNTS: [usize; 9] = [1, 16, 17, 41, 101, 129, 301, 2500, 9000];

fn text(random: &mut fastrand::Rng, among: usize) -> Vec<u8> {
    let number = random.usize(0..among);
    match number % 50 {
        _ if among < 60 => number.to_string().into_bytes(),
        1 => Vec::new(),
        2 => format!("{number}{}", "l".repeat(number % 3000)).into_bytes(),
        3..20 => number.to_string().into_bytes(),
        20 => format!("{number}00000000000").into_bytes(),
        _ => format!("member:{number}").into_bytes(),
    }
}

/// Returns random texts for one call, including duplicates.
fn texts(random: &mut fastrand::Rng, count: usize) -> Vec<Vec<u8>> {
    let among = random.usize(1..count * 3 + 2);
    (0..count).map(|_| text(random, among)).collect()
}

fn slices(texts: &[Vec<u8>]) -> Vec<&[u8]> {
    texts.iter().map(Vec::as_slice).collect()
}

fn write<R>(
    store: &Store,
    keys: &[&[u8]],
    body: impl Fn(&mut Writer<'_, '_>) -> Result<R, Error> + Sync,
) -> R {
    let keys: Vec<_> = keys.iter().map(|key| store.key(key)).collect();
    let written = store.write(store.shards_of(&keys), |writer| body(writer));
    written.expect("room")
}

fn assert_sound(store: &Store) {
    let problems = store.check().expect("checked").problems;
    assert!(problems.is_empty(), "{problems:?}");
}

/// Returns the encoding of a key and its contents as a flat list.
fn items(store: &Store, key: &[u8]) -> (Option<Encoding>, Vec<Vec<u8>>) {
    let key = store.key(key);
    let read = store.read(store.shards_of([&key]), |reader| {
        let Some(entry) = reader.find(0, &key)? else {
            return Ok((None, Vec::new()));
        };
        let mut out = Ranges::new();
        entry.append_items(reader.view(), &mut out)?;
        let items = out.iter().map(<[u8]>::to_vec).collect();
        Ok::<_, Error>((Some(entry.encoding()?), items))
    });
    read.expect("a sound store")
}

fn usage(store: &Store, key: &[u8]) -> u64 {
    let key = store.key(key);
    let read = store.read(store.shards_of([&key]), |reader| {
        let entry = reader.find(0, &key)?.expect("the key");
        entry.memory_usage(reader.view(), 0)
    });
    read.expect("a sound store")
}

/// Checks that a value created by a single call uses at most about 50% more memory than a value
/// that grew. The difference is due to the pages of a new arena (a separate memory area), and to a
/// table that is twice as long as that of a grown value just before it doubles.
fn assert_compact(store: &Store, whole: &[u8], grown: &[u8]) {
    let (whole, grown) = (usage(store, whole), usage(store, grown));
    assert!(whole <= grown + grown / 2 + 16 * 4096, "{whole} {grown}");
}

/// Checks that copies equal the original, both in the same shard and in another shard.
fn assert_copied(store: &Store, from: &[u8]) {
    for to in [&b"copy a"[..], b"copy b"] {
        write(store, &[from, to], |writer| {
            writer.remove(0, &store.key(to))?;
            writer.copy((0, &store.key(from)), (0, &store.key(to)))
        });
        let sorted = |(encoding, mut items): (_, Vec<Vec<u8>>)| {
            items.sort();
            (encoding, items)
        };
        assert_eq!(sorted(items(store, from)), sorted(items(store, to)));
    }
}

fn rng() -> fastrand::Rng {
    fastrand::Rng::with_seed(fresh::seed())
}

#[test]
fn hash_created_at_once_equals_one_built_field_by_field() {
    let mut random = rng();
    for count in COUNTS {
        let (_directory, store) = fresh::store(2);
        let mut model = BTreeMap::new();
        // Fill an empty key first, and then add to the resulting value.
        for count in [count, 1, count / 2 + 1] {
            let (fields, values) = (texts(&mut random, count), texts(&mut random, count));
            let pairs: Vec<&[u8]> = fields
                .iter()
                .zip(&values)
                .flat_map(|(field, value)| [&field[..], value])
                .collect();
            let new = write(&store, &[b"whole"], |writer| {
                writer.hash_set(0, &store.key(b"whole"), &pairs, &LIMITS.hash)
            });
            let before = model.len();
            model.extend(fields.iter().cloned().zip(values.iter().cloned()));
            assert_eq!(new, (model.len() - before) as u64);
            for pair in pairs.chunks(2) {
                let set = store.hash_set(0, b"grown", pair[0], pair[1], &LIMITS.hash);
                set.expect("room");
            }
            let all = |key: &[u8]| {
                let (encoding, all) = items(&store, key);
                let pairs = all.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone()));
                (encoding, pairs.collect::<BTreeMap<_, _>>())
            };
            assert_eq!(all(b"whole").1, model);
            assert_eq!(all(b"whole"), all(b"grown"));
            assert_sound(&store);
            let key = store.key(b"whole");
            for (field, value) in &model {
                let mut out = Vec::new();
                let got = store.hash_get(0, key.bytes(), field, &mut out);
                assert!(got.expect("a hash") && out == *value);
            }
        }
        assert_compact(&store, b"whole", b"grown");
        assert_copied(&store, b"whole");
        assert_sound(&store);
    }
}

#[test]
fn set_created_at_once_equals_one_built_member_by_member() {
    let mut random = rng();
    for count in COUNTS {
        for integers in [true, false] {
            let (_directory, store) = fresh::store(2);
            let mut model = BTreeSet::new();
            for count in [count, 1, count / 2 + 1] {
                let mut members = texts(&mut random, count);
                if integers {
                    members = (0..count)
                        .map(|_| (random.i64(-900..9000) >> random.u32(..12)).to_string())
                        .map(String::into_bytes)
                        .collect();
                }
                let new = write(&store, &[b"whole"], |writer| {
                    let key = store.key(b"whole");
                    writer.set_add(0, &key, &slices(&members), LIMITS.integers)
                });
                let before = model.len();
                model.extend(members.iter().cloned());
                assert_eq!(new, (model.len() - before) as u64);
                for member in &members {
                    let added = store.set_add(0, b"grown", member, LIMITS.integers);
                    added.expect("room");
                }
                let all = |key: &[u8]| {
                    let (encoding, all) = items(&store, key);
                    let length = all.len();
                    let all = all.into_iter().collect::<BTreeSet<_>>();
                    assert_eq!(all.len(), length);
                    (encoding, all)
                };
                assert_eq!(all(b"whole").1, model);
                assert_eq!(all(b"whole"), all(b"grown"));
                assert_sound(&store);
                for member in &model {
                    assert!(store.set_contains(0, b"whole", member).expect("a set"));
                }
            }
            // Also store these members as the result of a command.
            let mut stored = Ranges::new();
            model.iter().for_each(|member| stored.push(member));
            write(&store, &[b"stored"], |writer| {
                let stored = NewMembers::of(&store, &stored);
                writer.set_store(0, &store.key(b"stored"), &stored, LIMITS.integers)
            });
            let stored: BTreeSet<_> = items(&store, b"stored").1.into_iter().collect();
            assert_eq!(stored, model);
            assert_compact(&store, b"whole", b"grown");
            assert_copied(&store, b"whole");
            assert_sound(&store);
        }
    }
}

#[test]
fn sorted_set_created_at_once_equals_one_built_member_by_member() {
    let mut random = rng();
    let rules = [
        AddRule::default(),
        AddRule {
            only_new: true,
            ..AddRule::default()
        },
        AddRule {
            greater: true,
            ..AddRule::default()
        },
        AddRule {
            less: true,
            only_existing: true,
            ..AddRule::default()
        },
        AddRule {
            increment: true,
            ..AddRule::default()
        },
    ];
    for count in COUNTS {
        for rule in rules {
            let (_directory, store) = fresh::store(2);
            for (round, count) in [count, 1, count / 2 + 1].into_iter().enumerate() {
                let rule = if round == 0 && rule.only_existing {
                    AddRule::default()
                } else {
                    rule
                };
                let members = texts(&mut random, count);
                let scored: Vec<(&[u8], f64)> = members
                    .iter()
                    .map(|member| {
                        let score = [0.5, -0.0, 1e300, f64::NEG_INFINITY, -7.0];
                        match random.usize(0..8) {
                            pick if pick < 5 && !rule.increment => (&member[..], score[pick]),
                            _ => (&member[..], f64::from(random.i32(-50..50)) / 4.0),
                        }
                    })
                    .collect();
                let add = |key: &[u8], members: &[(&[u8], f64)]| {
                    write(&store, &[key], |writer| {
                        let (key, limits) = (store.key(key), LIMITS.sorted);
                        writer.sorted_add(0, &key, members, rule, &limits)
                    })
                };
                let whole = add(b"whole", &scored);
                // Build an equal set with one call for each member.
                let (mut added, mut updated, mut last) = (0, 0, None);
                for one in &scored {
                    let one = add(b"grown", std::slice::from_ref(one));
                    (added, updated, last) = (added + one.added, updated + one.updated, one.score);
                }
                assert_eq!(
                    (whole.added, whole.updated, whole.score),
                    (added, updated, last)
                );
                assert_eq!(items(&store, b"whole"), items(&store, b"grown"), "{rule:?}");
                assert_sound(&store);
            }
            if items(&store, b"whole").0.is_none() {
                continue;
            }
            let scored = write(&store, &[b"whole"], |writer| {
                let mut scored = Scored::new();
                let whole = writer
                    .sorted_set(0, &store.key(b"whole"))?
                    .expect("a value");
                whole.append_all(writer.view(), &mut scored)?;
                Ok(scored)
            });
            write(&store, &[b"stored"], |writer| {
                writer.sorted_store(0, &store.key(b"stored"), &scored, &LIMITS.sorted)
            });
            assert_eq!(items(&store, b"stored").1, items(&store, b"whole").1);
            assert_compact(&store, b"whole", b"grown");
            assert_copied(&store, b"whole");
            assert_sound(&store);
        }
    }
}

#[test]
fn list_created_at_once_equals_one_built_item_by_item() {
    let mut random = rng();
    for count in COUNTS {
        for end in [End::Right, End::Left] {
            let (_directory, store) = fresh::store(2);
            let mut values = texts(&mut random, count);
            for value in &mut values {
                // Make some items so long that they get separate blocks.
                let longer = random.usize(0..40) == 0;
                value.resize(value.len() + usize::from(longer) * 600, b'l');
            }
            let push = |key: &[u8], values: &[&[u8]]| {
                write(&store, &[key], |writer| {
                    writer.list_push(0, &store.key(key), end, values, false)
                })
            };
            assert_eq!(push(b"whole", &slices(&values)), values.len() as u64);
            for value in &values {
                push(b"grown", &[value]);
            }
            if end == End::Left {
                values.reverse();
            }
            assert_eq!(items(&store, b"whole").1, values);
            assert_eq!(items(&store, b"grown").1, values);
            assert_compact(&store, b"whole", b"grown");
            assert_copied(&store, b"whole");
            assert_sound(&store);
        }
    }
}

/// Returns the number of steps that matter for recovery in one run of a transaction that creates or
/// changes a key.
fn steps<R>(
    store: &Store,
    keys: &[&[u8]],
    body: impl Fn(&mut Writer<'_, '_>) -> Result<R, Error> + Sync,
) -> f64 {
    // Count only the last run, because earlier runs may have been repeated with more memory.
    let taken = write(store, keys, |writer| {
        let before = fault::steps_taken();
        body(writer)?;
        Ok(fault::steps_taken() - before)
    });
    taken as f64
}

#[test]
fn bulk_creation_takes_fewer_than_three_steps_per_item() {
    const ITEMS: usize = 5000;
    let (_directory, store) = fresh::store(2);
    let members: Vec<Vec<u8>> = (0..ITEMS)
        .map(|member| format!("member:{member:07}").into_bytes())
        .collect();
    let integers: Vec<Vec<u8>> = (0..ITEMS).map(|n| n.to_string().into_bytes()).collect();
    let pairs: Vec<&[u8]> = members
        .iter()
        .zip(&integers)
        .flat_map(|(field, value)| [&field[..], value])
        .collect();
    let scored: Vec<(&[u8], f64)> = members
        .iter()
        .zip(0..)
        .map(|(member, score)| (&member[..], f64::from(score * 7919 % 1000)))
        .collect();
    let (members, integers) = (slices(&members), slices(&integers));
    let (mut texts, mut all) = (Ranges::new(), Scored::new());
    members.iter().for_each(|member| texts.push(member));
    scored
        .iter()
        .for_each(|(member, score)| all.push(member, *score));
    let rule = AddRule::default();
    let limits = Limits::DEFAULT;
    let key = |name: &'static str| store.key(name.as_bytes());
    let each = [
        (
            "HSET",
            steps(&store, &[b"h"], |writer| {
                writer.hash_set(0, &key("h"), &pairs, &limits.hash)
            }),
        ),
        (
            "SADD",
            steps(&store, &[b"s"], |writer| {
                writer.set_add(0, &key("s"), &members, limits.integers)
            }),
        ),
        (
            "SADD of integers",
            steps(&store, &[b"i"], |writer| {
                writer.set_add(0, &key("i"), &integers, limits.integers)
            }),
        ),
        (
            "ZADD",
            steps(&store, &[b"z"], |writer| {
                writer.sorted_add(0, &key("z"), &scored, rule, &limits.sorted)
            }),
        ),
        (
            "RPUSH",
            steps(&store, &[b"l"], |writer| {
                writer.list_push(0, &key("l"), End::Right, &members, false)
            }),
        ),
        (
            "SUNIONSTORE",
            steps(&store, &[b"t"], |writer| {
                let texts = NewMembers::of(&store, &texts);
                writer.set_store(0, &key("t"), &texts, limits.integers)
            }),
        ),
        (
            "ZUNIONSTORE",
            steps(&store, &[b"u"], |writer| {
                writer.sorted_store(0, &key("u"), &all, &limits.sorted)
            }),
        ),
        (
            "COPY of a hash",
            steps(&store, &[b"h", b"h2"], |writer| {
                writer.copy((0, &key("h")), (0, &key("h2")))
            }),
        ),
        (
            "COPY of a set",
            steps(&store, &[b"s", b"s2"], |writer| {
                writer.copy((0, &key("s")), (0, &key("s2")))
            }),
        ),
        (
            "COPY of a sorted set",
            steps(&store, &[b"z", b"z2"], |writer| {
                writer.copy((0, &key("z")), (0, &key("z2")))
            }),
        ),
        (
            "COPY of a list",
            steps(&store, &[b"l", b"l2"], |writer| {
                writer.copy((0, &key("l")), (0, &key("l2")))
            }),
        ),
    ];
    println!("{each:?}");
    for (name, steps) in each {
        assert!(steps < 3.0 * ITEMS as f64, "{name}: {steps}");
    }
    assert_sound(&store);
}
