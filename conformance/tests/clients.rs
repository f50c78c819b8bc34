//! Tests that CLIENT LIST reports a connection's memory as a real Redis does.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::command::Command;
use undercroft_conformance::servers::{Kind, Server, Settings, start_undercroft};

/// The time limit for a server to read the bytes sent to it.
const LIMIT: Duration = Duration::from_secs(60);

type Fields = BTreeMap<String, String>;

/// Returns the field names of a line in order, and a map from names to values.
fn parse(line: &str) -> (Vec<String>, Fields) {
    let pairs: Vec<(&str, &str)> = line
        .split_whitespace()
        .filter_map(|field| field.split_once('='))
        .collect();
    let names = pairs.iter().map(|(name, _)| (*name).to_owned()).collect();
    let fields = pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    (names, fields.collect())
}

fn text(client: &mut Client, words: &[&str]) -> String {
    let reply = client.call(words).expect("a reply");
    String::from_utf8(reply.bytes().expect("a text").to_vec()).expect("text")
}

/// Returns the line of the connection with this name, or `None` if CLIENT LIST does not show it
/// yet.
fn line_of(client: &mut Client, name: &str) -> Option<Fields> {
    let list = text(client, &["CLIENT", "LIST"]);
    let mut lines = list.lines().map(|line| parse(line).1);
    lines.find(|fields| fields["name"] == name)
}

fn number(fields: &Fields, name: &str) -> u64 {
    fields[name].parse().expect("a number")
}

/// Waits until a condition holds for the line of a connection, and returns the line.
fn line_where(client: &mut Client, name: &str, is_so: impl Fn(&Fields) -> bool) -> Fields {
    let start = Instant::now();
    loop {
        let fields = line_of(client, name);
        match fields {
            Some(fields) if is_so(&fields) => return fields,
            _ => assert!(start.elapsed() < LIMIT, "{name}: {fields:?}"),
        }
        std::thread::yield_now();
    }
}

fn named(address: &Address, name: &str) -> Client {
    let mut client = Client::connect(address).expect("it listens");
    client.call(["CLIENT", "SETNAME", name]).expect("a reply");
    client
}

/// Returns the properties that must be equal on every server: the field names, and values that the
/// protocol determines.
fn told(address: &Address) -> Vec<(String, Vec<String>)> {
    let mut told = Vec::new();
    let mut note = |what: &str, values: Vec<String>| told.push((what.to_owned(), values));
    // The connection on which the test waited for the server to start may briefly remain in the
    // list.
    let mut client = named(address, "asks");
    let (names, _) = parse(
        text(&mut client, &["CLIENT", "LIST"])
            .lines()
            .next()
            .expect("a line"),
    );
    // Exclude these two fields, which Redis 7.2 added.
    let older = |name: &String| !["lib-name", "lib-ver"].contains(&name.as_str());
    note("fields", names.into_iter().filter(older).collect());

    let of_one_command = [
        "qbuf",
        "argv-mem",
        "multi",
        "multi-mem",
        "obl",
        "oll",
        "omem",
        "events",
        "cmd",
        "flags",
    ];
    for words in [
        &["CLIENT", "LIST"][..],
        &["CLIENT", "INFO"],
        &["CLIENT", "LIST", "TYPE", "NORMAL"],
    ] {
        let lines = text(&mut client, words);
        let mut lines = lines.lines().map(|line| parse(line).1);
        let fields = lines.find(|fields| fields["name"] == "asks");
        let fields = fields.expect("its own line");
        note(
            &words.join(" "),
            of_one_command.map(|name| fields[name].clone()).to_vec(),
        );
        assert!(
            number(&fields, "tot-mem") > number(&fields, "qbuf"),
            "{fields:?}"
        );
    }

    // Send the beginning of a command. Redis has already removed its complete words from the
    // buffer.
    let mut partly = named(address, "partly");
    let part = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000\r\nabc";
    partly.send_raw(part).expect("it reads");
    let fields = line_where(&mut client, "partly", |fields| number(fields, "qbuf") > 0);
    assert!(number(&fields, "qbuf") <= part.len() as u64, "{fields:?}");

    let mut queues = named(address, "queues");
    for line in ["MULTI", "SET k 0123456789", "GET k"] {
        queues
            .send(&Command::parse(line).expect("a command"))
            .expect("it reads");
        queues.receive().expect("a reply");
    }
    let fields = line_where(&mut client, "queues", |fields| fields["multi"] == "2");
    note("a queue", vec![fields["flags"].clone()]);
    assert!(number(&fields, "multi-mem") >= 20, "{fields:?}");
    assert!(
        number(&fields, "tot-mem") >= number(&fields, "multi-mem"),
        "{fields:?}"
    );

    // Send more bytes than the kernel's socket buffers can hold.
    let mut reads_nothing = named(address, "reads-nothing");
    reads_nothing
        .call(["SUBSCRIBE", "channel"])
        .expect("a reply");
    let message = "m".repeat(1 << 20);
    for _ in 0..12 {
        client
            .call(["PUBLISH", "channel", &message])
            .expect("a reply");
    }
    let fields = line_where(&mut client, "reads-nothing", |fields| {
        number(fields, "omem") > 1 << 20
    });
    note("replies that wait", vec![fields["flags"].clone()]);
    assert!(number(&fields, "oll") > 0, "{fields:?}");
    assert!(
        number(&fields, "tot-mem") > number(&fields, "omem"),
        "{fields:?}"
    );
    told
}

#[test]
fn client_memory_is_reported_as_by_redis() {
    let redis = Server::start(Kind::Redis, Settings::default()).expect("redis-server starts");
    let theirs = told(redis.address());
    if let Some(ours) = start_undercroft(Settings::default()).expect("undercroft starts") {
        assert_eq!(told(ours.address()), theirs);
    }
}

#[test]
fn client_list_reflects_earlier_commands_of_each_client() {
    let Some(server) = start_undercroft(Settings::default()).expect("undercroft starts") else {
        return;
    };
    let mut client = Client::connect(server.address()).expect("it listens");
    for number in 0..500 {
        let name = format!("name-{number}");
        let mut other = named(server.address(), &name);
        other.call(["SELECT", "3"]).expect("a reply");
        let fields = line_of(&mut client, &name);
        let database = fields.as_ref().map(|fields| fields["db"].as_str());
        assert_eq!(database, Some("3"), "{fields:?}");
    }
}
