//! Tests that a server keeps its data after a failure of the machine, which is simulated by removing
//! the store's file.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use undercroft_engine::{Durability, Store};

use crate::support::{Place, Server, fail, run};

/// Returns the durability mode of the served store.
fn mode(place: &Place) -> Durability {
    let store = Store::open(Path::new(&place.path("served")), false).expect("the server made it");
    store.durability()
}

fn get(place: &Place, key: &str) -> String {
    let store = place.path("served");
    run(&["exec", "--store", &store, "--raw", "GET", key]).out
}

#[test]
fn server_recovers_the_store_from_the_named_folder() {
    let place = Place::new();
    let folder = place.path("folder");
    let arguments = ["--durability", "always", "--journal", &folder];
    let mut server = Server::start(&place, &arguments);
    assert!(
        server
            .start
            .contains("durability always with the journal in")
    );
    assert_eq!(server.connect().call("SET k v"), "+OK");
    server.signal(Signal::KILL);
    server.wait();
    fs::remove_file(place.path("served")).expect("it exists");
    let server = Server::start(&place, &arguments);
    assert!(server.start.contains("recovered"), "{}", server.start);
    let mut client = server.connect();
    assert_eq!(client.call("GET k"), "$1");
    assert_eq!(client.line(), "v");
    assert!(Path::new(&folder).is_dir());
}

#[test]
fn redis_directives_begin_a_journal() {
    let place = Place::new();
    let file = place.path("conf");
    fs::write(&file, "appendonly yes\nappendfsync always\n").expect("room");
    let server = Server::start(&place, &["--config", &file]);
    assert!(!server.start.contains("ignored"), "{}", server.start);
    assert_eq!(mode(&place), Durability::Always);
    drop(server);
    // Redis' own file has `appendonly no`, which must not remove a journal.
    fs::write(&file, "appendonly no\nappendfsync everysec\n").expect("room");
    let server = Server::start(&place, &["--config", &file]);
    assert_eq!(mode(&place), Durability::Always);
    drop(server);
    let server = Server::start(&place, &["--durability", "none"]);
    assert!(
        server.start.contains("keeps its journal"),
        "{}",
        server.start
    );
    drop(server);
    let server = Server::start(&place, &["--durability", "everysec"]);
    assert_eq!(mode(&place), Durability::EverySecond);
    drop(server);
    let refused = fail(&["serve", "--durability", "often"], 2);
    assert!(refused.contains("none, everysec or always"), "{refused}");
}

#[test]
fn shutdown_makes_everything_durable() {
    let stops: [(&str, Option<Signal>); 3] = [
        ("SHUTDOWN", None),
        ("SHUTDOWN SAVE", None),
        ("SIGTERM", Some(Signal::TERM)),
    ];
    for (stop, signal) in stops {
        let place = Place::new();
        let mut server = Server::start(&place, &["--durability", "everysec"]);
        let mut client = server.connect();
        for number in 0..100 {
            assert_eq!(client.call(&format!("SET k {number}")), "+OK");
        }
        match signal {
            Some(signal) => server.signal(signal),
            None => client.send(&format!("{stop}\r\n")),
        }
        assert_eq!(server.wait().0, Some(0), "{stop}");
        fs::remove_file(place.path("served")).expect("it exists");
        assert_eq!(get(&place, "k"), "99\n", "{stop}");
    }
}

#[test]
fn shutdown_is_refused_if_the_changes_cannot_be_saved() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let mut client = server.connect();
    let refused = client.call("SHUTDOWN SAVE");
    assert!(refused.contains("has no journal"), "{refused}");
    assert_eq!(client.call("CONFIG SET appendonly yes"), "+OK");
    assert_eq!(client.call("SET k v"), "+OK");
    let folder = place.path("served.journal");
    fs::rename(&folder, place.path("aside")).expect("it exists");
    let refused = client.call("SHUTDOWN");
    assert_eq!(refused, "-ERR Errors trying to SHUTDOWN. Check logs.");
    client.send("SHUTDOWN FORCE\r\n");
    assert_eq!(client.line(), "");
}

#[test]
fn checkpoints_do_not_delay_other_clients_of_the_thread() {
    let place = Place::new();
    let server = Server::start(&place, &["--threads", "1"]);
    let (mut one, mut other) = (server.connect(), server.connect());
    assert_eq!(one.call("CONFIG SET appendonly yes"), "+OK");
    for _ in 0..20 {
        one.send("SAVE\r\n");
        assert_eq!(other.call("PING"), "+PONG");
        assert_eq!(one.line(), "+OK");
    }
    assert_eq!(one.call("CONFIG SET appendonly no"), "+OK");
    assert_eq!(mode(&place), Durability::None);
}
