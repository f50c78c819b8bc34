//! Tests that MONITOR shows the same lines as a real Redis.

use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::command::Command;
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Kind, Server, Settings, start_undercroft};

/// Commands that one connection runs while another monitors them. Each has one reply.
const COMMANDS: &str = r#"
    SET k v
    get k
    GET "a\"\\\n\r\t\x07\x08\x00\x7f\xff z"
    GET ""
    SET n 123
    INCR n
    NOSUCH k
    GET
    LPUSH k wrong-type
    MULTI
    SET k w
    LPUSH k wrong-type
    CONFIG GET maxmemory
    SELECT 3
    GET k
    PUBLISH c m
    EXEC
    SELECT 0
    MULTI
    GET
    EXEC
    EXEC
    MULTI
    SET k v
    DISCARD
    MULTI
    EXEC
    WATCH k
    SET k 2
    MULTI
    SET k 3
    EXEC
    UNWATCH
    SELECT 99
    AUTH wrong
    AUTH default wrong
    HELLO 2 AUTH default wrong SETNAME bob
    HELLO 2 SETNAME bob
    MIGRATE host 1 no 0 100 AUTH secret
    MIGRATE host 1 no 0 100 COPY AUTH2 me secret REPLACE
    CONFIG SET maxmemory-samples 5
    CLIENT LIST
    CLIENT GETNAME
    CLIENT KILL ID 1000000
    CLIENT NO-EVICT off
    SLOWLOG LEN
    INFO server
    OBJECT ENCODING k
    KEYS *
    BLPOP no 0.01
    PUBLISH c m
    EVAL "redis.call('set',KEYS[1],'v')return{redis.call('get',KEYS[1]),redis.pcall('lpush',KEYS[1],'x')}" 1 s
    EVAL "redis.pcall('nosuch')redis.pcall('get')redis.call('select',2)redis.call('set','other',1)return redis.call('nosuch')" 0
    MULTI
    EVAL "return redis.call('strlen',KEYS[1])" 1 s
    GET s
    EXEC
    RESET
    ECHO "that is all"
"#;

/// Returns the lines that a monitor receives, without times and addresses.
fn shown(address: &Address) -> Vec<String> {
    let mut monitor = Client::connect(address).expect("it listens");
    let reply = monitor.call(["MONITOR"]).expect("a reply");
    assert_eq!(reply, Reply::Simple(b"OK".to_vec()));
    let mut client = Client::connect(address).expect("it listens");
    for line in COMMANDS.trim().lines() {
        let command = Command::parse(line.trim()).expect("a command");
        client.send(&command).expect("it reads");
        client.receive().expect("a reply");
    }
    let mut lines = Vec::new();
    while !lines
        .last()
        .is_some_and(|line: &String| line.contains("that is all"))
    {
        let Reply::Simple(line) = monitor.receive().expect("a line") else {
            panic!("expected a line after {lines:?}");
        };
        lines.push(without_chance(&String::from_utf8(line).expect("text")));
    }
    lines
}

/// Returns the database and the words of a line, after checking that the line has a time and an
/// address.
fn without_chance(line: &str) -> String {
    let (time, rest) = line.split_once(" [").expect("a time");
    let (seconds, fraction) = time.split_once('.').expect("a fraction");
    assert!(seconds.len() == 10 && fraction.len() == 6, "{line}");
    assert!(
        time.bytes()
            .all(|byte| byte == b'.' || byte.is_ascii_digit()),
        "{line}"
    );
    let (client, words) = rest.split_once("] ").expect("a client");
    let (database, address) = client.split_once(' ').expect("an address");
    if address == "lua" {
        return format!("{database} lua {words}");
    }
    assert!(address.contains(':'), "{line}");
    format!("{database} {words}")
}

#[test]
fn undercroft_shows_the_same_lines_as_redis() {
    let redis = Server::start(Kind::Redis, Settings::default()).expect("redis-server starts");
    let theirs = shown(redis.address());
    assert_eq!(theirs[0], r#"0 "SET" "k" "v""#);
    if let Some(ours) = start_undercroft(Settings::default()).expect("undercroft starts") {
        assert_eq!(shown(ours.address()), theirs);
    }
}
