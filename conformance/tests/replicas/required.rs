//! `min-replicas-to-write`: also programs that map the store are refused while there are too few replicas,
//! whether or not a server is there to say so.

use std::fs;
use std::path::Path;
use std::process::Command as Process;
use std::time::Instant;

use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::replication::{PATIENCE, connect, replicate, spare_port, text};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Kind, Server, undercroft_binary};

use crate::data::{Further, settings};

const REFUSED: &str = "NOREPLICAS Not enough good replicas to write.";

/// Runs a command in a process that maps the store.
pub(crate) fn embedded(store: &Path, words: &[&str]) -> String {
    let mut process = Process::new(undercroft_binary().expect("the program"));
    let process = process.args(["exec", "--create", "--store"]).arg(store);
    let output = process.arg("--").args(words).output().expect("it runs");
    let both = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// Waits until a process that maps the store gets an answer.
fn wait_for(store: &Path, words: &[&str], expected: &str) {
    let start = Instant::now();
    loop {
        let answer = embedded(store, words);
        if answer.contains(expected) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{words:?}: {answer}");
    }
}

#[test]
fn programs_that_map_the_store_are_refused_without_enough_replicas() {
    if undercroft_binary().is_none() {
        return;
    }
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    let store = directory.path().join("store");
    assert!(embedded(&store, &["SET", "k", "1"]).contains("OK"));
    let port = spare_port();
    let source = Address::Tcp(format!("127.0.0.1:{port}"));
    let config = directory.path().join("conf");
    fs::write(&config, "min-replicas-to-write 1\nmin-replicas-max-lag 2\n").expect("a file");
    let required = ["--config", config.to_str().expect("ASCII")];
    let server = Further::start_with(&store, port, &required);
    let mut client = connect(&source);
    let set = ["SET", "k", "2"];
    let refused = client.call(set).expect("a reply");
    assert_eq!(refused, Reply::Error(REFUSED.into()));
    wait_for(&store, &set, REFUSED);
    // A script is refused, and reading goes on.
    let script = ["EVAL", "return redis.call('SET', 'k', '3')", "0"];
    assert!(embedded(&store, &script).contains("NOREPLICAS"));
    assert!(embedded(&store, &["GET", "k"]).contains('1'));
    let replica = Server::start(Kind::Redis, settings()).expect("the replica starts");
    replicate(&source, replica.address());
    wait_for(&store, &set, "OK");
    // Changes stay possible for as long as the replica answers.
    let start = Instant::now();
    while start.elapsed().as_secs() < 4 {
        let answer = embedded(&store, &set);
        assert!(answer.contains("OK"), "{answer}");
    }
    let waited = client.call(["WAIT", "1", "60000"]).expect("a reply");
    assert_eq!(waited, Reply::Integer(1));
    let mut there = Client::connect(replica.address()).expect("it accepts");
    assert_eq!(text(&there.call(["GET", "k"]).expect("a reply")), "2");
    // Without the server, no replica receives the changes.
    drop(server);
    wait_for(&store, &set, REFUSED);
    // The replica finds the server again, and is lost again.
    let server = Further::start_with(&store, port, &required);
    wait_for(&store, &set, "OK");
    drop(replica);
    wait_for(&store, &set, REFUSED);
    // The operator can end the requirement, on the server or without it.
    let mut client = connect(&source);
    let end = ["CONFIG", "SET", "min-replicas-to-write", "0"];
    client.call(end).expect("a reply");
    assert!(embedded(&store, &set).contains("OK"));
    client
        .call(["CONFIG", "SET", "min-replicas-to-write", "2"])
        .expect("a reply");
    wait_for(&store, &set, REFUSED);
    drop(server);
    assert!(embedded(&store, &set).contains(REFUSED));
    assert!(embedded(&store, &end).contains("OK"));
    assert!(embedded(&store, &set).contains("OK"));
    // A server with another configuration ends what an earlier one required.
    let server = Further::start_with(&store, port, &required);
    wait_for(&store, &set, REFUSED);
    drop(server);
    let _server = Further::start(&store, port);
    wait_for(&store, &set, "OK");
}

#[test]
fn the_server_with_the_replicas_decides_how_many_are_required() {
    if undercroft_binary().is_none() {
        return;
    }
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    let store = directory.path().join("store");
    assert!(embedded(&store, &["SET", "k", "1"]).contains("OK"));
    let config = directory.path().join("conf");
    fs::write(&config, "min-replicas-to-write 2\n").expect("a file");
    let other_config = ["--config", config.to_str().expect("ASCII")];
    let port = spare_port();
    let source = Address::Tcp(format!("127.0.0.1:{port}"));
    let server = Further::start(&store, port);
    let mut client = connect(&source);
    let replica = Server::start(Kind::Redis, settings()).expect("the replica starts");
    replicate(&source, replica.address());
    let waited = client.call(["WAIT", "1", "60000"]).expect("a reply");
    assert_eq!(waited, Reply::Integer(1));
    let require = |count| ["CONFIG", "SET", "min-replicas-to-write", count];
    let set = ["SET", "k", "2"];
    let ok = Reply::Simple("OK".into());
    client.call(require("1")).expect("a reply");
    // Neither a server without the parameter nor one that requires more changes that.
    let other_port = spare_port();
    let other = Address::Tcp(format!("127.0.0.1:{other_port}"));
    for further in [&[][..], &other_config] {
        let _other = Further::start_with(&store, other_port, further);
        let mut other = connect(&other);
        let start = Instant::now();
        // A server that requires replicas notices within a moment that it does not count them.
        while other.call(set).expect("a reply") != ok {
            assert!(start.elapsed() < PATIENCE, "refused");
        }
        let Reply::Error(refused) = other.call(require("0")).expect("a reply") else {
            panic!("not refused");
        };
        assert!(refused.ends_with(b"set it there"), "{refused:?}");
        assert!(embedded(&store, &require("0")).contains("set it there"));
    }
    drop(replica);
    wait_for(&store, &set, REFUSED);
    for further in [&[][..], &other_config] {
        let _other = Further::start_with(&store, other_port, further);
        let mut other = connect(&other);
        let refused = other.call(set).expect("a reply");
        assert_eq!(refused, Reply::Error(REFUSED.into()));
        assert!(embedded(&store, &set).contains(REFUSED));
    }
    drop(server);
    assert!(embedded(&store, &require("0")).contains("OK"));
    assert!(embedded(&store, &set).contains("OK"));
}
