//! A server that forwards commands that change keys to the source that its store follows.

use std::os::unix::net::UnixListener;

use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::command::Command;
use undercroft_conformance::generate::Generator;
use undercroft_conformance::replication::replicated_families;
use undercroft_conformance::resp::Reply;
use undercroft_conformance::seed::seed;
use undercroft_engine::{LinkStatus, key_slot};

use crate::cluster_nodes::{Cluster, slots_of};
use crate::served::{Served, compare};
use crate::support::{Follower, NOT_REPLICATED, Place, call, place_of, redis, until, url_of};

pub(crate) fn client(place: &Place) -> Client {
    Client::connect(&Address::Unix(place.path("socket").into())).expect("it accepts")
}

pub(crate) fn text(reply: &Reply) -> String {
    match reply {
        Reply::Error(text) => String::from_utf8_lossy(text).into_owned(),
        reply => String::from_utf8_lossy(reply.bytes().unwrap_or_default()).into_owned(),
    }
}

#[test]
fn client_reads_the_changes_that_the_source_makes_for_it() {
    let source = redis(&[]);
    let place = Place::new();
    let _follower = Follower::start(&url_of(&source), place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    // Redis sends the first change after a data set up to a second later.
    call(&source, &["SET", "first", "change"]);
    place.catch_up(&source);
    let _served = Served::start_with(&place, "", &["--writes", "forward"]);
    let mut client = client(&place);
    let mut ask = |line: &str| {
        let command = Command::parse(line).expect("a command");
        client.call(&command.0).expect("a reply")
    };
    for number in 1..=100 {
        assert_eq!(ask("INCR n"), Reply::Integer(number));
        assert_eq!(text(&ask("GET n")), number.to_string());
    }
    // The reply and the error are those of the source.
    assert!(text(&ask("LPUSH n x")).starts_with("WRONGTYPE"));
    assert_eq!(ask("SELECT 3"), Reply::Simple(b"OK".to_vec()));
    ask("SET other 3");
    assert_eq!(text(&ask("GET other")), "3");
    assert_eq!(place.get(3, "other").as_deref(), Some("3"));
    // A script and a transaction run at the source as a whole.
    let script =
        "EVAL \"redis.call('SET', KEYS[1], ARGV[1]) return redis.call('INCR', KEYS[1])\" 1 s 41";
    assert_eq!(ask(script), Reply::Integer(42));
    ask("MULTI");
    ask("INCR s");
    ask("GET s");
    let Reply::Array(replies) = ask("EXEC") else {
        panic!("expected the replies of a transaction");
    };
    assert_eq!(replies[0], Reply::Integer(43));
    assert_eq!(text(&replies[1]), "43");
    assert_eq!(text(&ask("GET s")), "43");
    ask("WATCH s");
    ask("MULTI");
    ask("SET s 1");
    assert!(text(&ask("EXEC")).starts_with("READONLY"));
    assert_eq!(text(&ask("GET s")), "43");
    // A script cannot redirect commands, and thus the source's password, to a server of its choice.
    let trap = place.path("trap");
    let listener = UnixListener::bind(&trap).expect("a socket");
    listener.set_nonblocking(true).expect("a socket");
    for target in [format!("{trap}:0"), "127.0.0.1:1".to_owned()] {
        let redirection = format!("MOVED 1 {target}");
        let script = format!("EVAL \"return redis.error_reply('{redirection}')\" 0");
        assert_eq!(text(&ask(&script)), redirection);
    }
    assert!(listener.accept().is_err(), "no connection was made");
    // A client that caches is told at once about the keys of a script that the source ran.
    let mut caching = self::client(&place);
    let mut cached = |line: &str| {
        let command = Command::parse(line).expect("a command");
        caching.call(&command.0).expect("a reply")
    };
    cached("SELECT 3");
    cached("HELLO 3");
    cached("CLIENT TRACKING ON");
    let reply = cached("EVAL \"return redis.call('GET', KEYS[1])\" 1 s");
    assert_eq!(text(&reply), "43");
    assert!(matches!(cached("PING"), Reply::Push(_)));
    // A source that is gone is an error.
    drop(source);
    assert!(text(&ask("SET s 2")).starts_with("ERR the source"));
    assert_eq!(text(&ask("GET s")), "43");
}

#[test]
fn limited_user_gains_no_rights_at_the_source() {
    let source = redis(&[]);
    call(&source, &["SET", "secret", "value"]);
    call(&source, &["RPUSH", "mine:list", "1"]);
    let place = Place::new();
    let _follower = Follower::start(&url_of(&source), place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    place.catch_up(&source);
    let _served = Served::start_with(&place, "", &["--writes", "forward"]);
    let mut client = client(&place);
    let mut ask = |line: &str| {
        let command = Command::parse(line).expect("a command");
        text(&client.call(&command.0).expect("a reply"))
    };
    let rules = "ACL SETUSER limited on nopass ~mine:* +@all";
    assert_eq!(ask(rules), "OK");
    assert_eq!(ask("AUTH limited any"), "OK");
    assert_eq!(ask("SET mine:a 1"), "OK");
    assert_eq!(ask("GET mine:a"), "1");
    for line in [
        "SET secret 1",
        "EVAL \"return redis.call('SET', 'secret', '1')\" 0",
        "EVAL \"return redis.call('SET', 'secret', '1')\" 1 mine:a",
        "SORT mine:list BY nosort GET secret STORE mine:copy",
        "RENAME secret mine:b",
        "COPY secret mine:b",
    ] {
        let reply = ask(line);
        let is_refused = ["NOPERM", "READONLY", "ERR"]
            .iter()
            .any(|code| reply.starts_with(code));
        assert!(is_refused, "{line}: {reply}");
    }
    ask("MULTI");
    assert_eq!(ask("INCR mine:a"), "QUEUED");
    let other = "ACL SETUSER limited resetkeys ~other:*";
    let changed = call_of(&place, other);
    assert_eq!(text(&changed), "OK");
    let refused = ask("EXEC");
    assert!(
        refused.starts_with("NOPERM") || refused.starts_with("EXECABORT"),
        "{refused}"
    );
    assert_eq!(text(&call(&source, &["GET", "secret"])), "value");
    assert_eq!(text(&call(&source, &["GET", "mine:a"])), "1");
    assert_eq!(
        call(&source, &["EXISTS", "mine:copy", "mine:b"]),
        Reply::Integer(0)
    );
}

#[test]
fn transaction_changes_neither_the_connection_nor_the_settings_of_the_source() {
    let source = redis(&[]);
    let place = Place::new();
    let _follower = Follower::start(&url_of(&source), place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    let _served = Served::start_with(&place, "", &["--writes", "forward"]);
    let mut one = client(&place);
    let mut ask = |line: &str| {
        let command = Command::parse(line).expect("a command");
        one.call(&command.0).expect("a reply")
    };
    for line in ["MULTI", "SET a 0", "SELECT 5", "SET a 5", "EXEC"] {
        ask(line);
    }
    assert_eq!(
        text(&ask("GET a")),
        "5",
        "the client has selected the database"
    );
    // Another client's change is made in its own database.
    assert_eq!(call_of(&place, "SET b 0"), Reply::Simple(b"OK".to_vec()));
    place.catch_up(&source);
    let get = |database, key: &str| place.get(database, key);
    assert_eq!(
        (get(0, "a").as_deref(), get(5, "a").as_deref()),
        (Some("0"), Some("5"))
    );
    assert_eq!((get(0, "b").as_deref(), get(5, "b")), (Some("0"), None));
    for line in ["MULTI", "SET a 6", "CONFIG SET maxclients 77"] {
        ask(line);
    }
    let refused = text(&ask("EXEC"));
    assert!(
        refused.starts_with("READONLY") && refused.contains("config|set"),
        "{refused}"
    );
    assert_eq!(text(&ask("GET a")), "5");
    let settings = format!("{:?}", call(&source, &["CONFIG", "GET", "maxclients"]));
    assert!(!settings.contains("[55, 55]"), "{settings}");
}

/// Runs a command on another connection of the server.
fn call_of(place: &Place, line: &str) -> Reply {
    let command = Command::parse(line).expect("a command");
    client(place).call(&command.0).expect("a reply")
}

#[test]
fn server_without_the_option_refuses_changes() {
    let source = redis(&[]);
    let place = Place::new();
    let _follower = Follower::start(&url_of(&source), place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    let _served = Served::start_with(&place, "", &[]);
    let reply = client(&place).call(["SET", "k", "v"]).expect("a reply");
    assert!(text(&reply).starts_with("READONLY"), "{reply:?}");
}

#[test]
fn random_commands_through_a_server_are_those_of_its_source() {
    let source = redis(&[]);
    let place = Place::new();
    let _follower = Follower::start(&url_of(&source), place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    let served = Served::start_with(&place, "", &["--writes", "forward"]);
    let families = replicated_families(NOT_REPLICATED);
    let mut random = Generator::new(seed(), &families);
    let mut client = client(&place);
    let keys = || -> u64 { (0..16).map(|database| place.store.keys(database)).sum() };
    let mut most = 0;
    for _ in 0..3000 {
        let command = random.command();
        client.call(&command.0).expect("a reply");
        most = most.max(keys());
    }
    place.catch_up(&source);
    // The last commands can have removed all keys.
    assert!(most > 10, "{most} keys");
    drop(served);
    compare(&place, &source);
}

#[test]
fn commands_are_forwarded_to_the_master_that_has_their_keys() {
    let cluster = Cluster::start(2, 0);
    let place = Place::new();
    let first = cluster.node(0);
    let _follower = Follower::start(&url_of(first), place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    for index in 0..2 {
        let slots = slots_of(cluster.node(index));
        let mut names = (0..).map(|number| format!("first{number}"));
        let name = names.find(|name| slots.contains(&key_slot(name.as_bytes())));
        call(cluster.node(index), &["SET", &name.expect("a name"), "v"]);
    }
    cluster.catch_up(&place);
    let _served = Served::start_with(&place, "", &["--writes", "forward"]);
    let mut client = client(&place);
    for number in 0..50 {
        let key = format!("k{number}");
        let reply = client.call(["SET", &key, "v"]).expect("a reply");
        assert_eq!(reply, Reply::Simple(b"OK".to_vec()));
        assert_eq!(text(&client.call(["GET", &key]).expect("a reply")), "v");
    }
    // The store learns later that the slot has moved, so that the node redirects the command.
    let slot = key_slot(b"k0");
    let from = cluster.owner(slot);
    cluster.move_slot(slot, from, 1 - from);
    let reply = client.call(["SET", "k0", "new"]).expect("a reply");
    assert_eq!(reply, Reply::Simple(b"OK".to_vec()));
    let owner = cluster.node(cluster.owner(slot));
    assert_eq!(text(&call(owner, &["GET", "k0"])), "new");
    until(
        || place.get(0, "k0").as_deref() == Some("new"),
        || format!("{} {}", place.describe(), place_of(owner)),
    );
}
