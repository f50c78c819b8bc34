//! Tests the computation of missing values, by one caller at a time, in every kind of cache.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use undercroft::{Cache, CacheOptions, Caching, Error, GetOrInsert, PipelinedCache, PooledCache};
use undercroft::{SetOptions, Store, StoreCache};
use undercroft_served::Served;

use crate::support::redis::Redis;

const CALLERS: usize = 1000;
/// A lease term and a waiting time that expire only if a test fails.
const LONG: Duration = Duration::from_secs(120);

fn patient() -> Caching {
    Caching::new().lease(LONG).wait(LONG)
}

/// Checks the behavior that all caches share.
async fn check(cache: &dyn Cache) {
    let caching = patient();
    // No computation completes before all callers have requested the value.
    let (made, asked) = (AtomicUsize::new(0), tokio::sync::Semaphore::new(0));
    let callers = (0..CALLERS).map(|_| async {
        asked.add_permits(1);
        let compute = async || {
            made.fetch_add(1, Ordering::Relaxed);
            drop(asked.acquire_many(CALLERS as u32).await);
            b"once".to_vec()
        };
        let value = cache.get_or_insert_with(b"storm", &caching, compute);
        assert_eq!(value.await.expect("a value"), b"once");
    });
    join_all(callers).await;
    assert_eq!(made.into_inner(), 1);

    // After a computation that fails, panics or is cancelled, another caller computes the value
    // immediately, although the lease lasts for minutes.
    let failing = async || Err::<Vec<u8>, Error>(Error::Closed);
    let failed = cache.try_get_or_insert_with(b"key", &caching, failing);
    assert!(matches!(failed.await, Err(Error::Closed)));
    let panicking = async || panic!("expected by the test");
    let panicked = cache.get_or_insert_with(b"key", &caching, panicking);
    assert!(AssertUnwindSafe(panicked).catch_unwind().await.is_err());
    let began = tokio::sync::Notify::new();
    let endless = cache.get_or_insert_with(b"key", &caching, async || {
        began.notify_one();
        std::future::pending().await
    });
    tokio::select! {
        _ = endless => panic!("it never ends"),
        () = began.notified() => {}
    }
    let value = cache.get_or_insert_with(b"key", &caching, async || b"value".to_vec());
    assert_eq!(value.await.expect("a value"), b"value");
    let value = cache.get_or_insert_with(b"key", &caching, async || unreachable!());
    assert_eq!(value.await.expect("a value"), b"value");
    assert_eq!(
        cache.get(b"key").await.expect("get").as_deref(),
        Some(&b"value"[..])
    );

    // A caller that is too slow loses the lease to a waiting caller, and the value that it computes
    // late is not stored.
    let short = Caching::new().lease(Duration::from_millis(50)).wait(LONG);
    let (begun, done) = (tokio::sync::Notify::new(), tokio::sync::Notify::new());
    let slow = cache.get_or_insert_with(b"slow", &short, async || {
        begun.notify_one();
        done.notified().await;
        b"late".to_vec()
    });
    let heirs = AtomicUsize::new(0);
    let waiting = async {
        begun.notified().await;
        let waiting = (0..50).map(|_| {
            cache.get_or_insert_with(b"slow", &caching, async || {
                heirs.fetch_add(1, Ordering::Relaxed);
                b"in time".to_vec()
            })
        });
        let values = join_all(waiting).await;
        done.notify_one();
        values
    };
    let (late, values) = tokio::join!(slow, waiting);
    assert_eq!(late.expect("its own"), b"late");
    assert!(
        values
            .into_iter()
            .all(|value| value.expect("a value") == b"in time")
    );
    assert_eq!(heirs.into_inner(), 1);
    let left = cache.get(b"slow").await.expect("get");
    assert_eq!(left.as_deref(), Some(&b"in time"[..]));

    // One caller recomputes a value that is due for a refresh, while the other callers receive the
    // old value.
    let brief = Duration::from_millis(30);
    let refreshed = patient().ttl(brief).stale(LONG);
    let first = cache.get_or_insert_with(b"stale", &refreshed, async || b"old".to_vec());
    assert_eq!(first.await.expect("a value"), b"old");
    tokio::time::sleep(brief * 2).await;
    let second = cache.get_or_insert_with(b"stale", &refreshed, async || {
        let other = cache.get_or_insert_with(b"stale", &refreshed, async || unreachable!());
        assert_eq!(other.await.expect("a value"), b"old");
        b"new".to_vec()
    });
    assert_eq!(second.await.expect("a value"), b"new");

    // With a beta this large, the value is due for a refresh long before its TTL has passed.
    let early = patient().ttl(LONG).early(1e12);
    for number in 0..3u8 {
        let made = cache.get_or_insert_with(b"early", &early, async || {
            tokio::time::sleep(Duration::from_millis(2)).await;
            vec![number]
        });
        assert_eq!(made.await.expect("a value"), [number]);
    }

    // A TTL or a lease below 1 ms is refused before a value is computed. If a TTL is too long, the
    // value never expires.
    let none = Duration::from_nanos(999_999);
    for refused in [
        patient().ttl(none),
        patient().ttl(none).stale(LONG),
        patient().lease(none),
    ] {
        let made = cache.get_or_insert_with(b"never", &refused, async || unreachable!());
        let error = made.await.expect_err("no time").to_string();
        assert!(
            error.contains("at least one millisecond, got 999.999"),
            "{error}"
        );
        assert_eq!(cache.get(b"never").await.expect("get"), None);
    }
    let for_ever = [
        Caching::new().ttl(Duration::MAX),
        Caching::new()
            .ttl(Duration::MAX)
            .stale(Duration::MAX)
            .early(f64::MAX),
        Caching::new().ttl(LONG).stale(Duration::MAX),
        Caching::new().lease(Duration::MAX).wait(Duration::MAX),
    ];
    for (number, caching) in for_ever.iter().enumerate() {
        let key = [b'0' + number as u8];
        let made = cache.get_or_insert_with(&key, caching, async || b"made".to_vec());
        assert_eq!(made.await.expect("a value"), b"made");
        let made = cache.get_or_insert_with(&key, caching, async || unreachable!());
        assert_eq!(made.await.expect("a value"), b"made");
        cache.del(&[&key]).await.expect("removed");
    }

    // A typed read skips the header of a value.
    #[cfg(feature = "serde")]
    {
        let times = patient().ttl(LONG).stale(LONG);
        let made = cache.get_or_insert_with(b"typed", &times, async || b"[1, 2]".to_vec());
        made.await.expect("a value");
        let typed = undercroft::CacheExt::get_as::<Vec<u8>>(cache, b"typed").await;
        assert_eq!(typed.expect("JSON"), Some(vec![1, 2]));
        cache.del(&[b"typed"]).await.expect("removed");
    }

    // A caller that waits longer than its waiting time fails with a timeout.
    let lease = cache.take_lease(b"held", LONG).await.expect("free");
    let lease = lease.expect("free");
    let hasty = Caching::new().wait(Duration::from_millis(5));
    let refused = cache.get_or_insert_with(b"held", &hasty, async || unreachable!());
    assert!(refused.await.expect_err("held").is_timeout());
    let set = cache.set_leased(lease, b"kept", SetOptions::new().ttl(LONG));
    assert!(set.await.expect("set"));
    assert_eq!(
        cache.get(b"held").await.expect("get").as_deref(),
        Some(&b"kept"[..])
    );
}

#[tokio::test]
async fn tasks_on_a_store_compute_one_at_a_time() {
    let directory = undercroft_testkit::fresh::directory();
    let cache = StoreCache::open_path(directory.path().join("store")).expect("a store");
    check(&cache).await;
    assert_eq!(
        cache
            .store()
            .command(["DBSIZE"])
            .expect("size")
            .to::<i64>()
            .expect("a number"),
        6
    );
}

#[tokio::test]
async fn tasks_on_a_real_redis_compute_one_at_a_time() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let options = CacheOptions::new().deadline(LONG);
    check(&PipelinedCache::open(&redis.unix(), options).expect("a cache")).await;
}

#[tokio::test]
async fn tasks_on_a_served_store_compute_one_at_a_time() {
    let served = Served::start();
    let options = CacheOptions::new().deadline(LONG).connections(4);
    check(&PooledCache::open(&served.url(), options).expect("a cache")).await;
}

#[test]
fn threads_on_a_store_compute_one_at_a_time() {
    let directory = undercroft_testkit::fresh::directory();
    let store = Store::open_path(directory.path().join("store")).expect("a store");
    let (made, all) = (AtomicUsize::new(0), Barrier::new(CALLERS));
    std::thread::scope(|scope| {
        for _ in 0..CALLERS {
            let body = || {
                all.wait();
                let value = store.get_or_insert_with("storm", &patient(), || {
                    made.fetch_add(1, Ordering::Relaxed);
                    b"once".to_vec()
                });
                assert_eq!(value.expect("a value"), b"once");
            };
            let builder = std::thread::Builder::new().stack_size(128 << 10);
            builder.spawn_scoped(scope, body).expect("a thread");
        }
    });
    assert_eq!(made.into_inner(), 1);
    let panicking = || store.get_or_insert_with("key", &patient(), || panic!("by the test"));
    assert!(catch_unwind(AssertUnwindSafe(panicking)).is_err());
    let value = store.get_or_insert_with("key", &patient(), || b"value".to_vec());
    assert_eq!(value.expect("a value"), b"value");
    // This value starts with the bytes of a header.
    let odd = [&[0xf5, b'u', b'c', 1][..], &[7; 40]].concat();
    for _ in 0..2 {
        let value = store.get_or_insert_with("odd", &patient(), || odd.clone());
        assert_eq!(value.expect("a value"), odd);
    }
}

/// The child process for the storms below. It computes a value until it is allowed to finish, or
/// waits for the value that another process is computing.
#[test]
fn child_process_of_the_storms() {
    let Ok(path) = std::env::var("UNDERCROFT_COMPUTES") else {
        return;
    };
    let term = std::env::var("UNDERCROFT_TERM").expect("milliseconds");
    let term = Duration::from_millis(term.parse().expect("a number"));
    let store = Store::open_path(path).expect("a store");
    store.incr("started", 1).expect("room");
    let caching = Caching::new().lease(term).wait(LONG);
    let value = store.get_or_insert_with("storm", &caching, || {
        let number = store.incr("computed", 1).expect("room");
        store
            .set("pid", std::process::id().to_string())
            .expect("room");
        if number == 1 {
            // The computation lasts until the test allows it to end.
            while store.get("over").expect("readable").is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        number.to_string().into_bytes()
    });
    store
        .rpush("results", &[value.expect("a value")])
        .expect("room");
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Starts 8 processes that request the same key. The first process to compute receives a signal or
/// is slow.
fn storm(term: u32, signal: Option<Signal>) {
    let directory = undercroft_testkit::fresh::directory();
    let path = directory.path().join("store");
    let store = Store::open_path(&path).expect("a store");
    let number = |key: &str| -> i64 {
        let text = store
            .get(key)
            .expect("readable")
            .unwrap_or_else(|| b"0".to_vec());
        String::from_utf8(text)
            .expect("digits")
            .parse()
            .expect("a number")
    };
    let mut children: Vec<Child> = (0..8)
        .map(|_| {
            Command::new(std::env::current_exe().expect("this program"))
                .args(["--exact", "computed::child_process_of_the_storms"])
                .env("UNDERCROFT_COMPUTES", &path)
                .env("UNDERCROFT_TERM", term.to_string())
                .stdout(Stdio::null())
                .spawn()
                .expect("a process")
        })
        .collect();
    until("all ask", || number("started") == 8 && number("pid") != 0);
    let holder = number("pid") as i32;
    let began = Instant::now();
    if let Some(signal) = signal {
        kill(Pid::from_raw(holder), signal).expect("it lives");
    }
    until("another computes", || number("computed") >= 2);
    println!("taken over {:?} after {signal:?}", began.elapsed());
    until("the others have it", || {
        store.llen("results").expect("readable") == 7
    });
    store.set("over", "1").expect("room");
    if signal == Some(Signal::SIGSTOP) {
        kill(Pid::from_raw(holder), Signal::SIGCONT).expect("it lives");
    }
    for child in &mut children {
        let is_killed = signal == Some(Signal::SIGKILL) && child.id() as i32 == holder;
        assert_eq!(child.wait().expect("it ends").success(), !is_killed);
    }
    assert_eq!(number("computed"), 2, "exactly one took over");
    assert_eq!(
        store.get("storm").expect("readable").as_deref(),
        Some(&b"2"[..])
    );
    let results = store.lrange("results", 0, -1).expect("readable");
    let twos = results.iter().filter(|result| **result == b"2").count();
    assert_eq!(twos, 7, "{results:?}");
    assert_eq!(
        results.len(),
        if signal == Some(Signal::SIGKILL) {
            7
        } else {
            8
        }
    );
}

#[test]
fn killed_holder_loses_its_lease_at_once() {
    // The lease lasts for minutes, so only the death of its holder can end it.
    storm(120_000, Some(Signal::SIGKILL));
}

#[test]
fn stopped_holder_loses_its_lease_after_the_term() {
    storm(1500, Some(Signal::SIGSTOP));
}

#[test]
fn slow_holder_loses_its_lease_after_the_term() {
    storm(1500, None);
}

/// Checks that a computation that requests its own key, directly or through another key, fails
/// immediately and leaves no lease.
async fn check_recursion(cache: &(dyn Cache + 'static), other: &(dyn Cache + 'static)) {
    let caching = patient();
    let own = cache.try_get_or_insert_with(b"own", &caching, async || {
        // The recursion is detected in whichever thread polls the computation, and through another
        // handle on the same keys.
        tokio::task::yield_now().await;
        let between = cache.try_get_or_insert_with(b"between", &caching, async || {
            let inner = other.get_or_insert_with(b"own", &caching, async || unreachable!());
            inner.await
        });
        between.await
    });
    let refused = own.await.expect_err("it would wait for itself");
    assert!(matches!(&refused, Error::Recursion(key) if &**key == "own"));
    let text = refused.to_string();
    assert!(text.starts_with("the computation of \"own\" requests its own value"));
    // Another task on the same thread is not confused with the task that computes the value.
    let computing = tokio::sync::Notify::new();
    let first = cache.get_or_insert_with(b"own", &caching, async || {
        computing.notify_one();
        tokio::time::sleep(Duration::from_millis(5)).await;
        b"value".to_vec()
    });
    let second = async {
        computing.notified().await;
        let waits = cache.get_or_insert_with(b"own", &caching, async || unreachable!());
        waits.await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.expect("a value"), b"value");
    assert_eq!(second.expect("a value"), b"value");
}

#[tokio::test]
async fn recursive_computation_of_a_task_fails() {
    let directory = undercroft_testkit::fresh::directory();
    let path = directory.path().join("store");
    let open = || StoreCache::open_path(&path).expect("a store");
    check_recursion(&open(), &open()).await;
    let served = Served::start();
    let url = served.url();
    let options = CacheOptions::new().deadline(LONG);
    let open = || PipelinedCache::open(&url, options).expect("a cache");
    check_recursion(&open(), &PooledCache::open(&url, options).expect("a cache")).await;
    let cache = open();
    cache.del(&[b"own"]).await.expect("deleted");
    check_recursion(&cache, &cache).await;
}

#[test]
fn recursive_computation_of_a_thread_fails() {
    let directory = undercroft_testkit::fresh::directory();
    let store = Store::open_path(directory.path().join("store")).expect("a store");
    let own = store.try_get_or_insert_with("own", &patient(), || {
        store.get_or_insert_with("own", &patient(), || unreachable!())
    });
    assert!(matches!(own, Err(Error::Recursion(_))));
    // The same key in another database is a different value.
    let other = store.database(1).expect("a database");
    let value = store.try_get_or_insert_with("own", &patient(), || {
        other.get_or_insert_with("own", &patient(), || b"value".to_vec())
    });
    assert_eq!(value.expect("a value"), b"value");
    other.del(["own"]).expect("deleted");
    store.del(["own"]).expect("deleted");
    // If another caller computes the inner value, the inner call waits as usual.
    let lease = other.take_lease("own", LONG).expect("an answer");
    let hasty = Caching::new().wait(Duration::from_millis(5));
    let waited = store.try_get_or_insert_with("own", &patient(), || {
        other.get_or_insert_with("own", &hasty, || unreachable!())
    });
    assert!(matches!(waited, Err(Error::TimedOut(_))), "{waited:?}");
    drop(lease);
    let served = Served::start();
    let pool = undercroft::Pool::open(&served.url(), CacheOptions::new()).expect("a pool");
    let own = pool.try_get_or_insert_with("own", &patient(), || {
        pool.get_or_insert_with("own", &patient(), || unreachable!())
    });
    assert!(matches!(own, Err(Error::Recursion(_))));
    // A value is no longer marked as being computed once its computation has panicked.
    let panicking = || pool.get_or_insert_with("own", &patient(), || panic!("by the test"));
    assert!(catch_unwind(AssertUnwindSafe(panicking)).is_err());
    let value = pool.get_or_insert_with("own", &patient(), || b"value".to_vec());
    assert_eq!(value.expect("a value"), b"value");
}
