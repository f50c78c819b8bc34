//! Compares sorted sets with a naive model, below and above every conversion threshold.

use std::collections::BTreeMap;

use undercroft_engine::sorted_sets::{AddRule, Bounds, Limit, ScoreBound, Scored, TextBound};
use undercroft_engine::{Error, PackedLimits, Store};
use undercroft_testkit::fresh;

/// For each key, its members and their scores.
type Model = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, f64>>;

const LIMITS: PackedLimits = PackedLimits {
    entries: 20,
    value: 64,
};

fn member(random: &mut fastrand::Rng, members: u64) -> Vec<u8> {
    let number = random.u64(0..members);
    match number % 50 {
        7 => number.to_string().into_bytes(),
        11 => format!("{number}{}", "m".repeat(70)).into_bytes(),
        13 if number < 50 => [b"long".repeat(5000), number.to_string().into_bytes()].concat(),
        17 if number < 50 => Vec::new(),
        _ => format!("member:{number}").into_bytes(),
    }
}

fn score(random: &mut fastrand::Rng) -> f64 {
    match random.u32(..20) {
        0 => f64::INFINITY,
        1 => f64::NEG_INFINITY,
        2 => -0.0,
        3 => f64::from_bits(random.u64(..) & !(0x7ff << 52)),
        4..8 => f64::from(random.i32(..)),
        8..11 => random.f64() * 1e6 - 5e5,
        _ => f64::from(random.i32(-20..20)),
    }
}

/// Returns the members in the order of a sorted set.
fn sorted(set: &BTreeMap<Vec<u8>, f64>) -> Vec<(Vec<u8>, f64)> {
    let mut all: Vec<(Vec<u8>, f64)> = set.iter().map(|(m, s)| (m.clone(), *s)).collect();
    all.sort_by(|one, other| {
        let by_score = one.1.partial_cmp(&other.1).expect("no score is NaN");
        by_score.then_with(|| one.0.cmp(&other.0))
    });
    all
}

fn range(
    store: &Store,
    name: &[u8],
    bounds: &Bounds<'_>,
    limit: Limit,
    reverse: bool,
) -> Option<Vec<(Vec<u8>, f64)>> {
    let key = store.key(name);
    let mut scored = Scored::new();
    let there = store.read_into(store.shards_of([&key]), &mut scored, |reader, scored| {
        let Some(set) = reader.sorted_set(0, &key)? else {
            return Ok(false);
        };
        set.append_range(reader.view(), bounds, limit, reverse, scored)?;
        Ok::<_, Error>(true)
    });
    let all = scored.iter().map(|(m, s)| (m.to_vec(), s)).collect();
    there.expect("a whole store").then_some(all)
}

fn compare(store: &Store, model: &Model, keys: &[Vec<u8>]) {
    let all = Bounds::Ranks(0, -1);
    for key in keys {
        let expected = model.get(key).map(sorted);
        let found = range(store, key, &all, Limit::ALL, false);
        assert_eq!(found, expected, "{key:?}");
    }
    let problems = store.check().expect("checked").problems;
    assert!(problems.is_empty(), "{problems:?}");
}

/// Applies ZADD to the model, as documented by Redis.
fn add_to_model(
    set: &mut BTreeMap<Vec<u8>, f64>,
    members: &[(&[u8], f64)],
    rule: AddRule,
) -> (u64, u64) {
    let (mut added, mut updated) = (0, 0);
    for &(member, given) in members {
        match set.get(member).copied() {
            None if rule.only_existing => {}
            None => {
                set.insert(member.to_vec(), given);
                added += 1;
            }
            Some(_) if rule.only_new => {}
            Some(old) => {
                let new = if rule.increment { old + given } else { given };
                if rule.greater && new <= old || rule.less && new >= old || new == old {
                    continue;
                }
                set.insert(member.to_vec(), new);
                updated += 1;
            }
        }
    }
    (added, updated)
}

fn rule(random: &mut fastrand::Rng) -> AddRule {
    let mut rule = AddRule::default();
    match random.u32(..8) {
        0 => rule.only_new = true,
        1 => rule.only_existing = true,
        2 => rule.greater = true,
        3 => rule.less = true,
        _ => {}
    }
    rule
}

fn bound(random: &mut fastrand::Rng) -> ScoreBound {
    ScoreBound {
        score: score(random),
        exclusive: random.bool(),
    }
}

fn read_range(store: &Store, model: &Model, random: &mut fastrand::Rng, name: &[u8]) {
    let all = model.get(name).map(sorted).unwrap_or_default();
    let reverse = random.bool();
    let limit = Limit {
        offset: random.i64(-1..8),
        count: random.i64(-1..30),
    };
    let (bounds, mut expected) = if random.bool() {
        let (start, stop) = (random.i64(-30..30), random.i64(-30..30));
        let length = all.len() as i64;
        let resolve = |index: i64| if index < 0 { index + length } else { index };
        let wanted = resolve(start).max(0)..=resolve(stop);
        let mut from_end = all.clone();
        if reverse {
            from_end.reverse();
        }
        let expected = from_end.into_iter().enumerate();
        let expected = expected.filter(|(rank, _)| wanted.contains(&(*rank as i64)));
        let expected: Vec<_> = expected.map(|(_, member)| member).collect();
        (Bounds::Ranks(start, stop), expected)
    } else {
        let (low, high) = (bound(random), bound(random));
        let inside = |score: f64| {
            let above = score > low.score || score == low.score && !low.exclusive;
            let below = score < high.score || score == high.score && !high.exclusive;
            above && below
        };
        let mut expected = all;
        expected.retain(|(_, score)| inside(*score));
        if reverse {
            expected.reverse();
        }
        (Bounds::Scores(low, high), expected)
    };
    expected = match usize::try_from(limit.offset) {
        Err(_) => Vec::new(),
        Ok(offset) => expected.into_iter().skip(offset).collect(),
    };
    if let Ok(count) = usize::try_from(limit.count) {
        expected.truncate(count);
    }
    let found = range(store, name, &bounds, limit, reverse);
    assert_eq!(found.is_some(), model.contains_key(name));
    assert_eq!(found.unwrap_or_default(), expected, "{bounds:?} {limit:?}");
}

fn read_one(store: &Store, model: &Model, random: &mut fastrand::Rng, name: &[u8], members: u64) {
    let (key, text) = (store.key(name), member(random, members));
    let hashed = store.key(&text);
    let found = store.read(store.shards_of([&key]), |reader| {
        let Some(set) = reader.sorted_set(0, &key)? else {
            return Ok((None, None));
        };
        let score = set.score(reader.view(), &hashed)?;
        Ok::<_, Error>((score, set.rank(reader.view(), &hashed)?))
    });
    let expected = model.get(name).map(sorted).unwrap_or_default();
    let rank = expected.iter().position(|(member, _)| *member == text);
    let score = rank.map(|rank| expected[rank].1);
    assert_eq!(found.expect("read"), (score, rank.map(|rank| rank as u64)));
}

fn remove_range(store: &Store, model: &mut Model, random: &mut fastrand::Rng, name: &[u8]) {
    let key = store.key(name);
    let all = model.get(name).map(sorted).unwrap_or_default();
    let start = random.u64(0..=all.len() as u64);
    // Occasionally request most of the set.
    let length = if random.u32(..4) == 0 {
        random.u64(0..=all.len() as u64)
    } else {
        random.u64(0..20)
    };
    let bounds = Bounds::Ranks(start as i64, start as i64 + length as i64 - 1);
    let removed = store.write(store.shards_of([&key]), |writer| {
        writer.sorted_remove_range(0, &key, &bounds)
    });
    let gone: Vec<_> = all
        .iter()
        .skip(start as usize)
        .take(length as usize)
        .collect();
    // The ranks 0..=-1 cover the entire set.
    let gone: Vec<_> = if start == 0 && length == 0 {
        all.iter().collect()
    } else {
        gone
    };
    assert_eq!(removed.expect("room"), gone.len() as u64);
    take_from_model(model, name, gone.iter().map(|(member, _)| member.clone()));
}

fn take_from_model(model: &mut Model, name: &[u8], gone: impl Iterator<Item = Vec<u8>>) -> u64 {
    let mut removed = 0;
    if let Some(set) = model.get_mut(name) {
        removed = gone.filter(|member| set.remove(member).is_some()).count() as u64;
        if set.is_empty() {
            model.remove(name);
        }
    }
    removed
}

fn pop(store: &Store, model: &mut Model, random: &mut fastrand::Rng, name: &[u8]) {
    let key = store.key(name);
    let (highest, count) = (random.bool(), random.u64(0..12));
    let mut popped = Scored::new();
    let there = store.write_into(store.shards_of([&key]), &mut popped, |writer, popped| {
        writer.sorted_pop(0, &key, highest, count, popped)
    });
    assert_eq!(there.expect("room"), model.contains_key(name));
    let mut expected = model.get(name).map(sorted).unwrap_or_default();
    if highest {
        expected.reverse();
    }
    expected.truncate(count as usize);
    let popped: Vec<(Vec<u8>, f64)> = popped.iter().map(|(m, s)| (m.to_vec(), s)).collect();
    assert_eq!(popped, expected);
    take_from_model(model, name, expected.into_iter().map(|(member, _)| member));
}

fn step(
    store: &Store,
    model: &mut Model,
    random: &mut fastrand::Rng,
    keys: &[Vec<u8>],
    members: u64,
) {
    let name = &keys[random.usize(..keys.len())];
    let key = store.key(name);
    let other_name = &keys[random.usize(..keys.len())];
    let other = store.key(other_name);
    let both = store.shards_of([&key, &other]);
    match random.u32(..) % 100 {
        0..48 => {
            let texts: Vec<(Vec<u8>, f64)> = (0..random.usize(1..6))
                .map(|_| (member(random, members), score(random)))
                .collect();
            let given: Vec<(&[u8], f64)> = texts.iter().map(|(m, s)| (m.as_slice(), *s)).collect();
            let rule = rule(random);
            let added = store.write(store.shards_of([&key]), |writer| {
                writer.sorted_add(0, &key, &given, rule, &LIMITS)
            });
            let mut set = model.remove(name).unwrap_or_default();
            let expected = add_to_model(&mut set, &given, rule);
            if !set.is_empty() {
                model.insert(name.clone(), set);
            }
            let added = added.expect("room");
            assert_eq!((added.added, added.updated), expected);
        }
        48..68 => {
            let gone: Vec<Vec<u8>> = (0..random.usize(1..8))
                .map(|_| member(random, members))
                .collect();
            let texts: Vec<&[u8]> = gone.iter().map(Vec::as_slice).collect();
            let removed = store.write(store.shards_of([&key]), |writer| {
                writer.sorted_remove(0, &key, &texts)
            });
            let expected = take_from_model(model, name, gone.iter().cloned());
            assert_eq!(removed.expect("room"), expected);
        }
        68..78 => read_range(store, model, random, name),
        78..86 => read_one(store, model, random, name, members),
        86..90 => pop(store, model, random, name),
        90..93 => remove_range(store, model, random, name),
        93..95 => {
            let removed = store.write(store.shards_of([&key]), |writer| writer.remove(0, &key));
            assert_eq!(removed.expect("room"), model.remove(name).is_some());
        }
        95..97 => {
            let copied = store.write(both, |writer| {
                if name == other_name || writer.find(0, &key)?.is_none() {
                    return Ok(false);
                }
                writer.remove(0, &other)?;
                writer.copy((0, &key), (0, &other))
            });
            if copied.expect("room") {
                let set = model[name].clone();
                model.insert(other_name.clone(), set);
            }
        }
        97..99 => {
            let renamed = store.write(both, |writer| writer.rename(0, &key, &other));
            if renamed.expect("room")
                && let Some(set) = model.remove(name)
            {
                model.insert(other_name.clone(), set);
            }
        }
        _ => {
            store.sweep(1000).expect("swept");
        }
    }
}

fn run(members: u64, steps: usize) {
    let mut random = fastrand::Rng::with_seed(fresh::seed());
    let (_directory, store) = fresh::store(2);
    let keys: Vec<Vec<u8>> = (0..4)
        .map(|key| format!("key:{key}").into_bytes())
        .collect();
    let mut model = Model::new();
    for number in 0..steps {
        step(&store, &mut model, &mut random, &keys, members);
        if number % (steps / 40) == 0 {
            compare(&store, &model, &keys);
        }
    }
    compare(&store, &model, &keys);
    store.flush_all(true).expect("flushed");
    let report = store.check().expect("checked");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!(store.used_memory(), 0, "nothing is left");
}

#[test]
fn small_sorted_sets_match_the_model() {
    run(12, 20_000);
}

#[test]
fn sorted_sets_around_the_threshold_match_the_model() {
    run(40, 20_000);
}

#[test]
fn large_sorted_sets_match_the_model() {
    run(2_000, 20_000);
}

#[test]
fn lexicographic_ranges_follow_the_order_of_members() {
    let (_directory, store) = fresh::store(2);
    let key = store.key(b"k");
    for count in [15, 3000] {
        let texts: Vec<String> = (0..count).map(|number| format!("{number:05}")).collect();
        let members: Vec<(&[u8], f64)> = texts.iter().map(|text| (text.as_bytes(), 0.0)).collect();
        store
            .write(store.shards_of([&key]), |writer| {
                writer.sorted_add(0, &key, &members, AddRule::default(), &LIMITS)
            })
            .expect("room");
        let mut random = fastrand::Rng::with_seed(fresh::seed());
        for _ in 0..300 {
            let ends = [random.u32(..count + 5), random.u32(..count + 5)];
            let ends = ends.map(|end| format!("{end:05}"));
            let exclusive = [random.bool(), random.bool()];
            let bound = |place: usize| TextBound::Text {
                text: ends[place].as_bytes(),
                exclusive: exclusive[place],
            };
            let (low, high) = match random.u32(..6) {
                0 => (TextBound::Least, bound(1)),
                1 => (bound(0), TextBound::Greatest),
                _ => (bound(0), bound(1)),
            };
            let inside = |text: &str| {
                let above = match low {
                    TextBound::Text { exclusive, .. } => {
                        *text > *ends[0] || *text == *ends[0] && !exclusive
                    }
                    other => other == TextBound::Least,
                };
                let below = match high {
                    TextBound::Text { exclusive, .. } => {
                        *text < *ends[1] || *text == *ends[1] && !exclusive
                    }
                    other => other == TextBound::Greatest,
                };
                above && below
            };
            let expected: Vec<(Vec<u8>, f64)> = texts
                .iter()
                .filter(|text| inside(text))
                .map(|text| (text.clone().into_bytes(), 0.0))
                .collect();
            let found = range(&store, b"k", &Bounds::Texts(low, high), Limit::ALL, false);
            assert_eq!(found, Some(expected.clone()), "{low:?} {high:?}");
            let found = range(&store, b"k", &Bounds::Texts(low, high), Limit::ALL, true);
            let found = found.map(|found| found.into_iter().rev().collect());
            assert_eq!(found, Some(expected), "{low:?} {high:?}, reversed");
        }
    }
}

#[test]
fn many_members_take_little_memory() {
    let (_directory, store) = fresh::store(2);
    let key = store.key(b"k");
    let mut random = fastrand::Rng::with_seed(5);
    const COUNT: u64 = 200_000;
    for number in 0..COUNT {
        let text = format!("member:{number:06}");
        let members = [(text.as_bytes(), f64::from(random.u32(..1_000_000)))];
        store
            .write(store.shards_of([&key]), |writer| {
                writer.sorted_add(0, &key, &members, AddRule::default(), &LIMITS)
            })
            .expect("room");
    }
    let each = store.used_memory() as f64 / COUNT as f64;
    let measured = store.read(store.shards_of([&key]), |reader| {
        let entry = reader.find(0, &key)?.expect("the key exists");
        let view = reader.view();
        Ok::<_, Error>((entry.memory_usage(view, 0)?, entry.memory_usage(view, 20)?))
    });
    let (exact, sampled) = measured.expect("read");
    let used = store.used_memory() as f64;
    println!("{each:.1} bytes a member");
    assert!(each < 60.0, "{each}");
    assert!(
        (0.9..1.1).contains(&(exact as f64 / used)),
        "{exact} {used}"
    );
    assert!(
        (0.8..1.2).contains(&(sampled as f64 / used)),
        "{sampled} {used}"
    );
}
