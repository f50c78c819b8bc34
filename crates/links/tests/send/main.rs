//! Tests that the stream of a store's changes makes every replica equal to the store: after random
//! commands of every family, with data sets that are taken at any moment, and with senders that end
//! at any moment.

#[path = "../../../commands/tests/support/alone.rs"]
mod alone;

use std::collections::BTreeMap;

use alone::Alone;
use tempfile::TempDir;
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session::Session;
use undercroft_commands::{Context, execute};
use undercroft_conformance::generate::{FAMILIES, Generator};
use undercroft_engine::keyspace::Item;
use undercroft_engine::rdb::RdbVersion;
use undercroft_engine::{Error, Options, REPLICATION_ID, Store, ValueType};
use undercroft_links::load::{LoadOptions, load};
use undercroft_links::rdb::Reader;
use undercroft_links::save::{SaveOptions, save};
use undercroft_links::send::{Sender, Sent};
use undercroft_resp::{Parsed, RequestParser};
use undercroft_testkit::{examples, fresh};

/// The time of all stores in Unix milliseconds.
const BEGIN: u64 = 1_900_000_000_000;

/// A store and a client of it.
struct Place {
    host: Alone,
    session: Session,
    store: Store,
    _directory: TempDir,
}

impl Place {
    fn new() -> Place {
        Place::of(&Options::default())
    }

    fn of(options: &Options) -> Place {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let host = Alone::new();
        let store = Store::create(&path, options).expect("a new store");
        store.set_time(BEGIN);
        Place {
            session: host.session(),
            store,
            host,
            _directory: directory,
        }
    }

    fn run(&mut self, arguments: &[&[u8]]) -> Option<Tree> {
        let mut reply = Recorder::new();
        let mut context = Context::new(&mut self.session, self.host.host(), &self.store);
        // A command that waits for another connection gets no reply.
        let _ = execute(&mut context, arguments, &mut reply);
        reply.finish().expect("a whole reply").pop()
    }

    fn line(&mut self, line: &str) -> Option<Tree> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.run(&words)
    }

    /// Applies the commands of a stream.
    fn apply(&mut self, mut stream: &[u8], what: &str) {
        while !stream.is_empty() {
            let mut parser = RequestParser::default();
            let Ok(Parsed::Command(length)) = parser.parse(stream) else {
                panic!("{what}: {:?}", String::from_utf8_lossy(stream));
            };
            let arguments: Vec<&[u8]> = parser.args(stream).iter().collect();
            let reply = self.run(&arguments);
            let is_error = |reply: &Tree| matches!(reply, Tree::Error(_));
            let failed = match &reply {
                Some(Tree::Array(replies)) => replies.iter().any(is_error),
                Some(reply) => is_error(reply),
                None => true,
            };
            let text = |argument: &&[u8]| String::from_utf8_lossy(argument).into_owned();
            let command: Vec<String> = arguments.iter().map(text).collect();
            assert!(!failed, "{what}: {command:?} {reply:?}");
            stream = &stream[length..];
        }
    }

    /// Returns all keys with their types, values and expiry, and the function libraries.
    fn content(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let mut all = BTreeMap::new();
        let shown = self.store.snapshot(|item: Item<'_>| {
            let mut elements = examples::sorted(item.value_type, item.items);
            if item.value_type == ValueType::SortedSet {
                elements
                    .iter_mut()
                    .for_each(|member| without_sign_of_zero(member));
            }
            let value = (item.value_type, elements, item.expiry);
            all.insert((item.database, item.key.to_vec()), value);
            Ok::<_, Error>(())
        });
        shown.expect("no process holds a lock");
        all.retain(|_, (value_type, ..)| *value_type != ValueType::Feed);
        let (libraries, _) = self.store.access().libraries().expect("sound");
        let texts: Vec<Vec<u8>> = libraries.into_iter().map(|library| library.text).collect();
        (all, texts)
    }

    /// Returns a replica with the current data set.
    fn copied(&self) -> Place {
        let place = Place::new();
        let snapshot = self.store.take_snapshot().expect("memory");
        let mut options = SaveOptions::new(RdbVersion::V10);
        options.skip_own = true;
        let (file, _) =
            save(&self.store, &snapshot, Vec::new(), &options, &mut |_| true).expect("no failure");
        let mut reader = Reader::new(&file[..]).expect("sound");
        load(
            &mut reader,
            Some(&place.store),
            &LoadOptions::new(),
            &mut |_| true,
        )
        .expect("room");
        place
    }
}

/// Removes the sign of a member's score if the score is zero: a sorted set keeps the sign only once it is
/// no longer packed, and a sorted set that was large is packed again in its copies.
fn without_sign_of_zero(member: &mut [Vec<u8>]) {
    let score = member.last_mut().expect("a member has a score");
    if std::str::from_utf8(score).is_ok_and(|text| text.parse() == Ok(0.0)) {
        *score = b"0".to_vec();
    }
}

fn new_id() -> [u8; REPLICATION_ID] {
    [b'1'; REPLICATION_ID]
}

/// Sends the changes. Returns the bytes that were added to the stream, or `None` if replicas need a
/// data set.
fn sent(source: &Place, sender: &mut Sender) -> Option<Vec<u8>> {
    let from = sender.stream().end;
    let sent = sender
        .send(&source.store, (b"", u64::MAX), &new_id)
        .expect("room");
    if sent == Sent::Restarted {
        return None;
    }
    let mut bytes = Vec::new();
    assert!(
        source
            .store
            .read_stream(from, u64::MAX, &mut bytes)
            .expect("sound")
    );
    assert_eq!(sender.stream().end, from + bytes.len() as u64);
    Some(bytes)
}

fn compare(source: &Place, replica: &Place, what: &str) {
    let (source, replica) = (source.content(), replica.content());
    if source != replica {
        let (source, replica) = (format!("{source:#?}"), format!("{replica:#?}"));
        let mut lines = source.lines().zip(replica.lines());
        let first = lines.position(|(one, other)| one != other).unwrap_or(0);
        let near = |text: &str| {
            let lines = text.lines().skip(first.saturating_sub(12)).take(24);
            lines.collect::<Vec<&str>>().join("\n")
        };
        panic!(
            "{what}: the source has\n{}\nthe replica\n{}",
            near(&source),
            near(&replica)
        );
    }
}

#[test]
fn stream_of_random_changes_makes_replicas_equal() {
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let families: Vec<_> = FAMILIES
        .iter()
        .filter(|family| !["messages", "blocking"].contains(&family.name))
        .copied()
        .collect();
    let mut generator = Generator::new(seed, &families);
    let mut source = Place::new();
    let mut sender = Sender::new(&source.store, RdbVersion::V10, &new_id).expect("room");
    let mut replica = Place::new();
    let (mut restarts, mut batches) = (0, 0);
    for number in 0..30_000 {
        let command = generator.command();
        let words: Vec<&[u8]> = command.0.iter().map(Vec::as_slice).collect();
        source.run(&words);
        let what = format!("command {number}, {command}; seed {seed}");
        // Every other transaction is appended in pieces.
        sender.set_piece(match random.bool() {
            true => u64::MAX,
            false => random.u64(1..500),
        });
        match random.u32(..300) {
            0..30 => match sent(&source, &mut sender) {
                Some(bytes) => {
                    replica.apply(&bytes, &what);
                    compare(&source, &replica, &what);
                    batches += 1;
                }
                None => {
                    sender.expect_data_set();
                    replica = source.copied();
                    restarts += 1;
                }
            },
            30 => {
                // Another replica, whose data set contains changes that were not sent yet.
                sender.expect_data_set();
                replica = source.copied();
            }
            31 => sender = Sender::new(&source.store, RdbVersion::V10, &new_id).expect("room"),
            _ => {}
        }
    }
    println!("{batches} batches, {restarts} restarts; seed {seed}");
    assert!(batches > 2000, "{batches}");
    let report = source.store.check().expect("no process holds a lock");
    assert!(report.problems.is_empty(), "{report:?}");
}

#[test]
fn transaction_that_is_too_long_is_a_data_set_instead() {
    let mut source = Place::new();
    let mut sender = Sender::new(&source.store, RdbVersion::V10, &new_id).expect("room");
    sender.set_piece(1000);
    for number in 0..100 {
        source.line(&format!("SET key:{number} {}", "v".repeat(1000)));
    }
    let sent = |sender: &mut Sender, most| {
        let sent = sender.send(&source.store, (b"", most), &new_id);
        sent.expect("room")
    };
    let stream = *sender.stream();
    assert_eq!(sent(&mut sender, 50_000), Sent::Restarted);
    // No part of the transaction stays.
    let (begun, end) = (source.store.stream().expect("sound"), stream.end);
    let begun = begun.expect("a stream");
    assert!(begun.start == begun.end && begun.end > end, "{begun:?}");
    assert_eq!(sent(&mut sender, 50_000), Sent::Nothing);
    let report = source.store.check().expect("no process holds a lock");
    assert!(report.problems.is_empty(), "{report:?}");
}

#[test]
fn changes_to_parts_of_large_values_are_short() {
    let mut source = Place::new();
    let mut sender = Sender::new(&source.store, RdbVersion::V10, &new_id).expect("room");
    let mut replica = Place::new();
    let elements = |command: &str, element: &dyn Fn(u32) -> String| {
        let elements: Vec<String> = (0..2000).map(element).collect();
        format!("{command} {}", elements.join(" "))
    };
    for line in [
        elements("HSET h", &|number| format!("field{number} value{number}")),
        elements("SADD s", &|number| format!("member{number}")),
        elements("ZADD z", &|number| format!("{number} member{number}")),
        elements("RPUSH l", &|number| format!("item{number}")),
        format!("SET t {}", "text".repeat(20_000)),
    ] {
        source.line(&line);
    }
    for number in 0..2000 {
        source.line(&format!("XADD x {}-1 field value{number}", number + 1));
    }
    source.line("XGROUP CREATE x group 0");
    let bytes = sent(&source, &mut sender).expect("no restart");
    replica.apply(&bytes, "large values");
    compare(&source, &replica, "large values");
    for line in [
        "HSET h field7 other new 1",
        "HDEL h field8",
        "SADD s new",
        "SREM s member9",
        "ZADD z 7.5 member7",
        "ZREM z member8",
        "RPUSH l one two",
        "LPUSH l three four",
        "LPOP l 3",
        "RPOP l 3",
        "LMOVE l l LEFT RIGHT",
        "APPEND t more",
        "SETRANGE t 500 other",
        "XADD x 9000-1 field value",
        "XDEL x 5-1 6-1",
        "XTRIM x MINID 100-1",
        "XREADGROUP GROUP group alice COUNT 2 STREAMS x >",
        "XREADGROUP GROUP group bob COUNT 1 NOACK STREAMS x >",
        "XREADGROUP GROUP group alice STREAMS x 0",
        "XACK x group 100-1",
        "XCLAIM x group carol 0 101-1",
        "XAUTOCLAIM x group bob 0 0",
        "XGROUP CREATECONSUMER x group dora",
        "EXPIRE h 1000",
        "PERSIST h",
        "PEXPIREAT l 1900000500000",
    ] {
        source.line(line);
        let bytes = sent(&source, &mut sender).expect("no restart");
        assert!(
            !bytes.is_empty() && bytes.len() < 900,
            "{line}: {}",
            bytes.len()
        );
        replica.apply(&bytes, line);
        compare(&source, &replica, line);
    }
}

#[test]
fn another_version_begins_another_stream() {
    let mut source = Place::new();
    let second_id = || [b'2'; REPLICATION_ID];
    let begun = |version| Sender::new(&source.store, version, &second_id).expect("room");
    let first = *Sender::new(&source.store, RdbVersion::V10, &new_id)
        .expect("room")
        .stream();
    // Another sender continues, unless its replicas are older.
    assert_eq!(begun(RdbVersion::V10).stream().id, first.id);
    let mut sender = begun(RdbVersion::V9);
    let second = *sender.stream();
    assert!(second.id != first.id && second.earlier.is_none() && second.start > first.end);
    assert_eq!(begun(RdbVersion::V9).stream().id, second.id);
    source.line("SET a 1");
    assert!(sent(&source, &mut sender).is_some());
    sender.set_version(RdbVersion::V9);
    source.line("SET a 2");
    assert!(sent(&source, &mut sender).is_some());
    sender.set_version(RdbVersion::V10);
    assert!(sent(&source, &mut sender).is_none());
    assert!(!sender.stream().is_old && sender.stream().start > second.end);
    source.line("SET a 3");
    assert!(sent(&source, &mut sender).is_some());
}

#[test]
fn stream_of_a_recovered_store_has_another_id() {
    // The copy of the file is not sparse.
    let mut source = Place::of(&Options {
        capacity: Some(16 << 20),
        ..Options::default()
    });
    let begun =
        Sender::new(&source.store, RdbVersion::V10, &|| [b'1'; REPLICATION_ID]).expect("room");
    let first = *begun.stream();
    source.line("SET a 1");
    let mut begun = begun;
    sent(&source, &mut begun).expect("no restart");
    let end = begun.stream().end;
    drop(begun);
    let second_id = || [b'2'; REPLICATION_ID];
    let same = Sender::new(&source.store, RdbVersion::V10, &second_id).expect("room");
    assert_eq!((same.stream().id, same.stream().end), (first.id, end));
    // A recovery writes a new file with the state of an earlier moment.
    let path = source.store.path().with_file_name("recovered");
    std::fs::copy(source.store.path(), &path).expect("space");
    let recovered = Store::open(&path, true).expect("sound");
    let sender = Sender::new(&recovered, RdbVersion::V10, &second_id).expect("room");
    let stream = sender.stream();
    assert_eq!(
        (stream.id, stream.earlier),
        ([b'2'; REPLICATION_ID], Some((first.id, end)))
    );
    // A replica that received more than the recovered store has must not continue.
    assert!(stream.continues(&first.id, end) && !stream.continues(&first.id, end + 1));
    assert!(!stream.continues(&[b'3'; REPLICATION_ID], end));
}

#[test]
fn stream_whose_last_id_was_set_back_is_sent() {
    let mut source = Place::new();
    let mut sender = Sender::new(&source.store, RdbVersion::V10, &new_id).expect("room");
    let mut replica = Place::new();
    for line in [
        "XADD x 5-1 field value",
        "XDEL x 5-1",
        "XSETID x 3-1",
        "XADD x 4-1 field value",
        "XADD x 6-1 field value",
    ] {
        source.line(line);
        let bytes = sent(&source, &mut sender).expect("no restart");
        replica.apply(&bytes, line);
        compare(&source, &replica, line);
    }
}

#[test]
fn no_command_of_pieces_fails_if_keys_change_their_types() {
    let mut source = Place::new();
    let mut sender = Sender::new(&source.store, RdbVersion::V10, &new_id).expect("room");
    let mut replica = Place::new();
    // For each key: a value, a change of a part of it, and a value of another type.
    let cases = [
        ["SADD k1 a b", "SADD k1 c", "HSET k1 f v"],
        ["HSET k2 f v g w", "HDEL k2 f", "ZADD k2 1 f"],
        ["ZADD k3 1 a 2 b", "ZREM k3 a", "SADD k3 b c"],
        ["SET k4 12345678", "SETRANGE k4 3 x", "HSET k4 f v"],
        ["RPUSH k5 a b", "RPUSH k5 c", "SADD k5 d e"],
        ["HSET k6 f v g w", "HDEL k6 f", "SET k6 12345678"],
    ];
    for [first, ..] in &cases {
        source.line(first);
    }
    let group = "XGROUP CREATE s g 0";
    for line in ["XADD s 1-1 f v", "XADD s 1-2 f v", group] {
        source.line(line);
    }
    let bytes = sent(&source, &mut sender).expect("no restart");
    replica.apply(&bytes, "the first values");
    // One change is a piece.
    sender.set_piece(1);
    for [first, second, third] in &cases {
        let key = first.split(' ').nth(1).expect("a key");
        source.line(second);
        source.line(&format!("DEL {key}"));
        source.line(third);
        source.line(second);
    }
    for line in [
        "XREADGROUP GROUP g alice COUNT 1 STREAMS s >",
        "XGROUP DESTROY s g",
        group,
        "XREADGROUP GROUP g alice COUNT 1 STREAMS s >",
        "XACK s g 1-1",
    ] {
        source.line(line);
    }
    let bytes = sent(&source, &mut sender).expect("no restart");
    replica.apply(&bytes, "the changes in pieces");
    compare(&source, &replica, "the changes in pieces");
}
