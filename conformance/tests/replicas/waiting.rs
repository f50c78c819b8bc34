//! WAIT takes no thread: any number of clients can wait for replicas at a time.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use undercroft_conformance::client::Client;
use undercroft_conformance::command::Command;
use undercroft_conformance::replication::{PATIENCE, field};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::seed::seed;
use undercroft_conformance::servers::{Kind, Server};

use crate::data::Pair;

/// More clients than a server has threads.
const CLIENTS: usize = 200;

fn signal(server: &Server, signal: Signal) {
    let pid = Pid::from_raw(server.pid().cast_signed()).expect("a process");
    kill_process(pid, signal).expect("the server runs");
}

/// Waits until a number of clients are blocked.
fn wait_for_blocked(client: &mut Client, count: usize) {
    let start = Instant::now();
    while field(client, "clients", "blocked_clients") != count.to_string() {
        assert!(
            start.elapsed() < PATIENCE,
            "{}",
            field(client, "clients", "blocked_clients")
        );
    }
}

#[test]
fn many_clients_wait_at_a_time_without_threads() {
    let Some(mut pair) = Pair::start(seed(), Kind::Redis, &[]) else {
        return;
    };
    pair.follow();
    pair.compare();
    signal(&pair.replica, Signal::STOP);
    let connect = || Client::connect(pair.ours.address()).expect("it accepts");
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let set = client.call(["SET", &format!("waits:{number}"), "1"]);
        assert_eq!(set.expect("a reply"), Reply::Simple(b"OK".to_vec()));
        client
            .send(&Command::of(["WAIT", "1", "100000"]))
            .expect("a connection");
        // The next command runs after the wait.
        client
            .send(&Command::of(["ECHO", "after"]))
            .expect("a connection");
    }
    let mut other = connect();
    wait_for_blocked(&mut other, CLIENTS);
    let tasks = format!("/proc/{}/task", pair.ours.pid());
    let threads = std::fs::read_dir(tasks).expect("the server runs").count();
    assert!(threads < 32, "{threads} threads");
    // Others go on, also those that need a thread of their own.
    let start = Instant::now();
    let waited = other.call(["WAIT", "1", "50"]).expect("a reply");
    assert_eq!(waited, Reply::Integer(0));
    assert!(start.elapsed() >= Duration::from_millis(50));
    // A client that leaves waits no longer.
    drop(clients.pop());
    wait_for_blocked(&mut other, CLIENTS - 1);
    signal(&pair.replica, Signal::CONT);
    for client in &mut clients {
        assert_eq!(client.receive().expect("a reply"), Reply::Integer(1));
        assert_eq!(
            client.receive().expect("a reply"),
            Reply::Bulk(b"after".to_vec())
        );
    }
    wait_for_blocked(&mut other, 0);
    let mut replica = Client::connect(pair.replica.address()).expect("it accepts");
    let got = replica.call(["GET", "waits:0"]).expect("a reply");
    assert_eq!(got, Reply::Bulk(b"1".to_vec()));
}
