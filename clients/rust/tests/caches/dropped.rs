//! Tests calls that take an item or a lease on a server and are dropped before they return.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::sync::mpsc::unbounded_channel;
use undercroft::{Cache, CacheOptions, Caching, Error, GetOrInsert, PipelinedCache, PooledCache};
use undercroft_served::Served;

use crate::support::redis::Redis;
use crate::support::script::Script;

/// A lease term that expires only if a test fails.
const LONG: Duration = Duration::from_secs(600);
/// The time within which a lease must be released.
const SOON: Duration = Duration::from_secs(60);
const CALLS: usize = 3000;
const TASKS: u64 = 32;

async fn turns(count: u32) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

/// Makes one call that takes a lease, and drops the call at a random moment. Returns whether the
/// call was dropped before it returned.
async fn dropped(cache: &dyn Cache, random: &mut Rng) -> bool {
    let key = format!("page {}", random.u8(0..8)).into_bytes();
    let patience = random.u32(0..60);
    let caching = Caching::new().lease(LONG).wait(LONG);
    let call = async {
        if random.bool() {
            drop(cache.take_lease(&key, LONG).await.expect("an answer"));
        } else {
            let endless = async || std::future::pending::<Vec<u8>>().await;
            drop(cache.get_or_insert_with(&key, &caching, endless).await);
        }
    };
    tokio::select! {
        biased;
        () = call => false,
        () = turns(patience) => true,
    }
}

/// Drops many calls, and waits until no lease remains.
async fn storm(name: &str, cache: Arc<dyn Cache>) {
    let seed = undercroft_testkit::fresh::seed();
    let tasks: Vec<_> = (0..TASKS)
        .map(|number| {
            let (cache, mut random) = (cache.clone(), Rng::with_seed(seed ^ number));
            tokio::spawn(async move {
                let mut count = 0;
                for _ in 0..CALLS / TASKS as usize {
                    count += usize::from(dropped(&*cache, &mut random).await);
                }
                count
            })
        })
        .collect();
    let mut count = 0;
    for task in tasks {
        count += task.await.expect("it ends");
    }
    println!("dropped: {name}: {count} of {CALLS} calls");
    assert!(count > CALLS / 4, "few calls were dropped: {count}");
    let leases: Vec<Vec<u8>> = (0..8)
        .map(|number| format!("undercroft:lease:{{page {number}}}").into_bytes())
        .collect();
    let leases: Vec<&[u8]> = leases.iter().map(Vec::as_slice).collect();
    let until = Instant::now() + SOON;
    loop {
        let values = cache.mget(&leases).await.expect("leases");
        let left = values.iter().flatten().count();
        if left == 0 {
            break;
        }
        assert!(Instant::now() < until, "{left} leases are left on {name}");
        turns(100).await;
    }
    // Check that caches use the lease names that this test expects.
    let lease = cache.take_lease(b"page 0", LONG).await.expect("an answer");
    let lease = lease.expect("it is free");
    assert!(cache.get(leases[0]).await.expect("get").is_some());
    drop(lease);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_calls_leave_no_leases_on_shared_connections() {
    let served = Served::start_with_threads(2);
    let options = CacheOptions::new().connections(3);
    let cache = PipelinedCache::open(&served.url(), options).expect("a cache");
    storm("shared connections", Arc::new(cache)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_calls_leave_no_leases_on_a_pool() {
    let served = Served::start_with_threads(2);
    let options = CacheOptions::new().connections(6).deadline(SOON);
    let cache = PooledCache::open(&served.url(), options).expect("a cache");
    storm("a pool", Arc::new(cache)).await;
}

#[tokio::test]
async fn dropped_calls_leave_no_leases_on_a_real_redis() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let options = CacheOptions::new().connections(6).deadline(SOON);
    let cache = PooledCache::open(&redis.unix(), options).expect("a cache");
    storm("a real Redis", Arc::new(cache)).await;
}

/// A test server that records the commands it receives and answers a SET only when the test allows
/// it.
struct Held {
    script: Script,
    commands: tokio::sync::mpsc::UnboundedReceiver<String>,
    answer: Arc<tokio::sync::Notify>,
}

fn hold() -> Held {
    let (tell, commands) = unbounded_channel();
    let answer = Arc::new(tokio::sync::Notify::new());
    let go_on = answer.clone();
    let script = Script::start(move |_, mut peer| {
        let (tell, go_on) = (tell.clone(), go_on.clone());
        async move {
            while let Some(words) = peer.command().await {
                let name = String::from_utf8_lossy(&words[0]).into_owned();
                drop(tell.send(name.clone()));
                if name == "SET" {
                    go_on.notified().await;
                    peer.send(b"+OK\r\n").await;
                } else {
                    peer.send(b":1\r\n").await;
                }
            }
        }
    });
    Held {
        script,
        commands,
        answer,
    }
}

/// Takes a lease whose SET is answered only after the call has ended, and checks that the release
/// is sent after that reply.
async fn released_after_the_reply(cache: &dyn Cache, mut held: Held, is_late: bool) {
    let taking = cache.take_lease(b"page", LONG);
    if is_late {
        let late = taking.await;
        assert!(matches!(late, Err(Error::TimedOut(_))), "{late:?}");
        assert_eq!(held.commands.recv().await.as_deref(), Some("SET"));
    } else {
        tokio::select! {
            biased;
            _ = taking => panic!("nothing was answered"),
            name = held.commands.recv() => assert_eq!(name.as_deref(), Some("SET")),
        }
    }
    // These turns of the event loop give a release on another connection enough time to arrive.
    turns(1000).await;
    assert!(held.commands.is_empty(), "it was released before the reply");
    held.answer.notify_one();
    assert_eq!(held.commands.recv().await.as_deref(), Some("EVAL"));
}

#[tokio::test]
async fn lease_is_released_after_the_reply_on_shared_connections() {
    for is_late in [false, true] {
        let mut held = hold();
        let deadline = if is_late {
            Duration::from_millis(20)
        } else {
            LONG
        };
        let options = CacheOptions::new().connections(2).deadline(deadline);
        let cache = PipelinedCache::open(&held.script.url(), options).expect("a cache");
        // The SET uses the second connection, so that a release on the first connection could
        // overtake it.
        drop(cache.get(b"other").await);
        assert_eq!(held.commands.recv().await.as_deref(), Some("GET"));
        released_after_the_reply(&cache, held, is_late).await;
    }
}

#[tokio::test]
async fn lease_is_released_after_the_reply_on_a_pool() {
    for is_late in [false, true] {
        let held = hold();
        let deadline = if is_late {
            Duration::from_millis(20)
        } else {
            LONG
        };
        let options = CacheOptions::new().deadline(deadline);
        let cache = PooledCache::open(&held.script.url(), options).expect("a cache");
        released_after_the_reply(&cache, held, is_late).await;
    }
}

/// Tests that a lease outlives its cache, and that a closed cache grants no leases.
#[tokio::test]
async fn a_lease_that_outlives_its_cache_is_released() {
    let served = Served::start();
    let (options, url) = (CacheOptions::new(), served.url());
    let observer = PooledCache::open(&url, options).expect("a cache");
    let caches: [Box<dyn Cache>; 2] = [
        Box::new(PipelinedCache::open(&url, options).expect("a cache")),
        Box::new(PooledCache::open(&url, options).expect("a cache")),
    ];
    for cache in caches {
        let lease = cache.take_lease(b"page", LONG).await.expect("an answer");
        let lease = lease.expect("it is free");
        cache.close().await;
        let refused = cache.take_lease(b"page", LONG).await;
        assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
        drop(cache);
        // The lease is dropped outside the runtime.
        std::thread::spawn(|| drop(lease)).join().expect("dropped");
        let until = Instant::now() + SOON;
        let lease: &[u8] = b"undercroft:lease:{page}";
        while observer.get(lease).await.expect("get").is_some() {
            assert!(Instant::now() < until, "the lease is left");
            turns(1).await;
        }
    }
}

/// Tests that the connection of a dropped call is closed immediately. Otherwise the server would
/// send a later item to that connection.
#[tokio::test]
async fn dropped_blpop_takes_no_later_item() {
    let served = Served::start();
    let cache = PooledCache::open(&served.url(), CacheOptions::new()).expect("a cache");
    let observer = PooledCache::open(&served.url(), CacheOptions::new()).expect("a cache");
    let waiting = async |count: &str| {
        let expected = format!("blocked_clients:{count}\r\n");
        let until = Instant::now() + SOON;
        loop {
            let info = observer.command(&["INFO", "clients"]).await.expect("INFO");
            if info.to::<String>().expect("text").contains(&expected) {
                return;
            }
            assert!(Instant::now() < until, "expected {expected:?}");
            turns(1).await;
        }
    };
    tokio::select! {
        biased;
        _ = cache.command(&["BLPOP", "jobs", "0"]) => panic!("nothing was pushed"),
        () = waiting("1") => {}
    }
    waiting("0").await;
    let pushed = observer.command(&["RPUSH", "jobs", "job"]).await;
    assert_eq!(pushed.expect("pushed").to::<i64>().expect("a number"), 1);
    let left = cache.command(&["LLEN", "jobs"]).await.expect("a length");
    assert_eq!(left.to::<i64>().expect("a number"), 1);
}
