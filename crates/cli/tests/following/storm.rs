//! Programs that map a store are killed at random moments while a real replica receives their changes.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use undercroft_commands::reply::Recorder;
use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::generate::Generator;
use undercroft_conformance::replication::{connect, replicate, replicated_families, spare_port};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::seed::seed;
use undercroft_embedded::OpenStore;
use undercroft_engine::Store;

use crate::served::{Served, compare};
use crate::support::{Place, redis, run, until};

/// The environment variables that turn a run of this test into a writer: the path of the store, and the
/// seed of its commands.
const STORE: &str = "UNDERCROFT_STORM_STORE";
const SEED: &str = "UNDERCROFT_STORM_SEED";
const WRITERS: usize = 3;
const KILLS: u64 = 200;
/// The most bytes of the stream between two kills.
const BETWEEN: u64 = 200_000;

/// Runs a writer in a child process of the storm. Does nothing without the environment variables.
#[test]
fn writer() {
    let (Some(path), Ok(seed)) = (std::env::var_os(STORE), std::env::var(SEED)) else {
        return;
    };
    let store = Store::open(Path::new(&path), true).expect("the store");
    let open = OpenStore::passing(store);
    let mut session = open.session();
    let families = replicated_families(&[]);
    let mut random = Generator::new(seed.parse().expect("a number"), &families);
    loop {
        let command = random.command();
        let words: Vec<&[u8]> = command.0.iter().map(Vec::as_slice).collect();
        let mut reply = Recorder::new();
        // A command that had to wait too long for a stopped writer is left out.
        let _ = open.execute(&mut session, &words, &mut reply);
    }
}

/// A process that maps the store and makes random changes until it is killed.
struct Writer(Child);

impl Writer {
    fn start(place: &Place, seed: u64) -> Writer {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", "storm::writer", "--nocapture"]);
        command.env(STORE, place.store.path());
        command.env(SEED, seed.to_string());
        Writer(command.stdout(Stdio::null()).spawn().expect("a child"))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn replica_equals_a_store_whose_writers_are_killed() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let place = Place::with_capacity(1 << 30);
    let port = spare_port();
    let served = Served::start(&place, &format!("bind 127.0.0.1\nport {port}\n"));
    let source = Address::Tcp(format!("127.0.0.1:{port}"));
    let replica = redis(&[]);
    replicate(&source, replica.address());
    let mut control = connect(&source);
    until(
        || matches!(control.call(["WAIT", "1", "1000"]), Ok(Reply::Integer(1))),
        || replica.log(),
    );
    let mut offset = || {
        let info = control.call(["INFO", "replication"]).expect("a reply");
        let info = String::from_utf8_lossy(info.bytes().expect("text")).into_owned();
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("master_repl_offset:"));
        line.expect("a field")
            .trim()
            .parse::<u64>()
            .expect("a number")
    };
    let mut seeds = seed..;
    let mut start = || Writer::start(&place, seeds.next().expect("a seed"));
    let mut writers: Vec<Writer> = (0..WRITERS).map(|_| start()).collect();
    for _ in 0..KILLS {
        let until_then = offset() + random.u64(1..BETWEEN);
        until(
            || offset() >= until_then,
            || format!("no changes; seed {seed}"),
        );
        let victim = random.usize(..WRITERS);
        // The process dies before its place is taken.
        drop(writers.swap_remove(victim));
        writers.push(start());
    }
    drop(writers);
    until(
        || matches!(control.call(["WAIT", "1", "1000"]), Ok(Reply::Integer(1))),
        || replica.log(),
    );
    let path = place.path("store");
    let check = run(&["check", &path]);
    assert_eq!(check.status, 0, "seed {seed}: {check:?}");
    let keys: u64 = (0..16).map(|database| place.store.keys(database)).sum();
    assert!(keys > 10, "{keys} keys; seed {seed}");
    // A replica that was given up has received a data set, but most of the changes must have been sent.
    let mut there = Client::connect(replica.address()).expect("it accepts");
    let info = there.call(["INFO", "replication"]).expect("a reply");
    let info = String::from_utf8_lossy(info.bytes().expect("text")).into_owned();
    assert!(info.contains("master_link_status:up"), "{info}");
    drop(served);
    compare(&place, &replica);
}
