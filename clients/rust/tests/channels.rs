//! Tests channels between threads and processes.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use undercroft::{Channel, ChannelValue, Error, ObjectKind, Store};
use undercroft_testkit::fresh;

/// The limit of a wait that only a hang exceeds.
const LONG: Duration = Duration::from_secs(60);
/// The variable that names the store of a child of [`a_killed_consumer_s_message_returns`].
const CHILD: &str = "UNDERCROFT_TEST_CHANNEL";

fn channel(name: &str) -> (tempfile::TempDir, Store, Channel) {
    let directory = fresh::directory();
    let store = Store::open_path(directory.path().join("store")).expect("a store");
    let channel = Channel::new(store.clone(), name).expect("a channel");
    (directory, store, channel)
}

#[test]
fn values_of_every_kind_and_size_arrive_unchanged() {
    let (_directory, store, jobs) = channel("jobs");
    let used = || -> u64 {
        let info: String = store
            .command(["INFO", "memory"])
            .expect("INFO")
            .to()
            .expect("text");
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:"));
        line.expect("a line").parse().expect("a number")
    };
    jobs.send(&vec![1; 100_000]).expect("room");
    jobs.recv().expect("a message");
    let before = used();
    for size in [0, 1, 32_767, 32_768, 65_535, 65_536, 1_000_000] {
        let bytes: Vec<u8> = (0..size).map(|at| at as u8).collect();
        let text = "\u{e4}".repeat(size / 2) + &"x".repeat(size % 2);
        jobs.send(&bytes).expect("room");
        jobs.send(&text).expect("room");
        let shape = [size as u64, 1];
        let (dtype, items) = ("|u1", &bytes[..]);
        jobs.send(ChannelValue::Array {
            dtype,
            shape: &shape,
            items,
        })
        .expect("room");
        let message = jobs.recv().expect("bytes");
        assert_eq!(
            (message.kind(), &message[..]),
            (&ObjectKind::Bytes, &bytes[..]),
            "{size}"
        );
        let message = jobs.recv().expect("text");
        assert_eq!(message.text(), Some(&text[..]), "{size}");
        assert_eq!(message.kind(), &ObjectKind::Text);
        let held = jobs.recv_held(LONG).expect("an array").expect("in time");
        assert_eq!(&held[..], &bytes[..], "{size}");
        let kind = ObjectKind::Array {
            dtype: dtype.into(),
            shape: shape.into(),
        };
        assert_eq!(held.kind(), &kind);
        assert!(held.ack().expect("an acknowledgement"));
    }
    assert!(
        used() < before + 4096,
        "nothing remains: {} bytes, before {before}",
        used()
    );
    let wrong = ChannelValue::Array {
        dtype: "<f8",
        shape: &[2],
        items: &[0; 9],
    };
    assert!(matches!(jobs.send(wrong), Err(Error::InvalidArgument(_))));
    assert!(jobs.is_empty().expect("a length"));
}

#[test]
fn each_message_arrives_once_and_in_the_order_of_its_producer() {
    const PRODUCERS: u64 = 3;
    const EACH: u64 = 4000;
    let (_directory, store, _) = channel("jobs");
    let open = || {
        Channel::new(store.clone(), "jobs")
            .expect("a channel")
            .bound(20)
    };
    let (sum, count) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let consumers: Vec<_> = (0..3)
            .map(|consumer| {
                let (jobs, sum, count) = (open(), &sum, &count);
                scope.spawn(move || {
                    let mut last = [0; PRODUCERS as usize];
                    let mut see = |message: &[u8]| {
                        let (who, number) = message.split_at(1);
                        let head = number[..8].try_into().expect("a number");
                        let (who, number) = (usize::from(who[0]), u64::from_le_bytes(head));
                        assert!(number > last[who], "{number} after {}", last[who]);
                        last[who] = number;
                        sum.fetch_add(number, Ordering::Relaxed);
                        count.fetch_add(1, Ordering::Relaxed);
                    };
                    loop {
                        // One of the consumers holds its messages.
                        let received = match consumer {
                            0 => jobs.recv_held(LONG).map(|held| {
                                let held = held.expect("in time");
                                see(&held);
                                assert!(held.ack().expect("an acknowledgement"));
                            }),
                            _ => jobs.recv().map(|message| see(&message)),
                        };
                        match received {
                            Ok(()) => {}
                            Err(Error::ChannelClosed) => break,
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|who| {
                let jobs = open();
                scope.spawn(move || {
                    for number in 1..=EACH {
                        let mut message = vec![who as u8];
                        message.extend(number.to_le_bytes());
                        // Some messages are stored as objects.
                        if number % 500 == 0 {
                            message.resize(40_000, 0);
                        }
                        jobs.send(&message).expect("room");
                        assert!(jobs.len().expect("a length") <= 20);
                    }
                })
            })
            .collect();
        producers
            .into_iter()
            .for_each(|producer| producer.join().expect("a producer"));
        open().close().expect("closed");
        consumers
            .into_iter()
            .for_each(|consumer| consumer.join().expect("a consumer"));
    });
    assert_eq!(count.into_inner(), PRODUCERS * EACH);
    assert_eq!(sum.into_inner(), PRODUCERS * EACH * (EACH + 1) / 2);
}

#[test]
fn closing_wakes_waiting_producers_and_consumers() {
    let (_directory, store, full) = channel("full");
    let full = full.bound(1);
    let empty = Channel::new(store.clone(), "empty").expect("a channel");
    full.send("first").expect("room");
    std::thread::scope(|scope| {
        let (short, long) = (
            scope.spawn(|| full.send("late")),
            scope.spawn(|| full.send(&[0; 50_000])),
        );
        let (consumer, holder) = (
            scope.spawn(|| empty.recv()),
            scope.spawn(|| empty.recv_held(LONG)),
        );
        // Closing while some of them do not wait yet has the same result.
        full.close().expect("closed");
        empty.close().expect("closed");
        for sent in [short.join(), long.join()] {
            assert!(matches!(sent.expect("a thread"), Err(Error::ChannelClosed)));
        }
        assert!(matches!(
            consumer.join().expect("a thread"),
            Err(Error::ChannelClosed)
        ));
        assert!(matches!(
            holder.join().expect("a thread"),
            Err(Error::ChannelClosed)
        ));
    });
    assert!(full.is_closed().expect("a state"));
    assert_eq!(
        full.recv().expect("the remaining message").text(),
        Some("first")
    );
    // The object of the refused message is gone.
    assert_eq!(store.keys_of("undercroft:channel:{full}:object:*"), 0);
    full.del().expect("deleted");
    full.send("open again").expect("room");
}

#[test]
fn long_messages_leave_nothing_when_they_expire_are_refused_or_deleted() {
    let (_directory, store, jobs) = channel("jobs");
    let objects = || store.keys_of("undercroft:channel:{jobs}:object:*");
    let jobs = jobs.bound(1).ttl(Duration::from_millis(1));
    jobs.send(&[7; 50_000]).expect("room");
    assert!(!jobs.try_send(&[8; 50_000]).expect("full"));
    assert!(
        !jobs
            .send_timeout(&[8; 50_000], Duration::from_millis(2))
            .expect("full")
    );
    while objects() > 0 {
        std::thread::yield_now();
    }
    // A consumer skips the expired message.
    assert!(jobs.try_recv().expect("empty").is_none());
    assert!(jobs.is_empty().expect("a length"));
    let jobs = jobs.ttl(LONG);
    jobs.send(&[7; 50_000]).expect("room");
    let key = &store
        .scan()
        .collect::<undercroft::Result<Vec<_>>>()
        .expect("keys");
    assert!(
        key.iter()
            .any(|key| store.ttl(&key[..]).expect("an expiry").is_some())
    );
    let held = jobs.recv_held(LONG).expect("held").expect("in time");
    jobs.send(&[9; 50_000]).expect("room");
    assert_eq!(objects(), 2);
    jobs.del().expect("deleted");
    assert_eq!(objects(), 0);
    // A message that is read in place stays valid.
    assert_eq!(&held[..], &[7; 50_000][..]);
    assert!(!held.release().expect("no longer held"));
    assert!(jobs.is_empty().expect("a length"));
}

#[test]
fn a_pickle_is_refused_and_stays() {
    let (_directory, store, jobs) = channel("jobs");
    let items = "undercroft:channel:{jobs}";
    store.rpush(items, [&b"\xc1UOp\0\0\0\0"[..]]).expect("room");
    for received in [jobs.recv().map(drop), jobs.recv_held(LONG).map(drop)] {
        let error = received.expect_err("a pickle");
        assert!(error.to_string().contains("only Python reads"), "{error}");
    }
    assert_eq!(jobs.len().expect("a length"), 1);
}

#[test]
fn a_waiting_consumer_continues_in_the_store_that_replaces_a_removed_one() {
    let (directory, _, jobs) = channel("jobs");
    let path = directory.path().join("store");
    std::thread::scope(|scope| {
        let consumers = [(); 2].map(|()| scope.spawn(|| jobs.recv()));
        let holder = scope.spawn(|| jobs.recv_held(LONG));
        std::fs::remove_file(&path).expect("the store");
        let new = Store::open_path(&path).expect("a new store");
        let producer = Channel::new(new, "jobs").expect("a channel");
        producer.send("short").expect("room");
        producer.send(&[5; 40_000]).expect("room");
        producer.send("held").expect("room");
        let mut lengths = consumers.map(|consumer| {
            let received = consumer.join().expect("a thread");
            received.expect("a message").len()
        });
        let held = holder.join().expect("a thread").expect("a message");
        let held = held.expect("in time");
        lengths.sort_unstable();
        let all = [lengths[0], lengths[1], held.len()];
        assert_eq!(all.iter().sum::<usize>(), 5 + 40_000 + 4, "{all:?}");
        assert!(held.ack().expect("an acknowledgement"));
    });
}

#[test]
fn a_killed_consumer_s_message_returns() {
    if let Some(path) = std::env::var_os(CHILD) {
        let jobs =
            Channel::new(Store::open_path(path).expect("a store"), "jobs").expect("a channel");
        let held = jobs.recv_held(LONG).expect("held").expect("in time");
        println!("\nholds {}", held.len());
        // The parent kills this process.
        std::thread::park();
    }
    let (directory, _, jobs) = channel("jobs");
    for length in [3, 50_000] {
        jobs.send(&vec![1; length]).expect("room");
        jobs.send("second").expect("room");
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--exact",
                "a_killed_consumer_s_message_returns",
                "--nocapture",
            ])
            .env(CHILD, directory.path().join("store"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let line = lines
            .map_while(Result::ok)
            .find(|line| line.starts_with("holds"));
        assert_eq!(line, Some(format!("holds {length}")));
        assert_eq!(jobs.len().expect("a length"), 1);
        child.kill().expect("killed");
        child.wait().expect("waited");
        // The message returns to the front, unless another consumer is faster.
        let lengths = [jobs.recv(), jobs.recv()].map(|received| received.expect("a message").len());
        assert!([[length, 6], [6, length]].contains(&lengths), "{lengths:?}");
        assert!(jobs.is_empty().expect("a length"));
    }
}

trait Keys {
    /// Returns the number of keys that match a pattern.
    fn keys_of(&self, pattern: &str) -> usize;
}

impl Keys for Store {
    fn keys_of(&self, pattern: &str) -> usize {
        let keys: Vec<Vec<u8>> =
            (self.command(["KEYS", pattern]).expect("KEYS").to()).expect("keys");
        keys.len()
    }
}
