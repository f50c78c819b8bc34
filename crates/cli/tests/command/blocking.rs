//! Tests commands that wait for keys: embedded processes and connections share one queue, and
//! waiting clients can die.

use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;

use rustix::process::Signal;
use undercroft_engine::lists::End;
use undercroft_engine::{Ranges, Store};

use crate::support::{Place, Server, command, signal_to, succeed};

/// Starts a process that runs a single command on a store.
fn exec(store: &str, words: &[&str]) -> Child {
    let all = [&["exec", "--store", store][..], words].concat();
    let child = command(&all).stdout(Stdio::piped()).spawn();
    child.expect("the binary runs")
}

/// Waits until a process exits, and returns its output.
fn output(child: Child) -> String {
    let output = child.wait_with_output().expect("a child");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn open(path: &str) -> Store {
    Store::open(Path::new(path), true).expect("a store")
}

/// Waits until the store's queue contains the given number of clients, including dead clients.
fn until_waiting(store: &Store, clients: usize) {
    while store.waits().expect("a look").len() != clients {
        thread::yield_now();
    }
}

fn push(store: &Store, key: &str, items: &[&str]) {
    let items: Vec<&[u8]> = items.iter().map(|item| item.as_bytes()).collect();
    store
        .list_push(0, key.as_bytes(), End::Right, &items)
        .expect("room");
}

fn items(store: &Store, key: &str) -> String {
    let mut found = Ranges::new();
    store
        .list_range(0, key.as_bytes(), 0, -1, &mut found)
        .expect("a list");
    let items: Vec<&[u8]> = found.iter().collect();
    String::from_utf8(items.join(&b' ')).expect("text")
}

#[test]
fn connections_and_processes_wait_in_one_queue() {
    let place = Place::new();
    let server = Server::start(&place, &["--threads", "3"]);
    let path = place.path("served");
    let store = open(&path);
    let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    let mut children = Vec::new();
    for (number, client) in clients.iter_mut().enumerate() {
        children.push(exec(&path, &["BLPOP", "k", "0"]));
        until_waiting(&store, number * 2 + 1);
        client.send("BLPOP k 0\r\nPING\r\n");
        until_waiting(&store, number * 2 + 2);
    }
    let mut last = server.connect();
    assert_eq!(last.call("RPUSH k 1 2 3"), ":3");
    push(&store, "k", &["4", "5", "6", "7"]);
    for (number, (child, client)) in children.into_iter().zip(&mut clients).enumerate() {
        assert_eq!(output(child), format!("k\n{}\n", number * 2 + 1));
        let lines = [(); 6].map(|()| client.line());
        let item = (number * 2 + 2).to_string();
        assert_eq!(lines, ["*2", "$1", "k", "$1", &item, "+PONG"]);
    }
    assert_eq!(items(&store, "k"), "7");
    until_waiting(&store, 0);
    drop(server);
    assert!(succeed(&["check", "--store", &path]).starts_with("sound"));
}

#[test]
fn killed_waiter_loses_no_item_and_delays_no_client() {
    let place = Place::new();
    let path = place.store("store", &[]);
    let store = open(&path);
    // The first client is killed while it is waiting.
    let mut first = exec(&path, &["BLPOP", "k", "0"]);
    until_waiting(&store, 1);
    let second = exec(&path, &["BRPOP", "k", "0"]);
    until_waiting(&store, 2);
    first.kill().and_then(|()| first.wait()).expect("a child");
    // Push through a new handle, which has not cached that the client is alive.
    push(&open(&path), "k", &["one", "two"]);
    assert_eq!(output(second), "k\ntwo\n");
    assert_eq!(items(&store, "k"), "one");
    // The third client is killed after an item has been delivered to its mailbox.
    store.delete(0, &[b"k"]).expect("room");
    let mut third = exec(&path, &["BLMPOP", "0", "1", "k", "LEFT", "COUNT", "2"]);
    until_waiting(&store, 1);
    signal_to(&third, Signal::STOP);
    while crate::support::state_of(&third) != 'T' {
        thread::yield_now();
    }
    push(&store, "k", &["one", "two", "three"]);
    assert_eq!(items(&store, "k"), "three");
    third.kill().and_then(|()| third.wait()).expect("a child");
    assert_eq!(
        succeed(&["exec", "--store", &path, "BLPOP", "k", "0"]),
        "k\none\n"
    );
    assert_eq!(items(&store, "k"), "two three");
}

#[test]
fn items_given_to_clients_of_a_killed_server_return() {
    let place = Place::new();
    let mut server = Server::start(&place, &[]);
    let path = place.path("served");
    let store = open(&path);
    let mut client = server.connect();
    client.send("BLPOP k 0\r\n");
    until_waiting(&store, 1);
    server.signal(Signal::STOP);
    push(&store, "k", &["one"]);
    assert_eq!(items(&store, "k"), "");
    server.signal(Signal::KILL);
    server.wait();
    // The next server returns the item to its key without a request from a client.
    let server = Server::start(&place, &[]);
    while server.connect().call("LLEN k") != ":1" {
        thread::yield_now();
    }
    assert!(succeed(&["check", "--store", &path]).starts_with("sound"));
}

#[test]
fn disconnected_waiter_is_not_served() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let store = open(&place.path("served"));
    let (mut client, mut other) = (server.connect(), server.connect());
    client.send("BLPOP k l 0\r\nPING\r\n");
    until_waiting(&store, 1);
    drop(client);
    until_waiting(&store, 0);
    assert_eq!(other.call("RPUSH k kept"), ":1");
    assert_eq!(items(&store, "k"), "kept");
    assert_eq!(other.call("BLPOP none 0.02"), "*-1");
    assert_eq!(store.waits().expect("a look"), []);
}

#[test]
fn client_unblock_ends_a_wait() {
    let place = Place::new();
    let server = Server::start(&place, &["--threads", "2"]);
    let store = open(&place.path("served"));
    let (mut client, mut other) = (server.connect(), server.connect());
    let id = client.call("CLIENT ID").replace(':', "");
    for (reason, reply) in [
        ("", "*-1"),
        (" TIMEOUT", "*-1"),
        (" ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK"),
    ] {
        client.send("BLMOVE k l LEFT LEFT 0\r\nPING\r\n");
        until_waiting(&store, 1);
        // Other threads see the wait only after the client's turn on its thread has ended.
        while other.call(&format!("CLIENT UNBLOCK {id}{reason}")) != ":1" {
            thread::yield_now();
        }
        assert_eq!([client.line(), client.line()], [reply, "+PONG"]);
        assert_eq!(other.call(&format!("CLIENT UNBLOCK {id}{reason}")), ":0");
    }
    client.send("BLPOP k 0\r\n");
    until_waiting(&store, 1);
    // A client that has already received its item cannot be unblocked.
    other.send(&format!(
        "RPUSH k 1\r\nCLIENT UNBLOCK {id}\r\nINFO clients\r\n"
    ));
    assert_eq!([other.line(), other.line()], [":1", ":0"]);
    assert_eq!(client.line(), "*2");
}

#[test]
fn waiting_read_fails_when_its_group_is_deleted() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let store = open(&place.path("served"));
    let (mut reader, mut other) = (server.connect(), server.connect());
    assert_eq!(other.call("XGROUP CREATE s g $ MKSTREAM"), "+OK");
    reader.send("XREADGROUP GROUP g one BLOCK 0 STREAMS s >\r\n");
    until_waiting(&store, 1);
    assert_eq!(other.call("XGROUP DESTROY s g"), ":1");
    let reply = reader.line();
    assert!(reply.starts_with("-NOGROUP"), "{reply}");
    other.send("INFO commandstats\r\n");
    let line = loop {
        let line = other.line();
        if line.starts_with("cmdstat_xreadgroup") {
            break line;
        }
    };
    assert!(
        line.contains("calls=1,") && line.contains("failed_calls=1"),
        "{line}"
    );
}
