//! Compares the command table field by field through COMMAND INFO, and compares the other COMMAND
//! subcommands.

use std::collections::BTreeMap;

use undercroft_commands::reply::Tree;
use undercroft_commands::table::{Command, all, find_full, with_subcommands};

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

/// Compares two command descriptions, and collects the differences. Only the subcommands that
/// Undercroft has are compared, because it does not have all of Redis' subcommands.
fn compare(ours: &Tree, theirs: &Tree, wrong: &mut String) -> usize {
    let (ours, theirs) = (items(ours), items(theirs));
    for (index, field) in FIELDS.iter().enumerate() {
        let (name, one, other) = (&ours[0], &ours[index], &theirs[index]);
        if one != other {
            *wrong += &format!("{field} of {name:?}: ours {one:?}, theirs {other:?}\n");
        }
    }
    let mut compared = 1;
    for subcommand in items(&ours[9]) {
        let name = &items(subcommand)[0];
        if is_newer(name) {
            continue;
        }
        let theirs = items(&theirs[9])
            .iter()
            .find(|other| items(other)[0] == *name);
        compared += compare(
            subcommand,
            theirs.unwrap_or_else(|| panic!("no {name:?} in Redis")),
            wrong,
        );
    }
    compared
}

/// Returns whether the command with this name was added after Redis 7.0.
fn is_newer(name: &Tree) -> bool {
    let Tree::Bulk(name) = name else {
        panic!("not a name: {name:?}");
    };
    find_full(name).is_some_and(|command| !command.is_in_redis_7_0())
}

#[test]
fn every_description_equals_that_of_redis() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    let (mut compared, mut wrong) = (0, String::new());
    for command in all().iter().filter(|command| command.is_in_redis_7_0()) {
        let line = format!("COMMAND INFO {}", command.name);
        let (ours, theirs) = (run(&line), client.words(&line));
        compared += compare(&items(&ours)[0], &items(&theirs)[0], &mut wrong);
    }
    assert!(wrong.is_empty(), "{wrong}");
    println!("{compared} commands and subcommands compared");
    assert!(compared > 90, "{compared}");
    let line = "COMMAND INFO client|id nosuch get|x client|nosuch GET";
    assert_eq!(run(line), client.words(line));
}

#[test]
fn command_getkeys_equals_redis() {
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
fn command_list_filters_equal_redis() {
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
    let own_ones: Vec<String> = with_subcommands()
        .filter(|command| !command.is_in_redis_7_0())
        .map(|command| format!("{:?}", Tree::Bulk(command.name.into())))
        .collect();
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
        own.retain(|name| !own_ones.contains(name));
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
fn documentation_agrees_with_redis() {
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
    for command in all().iter().filter(|command| command.is_in_redis_7_0()) {
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

/// Commands whose documented arguments differ from those of Redis, each with the reason.
const OTHERWISE: &[(&str, &str)] = &[
    ("bitop", "its operation is one of four words, not any text"),
    (
        "client|kill",
        "all filters may be given together, each once",
    ),
    ("client|list", "one block around one argument less"),
    (
        "client|tracking",
        "its first argument has the name that it has in CLIENT NO-EVICT",
    ),
    ("command|getkeys", "Redis tells none"),
    ("command|getkeysandflags", "Redis tells none"),
    ("config|get", "one block around one argument less"),
    ("debug", "Redis tells none"),
    ("geohash", "its members may be left out"),
    ("geopos", "its members may be left out"),
    (
        "migrate",
        "a password is one argument of two, neither of which is optional by itself",
    ),
    ("module|loadex", "one block around one argument less"),
    (
        "pfdebug",
        "its subcommand is one of four words, not any text",
    ),
    ("pfmerge", "its sources may be left out"),
    ("psubscribe", "one block around one argument less"),
    (
        "xinfo|stream",
        "a block of a token and more has no token itself",
    ),
    ("xpending", "its idle time is a text"),
    ("xtrim", "one block around all arguments less"),
];

/// Removes the versions in which arguments were introduced, because Undercroft's table does not
/// record them.
fn without_versions(arguments: &Tree) -> Tree {
    let of_argument = |argument: &Tree| {
        let mut kept = Vec::new();
        for pair in items(argument).chunks(2) {
            match &pair[0] {
                Tree::Bulk(name) if name.ends_with(b"since") => {}
                Tree::Bulk(name) if name == b"arguments" => {
                    kept.extend([pair[0].clone(), without_versions(&pair[1])]);
                }
                _ => kept.extend(pair.iter().cloned()),
            }
        }
        Tree::Array(kept)
    };
    Tree::Array(items(arguments).iter().map(of_argument).collect())
}

/// Collects the arguments of each command and subcommand from a COMMAND DOCS reply.
fn arguments_of(docs: &Tree, found: &mut BTreeMap<String, Option<Tree>>) {
    for pair in items(docs).chunks(2) {
        let Tree::Bulk(name) = &pair[0] else {
            panic!("expected a name, got {:?}", pair[0]);
        };
        let field = |name: &str| {
            let mut pairs = items(&pair[1]).chunks(2);
            let pair = pairs.find(|pair| pair[0] == Tree::Bulk(name.into()))?;
            Some(&pair[1])
        };
        let name = String::from_utf8_lossy(name).into_owned();
        found.insert(name, field("arguments").map(without_versions));
        if let Some(subcommands) = field("subcommands") {
            arguments_of(subcommands, found);
        }
    }
}

#[test]
fn arguments_equal_those_of_redis() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let (mut ours, mut theirs) = (BTreeMap::new(), BTreeMap::new());
    arguments_of(&run("COMMAND DOCS"), &mut ours);
    arguments_of(&server.connect().words("COMMAND DOCS"), &mut theirs);
    let known = |name: &str| find_full(name.as_bytes()).is_some_and(Command::is_in_redis_7_0);
    let (mut equal, mut wrong) = (0, String::new());
    for (name, arguments) in ours.iter().filter(|(name, _)| known(name)) {
        let is_equal = theirs.get(name) == Some(arguments);
        let otherwise = OTHERWISE.iter().any(|(other, _)| other == name);
        if is_equal == otherwise {
            let theirs = theirs.get(name);
            wrong += &format!("{name}: ours {arguments:?}, theirs {theirs:?}\n");
        }
        equal += usize::from(is_equal);
    }
    assert!(wrong.is_empty(), "{wrong}");
    println!("the arguments of {equal} commands and subcommands are equal");
    assert!(equal > 200, "{equal}");
}
