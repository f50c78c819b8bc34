//! Tests that all caches behave alike: on a store, and on Redis and Undercroft servers, over every
//! kind of connection.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use crate::support::redis::Redis;
use futures_util::StreamExt as _;
use undercroft::{
    Cache, CacheOptions, Caching, Cmd, Error, Event, GetOrInsert, MockCache, PooledCache, Reply,
    Script, SetOptions, StoreCache, cmd, pipe,
};
use undercroft_served::Served;

/// Checks the behavior that all caches share.
async fn check(cache: &dyn Cache) {
    let set = SetOptions::new();
    // The values are text, arbitrary bytes, an empty value, and a value larger than the initial
    // size of any buffer.
    let large: Vec<u8> = (0..3_000_000u32).map(|i| ((i * 31) >> 3) as u8).collect();
    for value in [&b"value"[..], b"", b"\r\n$-1\r\n\0\xff", &large] {
        assert!(cache.set_options(b"key", value, set).await.expect("set"));
        let found = cache.get(b"key").await.expect("get").expect("it exists");
        assert!(found == value, "{} bytes of {}", found.len(), value.len());
    }
    assert_eq!(cache.get(b"none").await.expect("get"), None);

    assert!(
        !cache
            .set_options(b"key", b"x", set.if_missing())
            .await
            .expect("NX")
    );
    assert!(
        !cache
            .set_options(b"new", b"x", set.if_present())
            .await
            .expect("XX")
    );
    assert!(
        cache
            .set_options(b"new", b"1", set.if_missing())
            .await
            .expect("NX")
    );
    assert!(
        cache
            .set_options(b"new", b"2", set.if_present())
            .await
            .expect("XX")
    );
    let hour = set.ttl(Duration::from_secs(3600)).if_present();
    assert!(cache.set_options(b"new", b"3", hour).await.expect("PX XX"));
    let error = cache
        .set_options(b"new", b"4", set.ttl(Duration::ZERO))
        .await;
    let error = error.expect_err("no time at all");
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
    assert_eq!(
        error.to_string(),
        "expected an expiry of 1 ms to 2^62 ms, got 0ns"
    );

    let found = cache.mget(&[b"new", b"none", b"new"]).await;
    let three = Some(b"3".to_vec());
    assert_eq!(found.expect("mget"), [three.clone(), None, three]);
    assert!(cache.mget(&[]).await.expect("none").is_empty());
    assert_eq!(cache.del(&[b"new", b"none", b"key"]).await.expect("del"), 2);
    assert_eq!(cache.del(&[]).await.expect("delete nothing"), 0);
    check_counters_and_expiry(cache).await;
    check_commands(cache).await;
    check_pipelines(cache).await;

    assert!(cache.subscribe(&[]).await.is_err());
    let mut news = cache
        .subscribe(&[b"news", b"more"])
        .await
        .expect("subscribe");
    let mut all = cache.psubscribe(&[b"n*"]).await.expect("subscribe");
    for number in 0..100 {
        let text = format!("message {number}");
        assert_eq!(
            cache
                .publish(b"news", text.as_bytes())
                .await
                .expect("publish"),
            2
        );
    }
    for number in 0..100 {
        let text = format!("message {number}");
        for (events, pattern) in [(&mut news, None), (&mut all, Some(b"n*".to_vec()))] {
            let Some(Ok(Event::Message(message))) = events.next().await else {
                panic!("message {number} is missing")
            };
            assert_eq!(message.payload, text.as_bytes());
            assert_eq!(
                (&message.channel[..], message.pattern),
                (&b"news"[..], pattern)
            );
        }
    }
}

/// Checks counters, and every way to set an expiry and to read it.
pub(crate) async fn check_counters_and_expiry(cache: &dyn Cache) {
    let set = SetOptions::new();
    assert_eq!(
        cache.incr(b"count", i64::MAX).await.expect("incr"),
        i64::MAX
    );
    let error = cache.incr(b"count", 1).await.expect_err("an overflow");
    assert_eq!(error.code(), Some("ERR"), "{error:?}");
    assert_eq!(cache.incr(b"count", -7).await.expect("incr"), i64::MAX - 7);
    assert!(cache.set_options(b"text", b"x", set).await.expect("set"));
    assert!(cache.incr(b"text", 1).await.is_err());
    let keys: [&[u8]; 4] = [b"count", b"none", b"text", b"count"];
    assert_eq!(cache.exists(&keys).await.expect("exists"), 3);
    assert_eq!(cache.exists(&[]).await.expect("exists"), 0);

    let minute = Duration::from_secs(60);
    assert_eq!(cache.ttl(b"text").await.expect("ttl"), None);
    assert_eq!(cache.ttl(b"none").await.expect("ttl"), None);
    assert!(cache.expire(b"text", minute).await.expect("expire"));
    assert!(!cache.expire(b"none", minute).await.expect("expire"));
    assert!(cache.expire(b"text", Duration::MAX).await.is_err());
    // The time of a mock stands still, so a deadline taken from the clock is up to the duration of
    // this test further away.
    let has_ttl = async |key: &[u8]| match cache.ttl(key).await.expect("ttl") {
        Some(left) => {
            assert!(left > Duration::ZERO && left <= 2 * minute, "{left:?}");
            true
        }
        None => false,
    };
    assert!(has_ttl(b"text").await);
    assert!(
        cache
            .set_options(b"text", b"y", set.keep_ttl())
            .await
            .expect("set")
    );
    assert!(has_ttl(b"text").await);
    assert!(cache.set_options(b"text", b"z", set).await.expect("set"));
    assert!(!has_ttl(b"text").await);
    let at = set.expire_at(SystemTime::now() + minute);
    assert!(cache.set_options(b"text", b"old", at).await.expect("set"));
    assert!(has_ttl(b"text").await);
    let old = cache.set_get_old(b"text", b"new", set.keep_ttl()).await;
    assert_eq!(old.expect("set").as_deref(), Some(&b"old"[..]));
    assert!(has_ttl(b"text").await);
    let old = cache.set_get_old(b"text", b"no", set.if_missing()).await;
    assert_eq!(old.expect("set").as_deref(), Some(&b"new"[..]));
    assert_eq!(
        cache.get(b"text").await.expect("get").as_deref(),
        Some(&b"new"[..])
    );
    assert_eq!(
        cache
            .set_get_old(b"none", b"x", set.if_present())
            .await
            .expect("set"),
        None
    );
    assert!(cache.expire(b"text", Duration::ZERO).await.expect("expire"));
    assert_eq!(
        cache.del(&[b"text", b"none", b"count"]).await.expect("del"),
        1
    );

    // A leased value takes its expiry from the options.
    for (options, expires) in [(set, false), (set.ttl(minute), true), (at, true)] {
        let lease = cache.take_lease(b"page", minute).await.expect("an answer");
        let lease = lease.expect("the lease is free");
        assert!(
            cache
                .set_leased(lease, b"<html>", options)
                .await
                .expect("set")
        );
        assert_eq!(has_ttl(b"page").await, expires);
    }
    let lease = cache.take_lease(b"page", minute).await.expect("an answer");
    let lease = lease.expect("the lease is free");
    assert!(cache.set_leased(lease, b"x", set.keep_ttl()).await.is_err());
    assert_eq!(cache.del(&[b"page"]).await.expect("del"), 1);
}

/// Checks that any command runs, except commands that change the state of a shared connection.
pub(crate) async fn check_commands(cache: &dyn Cache) {
    let pushed = cache.command(&[b"RPUSH", b"jobs", b"a", b"b"]).await;
    assert_eq!(pushed.expect("RPUSH"), Reply::Integer(2));
    let items = cache.command(&[b"LRANGE", b"jobs", b"0", b"-1"]).await;
    let items: Vec<String> = items.expect("LRANGE").to().expect("texts");
    assert_eq!(items, ["a", "b"]);
    let error = cache.command(&[b"GET", b"jobs"]).await.expect_err("a list");
    assert!(error.is_wrong_type(), "{error:?}");
    let script = b"return redis.call('llen', KEYS[1])";
    let ran = cache.command(&[b"EVAL", script, b"1", b"jobs"]).await;
    assert_eq!(ran.expect("EVAL"), Reply::Integer(2));
    for refused in [&[&b"MULTI"[..]][..], &[b"subscribe", b"news"], &[]] {
        let error = cache.command(refused).await.expect_err("refused");
        assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
    }
    assert_eq!(cache.del(&[b"jobs"]).await.expect("del"), 1);

    // Arguments and replies of several types, in RESP2 and RESP3.
    let mut hset = cmd("HSET");
    hset.arg("hash")
        .arg([("a", 1), ("b", -2)])
        .arg(("c", vec![b'3']));
    assert_eq!(hset.query_async::<u8>(cache).await.expect("HSET"), 3);
    let hash = cmd("HGETALL").arg("hash").query_async(cache).await;
    let hash: BTreeMap<String, i8> = hash.expect("HGETALL");
    assert_eq!(hash.into_values().collect::<Vec<_>>(), [1, -2, 3]);
    let row = cmd("HMGET")
        .arg(("hash", "a", "x", "b"))
        .query_async(cache)
        .await;
    let row: (bool, Option<String>, f32) = row.expect("HMGET");
    assert_eq!(row, (true, None, -2.0));
    let error = cmd("HGET")
        .arg(("hash", "b"))
        .query_async::<u64>(cache)
        .await;
    assert!(matches!(error, Err(Error::Unexpected { .. })), "{error:?}");
    cmd("ZADD")
        .arg("scores")
        .arg((1.5, "x", 2, "y"))
        .exec_async(cache)
        .await
        .expect("ZADD");
    let scores = cmd("ZRANGE")
        .arg(("scores", 0, -1, "WITHSCORES"))
        .query_async(cache)
        .await;
    let scores: Vec<(String, f64)> = scores.expect("ZRANGE");
    assert_eq!(scores, [("x".to_owned(), 1.5), ("y".to_owned(), 2.0)]);
    let deleted = async |cmd: &Cmd| cmd.query_async::<usize>(cache).await.expect("DEL");
    for key in ["hash", "scores"] {
        assert_eq!(deleted(cmd("DEL").arg(key)).await, 1);
    }
}

/// Checks pipelines, transactions, and scripts that the server does not know. The keys are in one
/// slot of a cluster.
pub(crate) async fn check_pipelines(cache: &dyn Cache) {
    let mut pipeline = pipe();
    for number in 0..500 {
        pipeline.cmd("RPUSH").arg(("{p}list", number));
    }
    let lengths: Vec<u32> = pipeline.query_async(cache).await.expect("RPUSH");
    assert!(
        lengths.into_iter().eq(1..=500),
        "in the order of the commands"
    );
    let mut pipeline = pipe();
    pipeline
        .cmd("LRANGE")
        .arg(("{p}list", 0, -1))
        .cmd("GET")
        .arg("{p}none");
    let (items, none): (Vec<u32>, Option<u8>) = pipeline.query_async(cache).await.expect("GET");
    assert!(items.into_iter().eq(0..500) && none.is_none());

    for atomic in [false, true] {
        let mut pipeline = pipe();
        if atomic {
            pipeline.atomic();
        }
        pipeline
            .cmd("SET")
            .arg(("{p}n", 5))
            .ignore()
            .cmd("INCR")
            .arg("{p}n");
        pipeline.cmd("GET").arg("{p}n");
        let (sum, text): (u8, String) = pipeline.query_async(cache).await.expect("INCR");
        assert_eq!((sum, &*text), (6, "6"));
        // A failed command does not stop the others, even if its reply is ignored.
        let mut pipeline = pipeline.clone();
        pipeline
            .cmd("GET")
            .arg("{p}list")
            .ignore()
            .cmd("INCR")
            .arg("{p}n");
        let error = pipeline.exec_async(cache).await.expect_err("a list");
        assert!(error.is_wrong_type(), "{error:?}");
        assert_eq!(
            cache.get(b"{p}n").await.expect("get").as_deref(),
            Some(&b"7"[..])
        );
        let mut refused = pipe();
        refused.cmd("INCR").arg("{p}n").cmd("MULTI");
        assert!(matches!(
            refused.exec_async(cache).await,
            Err(Error::InvalidArgument(_))
        ));
    }
    // A transaction with a command that cannot be queued changes nothing.
    let mut pipeline = pipe();
    pipeline
        .atomic()
        .cmd("INCR")
        .arg("{p}n")
        .cmd("INCR")
        .arg(("{p}n", "surplus"));
    let error = pipeline
        .exec_async(cache)
        .await
        .expect_err("too many arguments");
    assert!(error.code().is_some(), "{error:?}");
    assert_eq!(
        cache.get(b"{p}n").await.expect("get").as_deref(),
        Some(&b"7"[..])
    );
    pipe().exec_async(cache).await.expect("no commands");

    let code = format!(
        "return KEYS[1] .. ARGV[1] .. ARGV[2] -- {:x}",
        fastrand::u128(..)
    );
    let script = Script::new(&code);
    for _ in 0..2 {
        let call = script.key("{p}n").arg((1, "x"));
        let text: String = call.invoke_async(cache).await.expect("a script");
        assert_eq!(text, "{p}n1x");
    }
    assert_eq!(cache.del(&[b"{p}n", b"{p}list"]).await.expect("del"), 2);
}

/// Checks that each of many concurrent callers receives its own replies.
async fn check_many(cache: &dyn Cache) {
    let callers = futures_util::stream::iter(0..2000u32).map(|number| async move {
        let (key, value) = (format!("key {number}"), vec![number as u8; number as usize]);
        let set = cache.set_options(key.as_bytes(), &value, SetOptions::new());
        assert!(set.await.expect("set"));
        assert_eq!(cache.get(key.as_bytes()).await.expect("get"), Some(value));
    });
    callers.buffer_unordered(500).collect::<Vec<()>>().await;
    let again = futures_util::stream::iter(0..100u32).map(|number| async move {
        let key = format!("key {number}");
        assert_eq!(cache.del(&[key.as_bytes()]).await.expect("del"), 1);
    });
    again.buffer_unordered(100).collect::<Vec<()>>().await;
}

async fn check_closed(cache: &dyn Cache) {
    check(cache).await;
    check_many(cache).await;
    cache.close().await;
    assert!(matches!(cache.get(b"key").await, Err(Error::Closed)));
}

/// Checks the caches over every kind of connection to a server.
pub(crate) async fn check_all(url: &str) {
    for connections in [0, 3] {
        // Connecting with TLS takes seconds on a machine that runs many other tests.
        let deadline = Duration::from_secs(60);
        let options = CacheOptions::new()
            .connections(connections)
            .deadline(deadline);
        check_closed(&*undercroft::cache_with(url, options).expect(url)).await;
        check_closed(&PooledCache::open(url, options).expect(url)).await;
    }
}

#[tokio::test]
async fn cache_on_a_store_fulfills_the_contract() {
    let directory = undercroft_testkit::fresh::directory();
    let url = format!("undercroft://{}/store", directory.path().display());
    check_closed(&*undercroft::cache(&url).expect("a cache")).await;
}

#[tokio::test]
async fn caches_on_a_single_threaded_server_fulfill_the_contract() {
    let ours = Served::start();
    check_all(&ours.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caches_on_a_multi_threaded_server_fulfill_the_contract() {
    let ours = Served::start();
    check_all(&format!("{}?protocol=3&db=2", ours.url())).await;
}

#[tokio::test]
async fn caches_on_a_single_threaded_redis_fulfill_the_contract() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    check_all(&redis.unix()).await;
    check_all(&format!("{}/5?protocol=3", redis.tcp())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caches_on_a_multi_threaded_redis_fulfill_the_contract() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    check_all(&redis.tcp()).await;
    check_all(&format!("{}?protocol=3", redis.unix())).await;
}

#[tokio::test]
async fn store_cache_refuses_to_wait_for_keys() {
    let place = undercroft_testkit::fresh::directory();
    let cache = StoreCache::open_path(place.path().join("store")).expect("a store");
    let cache: &dyn Cache = &cache;
    let read: [&[u8]; 6] = [b"XREAD", b"BLOCK", b"0", b"STREAMS", b"key", b"$"];
    for waiting in [&[&b"blpop"[..], b"key", b"0"][..], &read] {
        let error = cache.command(waiting).await.expect_err("refused");
        assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
    }
    // The name of a stream is not an option.
    let read: [&[u8]; 4] = [b"XREAD", b"STREAMS", b"BLOCK", b"0"];
    assert_eq!(cache.command(&read).await.expect("XREAD"), Reply::Nil);
    // A script that takes longer than a turn of the event loop runs on another thread.
    let script = b"local n = 0; for i = 1, 3000000 do n = n + 1 end; return n";
    let other = tokio::spawn(async {});
    let ran = cache.command(&[b"EVAL", script, b"0"]).await.expect("EVAL");
    assert_eq!(ran, Reply::Integer(3_000_000));
    assert!(other.is_finished());
}

#[tokio::test]
async fn mock_has_the_semantics_of_a_cache_and_reports_calls() {
    let mock = MockCache::new();
    let cache: &dyn Cache = &mock;
    check_counters_and_expiry(cache).await;
    let long = Duration::from_secs(10);
    let lease = cache.take_lease(b"page", long).await.expect("an answer");
    assert!(
        cache
            .take_lease(b"page", long)
            .await
            .expect("an answer")
            .is_none()
    );
    mock.advance(long);
    let later = cache.take_lease(b"page", long).await.expect("an answer");
    let late = cache.set_leased(lease.expect("a lease"), b"late", SetOptions::new());
    assert!(!late.await.expect("set"), "its term is over");
    let set = cache.set_leased(later.expect("a lease"), b"new", SetOptions::new());
    assert!(set.await.expect("set"));
    let caching = Caching::new();
    let found = mock.get_or_insert_with(b"page", &caching, async || unreachable!());
    assert_eq!(found.await.expect("a value"), b"new");
    // The next caller can take a lease that was dropped.
    for _ in 0..2 {
        assert!(
            cache
                .take_lease(b"other", long)
                .await
                .expect("an answer")
                .is_some()
        );
    }

    let mut news = cache.psubscribe(&[b"n*"]).await.expect("subscribed");
    assert_eq!(
        cache.publish(b"news", b"hello").await.expect("published"),
        1
    );
    let Some(Ok(Event::Message(message))) = news.next().await else {
        panic!("no message")
    };
    assert_eq!(message.payload, b"hello");
    drop(news);
    assert_eq!(
        cache.publish(b"news", b"hello").await.expect("published"),
        0
    );

    let error = cache
        .command(&[b"LLEN", b"jobs"])
        .await
        .expect_err("no reply");
    assert!(error.to_string().contains("reply_next"), "{error}");
    mock.fail_next(Error::TimedOut(long));
    assert!(
        cache
            .get(b"key")
            .await
            .is_err_and(|error| error.is_timeout())
    );
    assert_eq!(mock.calls().pop().as_deref(), Some("GET key"));
    cache.close().await;
    assert!(matches!(cache.get(b"key").await, Err(Error::Closed)));
}

#[tokio::test]
async fn databases_have_separate_keys() {
    let server = Served::start();
    let open = |database: u32| undercroft::cache(&format!("{}?db={database}", server.url()));
    let (one, two) = (open(0).expect("a cache"), open(1).expect("a cache"));
    one.set_options(b"key", b"1", SetOptions::new())
        .await
        .expect("set");
    assert_eq!(two.get(b"key").await.expect("get"), None);
}

#[tokio::test]
async fn lagging_subscriber_of_a_store_learns_how_many_messages_it_lost() {
    let place = undercroft_testkit::fresh::directory();
    let path = place.path().join("store");
    // Create a store with a small message ring.
    drop(undercroft_testkit::fresh::handle(&path));
    let cache = StoreCache::open_path(&path).expect("a store");
    let mut news = cache.subscribe(&[b"news"]).await.expect("subscribed");
    let message = vec![0; 10_000];
    for _ in 0..100 {
        cache.publish(b"news", &message).await.expect("published");
    }
    let Some(Ok(Event::Lost(Some(lost)))) = news.next().await else {
        panic!("nothing was lost")
    };
    assert_eq!(lost, 100, "it continues with the next command");
    // A message arrives while the task waits.
    let (event, _) = tokio::join!(news.next(), cache.publish(b"news", b"again"));
    let Some(Ok(Event::Message(message))) = event else {
        panic!("{event:?}")
    };
    assert_eq!(message.payload, b"again");
}

#[tokio::test]
async fn calls_on_a_store_do_not_starve_other_tasks() {
    let place = undercroft_testkit::fresh::directory();
    let cache = StoreCache::open_path(place.path().join("store")).expect("a store");
    let other = tokio::spawn(async {});
    while !other.is_finished() {
        cache.get(b"key").await.expect("get");
    }
}

#[tokio::test]
async fn a_subscription_ends_with_its_store() {
    let place = undercroft_testkit::fresh::directory();
    let path = place.path().join("store");
    let cache = StoreCache::open_path(&path).expect("a store");
    let mut news = cache.subscribe(&[b"news"]).await.expect("subscribed");
    std::fs::remove_file(&path).expect("it exists");
    let event = news.next().await;
    assert!(matches!(event, Some(Err(Error::Removed(_)))), "{event:?}");
    assert!(news.next().await.is_none());
}

#[cfg(not(feature = "tls"))]
#[tokio::test]
async fn encryption_needs_the_feature() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let cache = undercroft::cache(&format!("rediss://{address}")).expect("a cache");
    let error = cache.get(b"key").await.expect_err("no encryption");
    assert!(error.to_string().contains("feature `tls`"), "{error}");
}
