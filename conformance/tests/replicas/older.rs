//! Replicas older than Redis 7.0, which is what `replica-rdb-version 9` is for. No such server is at hand: a
//! recorded handshake receives the stream, and a later server applies it.

use std::process::Command as Process;

use undercroft_conformance::audit::audit;
use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::compare::Rules;
use undercroft_conformance::replication::{connect, field, spare_port};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::seed::seed;
use undercroft_conformance::servers::{Kind, Server, Settings, undercroft_binary};

use crate::data::{Further, Pair, settings};
use crate::played::Played;

/// The handshake of Redis 5.0 and 6.2.
const HANDSHAKE: &[&[&str]] = &[
    &["PING"],
    &["REPLCONF", "listening-port", "6380"],
    &["REPLCONF", "capa", "eof", "capa", "psync2"],
    &["PSYNC", "?", "-1"],
];

/// The commands of the stream, and the number of words that Redis 5.0 accepts; 0 stands for any.
const COMMANDS: &[(&str, usize)] = &[
    ("MULTI", 1),
    ("EXEC", 1),
    ("SELECT", 2),
    ("PING", 1),
    ("REPLCONF", 3),
    ("DEL", 0),
    ("SET", 3),
    ("SETRANGE", 4),
    ("PEXPIREAT", 3),
    ("PERSIST", 2),
    ("RPUSH", 0),
    ("LPUSH", 0),
    ("LTRIM", 4),
    ("SADD", 0),
    ("SREM", 0),
    ("ZADD", 0),
    ("ZREM", 0),
    ("HSET", 0),
    ("HDEL", 0),
    ("RESTORE", 6),
    ("SWAPDB", 3),
    ("FLUSHDB", 1),
    ("PUBLISH", 3),
];

/// Checks that Redis 5.0 has a command, with these arguments.
fn check(words: &[Vec<u8>]) {
    let name = String::from_utf8_lossy(&words[0]).into_owned();
    let known = COMMANDS.iter().find(|(known, _)| *known == name);
    let (_, count) = known.unwrap_or_else(|| panic!("{name} is too new"));
    assert!(*count == 0 || words.len() == *count, "{name}: {words:?}");
    if name == "RESTORE" {
        let payload = &words[3];
        let version = &payload[payload.len() - 10..payload.len() - 8];
        assert_eq!(version, 9_u16.to_le_bytes(), "{words:?}");
        // Redis 5.0 has no types above 15.
        assert!(payload[0] <= 15, "type {}", payload[0]);
    }
}

#[test]
fn older_replica_receives_only_what_it_understands() {
    let Some(mut pair) = Pair::start(seed(), Kind::Redis, &["scripting", "streams"]) else {
        return;
    };
    let mut control = Client::connect(pair.ours.address()).expect("it accepts");
    let set = ["CONFIG", "SET", "replica-rdb-version", "9"];
    assert_eq!(
        control.call(set).expect("a reply"),
        Reply::Simple(b"OK".to_vec())
    );
    let load = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    control.call(["FUNCTION", "LOAD", load]).expect("a reply");
    let mut played = Played::start(pair.ours.address(), HANDSHAKE);
    assert!(
        played.data.starts_with(b"REDIS0009"),
        "{:?}",
        &played.data[..9]
    );
    let loaded = Settings {
        files: vec![("dump.rdb".into(), played.data.clone())],
        ..settings()
    };
    let other = Server::start(Kind::Redis, loaded).expect("it loads the data set");
    let mut check_file = Process::new("redis-check-rdb");
    let check_file = check_file.arg(other.directory().join("dump.rdb"));
    let checked = check_file.output().expect("redis-check-rdb runs");
    let printed = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(
        printed.contains("RDB looks OK") && !printed.contains("functions"),
        "{printed}"
    );
    let mut there = Client::connect(other.address()).expect("it accepts");
    let mut writer = Client::connect(other.address()).expect("it accepts");
    let mut apply = |words: &[Vec<u8>]| {
        check(words);
        if words[0] != b"REPLCONF" {
            let reply = writer.call(words).expect("a reply");
            assert!(!reply.is_error(), "{words:?}: {reply:?}");
        }
    };
    // SWAPDB before the first change after a data set makes replicas load another one.
    control.call(["SET", "last", "none"]).expect("a reply");
    played.take_until("none", &mut apply);
    // Parts of large values, and messages.
    let many: Vec<String> = (0..600).map(|number| format!("item{number}")).collect();
    for round in 0..6 {
        pair.change(1500);
        let mut push = vec!["RPUSH", "large:list"];
        push.extend(many.iter().map(String::as_str));
        for words in [
            &push[..],
            &["LPOP", "large:list", "3"],
            &["RPOP", "large:list", "2"],
            &["LPUSH", "large:list", "first"],
            &["XADD", "large:stream", "*", "field", "value"],
            &["XGROUP", "CREATE", "large:stream", "group", "0"],
            &[
                "XREADGROUP",
                "GROUP",
                "group",
                "one",
                "STREAMS",
                "large:stream",
                ">",
            ],
            &["SET", "expires", "soon", "EX", "1000"],
            &["SPUBLISH", "shard", "message"],
            &["PUBLISH", "news", "message"],
            &["FUNCTION", "LOAD", "REPLACE", load],
        ] {
            control.call(words.iter().copied()).expect("a reply");
        }
        let end = round.to_string();
        control.call(["SET", "last", &end]).expect("a reply");
        played.take_until(&end, &mut apply);
        // The old form of a stream lacks the counters of its entries, so it is compared by its content.
        for words in [
            &["XRANGE", "large:stream", "-", "+"][..],
            &["XPENDING", "large:stream", "group"],
        ] {
            let [one, other] = [&mut control, &mut there]
                .map(|client| client.call(words.iter().copied()).expect("a reply"));
            assert_eq!(one, other, "{words:?}");
        }
        for client in [&mut control, &mut there] {
            client.call(["DEL", "large:stream"]).expect("a reply");
        }
        let rules = Rules {
            encodings: false,
            ..Rules::default()
        };
        let found = audit(&mut there, &mut control, rules).expect("both answer");
        assert_eq!(found, None, "{}", pair.describe());
    }
}

/// Asks to continue a stream. Returns the first word of the reply.
fn asked(source: &Address, id: &str, offset: &str) -> String {
    let mut client = connect(source);
    let first: u64 = offset.parse().expect("an offset");
    let words = ["PSYNC", id, &(first + 1).to_string()];
    match client.call(words).expect("a reply") {
        Reply::Simple(line) => {
            let line = String::from_utf8_lossy(&line).into_owned();
            line.split(' ').next().unwrap_or_default().to_owned()
        }
        reply => panic!("{reply:?}"),
    }
}

#[test]
fn change_of_the_version_begins_another_stream() {
    let Some(mut pair) = Pair::start(seed(), Kind::Redis, &["scripting", "streams"]) else {
        return;
    };
    let source = pair.ours.address().clone();
    let mut control = Client::connect(&source).expect("it accepts");
    let mut there = Client::connect(pair.replica.address()).expect("it accepts");
    let load = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    pair.follow();
    pair.compare();
    for (version, has_library) in [("9", false), ("10", true), ("9", false)] {
        let [id, end] = ["master_replid", "master_repl_offset"]
            .map(|name| field(&mut control, "replication", name));
        assert_eq!(asked(&source, &id, &end), "CONTINUE");
        let set = ["CONFIG", "SET", "replica-rdb-version", version];
        control.call(set).expect("a reply");
        // No replica may continue with the commands of the other version, from now on.
        assert_eq!(asked(&source, &id, &end), "FULLRESYNC");
        control
            .call(["FUNCTION", "LOAD", "REPLACE", load])
            .expect("a reply");
        pair.change(500);
        pair.compare();
        let list = there.call(["FUNCTION", "LIST"]).expect("a reply");
        assert_eq!(
            list != Reply::Array(Vec::new()),
            has_library,
            "{version}: {list:?}"
        );
        // The same version again changes nothing.
        let id = field(&mut control, "replication", "master_replid");
        control.call(set).expect("a reply");
        control.call(["SET", "k", version]).expect("a reply");
        pair.compare();
        assert_eq!(field(&mut control, "replication", "master_replid"), id);
    }
}

#[test]
fn server_that_starts_with_another_version_begins_another_stream() {
    if undercroft_binary().is_none() {
        return;
    }
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    let store = directory.path().join("store");
    let config = directory.path().join("conf");
    std::fs::write(&config, "replica-rdb-version 9\n").expect("a file");
    let older = ["--config", config.to_str().expect("ASCII")];
    let port = spare_port();
    let source = Address::Tcp(format!("127.0.0.1:{port}"));
    let server = Further::start(&store, port);
    drop(connect(&source));
    assert_eq!(asked(&source, "?", "0"), "FULLRESYNC");
    let mut client = connect(&source);
    let [id, end] =
        ["master_replid", "master_repl_offset"].map(|name| field(&mut client, "replication", name));
    drop(server);
    let server = Further::start_with(&store, port, &older);
    drop(connect(&source));
    assert_eq!(asked(&source, &id, &end), "FULLRESYNC");
    let mut client = connect(&source);
    let [id, end] =
        ["master_replid", "master_repl_offset"].map(|name| field(&mut client, "replication", name));
    drop(server);
    let _server = Further::start_with(&store, port, &older);
    drop(connect(&source));
    assert_eq!(asked(&source, &id, &end), "CONTINUE");
}
