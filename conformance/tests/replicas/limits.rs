//! Keys that replicas cannot receive, and replicas that do not read what they are sent.

use std::time::Instant;

use rustix::process::Signal;
use undercroft_conformance::client::Client;
use undercroft_conformance::replication::{PATIENCE, field, replicate};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::seed::seed;
use undercroft_conformance::servers::{Kind, Server, start_undercroft};

use crate::data::{Pair, settings};
use crate::waiting::signal;

/// Waits until the replica has all changes of this connection.
fn wait(client: &mut Client) {
    let start = Instant::now();
    while client.call(["WAIT", "1", "1000"]).expect("a reply") != Reply::Integer(1) {
        assert!(start.elapsed() < PATIENCE, "the replica does not answer");
    }
}

/// Returns the lines of a server's log that name keys which replicas do not receive.
fn told(server: &Server) -> Vec<String> {
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains("do not receive"));
    lines.map(str::to_owned).collect()
}

#[test]
fn feeds_are_left_out_and_the_log_says_so_once() {
    for is_first in [true, false] {
        let Some(ours) = start_undercroft(settings()).expect("undercroft starts") else {
            return;
        };
        let replica = Server::start(Kind::Redis, settings()).expect("the replica starts");
        let mut here = Client::connect(ours.address()).expect("it accepts");
        let mut there = Client::connect(replica.address()).expect("it accepts");
        let mut call = |words: &[&str]| {
            let reply = here.call(words.iter().copied()).expect("a reply");
            assert!(!matches!(reply, Reply::Error(_)), "{words:?}: {reply:?}");
        };
        call(&["SET", "board", "text"]);
        if is_first {
            // The data set leaves the feed out.
            call(&["FEED.CREATE", "early", "SIZE", "2"]);
        }
        replicate(ours.address(), replica.address());
        call(&["SET", "k", "1"]);
        wait(&mut here);
        assert_eq!(
            there.call(["EXISTS", "board"]).expect("a reply"),
            Reply::Integer(1)
        );
        // A feed that takes the place of another value ends that value in the replica.
        let mut call = |words: &[&str]| here.call(words.iter().copied()).expect("a reply");
        call(&["DEL", "board"]);
        call(&["FEED.CREATE", "board", "SIZE", "2"]);
        call(&["FEED.ADD", "board", "0", "ab"]);
        assert_eq!(call(&["TYPE", "board"]), Reply::Simple(b"feed".to_vec()));
        call(&["SET", "k", "2"]);
        wait(&mut here);
        let exists = ["EXISTS", "board", "early"];
        assert_eq!(there.call(exists).expect("a reply"), Reply::Integer(0));
        assert_eq!(
            there.call(["GET", "k"]).expect("a reply"),
            Reply::Bulk(b"2".to_vec())
        );
        assert_eq!(told(&ours), told(&ours)[..1], "{}", ours.log());
        // Another data set.
        there.call(["REPLICAOF", "NO", "ONE"]).expect("a reply");
        there.call(["SET", "k", "3"]).expect("a reply");
        replicate(ours.address(), replica.address());
        here.call(["SET", "k", "4"]).expect("a reply");
        wait(&mut here);
        assert_eq!(
            there.call(["GET", "k"]).expect("a reply"),
            Reply::Bulk(b"4".to_vec())
        );
        assert_eq!(told(&ours).len(), 1, "{}", ours.log());
        assert!(!replica.log().contains("CRITICAL"), "{}", replica.log());
    }
}

#[test]
fn replica_that_does_not_read_is_closed_at_the_limit_and_catches_up() {
    let Some(mut pair) = Pair::start(seed(), Kind::Redis, &[]) else {
        return;
    };
    pair.follow();
    pair.compare();
    let mut control = Client::connect(pair.ours.address()).expect("it accepts");
    for (name, value) in [
        ("client-output-buffer-limit", "replica 1mb 0 0"),
        ("repl-backlog-size", "16kb"),
    ] {
        let reply = control
            .call(["CONFIG", "SET", name, value])
            .expect("a reply");
        assert_eq!(reply, Reply::Simple(b"OK".to_vec()), "{name}");
    }
    signal(&pair.replica, Signal::STOP);
    let value = "v".repeat(256 << 10);
    let offset = |control: &mut Client| {
        let text = field(control, "replication", "master_repl_offset");
        text.parse::<usize>().expect("a number")
    };
    let start = Instant::now();
    while field(&mut control, "replication", "connected_slaves") != "0" {
        let before = offset(&mut control);
        let reply = control.call(["SET", "large", &value]).expect("a reply");
        assert_eq!(reply, Reply::Simple(b"OK".to_vec()));
        // Changes that are sent together, and are more than the limit, begin another stream.
        while offset(&mut control) < before + value.len() {
            assert!(start.elapsed() < PATIENCE, "{}", pair.describe());
        }
    }
    // It was closed for no other reason, such as a lack of memory for the backlog.
    let reason = "bytes were not sent yet (client-output-buffer-limit)";
    assert!(pair.ours.log().contains(reason), "{}", pair.describe());
    signal(&pair.replica, Signal::CONT);
    pair.change(500);
    pair.compare();
}
