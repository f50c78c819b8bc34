//! Tests `undercroft serve` as a replica of a real Redis: after random commands of every family, it has
//! the same data as a second replica, which is a real Redis, also when the connection is cut or the
//! source's data set is loaded again.
//!
//! The source itself is not the judge, because Redis 7.0 does not replicate everything: a real replica
//! lacks consumers without entries, for example.

use std::time::Instant;

use undercroft_conformance::audit::audit;
use undercroft_conformance::client::Client;
use undercroft_conformance::compare::Rules;
use undercroft_conformance::replication::{Changes, PATIENCE, field, replicate, text};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::seed::seed;
use undercroft_conformance::servers::{Kind, Server, Settings, start_undercroft};

/// A source and two replicas.
struct Pair {
    source: Server,
    /// The replica that is a real Redis.
    judge: Server,
    ours: Server,
    changes: Changes,
}

impl Pair {
    /// Starts a source with some data, and a server that does not follow it yet.
    fn start(seed: u64, without: &[&str]) -> Option<Pair> {
        let ours = start_undercroft(Settings::default()).expect("undercroft starts")?;
        let start =
            || Server::start(Kind::Redis, Settings::default()).expect("redis-server starts");
        let (source, judge) = (start(), start());
        let changes = Changes::new(seed, source.address(), without);
        let mut pair = Pair {
            source,
            judge,
            ours,
            changes,
        };
        pair.change(3000);
        Some(pair)
    }

    fn change(&mut self, commands: usize) {
        self.changes.make(commands);
    }

    fn follow(&self) {
        for replica in [&self.judge, &self.ours] {
            replicate(self.source.address(), replica.address());
        }
    }

    /// Waits until the replica has applied everything, and compares the data.
    fn compare(&mut self) {
        // WAIT waits for the last change of its own connection.
        let mut client = Client::connect(self.source.address()).expect("it accepts");
        client.call(["SET", "last", "change"]).expect("a reply");
        let start = Instant::now();
        loop {
            let reply = client.call(["WAIT", "2", "1000"]).expect("a reply");
            if reply == Reply::Integer(2) {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "{reply:?}\n{}", self.describe());
        }
        let mut judge = Client::connect(self.judge.address()).expect("it accepts");
        let mut ours = Client::connect(self.ours.address()).expect("it accepts");
        // An encoding can depend on earlier values, which the replica never had.
        let rules = Rules {
            encodings: false,
            ..Rules::default()
        };
        let found = audit(&mut judge, &mut ours, rules).expect("both answer");
        assert_eq!(found, None, "{}", self.describe());
        let failed = field(&mut ours, "replication", "master_link_error");
        assert_eq!(failed, "");
    }

    fn describe(&self) -> String {
        let mut client = Client::connect(self.ours.address()).expect("it accepts");
        let info = text(&client.call(["INFO", "replication"]).expect("a reply"));
        format!("{info}\nlog:\n{}", self.ours.log())
    }
}

#[test]
fn replica_has_the_data_of_its_source() {
    let Some(mut pair) = Pair::start(seed(), &[]) else {
        return;
    };
    pair.follow();
    pair.compare();
    for _ in 0..5 {
        pair.change(3000);
        pair.compare();
    }
}

#[test]
fn cut_connection_continues_with_the_next_change() {
    let Some(mut pair) = Pair::start(seed(), &[]) else {
        return;
    };
    pair.follow();
    pair.compare();
    let mut control = Client::connect(pair.source.address()).expect("it accepts");
    let set = ["CONFIG", "SET", "repl-backlog-size", "64mb"];
    control.call(set).expect("a reply");
    for _ in 0..8 {
        pair.change(500);
        let kill = ["CLIENT", "KILL", "TYPE", "replica"];
        control.call(kill).expect("a reply");
        pair.change(500);
        pair.compare();
    }
    let partial = field(&mut control, "stats", "sync_partial_ok");
    assert!(partial.parse::<u32>().expect("a number") >= 4, "{partial}");
    // One for each of the two replicas.
    assert_eq!(field(&mut control, "stats", "sync_full"), "2");
}

#[test]
fn lost_backlog_loads_the_data_set_again() {
    // Without streams, because a data set has details of consumer groups that the changes lack.
    for diskless in ["no", "yes"] {
        let Some(mut pair) = Pair::start(seed(), &["streams"]) else {
            return;
        };
        let mut control = Client::connect(pair.source.address()).expect("it accepts");
        for (name, value) in [
            ("repl-diskless-sync", diskless),
            ("repl-diskless-sync-delay", "0"),
            ("repl-backlog-size", "16kb"),
        ] {
            control
                .call(["CONFIG", "SET", name, value])
                .expect("a reply");
        }
        pair.follow();
        pair.compare();
        for _ in 0..3 {
            let stopped = pair.ours.pid();
            // The replica cannot keep up while it is stopped, and the source gives it up.
            signal(stopped, rustix::process::Signal::STOP);
            control
                .call(["CLIENT", "KILL", "TYPE", "replica"])
                .expect("a reply");
            pair.change(3000);
            signal(stopped, rustix::process::Signal::CONT);
            pair.compare();
        }
        let full = field(&mut control, "stats", "sync_full");
        assert!(full.parse::<u32>().expect("a number") >= 3, "{full}");
    }
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process");
    rustix::process::kill_process(pid, signal).expect("it lives");
}

#[test]
fn program_reads_its_own_writes_after_a_wait() {
    let Some(mut pair) = Pair::start(seed(), &[]) else {
        return;
    };
    pair.follow();
    pair.compare();
    let mut ours = Client::connect(pair.ours.address()).expect("it accepts");
    let mut source = Client::connect(pair.source.address()).expect("it accepts");
    for number in 0..200 {
        let value = number.to_string();
        source.call(["SET", "own", &value]).expect("a reply");
        let offset = field(&mut source, "replication", "master_repl_offset");
        let wait = ["REPLICA.WAIT", &offset, "60000"];
        assert_eq!(ours.call(wait).expect("a reply"), Reply::Integer(1));
        let read = ours.call(["GET", "own"]).expect("a reply");
        assert_eq!(read, Reply::Bulk(value.into_bytes()));
    }
    // A position that never comes delays neither other clients nor the end of the server.
    let mut waiting = Client::connect(pair.ours.address()).expect("it accepts");
    let ours_pid = pair.ours.pid();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let wait = ["REPLICA.WAIT", "1000000000000", "600000"];
            // The server ends the wait, or the connection.
            let _ = waiting.call(wait);
        });
        assert_eq!(ours.call(["PING"]).expect("a reply"), pong());
        signal(ours_pid, rustix::process::Signal::TERM);
    });
}

fn pong() -> Reply {
    Reply::Simple(b"PONG".to_vec())
}

#[test]
fn replica_refuses_changes_until_it_is_promoted() {
    // Without streams, because the data set at the end has details that the judge's changes lack.
    let Some(mut pair) = Pair::start(seed(), &["streams"]) else {
        return;
    };
    pair.follow();
    pair.compare();
    let mut ours = Client::connect(pair.ours.address()).expect("it accepts");
    let refused = ours.call(["SET", "own", "1"]).expect("a reply");
    let text = b"READONLY You can't write against a read only replica.".to_vec();
    assert_eq!(refused, Reply::Error(text));
    let role = ours.call(["ROLE"]).expect("a reply");
    assert!(format!("{role:?}").contains("Bulk"), "{role:?}");
    let promoted = ours.call(["REPLICAOF", "NO", "ONE"]).expect("a reply");
    assert_eq!(promoted, Reply::Simple(b"OK".to_vec()));
    let set = ours.call(["SET", "own", "1"]).expect("a reply");
    assert_eq!(set, Reply::Simple(b"OK".to_vec()));
    pair.change(200);
    assert_eq!(field(&mut ours, "replication", "role"), "master");
    let got = ours.call(["GET", "own"]).expect("a reply");
    assert_eq!(got, Reply::Bulk(b"1".to_vec()));
    // The store's own changes are gone once it follows again.
    pair.follow();
    pair.compare();
}
