//! Generates random rules and commands.

use undercroft_conformance::client::Client;
use undercroft_conformance::command::Command;
use undercroft_conformance::generate::{FAMILIES, Generator};
use undercroft_conformance::resp::Reply;

use crate::support::{Both, call, text};

/// Patterns of keys. They match some of the keys of the generated commands.
const KEYS: [&str; 14] = [
    "*", "a", "b", "[a-d]", "key:*", "key:1?", "", "k\\[1\\]", "st*r", "{tag}*", "L*", "UPPER",
    "?", "[^a]*",
];
const CHANNELS: [&str; 7] = ["*", "c", "ch*", "c?", "", "a", "news:*"];
/// Rules that Redis refuses, always or in some situations.
const ODD: [&str; 26] = [
    "+nosuch",
    "-nosuch",
    "+@nosuch",
    "+get|",
    "+client|nosuch",
    "-select|0",
    "+config|get|x",
    "%X~a",
    "%~a",
    "%",
    "&a",
    "~a",
    "#12",
    "<none",
    "!none",
    "nosuch",
    ")",
    "()",
    "(",
    "(~a",
    "+",
    "+@",
    "(%R",
    "(off)",
    "%R",
    "+sort|a|b",
];
const PLAIN: [&str; 22] = [
    "on",
    "off",
    "nopass",
    "resetpass",
    ">p",
    ">q",
    "<p",
    "skip-sanitize-payload",
    "sanitize-payload",
    "allkeys",
    "resetkeys",
    "allchannels",
    "resetchannels",
    "allcommands",
    "nocommands",
    "clearselectors",
    "reset",
    "ON",
    "AllKeys",
    "+@all",
    "-@all",
    "#e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
];
/// The words among which the arguments of random commands are chosen.
const WORDS: [&str; 30] = [
    "a",
    "b",
    "c",
    "d",
    "key:1",
    "key:10",
    "",
    "k[1]",
    "UPPER",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "x",
    "STORE",
    "STOREDIST",
    "KEYS",
    "GET",
    "BY",
    "STREAMS",
    "COUNT",
    "ch",
    "news:1",
    "c*",
    "GROUP",
    "SET",
    "OVERFLOW",
    "LIMIT",
    "EX",
];

/// A generator of rules and commands from a seed.
pub(crate) struct Random {
    pub(crate) rng: fastrand::Rng,
    families: Generator,
    /// The names and arities of the judge's commands and subcommands.
    commands: Vec<(String, i64)>,
    /// The commands that both servers have.
    shared: Vec<(String, i64)>,
    categories: Vec<String>,
}

impl Random {
    /// Returns a generator that knows the commands of both servers.
    pub(crate) fn new(seed: u64, servers: &mut Both) -> Random {
        let commands = commands(&mut servers.judge);
        let ours = self::commands(&mut servers.ours);
        let is_shared = |command: &&(String, i64)| ours.contains(command);
        let shared = commands.iter().filter(is_shared).cloned().collect();
        let categories = call(&mut servers.judge, "ACL CAT");
        let categories = categories.items().expect("an array");
        Random {
            rng: fastrand::Rng::with_seed(seed),
            families: Generator::new(seed, FAMILIES),
            commands,
            shared,
            categories: categories.iter().map(text).collect(),
        }
    }

    fn pick<'t>(&mut self, choices: &[&'t str]) -> &'t str {
        choices[self.rng.usize(..choices.len())]
    }

    fn name(&mut self) -> String {
        self.commands[self.rng.usize(..self.commands.len())]
            .0
            .clone()
    }

    /// Returns a rule about commands, keys or channels.
    fn right(&mut self) -> String {
        let sign = self.pick(&["+", "+", "+", "-"]);
        match self.rng.u32(..20) {
            0..6 => {
                let category = self.rng.usize(..self.categories.len());
                format!("{sign}@{}", self.categories[category])
            }
            6..11 => format!("{sign}{}", self.name()),
            11 => self.pick(&["+@all", "-@all", "allcommands"]).to_owned(),
            12 => format!(
                "+{}|{}",
                self.pick(&["select", "get", "debug"]),
                self.pick(&["0", "a", "OBJECT"])
            ),
            13..17 => {
                let use_ = self.pick(&["~", "~", "~", "%R~", "%W~", "%RW~", "%wr~"]);
                format!("{use_}{}", self.pick(&KEYS))
            }
            _ => format!("&{}", self.pick(&CHANNELS)),
        }
    }

    /// Returns the rules of one ACL SETUSER.
    pub(crate) fn rules(&mut self) -> Vec<String> {
        let mut rules = Vec::new();
        for _ in 0..self.rng.usize(..9) {
            rules.push(match self.rng.u32(..40) {
                0..28 => self.right(),
                28..34 => self.pick(&PLAIN).to_owned(),
                34..39 => {
                    let count = self.rng.usize(..4);
                    let inner: Vec<String> = (0..count).map(|_| self.right()).collect();
                    format!("({})", inner.join(" "))
                }
                _ => self.pick(&ODD).to_owned(),
            });
        }
        rules
    }

    /// Returns a random command: one of the generated commands of all families, or any command with
    /// random words.
    pub(crate) fn command(&mut self) -> Command {
        if self.rng.u32(..3) > 0 {
            return self.families.command();
        }
        let (name, arity) = self.shared[self.rng.usize(..self.shared.len())].clone();
        let mut words: Vec<String> = name.split('|').map(str::to_owned).collect();
        let least = usize::try_from(arity.unsigned_abs()).expect("a small arity");
        let more = match arity < 0 {
            true => self.rng.usize(..6),
            false => 0,
        };
        while words.len() < least + more {
            words.push(self.pick(&WORDS).to_owned());
        }
        Command::of(words)
    }
}

/// Returns the names and arities of a server's commands and subcommands.
fn commands(server: &mut Client) -> Vec<(String, i64)> {
    let mut commands = Vec::new();
    for row in call(server, "COMMAND").items().expect("an array") {
        add_row(row, &mut commands);
    }
    // The order of Redis' commands is random.
    commands.sort_unstable();
    commands
}

/// Adds the name and the arity in a row of COMMAND, and those of its subcommands.
fn add_row(row: &Reply, commands: &mut Vec<(String, i64)>) {
    let fields = row.items().expect("a row");
    let Reply::Integer(arity) = fields[1] else {
        panic!("no arity: {row:?}");
    };
    commands.push((text(&fields[0]), arity));
    for subcommand in fields[9].items().expect("an array") {
        add_row(subcommand, commands);
    }
}
