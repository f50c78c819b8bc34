//! Tests that a typed read discarded because a writer interfered leaves nothing in the next
//! attempt's result (R8).

use std::fmt::Debug;

use undercroft_testkit::fresh;
use undercroft_testkit::race::{Family, Interruption, NOW, Stage, World};

use crate::error::Result;
use crate::store::Store;

/// The number of state pairs that are tested for each call.
const SOME: usize = 40;

type Call = fn(&Store) -> String;

fn say<T: Debug>(result: Result<T>) -> String {
    format!("{result:?}")
}

/// Formats a result with sorted items, because the items of sets and hashes are returned in no
/// particular order.
fn sorted<T: Ord + Debug>(result: Result<Vec<T>>) -> String {
    say(result.map(|mut items| {
        items.sort_unstable();
        items
    }))
}

const CALLS: &[(&str, Family, Call)] = &[
    ("get", Family::String, |store| say(store.get("k"))),
    ("get_into", Family::String, |store| {
        let mut value = b"before".to_vec();
        let found = store.get_into("k", &mut value);
        // The content of the buffer after an error is unspecified.
        let left = found.is_ok().then_some(value);
        format!("{found:?} {left:?}")
    }),
    ("mget", Family::String, |store| {
        say(store.mget(["k", "j", "k"]))
    }),
    ("exists", Family::String, |store| {
        say(store.exists(["k", "j"]))
    }),
    ("ttl", Family::String, |store| say(store.ttl("k"))),
    ("key_type", Family::String, |store| say(store.key_type("k"))),
    ("hget", Family::Hash, |store| say(store.hget("k", "m0"))),
    ("hmget", Family::Hash, |store| {
        say(store.hmget("k", ["m0", "none", "m19"]))
    }),
    ("hgetall", Family::Hash, |store| sorted(store.hgetall("k"))),
    ("hlen", Family::Hash, |store| say(store.hlen("k"))),
    (
        "lrange",
        Family::List,
        |store| say(store.lrange("k", 0, -1)),
    ),
    ("lindex", Family::List, |store| say(store.lindex("k", -1))),
    ("llen", Family::List, |store| say(store.llen("k"))),
    ("smembers", Family::Set, |store| sorted(store.smembers("k"))),
    ("sismember", Family::Set, |store| {
        say(store.sismember("k", "m0"))
    }),
    ("sunion", Family::Set, |store| {
        sorted(store.sunion(["k", "j"]))
    }),
    ("zrange", Family::Sorted, |store| {
        say(store.zrange_withscores("k", 0, -1))
    }),
    ("zscore", Family::Sorted, |store| {
        say(store.zscore("k", "m0"))
    }),
    ("zcard", Family::Sorted, |store| say(store.zcard("k"))),
    ("command", Family::String, |store| {
        say(store.command(["GETRANGE", "k", "3", "5000"]))
    }),
    ("command of a feed", Family::Feed, |store| {
        say(store.command(["FEED.RANGE", "k", "0", "50"]))
    }),
];

/// Returns ordered pairs of states for which a call has different results.
fn pairs(stage: &Stage, family: Family) -> Vec<(World, World)> {
    let relevant = |index: &usize| {
        let state = &stage.states[*index];
        state.is_usual || state.family == Family::Absent || state.family == family
    };
    let states: Vec<usize> = (0..stage.states.len()).filter(relevant).collect();
    let with = |&from: &usize| states.iter().map(move |&to| ([from, to], [to, from]));
    states.iter().flat_map(with).collect()
}

#[test]
fn reads_return_nothing_of_a_discarded_try() {
    let stage = Stage::new(4);
    let store = Store::open_path(stage.path()).expect("the store");
    stage.fill(|_, database, words| {
        let store = store.database(database).expect("a database");
        store.command(words).expect("a state's command");
    });
    store.with(|store| store.set_time(NOW));
    store.with(|store| store.interrupt_reads(Some(stage.hook())));
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut thrown = 0;
    for &(name, family, call) in CALLS {
        let mut pairs = pairs(&stage, family);
        random.shuffle(&mut pairs);
        for (from, to) in pairs.into_iter().take(SOME) {
            stage.enter(to);
            let expected = call(&store);
            stage.enter(from);
            stage.interrupt(Interruption::Tries(0, vec![to]));
            let answer = call(&store);
            let (changes, _) = stage.calm();
            assert!(changes > 0, "{name} read nothing");
            thrown += changes;
            assert!(
                answer == expected,
                "{name}, {} to {} (seed {seed}): expected {expected}, got {answer}",
                stage.name(from),
                stage.name(to)
            );
        }
    }
    println!("races: {thrown} reads of the Rust crate, each thrown away; seed {seed}");
}
