//! The cut-over of a migration: `undercroft follow --promote`.

use undercroft_conformance::client::Client;
use undercroft_conformance::servers::{Kind, Server, Settings};
use undercroft_engine::{LinkStatus, Store};

use crate::support::{
    Follower, Place, Run, call, changes_of, field, place_of, redis, run, until, url_of,
};

fn promote(source: &Server, place: &Place, options: &[&str]) -> Run {
    let path = place.path("store");
    let url = url_of(source);
    let mut all = vec!["follow", url.as_str(), "--store", &path, "--promote"];
    all.extend(options);
    run(&all)
}

/// Returns whether the writers of a server are paused.
fn is_paused(source: &Server) -> bool {
    let mut control = Client::connect(source.address()).expect("it accepts");
    let mut writer = Client::connect(source.address()).expect("it accepts");
    let id = writer.call(["CLIENT", "ID"]).expect("a reply");
    let id = format!("{id:?}");
    let digits: String = id.chars().filter(char::is_ascii_digit).collect();
    std::thread::scope(|scope| {
        let written = scope.spawn(move || writer.call(["SET", "after", "1"]));
        let mut paused = false;
        until(
            || {
                let blocked = control.call(["INFO", "clients"]).expect("a reply");
                let text =
                    String::from_utf8_lossy(blocked.bytes().unwrap_or_default()).into_owned();
                paused = text.lines().any(|line| line == "blocked_clients:1");
                paused || written.is_finished()
            },
            || digits.clone(),
        );
        control.call(["CLIENT", "UNPAUSE"]).expect("a reply");
        assert!(written.join().expect("no panic").is_ok());
        paused
    })
}

#[test]
fn promotion_compares_and_ends_the_role_while_another_process_follows() {
    let source = redis(&[]);
    changes_of(&source).make(3000);
    for number in 0..200 {
        call(&source, &["SET", &format!("key:{number}"), "value"]);
    }
    let place = Place::new();
    let follower = Follower::start(&url_of(&source), place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    let promoted = promote(&source, &place, &["--pause", "600"]);
    assert_eq!(promoted.status, 0, "{promoted:?}");
    assert!(promoted.errors.is_empty(), "{promoted:?}");
    let keys = place.store.keys(0);
    assert!(keys >= 200);
    for line in [
        "is no replica any more; it has all changes of the source up to position",
        &format!("  db 0: {keys} keys on both sides, "),
        "the writers of the source are paused for 600 seconds",
    ] {
        assert!(promoted.out.contains(line), "{line}: {promoted:?}");
    }
    assert!(!place.store.is_replica());
    assert_eq!(follower.finish().status, 0);
    place
        .store
        .set(0, b"mine", b"1")
        .expect("an ordinary store");
    assert!(is_paused(&source));
    let again = promote(&source, &place, &[]);
    assert!(again.errors.contains("is no replica"), "{again:?}");
}

#[test]
fn promotion_follows_by_itself_if_no_process_does() {
    let source = redis(&[]);
    call(&source, &["SET", "k", "v"]);
    let place = Place::new();
    let mut follower = Follower::start(&url_of(&source), place.store.path(), &[]);
    place.catch_up(&source);
    follower.kill();
    call(&source, &["SET", "later", "v"]);
    let promoted = promote(&source, &place, &["--pause", "600"]);
    assert_eq!(promoted.status, 0, "{promoted:?}");
    assert!(
        promoted.out.contains("db 0: 2 keys on both sides"),
        "{promoted:?}"
    );
    assert_eq!(place.get(0, "later").as_deref(), Some("v"));
}

#[test]
fn difference_keeps_the_role_and_the_writers() {
    let source = redis(&[]);
    for number in 0..50 {
        call(&source, &["SET", &format!("k{number}"), "v"]);
    }
    let other = Settings::default();
    let other = Server::start(Kind::Redis, other).expect("redis-server starts");
    let place = Place::new();
    let _follower = Follower::start(&url_of(&source), place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    let applier = Store::open(place.store.path(), true).expect("the store");
    applier.apply_source();
    // A missing key, and another value of every key.
    applier.delete(0, &[b"k7"]).expect("it exists");
    let promoted = promote(&source, &place, &[]);
    assert_eq!(promoted.status, 1, "{promoted:?}");
    let expected =
        "the store stays a replica: database 0 has 50 keys on the source, but 49 in the store";
    assert!(promoted.errors.contains(expected), "{promoted:?}");
    for number in 0..50 {
        let key = format!("k{number}");
        applier.set(0, key.as_bytes(), b"w").expect("room");
    }
    let promoted = promote(&source, &place, &[]);
    assert_eq!(promoted.status, 1, "{promoted:?}");
    let expected = "in database 0 has another value on the source than in the store";
    assert!(promoted.errors.contains(expected), "{promoted:?}");
    assert!(place.store.is_replica() && !is_paused(&source));
    // A replica has no writers that could be paused.
    let (host, port) = place_of(&other)
        .rsplit_once(':')
        .map(|(host, port)| (host.to_owned(), port.to_owned()))
        .expect("a port");
    call(&source, &["REPLICAOF", &host, &port]);
    until(
        || field(&source, "replication", "role") == "slave",
        || place.describe(),
    );
    let promoted = promote(&source, &place, &[]);
    let expected = "the source is itself a replica";
    assert!(promoted.errors.contains(expected), "{promoted:?}");
}

#[test]
fn end_of_the_role_ends_waiting_followers_too() {
    let source = redis(&[]);
    let place = Place::new();
    let start = |options: &[&str]| Follower::start(&url_of(&source), place.store.path(), options);
    let first = start(&[]);
    place.wait_for_status(LinkStatus::Up);
    let mut waiting = [start(&["--elect"]), start(&["--elect"])];
    let path = place.path("store");
    for follower in &mut waiting {
        follower.wait_for_error("waiting for its end");
    }
    assert_eq!(run(&["follow", "--end", "--store", &path]).status, 0);
    assert_eq!(first.finish().status, 0);
    for follower in waiting {
        assert_eq!(follower.finish().status, 0);
    }
    assert!(!place.store.is_replica());
}
