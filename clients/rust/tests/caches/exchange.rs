//! Channels, objects and feeds on servers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use undercroft::{
    CacheOptions, Channel, ChannelValue, Client, Error, FeedQuery, FeedSchema, ObjectKind, Objects,
    Pool, Store,
};
use undercroft_served::Served;

use crate::support::redis::Redis;

/// The limit of a wait that only a hang exceeds.
const LONG: Duration = Duration::from_secs(60);

/// Calls `check` with a real Redis and with a store that is served.
fn on_servers(check: impl Fn(&Pool)) {
    let pool = |url: &str| Pool::open(url, CacheOptions::new()).expect("a pool");
    if let Some(redis) = Redis::start(&[]) {
        check(&pool(&redis.unix()));
    }
    check(&pool(&Served::start().url()));
}

/// Opens a served store in this process, and a client of its server.
fn both() -> (Served, [Client; 2]) {
    let served = Served::start();
    let url = served.url();
    let path = url
        .strip_prefix("unix://")
        .and_then(|path| path.strip_suffix("socket"));
    let store = format!("{}store", path.expect("a path"));
    let clients = [&store, &url].map(|url| Client::open(url).expect("a client"));
    (served, clients)
}

fn channel(pool: &Pool, name: &str) -> Channel {
    Channel::new(pool.clone(), name).expect("a channel")
}

fn array<'a>(shape: &'a [u64], items: &'a [u8]) -> ChannelValue<'a> {
    ChannelValue::Array {
        dtype: "|u1",
        shape,
        items,
    }
}

/// Checks that values of every kind and size pass from one handle to another.
fn check_values(from: &Channel, to: &Channel) {
    for size in [0, 1, 32_767, 32_768, 1_000_000] {
        let bytes: Vec<u8> = (0..size).map(|at| at as u8).collect();
        let text = "\u{e4}".repeat(size / 2) + &"x".repeat(size % 2);
        let shape = [size as u64, 1];
        from.send(&bytes).expect("room");
        from.send(&text).expect("room");
        from.send(array(&shape, &bytes)).expect("room");
        let message = to.recv().expect("bytes");
        assert_eq!(message.kind(), &ObjectKind::Bytes, "{size}");
        assert!(message[..] == bytes[..], "{size}");
        assert_eq!(to.recv().expect("text").text(), Some(&text[..]), "{size}");
        let held = to.recv_held(LONG).expect("an array").expect("in time");
        assert!(held[..] == bytes[..], "{size}");
        let kind = ObjectKind::Array {
            dtype: "|u1".into(),
            shape: shape.into(),
        };
        assert_eq!(held.kind(), &kind);
        assert!(held.ack().expect("an acknowledgement"));
    }
    let wrong = from.send(array(&[2], &[0; 3]));
    assert!(matches!(wrong, Err(Error::InvalidArgument(_))));
    assert!(to.is_empty().expect("a length"));
}

#[test]
fn values_pass_between_a_store_and_its_server_in_both_directions() {
    let (_served, clients) = both();
    for (from, to) in [(0, 1), (1, 0), (1, 1)] {
        let [from, to] = [from, to].map(|at: usize| {
            let client = clients[at].clone();
            Channel::new(client, "jobs").expect("a channel")
        });
        check_values(&from, &to);
        let (from, to) = (from.bound(1), to.bound(1));
        assert!(from.try_send("one").expect("room"));
        assert!(!to.try_send("two").expect("full"));
        from.close().expect("closed");
        assert!(to.is_closed().expect("a state"));
        assert_eq!(to.recv().expect("a message").text(), Some("one"));
        assert!(matches!(to.recv(), Err(Error::ChannelClosed)));
        to.del().expect("deleted");
        assert!(from.try_recv().expect("open again").is_none());
    }
    // No object of a long message remains.
    let keys: Vec<String> = (undercroft::cmd("KEYS").arg("*").query(&clients[0])).expect("keys");
    assert!(keys.is_empty(), "{keys:?}");
}

#[test]
fn values_pass_through_a_server() {
    on_servers(|pool| check_values(&channel(pool, "jobs"), &channel(pool, "jobs")));
}

#[test]
fn each_message_of_many_clients_arrives_once() {
    const EACH: u64 = 500;
    on_servers(|pool| {
        let open = || channel(pool, "jobs").bound(20);
        let (sum, count) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let see = |message: &[u8]| {
                let number = u64::from_le_bytes(message.try_into().expect("a number"));
                sum.fetch_add(number, Ordering::Relaxed);
                count.fetch_add(1, Ordering::Relaxed);
            };
            let consumers = [true, false].map(|holds| {
                let jobs = open();
                scope.spawn(move || {
                    loop {
                        let received = match holds {
                            true => jobs.recv_held(LONG).map(|held| {
                                let held = held.expect("in time");
                                see(&held);
                                assert!(held.ack().expect("an acknowledgement"));
                            }),
                            false => jobs.recv().map(|message| see(&message)),
                        };
                        match received {
                            Ok(()) => {}
                            Err(Error::ChannelClosed) => break,
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            });
            let producers = [0, EACH].map(|first| {
                let jobs = open();
                scope.spawn(move || {
                    for number in first + 1..=first + EACH {
                        jobs.send(&number.to_le_bytes()).expect("room");
                    }
                })
            });
            for producer in producers {
                producer.join().expect("a producer");
            }
            open().close().expect("closed");
            for consumer in consumers {
                consumer.join().expect("a consumer");
            }
        });
        assert_eq!(count.into_inner(), 2 * EACH);
        assert_eq!(sum.into_inner(), EACH * (2 * EACH + 1));
    });
}

#[test]
fn a_held_message_returns_when_it_is_dropped_or_its_holder_is_late() {
    on_servers(|pool| {
        let jobs = channel(pool, "jobs").visibility(Duration::from_millis(1));
        jobs.send("first").expect("room");
        jobs.send("second").expect("room");
        drop(
            jobs.recv_held(Duration::ZERO)
                .expect("held")
                .expect("a message"),
        );
        let held = jobs.recv_held(LONG).expect("held").expect("in time");
        assert_eq!(
            (held.text(), jobs.len().expect("a length")),
            (Some("first"), 1)
        );
        // A visibility beyond the clock's range means no limit.
        let endless = channel(pool, "endless").visibility(Duration::MAX);
        endless.send("kept").expect("room");
        let kept = endless.recv_held(LONG).expect("held").expect("in time");
        assert!(kept.ack().expect("an acknowledgement"));
        // Another client takes the second message, and then waits for the one that is not
        // acknowledged in time.
        let other = channel(pool, "jobs");
        assert_eq!(other.recv().expect("a message").text(), Some("second"));
        assert_eq!(other.recv().expect("a message").text(), Some("first"));
        assert!(!held.ack().expect("no longer held"));
        let keys = undercroft::cmd("KEYS").arg("*").query::<Vec<String>>(pool);
        assert!(keys.expect("keys").is_empty());
    });
}

#[test]
fn closing_on_a_server_wakes_producers_and_consumers() {
    on_servers(|pool| {
        let full = channel(pool, "full").bound(1);
        let empty = channel(pool, "empty");
        full.send("first").expect("room");
        std::thread::scope(|scope| {
            let producer = scope.spawn(|| full.send("late"));
            let consumers = [(); 2].map(|()| scope.spawn(|| empty.recv().map(drop)));
            let holder = scope.spawn(|| empty.recv_held(LONG).map(drop));
            full.close().expect("closed");
            empty.close().expect("closed");
            let [first, second] = consumers;
            for ended in [producer.join(), first.join(), second.join(), holder.join()] {
                assert!(matches!(
                    ended.expect("a thread"),
                    Err(Error::ChannelClosed)
                ));
            }
        });
    });
}

#[test]
fn a_pickle_on_a_server_is_refused_and_stays() {
    on_servers(|pool| {
        let jobs = channel(pool, "jobs");
        let push = ("RPUSH", "undercroft:channel:{jobs}", b"\xc1UOp\0\0\0\0");
        pool.command(push).expect("room");
        for received in [jobs.recv().map(drop), jobs.recv_held(LONG).map(drop)] {
            let error = received.expect_err("a pickle");
            assert!(error.to_string().contains("only Python reads"), "{error}");
        }
        assert_eq!(jobs.len().expect("a length"), 1);
    });
}

#[test]
fn objects_pass_between_a_store_and_its_server() {
    let (_served, clients) = both();
    for (from, to) in [(0, 1), (1, 0), (1, 1)] {
        let [from, to] = [from, to].map(|at: usize| Objects::new(clients[at].clone()));
        for size in [0, 7, 100_000] {
            let bytes = vec![size as u8; size];
            let id = from.put_bytes(&bytes, None).expect("room");
            let array = from.put_array("|u1", &[size as u64], &bytes, Some(LONG));
            let array = array.expect("room");
            assert!(to.contains(&id).expect("a state"));
            assert!(to.get(&id).expect("an object").as_deref() == Some(&bytes[..]));
            assert!(to.take(&id).expect("an object").as_deref() == Some(&bytes[..]));
            assert!(to.take(&id).expect("taken").is_none());
            let object = to.get(&array).expect("an object").expect("an object");
            let kind = ObjectKind::Array {
                dtype: "|u1".into(),
                shape: vec![size as u64],
            };
            assert_eq!(object.kind(), kind);
            assert!(to.del(&array).expect("deleted"));
            assert!(!from.contains(&array).expect("a state"));
        }
    }
}

#[test]
fn objects_on_a_server_expire_and_are_taken_once() {
    on_servers(|pool| {
        let objects = Objects::new(pool.clone());
        let id = objects.put_bytes(b"short", Some(Duration::from_millis(1)));
        let id = id.expect("room");
        while objects.contains(&id).expect("a state") {
            std::thread::yield_now();
        }
        for wrong in [
            &b""[..],
            b"\xc1UOa\xff\xff\xff\xff",
            b"\xc1UO",
            b"something else",
        ] {
            pool.set("object:wrong", wrong).expect("room");
            assert!(objects.get(b"wrong").is_err(), "{wrong:?}");
            let error = objects.take(b"wrong").expect_err("not an object");
            assert!(error.to_string().contains("expected an object"), "{error}");
            assert!(objects.contains(b"wrong").expect("a state"), "it stays");
        }
        let id = objects.put_bytes(&[1; 50_000], None).expect("room");
        let lasting = objects.put_bytes(b"lasting", Some(Duration::MAX));
        assert!(objects.del(&lasting.expect("room")).expect("deleted"));
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let object = objects.take(&id).expect("a reply");
                    taken.fetch_add(u64::from(object.is_some()), Ordering::Relaxed);
                });
            }
        });
        assert_eq!(taken.into_inner(), 1);
    });
}

#[test]
fn feeds_of_a_store_are_read_through_its_server() {
    let (_served, clients) = both();
    let [here, there] = clients.map(|client| client.feed("board"));
    there
        .create(FeedSchema::list(3).attributes(&[4, 1]))
        .expect("created");
    here.add(-1, ["one", "two"], Some(&[3, 1])).expect("room");
    assert_eq!(there.add(0, "six", None).expect("room"), 3);
    for feed in [&here, &there] {
        let page = feed.range(0..2, &FeedQuery::new()).expect("a page");
        let all = [(b"six".to_vec(), vec![0, 0]), (b"one".to_vec(), vec![3, 1])];
        assert_eq!(page, all);
        assert_eq!(&*feed.info().expect("facts").attributes, [4, 1]);
    }
    assert_eq!(there.hide("one").expect("a number"), 1);
    assert_eq!(here.count(&FeedQuery::new()).expect("a number"), 2);
}

#[test]
fn a_client_is_a_store_or_a_server() {
    let (_served, [store, server]) = both();
    assert!(matches!(store, Client::Store(_)));
    assert!(matches!(server, Client::Pool(_)));
    assert!(matches!(
        Client::open("http://localhost"),
        Err(Error::Url(_))
    ));
    let opened = Store::open("undercroft://a/b");
    assert!(opened.is_err());
}
