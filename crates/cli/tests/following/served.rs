//! A server that follows a source: named in its configuration file, or again after a restart.

use std::fs;
use std::process::{Child, Stdio};

use undercroft_conformance::audit::audit;
use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::compare::Rules;
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::Server;
use undercroft_engine::LinkStatus;

use crate::support::{Follower, Place, call, command, place_of, redis, until, url_of};

/// A running `undercroft serve`. It is killed on drop, which leaves its store as a crash does.
pub(crate) struct Served(Child);

impl Served {
    /// Serves the store of a place with lines of a configuration file, and waits until it answers.
    pub(crate) fn start(place: &Place, lines: &str) -> Served {
        Served::start_with(place, lines, &[])
    }

    /// Serves with further options.
    pub(crate) fn start_with(place: &Place, lines: &str, options: &[&str]) -> Served {
        Served::start_in(place, lines, options, &[])
    }

    /// Serves with further options and environment variables.
    pub(crate) fn start_in(
        place: &Place,
        lines: &str,
        options: &[&str],
        variables: &[(&str, String)],
    ) -> Served {
        let (config, socket) = (place.path("conf"), place.path("socket"));
        fs::write(&config, format!("port 0\nunixsocket {socket}\n{lines}")).expect("a file");
        let path = place.path("store");
        let mut serve = command(&["serve", "--config", &config, "--store", &path]);
        serve.args(options).stderr(Stdio::null());
        serve.envs(variables.iter().map(|(name, value)| (name, value)));
        let child = serve.spawn();
        let served = Served(child.expect("the binary runs"));
        let id = format!("process_id:{}", served.0.id());
        until(
            || {
                let client = Client::connect(&Address::Unix(socket.clone().into()));
                let info = client
                    .ok()
                    .and_then(|mut c| c.call(["INFO", "server"]).ok());
                let text = info.as_ref().and_then(Reply::bytes).unwrap_or_default();
                String::from_utf8_lossy(text).contains(&id)
            },
            || "the server does not answer".into(),
        );
        served
    }

    fn call(place: &Place, words: &[&str]) -> Reply {
        let socket = Address::Unix(place.path("socket").into());
        let mut client = Client::connect(&socket).expect("it accepts");
        client.call(words).expect("a reply")
    }
}

/// Compares all keys of a store with those of its source, which sends no changes.
pub(crate) fn compare(place: &Place, source: &Server) {
    let _served = Served::start(place, "");
    let socket = Address::Unix(place.path("socket").into());
    let mut ours = Client::connect(&socket).expect("it accepts");
    let mut judge = Client::connect(source.address()).expect("it accepts");
    // An encoding can depend on earlier values, which a replica never had.
    let rules = Rules {
        encodings: false,
        ..Rules::default()
    };
    let found = audit(&mut judge, &mut ours, rules).expect("both answer");
    assert_eq!(found, None, "{}", place.describe());
    let list = ["FUNCTION", "LIST", "WITHCODE"];
    let libraries = |client: &mut Client| {
        let Reply::Array(all) = client.call(list).expect("a reply") else {
            panic!("expected libraries");
        };
        let mut all: Vec<String> = all.iter().map(|one| format!("{one:?}")).collect();
        all.sort_unstable();
        all
    };
    assert!(
        libraries(&mut ours) == libraries(&mut judge),
        "the function libraries differ"
    );
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn configured_source_is_followed_from_the_start() {
    let source = redis(&[]);
    call(&source, &["CONFIG", "SET", "requirepass", "secret"]);
    let place = Place::new();
    let (host, port) = {
        let address = place_of(&source);
        let (host, port) = address.split_once(':').expect("a port");
        (host.to_owned(), port.to_owned())
    };
    let source_call = |words: &[&str]| {
        let mut client = Client::connect(source.address()).expect("it accepts");
        client.call(["AUTH", "secret"]).expect("a reply");
        client.call(words).expect("a reply")
    };
    let lines = format!("replicaof {host} {port}\nmasterauth secret\n");
    for round in ["1", "2", "3"] {
        source_call(&["SET", "round", round]);
        let served = Served::start(&place, &lines);
        until(
            || place.get(0, "round").as_deref() == Some(round),
            || place.describe(),
        );
        let refused = Served::call(&place, &["SET", "k", "v"]);
        assert!(matches!(&refused, Reply::Error(text) if text.starts_with(b"READONLY")));
        drop(served);
    }
    // Each later round continued with the changes after the last one.
    let info = source_call(&["INFO", "stats"]);
    let text = String::from_utf8_lossy(info.bytes().unwrap_or_default()).into_owned();
    assert!(text.contains("sync_full:1\r\n"), "{text}");
}

#[test]
fn server_that_followed_a_source_follows_it_after_a_restart() {
    let source = redis(&[]);
    let place = Place::new();
    let address = place_of(&source);
    let (host, port) = address.split_once(':').expect("a port");
    let served = Served::start(&place, "");
    let ok = Reply::Simple(b"OK".to_vec());
    assert_eq!(Served::call(&place, &["REPLICAOF", host, port]), ok);
    call(&source, &["SET", "k", "1"]);
    place.catch_up(&source);
    place.wait_for_status(LinkStatus::Up);
    drop(served);
    call(&source, &["SET", "k", "2"]);
    let served = Served::start(&place, "");
    place.catch_up(&source);
    assert_eq!(place.get(0, "k").as_deref(), Some("2"));
    // A server that was told to stop following does so after its restart, too.
    let none = Served::call(&place, &["REPLICAOF", "NO", "ONE"]);
    assert_eq!(none, ok);
    drop(served);
    let served = Served::start(&place, "");
    assert_eq!(Served::call(&place, &["SET", "k", "mine"]), ok);
    assert!(!place.store.is_replica());
    drop(served);
    // The source of 'undercroft follow' can need a password or TLS, which only that command knows.
    let mut follower = Follower::start(&url_of(&source), place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    follower.kill();
    let _served = Served::start(&place, "");
    assert!(place.store.is_replica());
    let lock = place.store.lock_following().expect("the file is there");
    assert!(lock.is_some(), "no process follows");
}
