//! The command table, field by field, through COMMAND INFO; and the other COMMAND subcommands.

use undercroft_commands::reply::Tree;
use undercroft_commands::table::{Group, all};

use crate::host::run;
use crate::support::RealServer;

const FIELDS: [&str; 9] = [
    "name",
    "arity",
    "flags",
    "first",
    "last",
    "step",
    "categories",
    "tips",
    "key specs",
];

fn items(tree: &Tree) -> &[Tree] {
    match tree {
        Tree::Array(items) => items,
        other => panic!("not an array: {other:?}"),
    }
}

fn sorted(tree: Tree) -> Vec<String> {
    let mut names: Vec<String> = items(&tree)
        .iter()
        .map(|item| format!("{item:?}"))
        .collect();
    names.sort();
    names
}

/// Compares two descriptions; subcommands only as far as ours go, because some of Redis' are not there.
fn compare(ours: &Tree, theirs: &Tree) -> usize {
    let (ours, theirs) = (items(ours), items(theirs));
    for (index, field) in FIELDS.iter().enumerate() {
        assert_eq!(ours[index], theirs[index], "{field} of {:?}", ours[0]);
    }
    let mut compared = 1;
    for subcommand in items(&ours[9]) {
        let name = &items(subcommand)[0];
        let theirs = items(&theirs[9])
            .iter()
            .find(|other| items(other)[0] == *name);
        compared += compare(
            subcommand,
            theirs.unwrap_or_else(|| panic!("no {name:?} in Redis")),
        );
    }
    compared
}

#[test]
fn every_description_equals_a_real_servers() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    let mut compared = 0;
    // Feeds are ours alone.
    for command in all().iter().filter(|command| command.group != Group::Feed) {
        let line = format!("COMMAND INFO {}", command.name);
        let (ours, theirs) = (run(&line), client.words(&line));
        compared += compare(&items(&ours)[0], &items(&theirs)[0]);
    }
    println!("{compared} commands and subcommands compared");
    assert!(compared > 90, "{compared}");
    let line = "COMMAND INFO client|id nosuch get|x client|nosuch GET";
    assert_eq!(run(line), client.words(line));
}

#[test]
fn keys_are_found_alike() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    for line in [
        "get k",
        "GET",
        "get a b",
        "mset a 1 b 2 c 3",
        "mset a 1 b",
        "mget a b c",
        "rename a b",
        "copy a b DB 3",
        "lcs a b LEN",
        "set k v EX 5",
        "set k v nx get",
        "object encoding k",
        "memory usage k SAMPLES 5",
        "del a a b",
        "ping x",
        "dbsize",
        "nosuch a b",
        "object nosuch k",
        "object encoding",
        "restore k 0 x",
        "migrate host 1 k 0 100",
        "migrate host 1 k 0 100 AUTH KEYS",
        "sort k BY w_* GET g_* STORE other",
        "zunionstore to 2 a b WEIGHTS 1 2",
        "georadius k 0 0 1 m STORE a STOREDIST b",
        "role",
        "wait 0 0",
    ] {
        for what in ["GETKEYS", "GETKEYSANDFLAGS"] {
            let line = format!("COMMAND {what} {line}");
            assert_eq!(run(&line), client.words(&line), "{line}");
        }
    }
}

#[test]
fn lists_are_filtered_alike() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    let ours: Vec<String> = sorted(run("COMMAND LIST"));
    let subcommands: Vec<String> = all()
        .iter()
        .flat_map(|command| command.subcommands)
        .map(|command| format!("{:?}", Tree::Bulk(command.name.into())))
        .collect();
    let feeds = all().iter().filter(|command| command.group == Group::Feed);
    let feeds = feeds.map(|command| format!("{:?}", Tree::Bulk(command.name.into())));
    let feeds: Vec<String> = feeds.collect();
    for filter in [
        "",
        " FILTERBY ACLCAT string",
        " filterby aclcat KEYSPACE",
        " FILTERBY ACLCAT dangerous",
        " FILTERBY ACLCAT nosuch",
        " FILTERBY PATTERN *e*",
        " FILTERBY PATTERN CLIENT|*",
        " FILTERBY MODULE nosuch",
    ] {
        let line = format!("COMMAND LIST{filter}");
        let mut theirs = sorted(client.words(&line));
        theirs.retain(|name| ours.contains(name) || subcommands.contains(name));
        let mut own = sorted(run(&line));
        own.retain(|name| !feeds.contains(name));
        assert_eq!(own, theirs, "{line}");
    }
    for line in [
        "COMMAND LIST FILTERBY",
        "COMMAND LIST FILTERBY ACLCAT",
        "COMMAND LIST x y z",
        "COMMAND COUNT x",
    ] {
        assert_eq!(run(line), client.words(line), "{line}");
    }
}

#[test]
fn documentation_has_redis_facts() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    let field = |docs: &Tree, name: &str| {
        let fields = items(&items(docs)[1]);
        let at = fields
            .iter()
            .step_by(2)
            .position(|key| *key == Tree::Bulk(name.into()));
        at.map(|at| fields[at * 2 + 1].clone())
    };
    for command in all().iter().filter(|command| command.group != Group::Feed) {
        let line = format!("COMMAND DOCS {}", command.name);
        let (ours, theirs) = (run(&line), client.words(&line));
        for name in ["since", "group", "doc_flags", "deprecated_since"] {
            assert_eq!(
                field(&ours, name),
                field(&theirs, name),
                "{name} of {}",
                command.name
            );
        }
    }
}
