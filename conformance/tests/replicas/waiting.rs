//! WAIT takes no thread and no processor time: any number of clients can wait for replicas at a time.
//! CLIENT UNBLOCK ends it as in Redis.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use undercroft_conformance::client::Client;
use undercroft_conformance::command::Command;
use undercroft_conformance::replication::{PATIENCE, field};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::seed::seed;
use undercroft_conformance::servers::{Kind, Server, start_undercroft};

use crate::data::{Pair, settings};

/// More clients than a server has threads.
const CLIENTS: usize = 200;

pub(crate) fn signal(server: &Server, signal: Signal) {
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

/// Returns how often the threads of a server that run commands have gone to sleep.
fn wakeups(server: &Server) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it runs");
    let mut sum = 0;
    for task in tasks {
        let path = task.expect("a thread").path();
        let name = std::fs::read_to_string(path.join("comm")).expect("a thread");
        // The first thread looks after the store ten times a second.
        if !name.starts_with("publish") && !name.starts_with("replica") {
            let status = std::fs::read_to_string(path.join("status")).expect("a thread");
            let field = |line: &str| {
                line.strip_prefix("voluntary_ctxt_switches:")?
                    .trim()
                    .parse()
                    .ok()
            };
            sum += status.lines().find_map(field).unwrap_or(0);
        }
    }
    sum
}

/// The replies to commands of two clients, of which the first waits for replicas that do not exist.
fn unblocked(server: &Server) -> Vec<Reply> {
    let connect = || Client::connect(server.address()).expect("it accepts");
    let (mut waiting, mut other) = (connect(), connect());
    let id = waiting.call(["CLIENT", "ID"]).expect("a reply");
    let Reply::Integer(id) = id else {
        panic!("{id:?}");
    };
    let id = id.to_string();
    let mut replies = Vec::new();
    for reason in [&[][..], &["TIMEOUT"], &["error"], &["other"], &["ERROR"]] {
        let unblock = ["CLIENT", "UNBLOCK", &id];
        let words = unblock.iter().chain(reason).copied();
        // A client that does not wait.
        replies.push(other.call(words.clone()).expect("a reply"));
        waiting
            .send(&Command::of(["WAIT", "1", "0"]))
            .expect("a connection");
        waiting
            .send(&Command::of(["ECHO", "next"]))
            .expect("a connection");
        wait_for_blocked(&mut other, 1);
        replies.push(other.call(words).expect("a reply"));
        if reason == ["other"] {
            replies.push(other.call(unblock).expect("a reply"));
        }
        replies.push(waiting.receive().expect("a reply"));
        replies.push(waiting.receive().expect("a reply"));
        wait_for_blocked(&mut other, 0);
    }
    // Two waits in a row, of which each is ended by itself.
    let two = [["WAIT", "1", "0"], ["WAIT", "2", "0"]].map(Command::of);
    two.iter()
        .for_each(|wait| waiting.send(wait).expect("a connection"));
    wait_for_blocked(&mut other, 1);
    for _ in 0..2 {
        let unblock = ["CLIENT", "UNBLOCK", &id, "ERROR"];
        while other.call(unblock).expect("a reply") == Reply::Integer(0) {}
        replies.push(waiting.receive().expect("a reply"));
    }
    wait_for_blocked(&mut other, 0);
    replies
}

#[test]
fn client_unblock_ends_a_wait_as_in_redis() {
    let Some(ours) = start_undercroft(settings()).expect("undercroft starts") else {
        return;
    };
    let redis = Server::start(Kind::Redis, settings()).expect("it starts");
    assert_eq!(unblocked(&ours), unblocked(&redis));
}

#[test]
fn acknowledgement_ends_a_wait_at_once() {
    let Some(pair) = Pair::start(seed(), Kind::Redis, &[]) else {
        return;
    };
    pair.follow();
    let mut client = Client::connect(pair.ours.address()).expect("it accepts");
    let waited = client.call(["WAIT", "1", "0"]).expect("a reply");
    assert_eq!(waited, Reply::Integer(1));
    // Without an event, a thread looks at the waiting clients once a second. 20 waits of some
    // milliseconds have no look between most of them.
    const WAITS: u32 = 20;
    let start = Instant::now();
    for number in 0..WAITS {
        client
            .call(["SET", "k", &number.to_string()])
            .expect("a reply");
        let waited = client.call(["WAIT", "1", "0"]).expect("a reply");
        assert_eq!(waited, Reply::Integer(1));
    }
    let mean = start.elapsed() / WAITS;
    println!("a WAIT took {mean:?}");
    assert!(mean < Duration::from_millis(400), "{mean:?}");
}

#[test]
fn connection_that_becomes_a_replica_after_a_wait_is_not_blocked() {
    let Some(ours) = start_undercroft(settings()).expect("undercroft starts") else {
        return;
    };
    let connect = || Client::connect(ours.address()).expect("it accepts");
    let (mut client, mut other) = (connect(), connect());
    client
        .send(&Command::of(["WAIT", "1", "200"]))
        .expect("a connection");
    client
        .send(&Command::of(["PSYNC", "?", "-1"]))
        .expect("a connection");
    wait_for_blocked(&mut other, 1);
    assert_eq!(client.receive().expect("a reply"), Reply::Integer(0));
    assert!(matches!(client.receive(), Ok(Reply::Simple(_))));
    wait_for_blocked(&mut other, 0);
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
    let (start, before) = (Instant::now(), wakeups(&pair.ours));
    let waited = other.call(["WAIT", "1", "1500"]).expect("a reply");
    assert_eq!(waited, Reply::Integer(0));
    assert!(start.elapsed() >= Duration::from_millis(1500));
    // A look at the waiting clients every 10 ms would wake the threads at least 150 times.
    let woken = wakeups(&pair.ours) - before;
    println!("the threads were woken {woken} times");
    assert!(woken < 100, "{woken}");
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
