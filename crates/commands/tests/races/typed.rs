//! Tests the typed Rust calls for every pair of states.

use undercroft_engine::{Error, Ranges, Store};
use undercroft_testkit::fresh;
use undercroft_testkit::race::{Family, Interruption, Stage, World};

use crate::is_full;
use crate::runner::stage;

/// The result of a call, and the contents of the caller's buffer, which was not empty before the
/// call.
type Answer = Result<String, String>;

/// The number of pairs of states for each call in a partial run.
const SOME: usize = 60;

type Call = fn(&Store) -> Answer;

fn say<T: std::fmt::Debug>(result: Result<T, Error>) -> Answer {
    result
        .map(|value| format!("{value:?}"))
        .map_err(|error| error.to_string())
}

/// Runs a call that appends to a buffer. Returns the result together with the contents of the
/// buffer.
fn appended<T: std::fmt::Debug>(call: impl FnOnce(&mut Vec<u8>) -> Result<T, Error>) -> Answer {
    let mut out = b"before ".to_vec();
    let result = say(call(&mut out));
    let out = String::from_utf8_lossy(&out);
    match result {
        Ok(result) => Ok(format!("{result} {out}")),
        // After an error, the buffer must have its old contents.
        Err(error) => Err(format!("{error} {out}")),
    }
}

fn ranged(store: &Store, start: i64, stop: i64) -> Answer {
    let mut out = Ranges::new();
    out.push(b"before");
    let result = say(store.list_range(0, b"k", start, stop, &mut out));
    let items: Vec<String> = out
        .iter()
        .map(|item| String::from_utf8_lossy(item).into_owned())
        .collect();
    match result {
        Ok(result) => Ok(format!("{result} {items:?}")),
        Err(error) => Err(format!("{error} {items:?}")),
    }
}

const CALLS: &[(&str, Option<Family>, Call)] = &[
    ("get", Some(Family::String), |store| {
        appended(|out| store.get(0, b"k", out))
    }),
    ("access.get", Some(Family::String), |store| {
        appended(|out| store.access().get(0, b"k", out))
    }),
    ("get_in_place", Some(Family::String), |store| {
        appended(|out| {
            let found = store.get_in_place(0, b"k")?;
            let is_there = found.is_some();
            if let Some(whole) = found {
                store.append_whole(&whole, out);
                store.let_go(whole);
            }
            Ok(is_there)
        })
    }),
    ("get_many", Some(Family::String), |store| {
        say(store.get_many(0, &[b"k", b"j", b"k"]))
    }),
    ("exists", None, |store| {
        say(store.exists(0, &[b"k", b"j", b"k"]))
    }),
    ("expiry", None, |store| say(store.expiry(0, b"k"))),
    ("hash_get", Some(Family::Hash), |store| {
        appended(|out| store.hash_get(0, b"k", b"m0", out))
    }),
    ("hash_get of another field", Some(Family::Hash), |store| {
        appended(|out| store.hash_get(0, b"k", b"m19", out))
    }),
    ("set_contains", Some(Family::Set), |store| {
        say(store.set_contains(0, b"k", b"m0"))
    }),
    ("list_range", Some(Family::List), |store| {
        ranged(store, 0, -1)
    }),
    ("list_range of some", Some(Family::List), |store| {
        ranged(store, -7, -2)
    }),
    ("list_length", Some(Family::List), |store| {
        say(store.list_length(0, b"k"))
    }),
    ("count_keys", None, |store| say(store.count_keys(0))),
    ("keys_where", None, |store| {
        let keys = store.keys_where(0, |key| Ok(key != b"d"));
        say(keys.map(|keys| {
            let mut keys: Vec<Vec<u8>> = keys.iter().map(<[u8]>::to_vec).collect();
            keys.sort_unstable();
            keys
        }))
    }),
    ("scan", None, |store| {
        let mut seen = Vec::new();
        let scanned = store.scan(
            0,
            0,
            100,
            |reader, entry| Ok(Some(entry.expiry(reader.view())?)),
            |key, expiry| seen.push((key.to_vec(), expiry)),
        );
        seen.sort_unstable();
        say(scanned.map(|cursor| (cursor, seen)))
    }),
];

fn pairs(stage: &Stage, family: Option<Family>) -> Vec<(World, World)> {
    let relevant = |index: &usize| {
        let state = &stage.states[*index];
        state.is_usual || state.family == Family::Absent || family.is_none_or(|f| f == state.family)
    };
    let states: Vec<usize> = (0..stage.states.len()).filter(relevant).collect();
    let pair = |from: &usize| {
        let from = *from;
        states.iter().map(move |&to| ([from, to], [to, from]))
    };
    states.iter().flat_map(pair).collect()
}

#[test]
fn typed_call_returns_nothing_from_a_discarded_try() {
    let stage = stage(4);
    let store = stage.open(true);
    store.interrupt_reads(Some(stage.hook()));
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut wrong = Vec::new();
    let mut calls = 0;
    for &(name, family, call) in CALLS {
        let mut pairs = pairs(&stage, family);
        random.shuffle(&mut pairs);
        if !is_full() {
            pairs.truncate(SOME);
        }
        for (from, to) in pairs {
            stage.enter(to);
            let fresh = call(&store);
            for tries in [vec![to], vec![to, from, to]] {
                stage.enter(from);
                stage.interrupt(Interruption::Tries(0, tries));
                let answer = call(&store);
                let (changes, _) = stage.calm();
                assert!(changes > 0, "{name} read nothing");
                calls += 1;
                if answer != fresh {
                    let cut = |answer: &Answer| format!("{answer:?}").chars().take(120).collect();
                    let [answer, fresh]: [String; 2] = [cut(&answer), cut(&fresh)];
                    let (from, to) = (stage.name(from), stage.name(to));
                    wrong.push(format!("{name}, {from} to {to}: {fresh}, got {answer}"));
                }
            }
        }
    }
    println!("races: {calls} typed calls, each thrown away; seed {seed}");
    assert!(
        wrong.is_empty(),
        "{} wrong answers (seed {seed}), first {}",
        wrong.len(),
        wrong[0]
    );
}
