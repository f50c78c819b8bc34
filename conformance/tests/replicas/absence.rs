//! A sender that was away while many changes were made sends them in pieces.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::command::Command;
use undercroft_conformance::replication::{connect, spare_port};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::seed::seed;
use undercroft_conformance::servers::{Kind, private_memory};

use crate::data::{Further, Pair};

/// The changes: 48 MB in small values.
const KEYS: usize = 60_000;
const LENGTH: usize = 800;
/// The most memory of the server that sends them: a fraction of the changes.
const MEMORY_MAX: u64 = 24 << 20;

#[test]
fn many_changes_are_sent_in_little_memory() {
    let Some(mut pair) = Pair::start(seed(), Kind::Redis, &["streams"]) else {
        return;
    };
    let store = pair.ours.store();
    let port = spare_port();
    let source = Address::Tcp(format!("127.0.0.1:{port}"));
    let sender = Further::start(&store, port);
    drop(connect(&source));
    pair.follow_at(&source);
    pair.compare_at(&source);
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
    let is_done = AtomicBool::new(false);
    let most = thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while !is_done.load(Ordering::Relaxed) {
                most = most.max(private_memory(sender.pid()).unwrap_or(0));
                thread::yield_now();
            }
            most
        });
        // Changes go on while the sender catches up.
        for name in &names[..1000] {
            writer.call(["APPEND", name, "more"]).expect("a reply");
        }
        let mut client = connect(&source);
        let waited = client.call(["WAIT", "1", "50000"]).expect("a reply");
        assert_eq!(waited, Reply::Integer(1), "{}", pair.describe());
        is_done.store(true, Ordering::Relaxed);
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
