//! A sender that was away while many changes were made sends them in pieces.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::command::Command;
use undercroft_conformance::replication::{connect, field, spare_port};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::seed::seed;
use undercroft_conformance::servers::{Kind, private_memory};

use crate::data::{Further, Pair};

/// The changes: 48 MB in small values.
const KEYS: usize = 60_000;
const LENGTH: usize = 800;
/// The most memory of the server that sends them: a fraction of the changes.
const MEMORY_MAX: u64 = 24 << 20;

/// Starts a store and a replica, which has its data from a further server. Returns them, and the
/// address, the store and the port of that server.
fn followed(without: &[&str]) -> Option<(Pair, Address, PathBuf, u16, Further)> {
    let mut pair = Pair::start(seed(), Kind::Redis, without)?;
    let store = pair.ours.store();
    let port = spare_port();
    let source = Address::Tcp(format!("127.0.0.1:{port}"));
    let sender = Further::start(&store, port);
    drop(connect(&source));
    pair.follow_at(&source);
    pair.compare_at(&source);
    Some((pair, source, store, port, sender))
}

#[test]
fn many_changes_are_sent_in_little_memory() {
    let Some((mut pair, source, store, port, sender)) = followed(&["streams"]) else {
        return;
    };
    drop(sender);
    let mut writer = Client::connect(pair.ours.address()).expect("it accepts");
    let value = "v".repeat(LENGTH);
    let names: Vec<String> = (0..KEYS).map(|number| format!("absent:{number}")).collect();
    for names in names.chunks(1000) {
        let sets = names.iter().map(|name| Command::of(["SET", name, &value]));
        let sets: Vec<Command> = sets.collect();
        writer.pipeline(&sets).expect("the store has room");
    }
    let sender = Further::start(&store, port);
    let most = thread::scope(|scope| {
        let watcher = scope.spawn(|| memory_until_sent(&sender, &source, &pair));
        // Changes go on while the sender catches up.
        for name in &names[..1000] {
            writer.call(["APPEND", name, "more"]).expect("a reply");
        }
        watcher.join().expect("no panic")
    });
    println!("the sender used at most {} MiB", most >> 20);
    assert!(most < MEMORY_MAX, "{most} bytes");
    pair.compare_at(&source);
    let replica = pair.replica.log();
    assert!(
        replica.contains("MASTER <-> REPLICA sync: Master accepted a Partial Resynchronization"),
        "{replica}"
    );
}

/// Few changes, but of large values: 160 MB.
const LARGE_KEYS: usize = 160;
const LARGE: usize = 1_000_000;
/// The most memory of the server that sends them.
const LARGE_MEMORY_MAX: u64 = 80 << 20;

#[test]
fn few_changes_of_large_values_are_sent_in_little_memory() {
    let Some((pair, source, store, port, sender)) = followed(&[]) else {
        return;
    };
    drop(sender);
    let mut writer = Client::connect(pair.ours.address()).expect("it accepts");
    let value = "v".repeat(LARGE);
    for number in 0..LARGE_KEYS {
        let name = format!("large:{number}");
        let reply = writer.call(["SET", &name, &value]).expect("a reply");
        assert_eq!(reply, Reply::Simple("OK".into()));
    }
    let sender = Further::start(&store, port);
    let most = memory_until_sent(&sender, &source, &pair);
    println!("the sender used at most {} MiB", most >> 20);
    assert!(most < LARGE_MEMORY_MAX, "{most} bytes");
    let mut replica = Client::connect(pair.replica.address()).expect("it accepts");
    for number in 0..LARGE_KEYS {
        let name = format!("large:{number}");
        let found = replica.call(["GET", &name]).expect("a reply");
        assert!(found.bytes() == Some(value.as_bytes()), "{name}");
    }
    pair.expect_no_failed_command();
    let full = field(&mut connect(&source), "stats", "sync_full");
    assert!(matches!(&full[..], "" | "0"), "{full} data sets");
}

/// Returns the most memory that the server has used once the replica has all changes.
fn memory_until_sent(sender: &Further, source: &Address, pair: &Pair) -> u64 {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while !is_done.load(Ordering::Relaxed) {
                most = most.max(private_memory(sender.pid()).unwrap_or(0));
                thread::yield_now();
            }
            most
        });
        let mut client = connect(source);
        let waited = client.call(["WAIT", "1", "50000"]).expect("a reply");
        assert_eq!(waited, Reply::Integer(1), "{}", pair.describe());
        is_done.store(true, Ordering::Relaxed);
        watcher.join().expect("no panic")
    })
}

/// More changes than are sent at once: keys of all types, of which each is removed and gets another type several times.
const CHANGES: usize = 150_000;

#[test]
fn no_command_fails_in_a_replica_after_many_changes() {
    let Some((mut pair, source, store, port, sender)) = followed(&[]) else {
        return;
    };
    let mut random = fastrand::Rng::with_seed(seed());
    let mut writer = Client::connect(pair.ours.address()).expect("it accepts");
    let mut change_many = || {
        for _ in 0..CHANGES / 1000 {
            let commands: Vec<Command> = (0..1000).map(|_| change(&mut random)).collect();
            writer.pipeline(&commands).expect("the store has room");
        }
    };
    change_many();
    pair.compare_at(&source);
    drop(sender);
    change_many();
    let _sender = Further::start(&store, port);
    pair.compare_at(&source);
    let mut replica = Client::connect(pair.replica.address()).expect("it accepts");
    let full = field(&mut connect(&source), "stats", "sync_full");
    assert!(matches!(&full[..], "" | "0"), "{full} data sets");
    let errors = replica.call(["INFO", "errorstats"]).expect("a reply");
    assert!(!format!("{errors:?}").contains("WRONGTYPE"), "{errors:?}");
}

/// Returns a change of one of a few keys, often of a part of it.
fn change(random: &mut fastrand::Rng) -> Command {
    let key = format!("changes:{}", random.u32(..10_000));
    let (key, member) = (&key[..], format!("member{}", random.u32(..5)));
    let member = &member[..];
    match random.u32(..16) {
        0 | 1 => Command::of(["DEL", key]),
        2 => Command::of(["SET", key, "a text of some length"]),
        3 => Command::of(["SETRANGE", key, "5", member]),
        4 => Command::of(["HDEL", key, member]),
        5 => Command::of(["SADD", key, member]),
        6 => Command::of(["SREM", key, member]),
        7 => Command::of(["ZADD", key, "1", member]),
        8 => Command::of(["ZREM", key, member]),
        9 => Command::of(["RPUSH", key, member]),
        10 => Command::of(["LPOP", key]),
        11 => Command::of(["XADD", key, "*", "field", member]),
        12 => Command::of(["XGROUP", "CREATE", key, "group", "0"]),
        13 => Command::of([
            "XREADGROUP",
            "GROUP",
            "group",
            member,
            "COUNT",
            "1",
            "STREAMS",
            key,
            ">",
        ]),
        14 => Command::of(["XGROUP", "DESTROY", key, "group"]),
        _ => Command::of(["HSET", key, member, member]),
    }
}
