//! Tests that INFO counts commands and errors as a real Redis does.

use std::collections::BTreeMap;

use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::command::Command;
use undercroft_conformance::servers::{Kind, Server, Settings, start_undercroft};

/// Commands that are sent both one by one and in one batch. Each has one reply.
const COMMANDS: &str = r##"
    CONFIG RESETSTAT
    SET k v
    SET k v
    SET n 1
    GET k
    get k
    GET no
    INCR n
    INCR k
    INCRBY n x
    SET
    SET k
    SET k v w
    GET
    NOSUCH k
    LPUSH k wrong-type
    LPUSH l a
    LPOP l
    BLPOP l 0.01
    BLPOP k 0.01
    BLPOP
    CONFIG
    CONFIG NOSUCH
    CONFIG GET
    CONFIG GET maxmemory-samples
    CONFIG SET maxmemory-samples x
    CLIENT ID
    CLIENT KILL ID x
    SELECT 99
    AUTH wrong
    AUTH
    OBJECT ENCODING k
    OBJECT ENCODING
    MULTI
    SET k w
    LPUSH k wrong-type
    GET k
    AUTH wrong
    CONFIG GET maxmemory-samples
    EXEC
    EXEC
    MULTI
    SET
    NOSUCH
    SUBSCRIBE
    EXEC
    MULTI
    MULTI
    WATCH k
    DISCARD
    DISCARD
    MULTI
    SET k v
    DISCARD
    WATCH k
    SET k 2
    MULTI
    SET k 3
    EXEC
    EVALSHA 0123456789012345678901234567890123456789 0
    EVAL "redis.call('set',KEYS[1],'v')return{redis.call('get',KEYS[1]),redis.call('GET',KEYS[1])}" 1 s
    EVAL "redis.call('set','other','v')return{redis.pcall('lpush','other','x').err}" 0
    EVAL "redis.call('get','s')return(redis.call('incr','s'))" 0
    EVAL "redis.pcall('set','s')redis.pcall('nosuch')return(redis.pcall('incr','s').err)" 0
    MULTI
    EVAL "return(redis.call('strlen',KEYS[1]))" 1 s
    EXEC
    SETRANGE k -1 x
    ZADD z 1 a
    ZADD z x a
    ZADD z
    PUBLISH c m
    HELLO 9
    PING
    PING a b
    DEBUG JMAP
    CONFIG SET maxmemory 1
    SET k v
    GET k
    EVAL "return(redis.call('set',KEYS[1],'v'))" 1 s
    EVAL "return(redis.pcall('set',KEYS[1],'v').err)" 1 s
    EVAL "return(redis.call('get',KEYS[1]))" 1 s
    EVAL "#!lua\nreturn 1" 0
    CONFIG SET maxmemory 1gb
"##;

fn text(client: &mut Client, section: &str) -> String {
    let reply = client.call(["INFO", section]).expect("a reply");
    String::from_utf8(reply.bytes().expect("a text").to_vec()).expect("text")
}

/// Returns the counters of commands and errors by name, without times.
fn counted(client: &mut Client) -> BTreeMap<String, String> {
    let sections = ["commandstats", "errorstats", "stats"].map(|section| text(client, section));
    let fields = sections.iter().flat_map(|section| section.lines());
    let fields = fields.filter_map(|line| line.split_once(':'));
    let counted = fields.filter_map(|(name, value)| {
        if name.starts_with("cmdstat_") {
            let parts: Vec<&str> = value.split(',').collect();
            assert!(
                parts[1].starts_with("usec=") && parts[2].starts_with("usec_per_call="),
                "{value}"
            );
            let counts = [parts[0], parts[3], parts[4]].join(",");
            return Some((name.to_owned(), counts));
        }
        let is_told = name.starts_with("errorstat_") || name == "total_error_replies";
        is_told.then(|| (name.to_owned(), value.to_owned()))
    });
    counted.collect()
}

fn told(address: &Address, in_one_go: bool) -> BTreeMap<String, String> {
    let mut client = Client::connect(address).expect("it listens");
    let commands: Vec<Command> = COMMANDS
        .trim()
        .lines()
        .map(|line| Command::parse(line.trim()).expect("a command"))
        .collect();
    if in_one_go {
        client.pipeline(&commands).expect("replies");
    } else {
        for command in &commands {
            client.send(command).expect("it reads");
            client.receive().expect("a reply");
        }
    }
    let counted = counted(&mut client);
    assert!(
        client
            .call(["FLUSHALL"])
            .is_ok_and(|reply| !reply.is_error())
    );
    counted
}

#[test]
fn commands_and_errors_are_counted_as_in_redis() {
    let redis = Server::start(Kind::Redis, Settings::default()).expect("redis-server starts");
    let ours = start_undercroft(Settings::default()).expect("undercroft starts");
    for in_one_go in [false, true] {
        let theirs = told(redis.address(), in_one_go);
        assert!(theirs.len() > 30, "{theirs:?}");
        assert_eq!(
            theirs["cmdstat_get"],
            "calls=9,rejected_calls=1,failed_calls=0"
        );
        if let Some(ours) = &ours {
            assert_eq!(
                told(ours.address(), in_one_go),
                theirs,
                "in one go: {in_one_go}"
            );
        }
    }
}

/// The sum of the reported times does not exceed the test's duration, and each percentile is one of
/// the calls' times.
#[test]
fn reported_times_are_those_of_the_calls() {
    let Some(server) = start_undercroft(Settings::default()).expect("undercroft starts") else {
        return;
    };
    let start = std::time::Instant::now();
    let mut client = Client::connect(server.address()).expect("it listens");
    let set = Command::parse("SET k v").expect("a command");
    let replies = client.pipeline(&vec![set; 1000]).expect("replies");
    assert_eq!(replies.len(), 1000);
    let commands = text(&mut client, "commandstats");
    let took = start.elapsed().as_micros() as f64;
    let line = commands
        .lines()
        .find(|line| line.starts_with("cmdstat_set:calls=1000,"));
    let line = line.unwrap_or_else(|| panic!("no SET in {commands}"));
    let number = |name: &str| {
        let (_, rest) = line.split_once(name).expect("a field");
        let text = rest.split(',').next().unwrap_or_default();
        text.parse::<f64>().expect("a number")
    };
    let sum = number(",usec=");
    assert!(0.0 < sum && sum <= took, "{line} of {took}");
    assert!(
        (number("usec_per_call=") * 1000.0 - sum).abs() <= 10.0,
        "{line}"
    );

    let latencies = text(&mut client, "latencystats");
    let line = latencies
        .lines()
        .find(|line| line.starts_with("latency_percentiles_usec_set:p50="));
    let line = line.unwrap_or_else(|| panic!("no SET in {latencies}"));
    let (_, figures) = line.split_once(':').expect("figures");
    let figures: Vec<(&str, f64)> = figures
        .split(',')
        .filter_map(|figure| figure.split_once('='))
        .map(|(name, time)| (name, time.parse().expect("a number")))
        .collect();
    assert_eq!(
        figures.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["p50", "p99", "p99.9"]
    );
    assert!(
        figures.is_sorted_by(|one, other| one.1 <= other.1),
        "{line}"
    );
    assert!(
        figures.iter().all(|(_, time)| *time > 0.0 && *time <= took),
        "{line}"
    );

    for (line, shown) in [
        (
            "CONFIG SET latency-tracking-info-percentiles 0",
            "latency_percentiles_usec_set:p0=",
        ),
        ("CONFIG SET latency-tracking no", "# Latencystats\r\n"),
    ] {
        client
            .send(&Command::parse(line).expect("a command"))
            .expect("it reads");
        client.receive().expect("a reply");
        let latencies = text(&mut client, "latencystats");
        assert!(latencies.contains(shown), "{latencies}");
    }
    assert_eq!(text(&mut client, "latencystats"), "# Latencystats\r\n");
}
