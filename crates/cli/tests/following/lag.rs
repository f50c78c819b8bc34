//! The lag of a replica, in `undercroft stat` and in INFO.

use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::command::Command;
use undercroft_conformance::replication::field;
use undercroft_conformance::resp::Reply;
use undercroft_engine::LinkStatus;

use crate::served::Served;
use crate::support::{Follower, Place, call, offset_of, place_of, redis, run, until, url_of};

#[test]
fn many_clients_wait_for_the_source_without_threads() {
    let source = redis(&[]);
    let place = Place::new();
    let _follower = Follower::start(&url_of(&source), place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    call(&source, &["SET", "first", "change"]);
    place.catch_up(&source);
    let _served = Served::start(&place, "");
    let socket = Address::Unix(place.path("socket").into());
    let connect = || Client::connect(&socket).expect("it accepts");
    // A position that the source reaches with its next changes.
    let offset = (offset_of(&source) + 5000).to_string();
    let mut clients: Vec<Client> = (0..200).map(|_| connect()).collect();
    for client in &mut clients {
        let wait = Command::of(["REPLICA.WAIT", &offset, "100000"]);
        client.send(&wait).expect("a connection");
    }
    let mut control = connect();
    let mut blocked = || field(&mut control, "clients", "blocked_clients");
    until(|| blocked() == "200", || "they do not wait".into());
    let short = connect().call(["REPLICA.WAIT", &offset, "20"]);
    assert_eq!(short.expect("a reply"), Reply::Integer(0));
    call(&source, &["SET", "long", &"v".repeat(10_000)]);
    for client in &mut clients {
        assert_eq!(client.receive().expect("a reply"), Reply::Integer(1));
    }
    until(|| blocked() == "0", || "they are still counted".into());
    // A wait that ends with an error is over.
    let mut waiting = connect();
    let wait = Command::of(["REPLICA.WAIT", "1000000000", "100000"]);
    waiting.send(&wait).expect("a connection");
    until(|| blocked() == "1", || "it does not wait".into());
    let path = place.path("store");
    assert_eq!(run(&["follow", "--end", "--store", &path]).status, 0);
    assert!(waiting.receive().expect("a reply").is_error());
    until(|| blocked() == "0", || "it is still counted".into());
}

/// Returns the replica's part of `undercroft stat --json`.
fn figures(place: &Place) -> serde_json::Value {
    let path = place.path("store");
    let stat = run(&["stat", &path, "--json"]);
    assert_eq!(stat.status, 0, "{stat:?}");
    let all: serde_json::Value = serde_json::from_str(&stat.out).expect("JSON");
    all["replica"].clone()
}

#[test]
fn lag_is_reported_while_following_and_after_the_follower_has_died() {
    let source = redis(&[]);
    let place = Place::new();
    assert_eq!(figures(&place), serde_json::Value::Null);
    let mut follower = Follower::start(&url_of(&source), place.store.path(), &[]);
    for number in 0..100 {
        call(&source, &["SET", &format!("k{number}"), "v"]);
    }
    place.catch_up(&source);
    // The source is asked for its position every second.
    until(
        || {
            let figures = figures(&place);
            figures["link"] == "up" && figures["lag"] == 0 && figures["lag_seconds"] == 0.0
        },
        || place.describe(),
    );
    let path = place.path("store");
    let stat = run(&["stat", &path]).out;
    let expected = format!("replica      of {}, up", place_of(&source));
    assert!(stat.contains(&expected), "{stat}");
    let info = run(&["exec", "--store", &path, "INFO", "replication"]).out;
    for line in ["master_lag_bytes:0", "master_lag_sec:0.000"] {
        assert!(info.lines().any(|found| found == line), "{line}: {info}");
    }
    follower.kill();
    place.wait_for_status(LinkStatus::Down);
    // The source may have changed since then.
    let figures = figures(&place);
    let seconds = figures["lag_seconds"].as_f64().expect("a number");
    assert!(seconds > 0.0 && figures["link"] == "down", "{figures}");
    let stat = run(&["stat", &path]).out;
    assert!(
        stat.contains("that are not applied, the oldest for at most"),
        "{stat}"
    );
}
