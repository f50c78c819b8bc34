//! Tests long values that are received directly into the store, in pieces of any size and despite
//! interruptions. Also tests replies that are longer than a socket's buffer.

#[path = "../crash_reads/served.rs"]
mod served;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use undercroft_engine::eviction::{Eviction, EvictionPolicy};
use undercroft_engine::{Error, Options, Store};
use undercroft_resp::Value;

use served::{Connection, Served, request};

/// The minimum size, in bytes, of a value that is received directly into the store. Memory for a
/// value of up to `AT_ONCE` bytes is allocated as soon as its length is known.
const LONG: usize = 64 * 1024;
const AT_ONCE: usize = 1024 * 1024;

/// Starts a server, and opens its store with a second handle that simulates another process.
fn start(capacity: u64) -> (Served, Store, TempDir) {
    let directory = undercroft_testkit::fresh::directory();
    let path = directory.path().join("store");
    let options = Options {
        capacity: Some(capacity),
        shards: Some(1),
        ring: None,
    };
    let store = Store::create(&path, &options).expect("a new store");
    let other = Store::open(&path, true).expect("the same store");
    (Served::start(store), other, directory)
}

fn value(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// Waits until a condition is true. Panics after a minute.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::yield_now();
    }
}

/// Sends the first bytes of a SET on a new connection, and waits until memory for the value has
/// been allocated in the store. Returns the connection and the remaining bytes.
fn begun(served: &Served, other: &Store, key: &[u8], length: usize) -> (UnixStream, Vec<u8>) {
    let mut stream = UnixStream::connect(served.socket()).expect("a server");
    let before = other.used_memory();
    let mut first = request(&[b"SET", key, &value(length)]);
    let rest = first.split_off(length / 2);
    stream.write_all(&first).expect("sent");
    until("the value has no memory", || {
        other.used_memory() >= before + length as u64
    });
    (stream, rest)
}

/// Returns the reply to CLIENT LIST.
fn client_list(client: &mut Connection) -> String {
    let mut replies = client.pipeline(&[&[b"CLIENT", b"LIST"]]).expect("a reply");
    match replies.pop() {
        Some(Value::Bulk(text) | Value::Verbatim(_, text)) => {
            String::from_utf8(text).expect("text")
        }
        other => panic!("{other:?}"),
    }
}

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

#[test]
fn long_values_arrive_complete_in_any_pieces() {
    let (served, _, _directory) = start(64 << 20);
    let mut client = Connection::new(&served.socket(), 3);
    for length in [
        LONG - 1,
        LONG,
        LONG + 1,
        LONG + 13,
        AT_ONCE,
        AT_ONCE + 1,
        3 * AT_ONCE + 5,
    ] {
        let sent = value(length);
        let mut all = request(&[b"SET", b"before", b"1"]);
        let head = all.len() + request(&[b"SET", b"k", &sent]).len() - length - 2;
        all.extend(request(&[b"SET", b"k", &sent]));
        let end = all.len();
        all.extend(request(&[b"STRLEN", b"k"]));
        all.extend(request(&[b"SET", b"behind", &sent]));
        let cuts = [
            head - 1,
            head,
            head + 1,
            head + 9,
            head + length / 2,
            end - 3,
            end - 2,
            end - 1,
            end,
            end + 1,
        ];
        for cut in cuts {
            let pieces = [&all[..cut], &all[cut..]];
            client.send(pieces[0]).expect("sent");
            // Once the server has answered another client, it has also read the first piece.
            let mut another = Connection::new(&served.socket(), 2);
            another.pipeline(&[&[b"PING"]]).expect("a reply");
            client.send(pieces[1]).expect("sent");
            let replies = client.receive(4).expect("replies");
            assert_eq!(
                replies,
                [ok(), ok(), Value::Integer(length as i64), ok()],
                "{length} bytes, cut at {cut}"
            );
            for key in [b"k".as_slice(), b"behind"] {
                let found = client.pipeline(&[&[b"GET", key]]).expect("a reply");
                assert!(
                    found == [Value::Bulk(sent.clone())],
                    "{length} bytes, cut at {cut}"
                );
            }
            client
                .pipeline(&[&[b"DEL", b"k", b"behind"]])
                .expect("a reply");
        }
    }
}

#[test]
fn disconnecting_client_leaks_no_memory() {
    let (served, other, _directory) = start(64 << 20);
    let mut client = Connection::new(&served.socket(), 3);
    client
        .pipeline(&[&[b"SET", b"k", b"old"]])
        .expect("a reply");
    for length in [LONG, AT_ONCE] {
        let before = other.used_memory();
        let (stream, _) = begun(&served, &other, b"k", length);
        drop(stream);
        until("its memory is not freed", || other.used_memory() <= before);
        let found = client.pipeline(&[&[b"GET", b"k"]]).expect("a reply");
        assert_eq!(found, [Value::Bulk(b"old".to_vec())]);
    }
    // Announcing a value's length must not allocate memory before bytes of the value arrive.
    let before = other.used_memory();
    let mut stream = UnixStream::connect(served.socket()).expect("a server");
    stream
        .write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$268435456\r\nabc")
        .expect("sent");
    client.pipeline(&[&[b"PING"]]).expect("a reply");
    assert!(other.used_memory() <= before + 4096);
}

#[test]
fn value_without_room_is_refused_in_order() {
    let (served, other, _directory) = start(4 << 20);
    let mut client = Connection::new(&served.socket(), 3);
    let sent = value(6 << 20);
    for round in 0..3 {
        let replies = client
            .pipeline(&[
                &[b"SET", b"small", b"1"],
                &[b"SET", b"k", &sent],
                &[b"GET", b"small"],
            ])
            .expect("replies");
        assert_eq!(replies[0], ok(), "round {round}");
        assert!(
            matches!(&replies[1], Value::Error(text) if text.starts_with(b"OOM")),
            "{:?}",
            &replies[1]
        );
        assert_eq!(replies[2], Value::Bulk(b"1".to_vec()));
    }
    // The second handle sets a memory limit that applies to all processes.
    other.set_max_memory(1 << 20).expect("a limit");
    let half = value(AT_ONCE);
    for _ in 0..3 {
        let replies = client
            .pipeline(&[&[b"SET", b"k", &half], &[b"GET", b"small"]])
            .expect("replies");
        if replies[0] == ok() {
            continue;
        }
        assert!(matches!(&replies[0], Value::Error(text) if text.starts_with(b"OOM")));
        assert_eq!(replies[1], Value::Bulk(b"1".to_vec()));
    }
}

#[test]
fn long_value_counts_as_used_memory_and_evicts_other_keys() {
    let (served, other, _directory) = start(64 << 20);
    other.set_max_memory(8 << 20).expect("a limit");
    let eviction = Eviction {
        policy: EvictionPolicy::AllKeysLru,
        samples: 64,
        ..Eviction::default()
    };
    other.set_eviction(eviction).expect("a policy");
    let mut client = Connection::new(&served.socket(), 3);
    let sent = value(700_000);
    for round in 0..40 {
        let key = format!("key {round}");
        let replies = client
            .pipeline(&[
                &[b"SET", key.as_bytes(), &sent],
                &[b"OBJECT", b"IDLETIME", key.as_bytes()],
            ])
            .expect("replies");
        assert_eq!(replies, [ok(), Value::Integer(0)], "{key}");
    }
    assert!(other.used_memory() < 10 << 20);
}

#[test]
fn transactions_and_unauthenticated_clients_do_not_receive_directly() {
    let (served, other, _directory) = start(64 << 20);
    let mut client = Connection::new(&served.socket(), 3);
    let sent = value(AT_ONCE);
    let replies = client
        .pipeline(&[
            &[b"MULTI"],
            &[b"SET", b"k", &sent],
            &[b"STRLEN", b"k"],
            &[b"EXEC"],
        ])
        .expect("replies");
    assert_eq!(replies[1], Value::Simple(b"QUEUED".to_vec()));
    assert_eq!(
        replies[3],
        Value::Array(vec![ok(), Value::Integer(AT_ONCE as i64)])
    );
    let replies = client
        .pipeline(&[&[b"CONFIG", b"SET", b"requirepass", b"secret"]])
        .expect("a reply");
    assert_eq!(replies, [ok()]);
    let before = other.used_memory();
    let stranger = UnixStream::connect(served.socket()).expect("a server");
    let mut stranger = Connection::of(stranger);
    stranger
        .send(&request(&[b"SET", b"k", &sent])[..LONG])
        .expect("sent");
    let refused = stranger.receive(1).expect("a reply");
    assert!(
        matches!(&refused[0], Value::Error(text) if text.ends_with(b"unauthenticated bulk length")),
        "{refused:?}"
    );
    assert_eq!(other.used_memory(), before);
}

#[test]
fn busy_lock_parks_the_received_set_while_other_clients_continue() {
    let (served, other, _directory) = start(64 << 20);
    let mut client = Connection::new(&served.socket(), 3);
    let (mut stream, rest) = begun(&served, &other, b"k", AT_ONCE);
    let (locked, is_locked) = mpsc::channel();
    let (release, is_released) = mpsc::channel::<()>();
    let is_released = std::sync::Mutex::new(is_released);
    std::thread::scope(|scope| {
        // If an assertion fails, this closure drops the sender, which releases the lock.
        let release = release;
        let (other, locked) = (&other, &locked);
        let is_released = &is_released;
        scope.spawn(move || {
            let key = other.key(b"k");
            let held = other.write(other.shards_of([&key]), |_| {
                locked.clone().send(()).expect("the test waits");
                let _ = is_released.lock().expect("one thread").recv();
                Ok::<_, Error>(())
            });
            held.expect("the lock is free");
        });
        is_locked.recv().expect("it is locked");
        let send = scope.spawn(move || {
            stream.write_all(&rest).expect("sent");
            stream
                .write_all(&request(&[b"STRLEN", b"k"]))
                .expect("sent");
            Connection::of(stream)
        });
        let mut parked = send.join().expect("it is sent");
        until("nothing is parked", || {
            client_list(&mut client).contains("flags=b")
        });
        // Dropping the sender also unblocks every later `recv`, because the body of the write can
        // run more than once.
        drop(release);
        let replies = parked.receive(2).expect("replies");
        assert_eq!(replies, [ok(), Value::Integer(AT_ONCE as i64)]);
    });
    let found = client.pipeline(&[&[b"GET", b"k"]]).expect("a reply");
    assert!(found == [Value::Bulk(value(AT_ONCE))]);
}

#[test]
fn monitor_shows_a_value_that_was_already_being_received() {
    let (served, other, _directory) = start(64 << 20);
    let (mut stream, rest) = begun(&served, &other, b"k", LONG);
    let mut monitor = Connection::new(&served.socket(), 2);
    assert_eq!(monitor.pipeline(&[&[b"MONITOR"]]).expect("a reply"), [ok()]);
    stream.write_all(&rest).expect("sent");
    let mut client = Connection::of(stream);
    assert_eq!(client.receive(1).expect("a reply"), [ok()]);
    let shown = monitor.receive(1).expect("a line");
    assert!(
        matches!(&shown[0], Value::Simple(line) if line.len() > LONG && line.windows(9).any(|part| part == b"\"SET\" \"k\"")),
        "it is not shown"
    );
    let found = client.pipeline(&[&[b"GET", b"k"]]).expect("a reply");
    assert!(found == [Value::Bulk(value(LONG))]);
}

#[test]
fn client_list_shows_the_bytes_of_a_value_being_received() {
    let (served, other, _directory) = start(64 << 20);
    let (_stream, rest) = begun(&served, &other, b"k", AT_ONCE);
    let received = request(&[b"SET", b"k", &value(AT_ONCE)]).len() - rest.len();
    let head = request(&[b"SET", b"k", &value(AT_ONCE)]).len() - AT_ONCE - 2;
    let told = format!("qbuf={} qbuf-free={}", received - head, rest.len());
    let mut client = Connection::new(&served.socket(), 3);
    until("it is not told", || {
        client_list(&mut client).contains(&told)
    });
}

#[test]
fn long_replies_arrive_complete_at_any_reading_speed() {
    let (served, _, _directory) = start(64 << 20);
    let mut client = Connection::new(&served.socket(), 3);
    let sent = value(5_000_000);
    client.pipeline(&[&[b"SET", b"k", &sent]]).expect("a reply");
    let (get, increment): (&[&[u8]], &[&[u8]]) = (&[b"GET", b"k"], &[b"INCR", b"n"]);
    let many = [get, increment].repeat(6);
    let replies = client.pipeline(&many).expect("replies");
    for (place, reply) in replies.iter().enumerate() {
        if place % 2 == 0 {
            assert!(*reply == Value::Bulk(sent.clone()), "reply {place}");
        } else {
            assert_eq!(*reply, Value::Integer(place as i64 / 2 + 1));
        }
    }
    // The server must have no unsent output left.
    let told = client_list(&mut client);
    assert!(told.contains("oll=0 omem=0"), "{told}");
}
