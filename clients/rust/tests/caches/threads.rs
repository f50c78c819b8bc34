//! Tests the pool for threads.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;
use undercroft::{CacheOptions, Caching, Error, Event, Pool, Script, SetOptions, cmd, pipe};
use undercroft_served::Served;

use crate::support::redis::Redis;

fn check(pool: &Pool) {
    let large = vec![b'x'; 3_000_000];
    for value in [&b"value"[..], b"", b"\r\n$-1\r\n\0\xff", &large] {
        let set = SetOptions::new().ttl(Duration::from_secs(3600));
        assert!(pool.set_options("key", value, set).expect("set"));
        assert!(pool.get("key").expect("get").expect("it exists") == value);
    }
    assert!(
        !pool
            .set_options("key", "x", SetOptions::new().if_missing())
            .expect("NX")
    );
    let found = pool.mget(["none", "key"]).expect("mget");
    assert_eq!((found[0].is_none(), found[1].is_some()), (true, true));
    assert_eq!(pool.del(["key", "none"]).expect("del"), 1);
    assert_eq!(pool.publish("news", "hello").expect("publish"), 0);
    assert!(pool.command(["SUBSCRIBE", "news"]).is_err());
    assert!(cmd("SUBSCRIBE").arg("news").exec(pool).is_err());
    assert_eq!(pool.del(Vec::<&str>::new()).expect("no keys"), 0);

    let mut pipeline = pipe();
    for number in 0..500 {
        pipeline.cmd("RPUSH").arg(("list", number));
    }
    let lengths: Vec<u32> = pipeline.query(pool).expect("RPUSH");
    assert!(lengths.into_iter().eq(1..=500));
    let mut pipeline = pipe();
    pipeline
        .atomic()
        .cmd("LRANGE")
        .arg(("list", 0, -1))
        .cmd("DEL")
        .arg("list");
    let (items, deleted): (Vec<u32>, bool) = pipeline.query(pool).expect("LRANGE");
    assert!(items.into_iter().eq(0..500) && deleted);
    pipeline.cmd("INCR").arg(("a", "surplus"));
    assert!(
        pipeline
            .exec(pool)
            .is_err_and(|error| error.code().is_some())
    );
    let script = Script::new(&format!("return #KEYS + #ARGV -- {:x}", fastrand::u128(..)));
    for _ in 0..2 {
        let call = script.key(["a", "b"]).arg(1);
        assert_eq!(call.invoke::<u8>(pool).expect("a script"), 3);
    }

    let minute = Duration::from_secs(60);
    assert_eq!(pool.incr(7, 5).expect("incr"), 5);
    assert_eq!(
        (
            pool.exists([7, 7]).expect("exists"),
            pool.exists("x").expect("exists")
        ),
        (2, 0)
    );
    assert_eq!(pool.ttl(7).expect("ttl"), None);
    assert!(pool.expire(7, minute).expect("expire"));
    assert!(
        pool.ttl("7")
            .expect("ttl")
            .is_some_and(|left| left <= minute)
    );
    let keep = SetOptions::new().keep_ttl();
    assert_eq!(
        pool.set_get_old(7, 6, keep).expect("set"),
        Some(b"5".to_vec())
    );
    assert!(pool.ttl(7).expect("ttl").is_some());
    assert!(
        pool.set_options(
            7,
            1,
            SetOptions::new().expire_at(SystemTime::now() + minute)
        )
        .expect("set")
    );
    assert!(pool.ttl(7).expect("ttl").is_some());
    cmd("HSET").arg(("hash", "a", 1)).exec(pool).expect("HSET");
    let hash: HashMap<String, u8> = cmd("HGETALL").arg("hash").query(pool).expect("HGETALL");
    assert_eq!(hash, HashMap::from([("a".to_owned(), 1)]));
    let length: u8 = pool
        .command(("HLEN", "hash"))
        .expect("HLEN")
        .to()
        .expect("a length");
    assert_eq!((length, pool.del(("hash", 7)).expect("del")), (1, 2));
}

#[test]
fn calls_of_a_pool_behave_like_those_of_caches() {
    let ours = Served::start();
    check(&Pool::open(&ours.url(), CacheOptions::new()).expect("a pool"));
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    for url in [
        redis.unix(),
        redis.tcp(),
        format!("{}/3?protocol=3", redis.tcp()),
    ] {
        check(&Pool::open(&url, CacheOptions::new()).expect("a pool"));
    }
}

#[test]
fn one_thread_computes_at_a_time_and_late_values_are_not_stored() {
    const THREADS: usize = 32;
    let check = |url: &str| {
        let pool = Pool::open(url, CacheOptions::new().connections(4)).expect("a pool");
        let long = Duration::from_secs(120);
        let caching = Caching::new().lease(long).wait(long);
        let (made, asked) = (AtomicU64::new(0), Barrier::new(THREADS));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    asked.wait();
                    let value = pool.get_or_insert_with("storm", &caching, || {
                        made.fetch_add(1, Ordering::Relaxed);
                        b"once".to_vec()
                    });
                    assert_eq!(value.expect("a value"), b"once");
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
        // After a failure or a panic, another caller computes the value immediately, although the
        // lease lasts for minutes.
        let failed = pool.try_get_or_insert_with("key", &caching, || Err(Error::Closed));
        assert!(matches!(failed, Err(Error::Closed)));
        let panicking =
            || pool.get_or_insert_with("key", &caching, || panic!("expected by the test"));
        assert!(catch_unwind(AssertUnwindSafe(panicking)).is_err());
        let value = pool.get_or_insert_with("key", &caching, || b"value".to_vec());
        assert_eq!(value.expect("a value"), b"value");
        // A caller that is too slow loses the lease to another caller, and the value that it
        // computes late is not stored.
        let slow = pool.get_or_insert_with("slow", &caching, || {
            assert_eq!(pool.del(["undercroft:lease:{slow}"]).expect("del"), 1);
            let heir = pool.get_or_insert_with("slow", &caching, || b"in time".to_vec());
            assert_eq!(heir.expect("a value"), b"in time");
            b"late".to_vec()
        });
        assert_eq!(slow.expect("a value"), b"late");
        assert_eq!(
            pool.get("slow").expect("get").as_deref(),
            Some(&b"in time"[..])
        );
        // A caller that waits longer than its waiting time fails with a timeout.
        let held = pool.take_lease("held", long).expect("a lease");
        let short = Caching::new().wait(Duration::from_millis(5));
        let waited = pool.get_or_insert_with("held", &short, || unreachable!());
        assert!(waited.expect_err("another computes").is_timeout());
        drop(held);
        let value = pool.get_or_insert_with("held", &short, || b"value".to_vec());
        assert_eq!(value.expect("a value"), b"value");
        let left: Vec<Vec<u8>> = pool
            .command(["KEYS", "undercroft:lease:*"])
            .and_then(undercroft::Reply::to)
            .expect("keys");
        assert!(left.is_empty(), "{left:?}");
    };
    check(&Served::start().url());
    if let Some(redis) = Redis::start(&[]) {
        check(&redis.unix());
    }
}

#[test]
fn many_threads_share_few_connections() {
    const THREADS: u64 = 32;
    const CALLS: u64 = 200;
    let ours = Served::start();
    let options = CacheOptions::new().connections(2);
    let pool = Pool::open(&ours.url(), options.deadline(Duration::from_secs(600)));
    let (pool, calls) = (pool.expect("a pool"), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, calls) = (pool.clone(), &calls);
            scope.spawn(move || {
                for call in 0..CALLS {
                    let (key, value) = (thread.to_string(), call.to_string());
                    pool.set_options(&key, &value, SetOptions::new())
                        .expect("set");
                    let found = pool.get(&key).expect("get");
                    assert_eq!(found, Some(value.into_bytes()));
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(calls.into_inner(), THREADS * CALLS);
    let clients: String = pool
        .command(["CLIENT", "LIST"])
        .and_then(undercroft::Reply::to)
        .expect("a list");
    assert!(clients.lines().count() <= 2, "{clients}");
}

#[test]
fn threads_that_give_up_do_not_block_the_others() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let options = CacheOptions::new()
        .connections(2)
        .deadline(Duration::from_millis(50));
    let pool = Pool::open(&redis.unix(), options).expect("a pool");
    pool.set_options("key", "value", SetOptions::new())
        .expect("set");
    redis.signal(Signal::SIGSTOP);
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let error = pool.get("key").expect_err("no server replies");
                assert!(error.is_timeout() || error.is_connection(), "{error}");
            });
        }
    });
    redis.signal(Signal::SIGCONT);
    for _ in 0..100 {
        let mut found = pool.get("key");
        while found.is_err() {
            found = pool.get("key");
        }
        assert_eq!(found.expect("a reply"), Some(b"value".to_vec()));
    }
}

#[test]
fn pool_reconnects_to_a_restarted_server() {
    let Some(mut redis) = Redis::start(&[]) else {
        return;
    };
    let pool = Pool::open(&redis.tcp(), CacheOptions::new()).expect("a pool");
    pool.set_options("key", "value", SetOptions::new())
        .expect("set");
    redis.kill();
    let error = pool.get("key").expect_err("no server is running");
    assert!(matches!(error, Error::Connect { .. }), "{error}");
    redis.start_again();
    assert_eq!(pool.get("key").expect("a reply"), None);
}

#[test]
fn slow_reads_by_the_server_do_not_extend_the_deadline() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).expect("a socket");
    let value = vec![b'x'; 4 << 20];
    let rest = value.len();
    let server = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("a connection");
        let mut byte = [0; 14];
        peer.read_exact(&mut byte).expect("PING");
        peer.write_all(b"+PONG\r\n").expect("a reply");
        // Reading one byte at a time takes far longer than the deadline of the call.
        let taken = (0..rest).take_while(|_| matches!(peer.read(&mut byte[..1]), Ok(1)));
        taken.count()
    });
    let options = CacheOptions::new().deadline(Duration::from_millis(50));
    let pool = Pool::open(&format!("unix://{}", path.display()), options).expect("a pool");
    let error = pool.set_options("key", &value, SetOptions::new());
    let error = error.expect_err("it was not taken in time");
    assert!(error.is_timeout(), "{error}");
    let taken = server.join().expect("it ends with the connection");
    assert!(taken < rest, "all of it was sent");
}

#[test]
fn connecting_to_a_server_that_does_not_accept_times_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).expect("a socket");
    // The backlog is full, so further connections block.
    rustix::net::listen(&listener, 0).expect("it listens already");
    let others = UnixStream::connect(&path).expect("there is room for one");
    let options = CacheOptions::new().deadline(Duration::from_millis(50));
    let pool = Pool::open(&format!("unix://{}", path.display()), options).expect("a pool");
    let error = pool.get("key").expect_err("no server is running");
    assert!(matches!(error, Error::Connect { .. }), "{error}");
    drop((listener, others));
}

#[test]
fn subscription_of_a_thread_survives_lost_connections() {
    let Some(mut redis) = Redis::start(&[]) else {
        return;
    };
    let options = CacheOptions::new().silence(Duration::from_millis(50));
    let pool = Pool::open(&redis.tcp(), options).expect("a pool");
    assert!(pool.subscribe(&[] as &[&str]).is_err());
    let mut news = pool.subscribe(["news", "more"]).expect("subscribed");
    let mut all = pool.psubscribe(["n*"]).expect("subscribed");
    let large = "x".repeat(1_000_000);
    for text in ["one", "", &large] {
        assert_eq!(pool.publish("news", text).expect("published"), 2);
        for (messages, pattern) in [(&mut news, None), (&mut all, Some(b"n*".to_vec()))] {
            let Some(Ok(Event::Message(message))) = messages.next() else {
                panic!("a message is missing")
            };
            assert!(message.payload == text.as_bytes());
            assert_eq!(
                (&message.channel[..], message.pattern),
                (&b"news"[..], pattern)
            );
        }
    }
    // The subscription sends a PING to a silent server, and the connection is kept if the server
    // replies.
    assert!(news.next_within(Duration::from_millis(200)).is_none());
    assert_eq!(pool.publish("more", "two").expect("published"), 1);
    let event = news.next();
    assert!(matches!(event, Some(Ok(Event::Message(_)))), "{event:?}");

    redis.kill();
    let event = news.next().expect("no end");
    assert!(event.expect_err("no server is running").is_connection());
    redis.start_again();
    while !matches!(news.next(), Some(Ok(Event::Lost(None)))) {}
    pool.get("key").expect("it exists again");
    assert_eq!(pool.publish("news", "three").expect("published"), 1);
    let event = news.next();
    assert!(matches!(event, Some(Ok(Event::Message(_)))), "{event:?}");
}

#[test]
fn subscriptions_give_up_a_server_that_stops_responding() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let options = CacheOptions::new()
        .silence(Duration::from_millis(50))
        .deadline(Duration::from_millis(50));
    let pool = Pool::open(&redis.unix(), options).expect("a pool");
    let mut news = pool.subscribe(["news"]).expect("subscribed");
    redis.signal(Signal::SIGSTOP);
    let error = news.next().expect("no end").expect_err("no server replies");
    assert!(error.is_connection() || error.is_timeout(), "{error}");
    redis.signal(Signal::SIGCONT);
    while !matches!(news.next(), Some(Ok(Event::Lost(None)))) {}
}
