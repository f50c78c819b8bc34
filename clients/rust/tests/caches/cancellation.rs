//! Tests that calls receive their own replies while other calls are cancelled at any moment.
//!
//! Every value contains its key and a checksum. Many callers read and write at random. Some callers
//! cancel their calls after a few turns of the event loop, and occasionally the server closes all
//! connections. Each caller checks that a reply belongs to its own call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use undercroft::{Cache, CacheOptions, Result, SetOptions};
use undercroft_served::Served;

use crate::support::redis::Redis;

const KEYS: u32 = 500;
const CALLERS: u64 = 64;
const TIME: Duration = Duration::from_secs(3);

#[derive(Default)]
struct Counts {
    replies: AtomicU64,
    cancelled: AtomicU64,
    lost: AtomicU64,
}

fn value(key: u32, random: &mut Rng) -> Vec<u8> {
    let longest = if random.u8(..) == 0 { 100_000 } else { 200 };
    let mut value = vec![0; 8];
    value.extend((0..random.usize(0..longest)).map(|_| random.u8(..)));
    value[4..8].copy_from_slice(&key.to_le_bytes());
    let checksum = crc32fast::hash(&value[4..]);
    value[..4].copy_from_slice(&checksum.to_le_bytes());
    value
}

fn check(key: u32, value: &[u8]) {
    assert!(value.len() >= 8, "key {key} holds {value:?}");
    assert_eq!(
        value[..4],
        crc32fast::hash(&value[4..]).to_le_bytes(),
        "key {key}"
    );
    assert_eq!(value[4..8], key.to_le_bytes(), "a reply for another key");
}

/// Yields to the event loop `count` times.
async fn turns(count: u32) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

/// Makes one random call and checks its reply.
async fn call(cache: &dyn Cache, random: &mut Rng) -> Result<()> {
    let key = random.u32(0..KEYS);
    let name = |key: u32| format!("key {key}").into_bytes();
    match random.u8(0..8) {
        0..=3 => {
            if let Some(value) = cache.get(&name(key)).await? {
                check(key, &value);
            }
        }
        4 | 5 => {
            let value = value(key, random);
            assert!(
                cache
                    .set_options(&name(key), &value, SetOptions::new())
                    .await?
            );
        }
        6 => {
            let keys = [key, (key + 1) % KEYS, (key + 2) % KEYS];
            let names = keys.map(name);
            let values = cache.mget(&[&names[0], &names[1], &names[2]]).await?;
            assert_eq!(values.len(), 3);
            for (key, value) in keys.into_iter().zip(values) {
                value.iter().for_each(|value| check(key, value));
            }
        }
        _ => assert!(cache.del(&[&name(key)]).await? <= 1),
    }
    Ok(())
}

async fn caller(cache: Arc<dyn Cache>, seed: u64, counts: Arc<Counts>) {
    let mut random = Rng::with_seed(seed);
    let end = Instant::now() + TIME;
    while Instant::now() < end {
        let gives_up = random.u8(0..3) == 0;
        let patience = random.u32(0..20);
        let call = call(&*cache, &mut random);
        let outcome = if gives_up {
            tokio::select! {
                biased;
                outcome = call => Some(outcome),
                () = turns(patience) => None,
            }
        } else {
            Some(call.await)
        };
        let count = match outcome {
            None => &counts.cancelled,
            Some(Ok(())) => &counts.replies,
            Some(Err(error)) if error.is_connection() => &counts.lost,
            Some(Err(error)) => panic!("{error}"),
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs all callers while the server repeatedly closes the connections. Returns the number of
/// cancelled calls.
async fn storm(what: &str, cache: Arc<dyn Cache>, url: Option<&str>) -> u64 {
    let seed = undercroft_testkit::fresh::seed();
    let counts = Arc::new(Counts::default());
    let callers: Vec<_> = (0..CALLERS)
        .map(|number| tokio::spawn(caller(cache.clone(), seed ^ number, counts.clone())))
        .collect();
    if let Some(url) = url {
        let killer = undercroft::PipelinedCache::open(url, CacheOptions::new()).expect("a cache");
        let mut replies = 0;
        while callers.iter().any(|caller| !caller.is_finished()) {
            turns(10).await;
            let now = counts.replies.load(Ordering::Relaxed);
            if now > replies + 20_000 {
                replies = now;
                let words = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
                killer
                    .command(&words)
                    .await
                    .expect("connections are closed");
            }
        }
    }
    for caller in callers {
        caller.await.expect("every reply was its caller's own");
    }
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "cancellation: {what}: {} replies checked, {} calls cancelled, {} lost with their connection",
        count(&counts.replies),
        count(&counts.cancelled),
        count(&counts.lost),
    );
    assert!(count(&counts.replies) > 0);
    cache.close().await;
    count(&counts.cancelled)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_calls_on_one_shared_connection() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let cache = undercroft::cache(&redis.unix()).expect("a cache");
    assert!(storm("one connection", cache, Some(&redis.unix())).await > 0);
}

#[tokio::test]
async fn cancelled_calls_on_several_shared_connections() {
    let ours = Served::start();
    let options = CacheOptions::new().connections(3).queue(8 << 10);
    let cache = undercroft::cache_with(&ours.url(), options).expect("a cache");
    assert!(storm("three connections", cache, None).await > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_calls_on_a_pool() {
    let ours = Served::start();
    let options = CacheOptions::new().connections(8);
    let cache = undercroft::PooledCache::open(&ours.url(), options).expect("a cache");
    assert!(storm("a pool", Arc::new(cache), Some(&ours.url())).await > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_calls_on_a_store() {
    let directory = undercroft_testkit::fresh::directory();
    let cache = undercroft::StoreCache::open_path(directory.path().join("store")).expect("a store");
    // Calls on a store complete before they can be cancelled, so the number of cancelled calls is
    // not checked.
    storm("a store", Arc::new(cache), None).await;
}

/// Tests that a cancelled command loses no item on the server: a moved item is in exactly one of
/// the two lists.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_moves_lose_nothing() {
    let ours = Served::start();
    let options = CacheOptions::new().connections(4);
    let pooled = undercroft::PooledCache::open(&ours.url(), options).expect("a cache");
    let mut random = Rng::with_seed(undercroft_testkit::fresh::seed());
    let mut cancelled = 0;
    for number in 0..2000 {
        let item = format!("{number}");
        let pushed = pooled.command(&["RPUSH", "jobs", &item]).await;
        pushed.expect("pushed");
        let words = ["BLMOVE", "jobs", "mine", "LEFT", "RIGHT", "1"];
        tokio::select! {
            biased;
            moved = pooled.command(&words) => drop(moved.expect("moved")),
            () = turns(random.u32(0..40)) => cancelled += 1,
        }
    }
    let length = async |key: &str| {
        let length = pooled.command(&["LLEN", key]).await.expect("a list");
        length.to::<i64>().expect("a number")
    };
    // A command that was sent before its cancellation may be executed between the two LLEN calls.
    let until = Instant::now() + Duration::from_secs(60);
    while length("jobs").await + length("mine").await != 2000 {
        assert!(Instant::now() < until, "an item was lost");
        turns(1).await;
    }
    assert!(length("mine").await > 0);
    assert!(cancelled > 0);
}
