//! Tests COMMAND and its subcommands for every command in the table, with random arguments.

use undercroft_commands::reply::Tree;
use undercroft_commands::table::{Command, all};

use crate::host::Own;
use crate::support::{RealServer, random};

/// Words that have a special meaning for some commands.
const WORDS: &[&str] = &[
    "a",
    "b",
    "k",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "99",
    "x",
    "",
    "GET",
    "get",
    "STORE",
    "store",
    "STOREDIST",
    "KEYS",
    "BY",
    "LIMIT",
    "COPY",
    "REPLACE",
    "AUTH",
    "AUTH2",
    "WEIGHTS",
    "AGGREGATE",
    "SUM",
    "LEFT",
    "MIN",
    "COUNT",
    "ENCODING",
    "USAGE",
    "SET",
    "u8",
    "i5",
    "OVERFLOW",
    "WRAP",
    "EX",
    "NX",
    "BLOCK",
    "STREAMS",
];

fn same(own: &mut Own, client: &mut crate::support::Client, words: &[&str]) {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let ours = own.call(&words);
    let shown: Vec<String> = words
        .iter()
        .map(|word| String::from_utf8_lossy(word).into())
        .collect();
    assert_eq!(ours, client.call(&words), "{shown:?}");
}

#[test]
fn keys_of_any_call_equal_those_of_redis() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let (mut client, mut own, mut random) = (server.connect(), Own::new(), random());
    let mut found = 0;
    for round in 0..200 {
        // Skip MIGRATE: Redis' COMMAND handles KEYS after a nonempty key argument differently, and
        // MIGRATE itself refuses this combination.
        let known = |command: &&Command| command.name != "migrate" && command.is_in_redis_7_0();
        for command in all().iter().filter(known) {
            let mut names: Vec<String> = vec![command.name.to_owned()];
            names.extend(
                command
                    .subcommands
                    .iter()
                    .filter(|sub| sub.is_in_redis_7_0())
                    .map(|sub| sub.name.replace('|', " ")),
            );
            let name = &names[random.usize(..names.len())];
            let mut call: Vec<&str> = name.split(' ').collect();
            let most = if round % 10 == 0 { 20 } else { 7 };
            for _ in 0..random.usize(..most) {
                call.push(WORDS[random.usize(..WORDS.len())]);
            }
            let which = if random.bool() {
                "GETKEYS"
            } else {
                "GETKEYSANDFLAGS"
            };
            let words: Vec<&[u8]> = ["COMMAND", which]
                .iter()
                .chain(&call)
                .map(|word| word.as_bytes())
                .collect();
            let ours = own.call(&words);
            found += usize::from(!matches!(ours, Tree::Error(_)));
            assert_eq!(ours, client.call(&words), "{which} {call:?}");
        }
    }
    println!("{found} calls with keys");
    assert!(found > 2_000, "only {found}");
}

#[test]
fn edge_cases_of_command_equal_those_of_redis() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let (mut client, mut own) = (server.connect(), Own::new());
    for line in [
        "COMMAND COUNT x",
        "COMMAND INFO nosuch",
        "COMMAND INFO get|key",
        "COMMAND INFO config|get|key",
        "COMMAND INFO config|nosuch",
        "COMMAND INFO |",
        "COMMAND INFO get|",
        "COMMAND INFO |get",
        "COMMAND INFO GET",
        "COMMAND INFO CONFIG|GET",
        "COMMAND INFO get nosuch get",
        "COMMAND LIST x",
        "COMMAND LIST FILTERBY",
        "COMMAND LIST FILTERBY PATTERN",
        "COMMAND LIST FILTERBY PATTERN a b",
        "COMMAND LIST FILTERBY nosuch x",
        "COMMAND LIST FILTERBY MODULE nosuch",
        "COMMAND LIST FILTERBY ACLCAT nosuch",
        "COMMAND LIST FILTERBY PATTERN nosuch*",
        "COMMAND LIST FILTERBY PATTERN xyz",
        "COMMAND LIST bad FILTERBY PATTERN x",
        "COMMAND NOSUCH",
        "COMMAND DOCS nosuch",
        "COMMAND GETKEYS",
        "COMMAND GETKEYS get",
        "COMMAND GETKEYS nosuch k",
        "COMMAND GETKEYS config",
        "COMMAND GETKEYS config nosuch",
        "COMMAND GETKEYS config get",
        "COMMAND GETKEYS config get x",
        "COMMAND GETKEYS ping",
        "COMMAND GETKEYS ping x",
        "COMMAND GETKEYS object help",
        "COMMAND GETKEYSANDFLAGS",
        "COMMAND GETKEYSANDFLAGS mset a b c",
    ] {
        same(&mut own, &mut client, &line.split(' ').collect::<Vec<_>>());
    }
}
