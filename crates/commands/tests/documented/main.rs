//! `docs/commands.md` matches the command table. The table has no commands beyond Redis 7.0's
//! except the feed commands and those listed in `redis-newer.txt`.
//!
//! `UNDERCROFT_BLESS=1 cargo test -p undercroft-commands --test documented` regenerates the page.

use std::fmt::Write as _;

use undercroft_commands::table::{Command, Group, all, find_full, with_subcommands};

const REDIS: &str = include_str!("redis-7.0.txt");
const NEWER: &str = include_str!("redis-newer.txt");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");

/// The groups in the page's order, with their titles.
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
    ("connection", "The connection"),
    ("server", "The server"),
    ("cluster", "Cluster"),
];

/// A command of Redis.
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

/// Finds Undercroft's command of this name, except containers that need a subcommand.
fn ours(name: &str) -> Option<&'static Command> {
    find_full(name.as_bytes()).filter(|command| command.is_callable())
}

fn page() -> String {
    let (known, newer) = (known(REDIS), known(NEWER));
    let there = known.iter().filter(|command| ours(command.name).is_some());
    let mut page = format!(
        "# Commands\n\n\
         Redis 7.0 has {} commands, the subcommands of each counted by themselves. {} of them are there, with every\n\
         option, reply and error text of Redis 7.0.15; the others answer its unknown-command error. Of the commands\n\
         that later versions added, {} are there. This page is made from the command table; a test fails when it is stale.\n\
         [performance.md](performance.md) says which of them hold a lock for as long as they take.\n",
        known.len(),
        there.count(),
        newer.len(),
    );
    for (group, title) in GROUPS {
        let all: Vec<&Known> = known.iter().filter(|one| one.group == group).collect();
        let missing: Vec<&&Known> = all.iter().filter(|one| ours(one.name).is_none()).collect();
        let _ = write!(page, "\n## {title}\n\n");
        if missing.len() < all.len() {
            page.push_str("| command | since | what it does | time |\n| --- | --- | --- | --- |\n");
        }
        for one in &all {
            if let Some(command) = ours(one.name) {
                page.push_str(&row(one.name, one.since, command));
            }
        }
        for one in newer.iter().filter(|one| one.group == group) {
            if let Some(command) = ours(one.name) {
                page.push_str(&row(one.name, one.since, command));
            }
        }
        if !missing.is_empty() {
            let names = missing
                .iter()
                .map(|one| format!("{} ({})", shown(one.name), one.since));
            let names: Vec<String> = names.collect();
            let space = if missing.len() < all.len() { "\n" } else { "" };
            let _ = writeln!(page, "{space}Not there: {}.", names.join(", "));
        }
    }
    page.push_str(
        "\n## Feeds\n\n\
         Redis does not have these; [feeds.md](feeds.md) tells what feeds are.\n\n\
         | command | since | what it does | time |\n| --- | --- | --- | --- |\n",
    );
    for command in all().iter().filter(|command| command.group == Group::Feed) {
        page.push_str(&row(command.name, command.since, command));
    }
    page
}

/// Formats a command's row in the page.
fn row(name: &str, since: &str, command: &Command) -> String {
    let syntax = command.syntax.replace('|', "\\|");
    let call = format!("{} {syntax}", shown(name)).trim_end().to_owned();
    let (summary, time) = (command.summary, command.complexity);
    format!("| `{call}` | {since} | {summary} | {time} |\n")
}

fn shown(name: &str) -> String {
    name.replace('|', " ").to_ascii_uppercase()
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
    for command in own.filter(|command| command.group != Group::Feed) {
        assert!(
            known.iter().any(|one| one.name == command.name),
            "{}",
            command.name
        );
    }
}
