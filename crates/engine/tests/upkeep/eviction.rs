//! Compares eviction with exact models, and checks that memory usage stays at its limit.

use std::collections::{BTreeSet, HashMap};

use undercroft_engine::eviction::{Eviction, EvictionPolicy};
use undercroft_engine::strings::{Condition, SetOptions};
use undercroft_engine::{Error, Expiry, Store};
use undercroft_testkit::fresh;

const START: u64 = 1_000_000_000;

fn store(shards: usize) -> (tempfile::TempDir, Store) {
    let (directory, store) = fresh::store(shards);
    store.set_time(START);
    (directory, store)
}

fn set_policy(store: &Store, policy: EvictionPolicy) {
    let eviction = Eviction {
        policy,
        ..store.eviction()
    };
    store.set_eviction(eviction).expect("writable");
}

/// A Zipf distribution over the numbers from 0. Each number is half as likely as the number with
/// half its rank.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(count: usize) -> Zipf {
        let mut sum = 0.0;
        Zipf(
            (1..=count)
                .map(|rank| {
                    sum += 1.0 / rank as f64;
                    sum
                })
                .collect(),
        )
    }

    fn next(&self, random: &mut fastrand::Rng) -> usize {
        let ticket = random.f64() * self.0[self.0.len() - 1];
        self.0.partition_point(|&sum| sum <= ticket)
    }
}

const KEYS: usize = 20_000;
const USES: usize = 300_000;
const RESIDENT: usize = 2_000;
const VALUE: [u8; 64] = [b'v'; 64];

fn name(key: usize) -> Vec<u8> {
    format!("key:{key:06}").into_bytes()
}

/// Uses the store as a cache, with one access every `step` milliseconds. Returns the hit rate in
/// the second half of the trace, and the number of keys at the end.
fn hits_of_the_store(
    policy: EvictionPolicy,
    trace: &[usize],
    step: u64,
    random: u64,
) -> (f64, usize) {
    let (_directory, store) = store(8);
    store.set_random(random);
    for key in 0..RESIDENT {
        store.set(0, &name(KEYS + key), &VALUE).expect("room");
    }
    store.set_max_memory(store.used_memory()).expect("writable");
    set_policy(&store, policy);
    let mut hits = 0;
    let mut out = Vec::new();
    for (number, &key) in trace.iter().enumerate() {
        store.set_time(START + number as u64 * step);
        out.clear();
        if store.get(0, &name(key), &mut out).expect("read") {
            hits += usize::from(number >= USES / 2);
        } else {
            store.set(0, &name(key), &VALUE).expect("room is made");
        }
    }
    let keys = store.count_keys(0).expect("counted") as usize;
    assert!(store.evicted_keys() > 0);
    let problems = store.check().expect("checked").problems;
    assert!(problems.is_empty(), "{problems:?}");
    (hits as f64 / (USES - USES / 2) as f64, keys)
}

/// Returns the hit rate of an exact model, which always evicts the key with the lowest rank.
fn hits_of_the_model(trace: &[usize], room: usize, rank: impl Fn(u64, u64) -> (u64, u64)) -> f64 {
    let mut ranked: BTreeSet<((u64, u64), usize)> = BTreeSet::new();
    let mut known: HashMap<usize, ((u64, u64), u64)> = HashMap::new();
    let mut hits = 0;
    for (number, &key) in trace.iter().enumerate() {
        let uses = match known.get(&key) {
            Some(&(old, uses)) => {
                hits += usize::from(number >= USES / 2);
                ranked.remove(&(old, key));
                uses + 1
            }
            None => {
                if known.len() == room
                    && let Some((_, victim)) = ranked.pop_first()
                {
                    known.remove(&victim);
                }
                1
            }
        };
        let new = rank(uses, number as u64);
        ranked.insert((new, key));
        known.insert(key, (new, uses));
    }
    hits as f64 / (USES - USES / 2) as f64
}

fn trace(seed: u64) -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(seed);
    let zipf = Zipf::new(KEYS);
    (0..USES).map(|_| zipf.next(&mut random)).collect()
}

#[test]
fn sampled_lru_hits_nearly_as_often_as_exact_lru() {
    let seed = fresh::seed();
    let trace = trace(seed);
    let (ours, keys) = hits_of_the_store(EvictionPolicy::AllKeysLru, &trace, 16, seed);
    let exact = hits_of_the_model(&trace, keys, |_, number| (number, 0));
    let (random, _) = hits_of_the_store(EvictionPolicy::AllKeysRandom, &trace, 16, seed);
    println!("{keys} keys: LRU {ours:.4}, exact {exact:.4}, random {random:.4}");
    assert!(ours > exact - 0.02 && ours < exact + 0.02, "{ours} {exact}");
    assert!(random < ours - 0.01, "{random} {ours}");
}

#[test]
fn sampled_lfu_hits_nearly_as_often_as_exact_lfu() {
    let seed = fresh::seed();
    let trace = trace(seed);
    let (ours, keys) = hits_of_the_store(EvictionPolicy::AllKeysLfu, &trace, 1, seed);
    let exact = hits_of_the_model(&trace, keys, |uses, number| (uses, number));
    let lru = hits_of_the_model(&trace, keys, |_, number| (number, 0));
    println!("{keys} keys: LFU {ours:.4}, exact {exact:.4}, exact LRU {lru:.4}");
    // Probabilistic 8-bit counters distinguish rarely used keys less accurately than exact counts.
    assert!(ours > exact - 0.06, "{ours} {exact}");
    assert!(ours > lru + 0.005, "{ours} {lru}");
}

#[test]
fn volatile_policies_keep_keys_without_a_deadline() {
    let mut random = fastrand::Rng::with_seed(fresh::seed());
    for policy in [
        EvictionPolicy::VolatileLru,
        EvictionPolicy::VolatileLfu,
        EvictionPolicy::VolatileRandom,
        EvictionPolicy::VolatileTtl,
    ] {
        let (_directory, store) = store(4);
        set_policy(&store, policy);
        // Few keys have an expiry, and many have none, so eviction must search for them.
        for key in 0..20_000 {
            store.set(0, &name(key), &VALUE).expect("room");
        }
        for key in 0..50 {
            let options = SetOptions {
                condition: Condition::Always,
                expiry: Expiry::At(START + 60_000 + random.u64(0..1_000_000)),
            };
            let name = name(KEYS + key);
            store.set_with(3, &name, &VALUE, options).expect("room");
        }
        let entry = store.used_memory() / 20_050;
        store
            .set_max_memory(store.used_memory() - entry * 5)
            .expect("writable");
        store.check_memory_for(usize::MAX).expect("room is made");
        assert_eq!(store.count_keys(0).expect("counted"), 20_000);
        let left = store.count_keys(3).expect("counted");
        assert!((35..50).contains(&left), "{policy:?}: {left}");
        store.set_max_memory(1).expect("writable");
        assert!(matches!(store.set(0, b"more", b"x"), Err(Error::MaxMemory)));
        assert_eq!(store.count_keys(3).expect("counted"), 0);
        assert_eq!(store.count_keys(0).expect("counted"), 20_000);
    }
}

#[test]
fn volatile_ttl_evicts_the_earliest_deadline_first() {
    let (_directory, store) = store(1);
    let mut random = fastrand::Rng::with_seed(fresh::seed());
    let mut deadlines: Vec<u64> = (1..=1000).map(|at| START + at * 1000).collect();
    random.shuffle(&mut deadlines);
    for (key, &at) in deadlines.iter().enumerate() {
        let options = SetOptions {
            condition: Condition::Always,
            expiry: Expiry::At(at),
        };
        store
            .set_with(0, &name(key), &VALUE, options)
            .expect("room");
    }
    let eviction = Eviction {
        policy: EvictionPolicy::VolatileTtl,
        samples: 20,
        ..store.eviction()
    };
    store.set_eviction(eviction).expect("writable");
    store
        .set_max_memory(store.used_memory() * 4 / 5)
        .expect("writable");
    store.check_memory_for(usize::MAX).expect("room is made");
    let mut gone: Vec<u64> = Vec::new();
    for (key, &at) in deadlines.iter().enumerate() {
        if store.exists(0, &[&name(key)]).expect("read") == 0 {
            gone.push(at - START);
        }
    }
    let mean = gone.iter().sum::<u64>() / gone.len() as u64;
    println!("{} gone, on average after {mean} ms", gone.len());
    assert!(gone.len() > 100 && mean < 200_000, "{} {mean}", gone.len());
}

#[test]
fn noeviction_policy_removes_no_key() {
    let (_directory, store) = store(2);
    store.set(0, b"kept", &VALUE).expect("room");
    store.set_max_memory(1).expect("writable");
    assert!(matches!(store.set(0, b"k", b"v"), Err(Error::MaxMemory)));
    assert!(matches!(store.increment(0, b"k", 1), Err(Error::MaxMemory)));
    assert_eq!(store.exists(0, &[b"kept"]).expect("read"), 1);
    assert_eq!(store.delete(0, &[b"kept"]).expect("room"), 1);
    // The buckets remain, so the store still uses memory.
    set_policy(&store, EvictionPolicy::AllKeysRandom);
    assert!(matches!(store.set(0, b"k", b"v"), Err(Error::MaxMemory)));
}

#[test]
fn flushed_memory_is_freed_before_any_key_is_evicted() {
    let (_directory, store) = store(2);
    for key in 0..5000 {
        store.set(1, &name(key), &VALUE).expect("room");
    }
    store.set(0, b"kept", &VALUE).expect("room");
    set_policy(&store, EvictionPolicy::AllKeysLru);
    store.flush(&[1], false).expect("room");
    store
        .set_max_memory(store.used_memory() / 10)
        .expect("writable");
    store.set(0, b"more", &VALUE).expect("room is made");
    assert_eq!(
        (store.evicted_keys(), store.count_keys(0).expect("counted")),
        (0, 2)
    );
}

#[test]
fn flushed_memory_of_any_shard_is_freed_before_any_key_is_evicted() {
    for round in 0..8 {
        let (_directory, store) = store(4);
        store.leave_upkeep_to_a_timer();
        store.set(1, b"large", &[7; 4 << 20]).expect("room");
        let shard = store.key(b"large").shard();
        let others = |key: &usize| store.key(&name(*key)).shard() != shard;
        let kept: Vec<usize> = (0..40).filter(others).collect();
        for &key in &kept {
            store.set(0, &name(key), &VALUE).expect("room");
        }
        set_policy(&store, EvictionPolicy::AllKeysLru);
        store.set_random(round);
        store.flush(&[1], false).expect("room");
        store.set_max_memory(1 << 20).expect("writable");
        store.set(0, &name(kept[0]), &VALUE).expect("room is made");
        assert_eq!(store.evicted_keys(), 0);
        assert!(store.used_memory() < 1 << 20);
    }
}

#[test]
fn memory_stays_at_the_limit_under_concurrent_writes() {
    let seed = fresh::seed();
    let (_directory, store) = store(8);
    set_policy(&store, EvictionPolicy::AllKeysLru);
    let limit = 2 << 20;
    store.set_max_memory(limit).expect("writable");
    // The maximum number of bytes that a thread writes between its check of the limit and its
    // commit.
    const LONGEST: u64 = 5000;
    const THREADS: u64 = 4;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed ^ thread);
                for _ in 0..20_000 {
                    let value = vec![b'x'; random.usize(0..LONGEST as usize)];
                    let key = name(random.usize(0..50_000));
                    store.set(0, &key, &value).expect("room is made");
                    // `used_memory` adds up the shards one by one, and other shards change while it
                    // waits for a shard. To compensate, use the minimum of several results.
                    let used = (0..5).map(|_| store.used_memory()).min().unwrap_or(0);
                    // In addition to the values, allow for a table that is about to double.
                    let slack = (LONGEST + 1000) * THREADS + limit / 8;
                    assert!(used <= limit + slack, "{used} of {limit}");
                }
            });
        }
    });
    assert!(store.evicted_keys() > 10_000);
    let problems = store.check().expect("checked").problems;
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn use_counters_grow_and_decay_as_in_redis() {
    let (_directory, store) = store(1);
    store.set_random(fresh::seed());
    set_policy(&store, EvictionPolicy::AllKeysLfu);
    let key = store.key(b"k");
    store.set(0, b"k", b"v").expect("room");
    assert_eq!(store.frequency(&key), 5);
    store.note_use(&key);
    assert_eq!(store.frequency(&key), 6, "the first use always counts");
    for _ in 0..100_000 {
        store.note_use(&key);
    }
    // According to Redis' documentation, the counter is about 142 after 100,000 hits with factor
    // 10.
    let counter = store.frequency(&key);
    assert!((115..170).contains(&counter), "{counter}");
    store.set_time(START + 10 * 60_000);
    assert_eq!(store.frequency(&key), counter - 10);
    store
        .set_eviction(Eviction {
            lfu_decay_time: 0,
            ..store.eviction()
        })
        .expect("writable");
    assert_eq!(store.frequency(&key), counter);
    store.set_frequency(&key, 200);
    assert_eq!(store.frequency(&key), 200);
}

#[test]
fn idle_time_counts_whole_seconds_since_the_last_use() {
    let (_directory, store) = store(1);
    let key = store.key(b"k");
    // Test every offset within a tick of the clock.
    for used in START..START + 200 {
        store.set_time(used);
        store.set(0, b"k", b"v").expect("room");
        let idle = |milliseconds: u64| {
            store.set_time(used + milliseconds);
            store.idle_seconds(&key)
        };
        assert_eq!([idle(800), idle(1000), idle(5000)], [0, 1, 5], "{used}");
    }
}

#[test]
fn loaded_idle_times_can_begin_before_the_machine() {
    let (_directory, store) = store(1);
    let key = store.key(b"k");
    // The clock starts with the machine.
    store.set_time(10_000);
    for seconds in [0, 9, 10, 11, 3000, 100_000_000] {
        store.set_idle_seconds(&key, seconds);
        assert_eq!(store.idle_seconds(&key), seconds);
    }
    store.set_idle_seconds(&key, u64::MAX);
    assert!(store.idle_seconds(&key) > 100_000_000);
    store.set_idle_seconds(&key, 3000);
    store.set_time(20_000);
    assert_eq!(store.idle_seconds(&key), 3010);
    // A use before a reboot can lie in the future.
    store.note_use(&key);
    store.set_time(1);
    assert_eq!(store.idle_seconds(&key), 0);
}

#[test]
fn eviction_settings_apply_to_all_handles_of_a_store() {
    let (directory, store) = store(1);
    assert_eq!(store.eviction(), Eviction::default());
    let eviction = Eviction {
        policy: EvictionPolicy::VolatileTtl,
        samples: 3,
        lfu_log_factor: 0,
        lfu_decay_time: 0,
    };
    store.set_eviction(eviction).expect("writable");
    let other = Store::open(&directory.path().join("store"), true).expect("a store");
    assert_eq!(other.eviction(), eviction);
    for policy in EvictionPolicy::ALL {
        assert_eq!(EvictionPolicy::from_name(policy.name()), Some(policy));
    }
}
