//! Checks that `docs/commands.md` matches the command table, and that the table contains no
//! commands other than those of Redis 7.0, Undercroft's own commands, whose names contain a dot, and
//! the newer commands listed in `redis-newer.txt`.
//!
//! `UNDERCROFT_BLESS=1 cargo test -p undercroft-commands --test documented` regenerates the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use undercroft_commands::table::{Command, Group, all, find_full, with_subcommands};

const REDIS: &str = include_str!("redis-7.0.txt");
const NEWER: &str = include_str!("redis-newer.txt");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");

/// The header of each table on the page.
const HEAD: &str = "\n| command | since | description | complexity |\n| --- | --- | --- | --- |\n";

/// The command groups in the order of the page, with their titles.
const GROUPS: [(&str, &str); 16] = [
    ("string", "Strings"),
    ("bitmap", "Bitmaps"),
    ("hyperloglog", "HyperLogLogs"),
    ("list", "Lists"),
    ("hash", "Hashes"),
    ("set", "Sets"),
    ("sorted-set", "Sorted sets"),
    ("geo", "Geo"),
    ("stream", "Streams"),
    ("pubsub", "Pub/sub"),
    ("transactions", "Transactions"),
    ("scripting", "Scripting"),
    ("generic", "Keys of any type"),
    ("connection", "Connection"),
    ("server", "Server"),
    ("cluster", "Cluster"),
];

/// A command that Redis has.
struct Known {
    group: &'static str,
    name: &'static str,
    since: &'static str,
}

fn known(list: &'static str) -> Vec<Known> {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [group, name, since] = words[..] else {
                panic!("expected a group, a name and a version, got {line:?}");
            };
            Known { group, name, since }
        })
        .collect()
}

/// Returns Undercroft's command with this name, unless it is a container that requires a
/// subcommand.
fn ours(name: &str) -> Option<&'static Command> {
    find_full(name.as_bytes()).filter(|command| command.is_callable())
}

fn page() -> String {
    let (known, newer) = (known(REDIS), known(NEWER));
    let found = known.iter().filter(|command| ours(command.name).is_some());
    let mut page = format!(
        "# Commands\n\n\
         The commands of Redis 7.0 that Undercroft has, and its own commands for feeds and replicas. They run in embedded clients, on\n\
         the server and in the shell:\n\n\
         ```console\n\
         $ undercroft exec --create --store undercroft://demo SLOWLOG HELP\n\
         {}```\n\n\
         Redis 7.0 has {} commands, counting each subcommand. Undercroft has {} of them, with the options, replies and\n\
         error texts of Redis 7.0.15, and {} commands of later versions. If Undercroft does not support the feature of a\n\
         command, such as replication, the description says what the command returns. Commands listed as not available\n\
         return the error for an unknown command.\n\n\
         The tables omit the HELP subcommands. `COMMAND DOCS` returns the same descriptions to programs.\n\
         [performance.md](performance.md) says which commands hold locks, and for how long. This page is generated from\n\
         the command table.\n",
        help("slowlog"),
        known.len(),
        found.count(),
        newer.len(),
    );
    for (group, title) in GROUPS {
        let of_group = |one: &&Known| one.group == group;
        let of_redis = known.iter().filter(of_group);
        let missing: Vec<&str> = of_redis
            .clone()
            .map(|one| one.name)
            .filter(|name| ours(name).is_none())
            .collect();
        let listed: Vec<(&Known, &Command)> = of_redis
            .chain(newer.iter().filter(of_group))
            .filter(|one| !one.name.ends_with("|help"))
            .filter_map(|one| Some((one, ours(one.name)?)))
            .collect();
        let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (one, command) in &listed {
            names.entry(command.summary).or_default().push(one.name);
        }
        let _ = write!(page, "\n## {title}\n");
        let mut head = HEAD;
        for (one, command) in &listed {
            if names[command.summary].len() == 1 {
                page.push_str(head);
                page.push_str(&row(one.name, one.since, command));
                head = "";
            }
        }
        for (summary, names) in names.iter().filter(|(_, names)| names.len() > 1) {
            let (initial, rest) = summary.trim_end_matches('.').split_at(1);
            let (initial, names) = (initial.to_ascii_lowercase(), shown_list(names));
            let _ = writeln!(page, "\nEach of these commands {initial}{rest}: {names}.");
        }
        if !missing.is_empty() {
            let _ = writeln!(page, "\nNot available: {}.", shown_list(&missing));
        }
    }
    page.push_str(
        "\n## Feeds\n\n\
         Redis does not have these commands. [feeds.md](feeds.md) describes feeds; the versions are Undercroft's.\n",
    );
    page.push_str(HEAD);
    for command in all().iter().filter(|command| command.group == Group::Feed) {
        page.push_str(&row(command.name, command.since, command));
    }
    page.push_str(
        "\n## Replicas\n\n\
         Redis does not have this command. [following.md](following.md#reading-your-own-writes) describes its use.\n",
    );
    page.push_str(HEAD);
    for command in all() {
        if command.is_own() && command.group != Group::Feed {
            page.push_str(&row(command.name, command.since, command));
        }
    }
    page
}

/// Returns the lines that the HELP subcommand of a container prints.
fn help(container: &str) -> String {
    let name = container.to_ascii_uppercase();
    let mut text = format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\n");
    let container = find_full(container.as_bytes()).expect("the container exists");
    for command in container.subcommands {
        let short = command.short_name().to_ascii_uppercase();
        let call = format!("{short} {}", command.syntax);
        let _ = writeln!(text, "{}\n    {}", call.trim_end(), command.summary);
    }
    text
}

/// Formats a command as a table row of the page.
fn row(name: &str, since: &str, command: &Command) -> String {
    let syntax = command.syntax.replace('|', "\\|");
    let call = format!("{} {syntax}", shown(name)).trim_end().to_owned();
    let (summary, time) = (command.summary, command.complexity);
    format!("| `{call}` | {since} | {summary} | {time} |\n")
}

fn shown(name: &str) -> String {
    name.replace('|', " ").to_ascii_uppercase()
}

fn shown_list(names: &[&str]) -> String {
    let names = names.iter().map(|name| format!("`{}`", shown(name)));
    names.collect::<Vec<String>>().join(", ")
}

#[test]
fn page_matches_the_table() {
    let page = page();
    if std::env::var_os("UNDERCROFT_BLESS").is_some() {
        std::fs::write(PAGE, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        written == page,
        "docs/commands.md is stale: UNDERCROFT_BLESS=1 cargo test -p undercroft-commands --test documented"
    );
}

#[test]
fn every_group_and_command_exists_in_redis() {
    let newer = known(NEWER);
    assert!(newer.iter().all(|one| ours(one.name).is_some()));
    let known: Vec<Known> = known(REDIS).into_iter().chain(newer).collect();
    for one in &known {
        assert!(
            GROUPS.iter().any(|(group, _)| *group == one.group),
            "{}",
            one.group
        );
        if let Some(command) = ours(one.name) {
            let own = (command.group.name(), command.since);
            assert_eq!(own, (one.group, one.since), "{}", one.name);
        }
    }
    let own = with_subcommands().filter(|command| command.is_callable());
    for command in own.filter(|command| !command.is_own()) {
        assert!(
            known.iter().any(|one| one.name == command.name),
            "{}",
            command.name
        );
    }
}
