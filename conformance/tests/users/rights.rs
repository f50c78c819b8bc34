//! Compares the rights of random users to run random commands.

use std::collections::BTreeMap;
use std::fmt;

use undercroft_conformance::client::Client;
use undercroft_conformance::command::Command;
use undercroft_conformance::resp::Reply;

use crate::random::Random;
use crate::support::{Both, Pair, normal, text};

/// The number of commands that each user tries.
const COMMANDS: usize = 60;
/// The number of pairs of users and commands, unless `UNDERCROFT_PAIRS` sets another number.
const PAIRS: usize = 3_000;

/// Commands that change the connection, the server or the users, or that do not reply at once.
const UNSAFE: &[&str] = &[
    "ACL",
    "ASKING",
    "AUTH",
    "BGREWRITEAOF",
    "BGSAVE",
    "CLIENT",
    "CLUSTER",
    "CONFIG",
    "DEBUG",
    "DISCARD",
    "EVAL",
    "EVALSHA",
    "EVALSHA_RO",
    "EVAL_RO",
    "EXEC",
    "FAILOVER",
    "FCALL",
    "FCALL_RO",
    "FUNCTION",
    "HELLO",
    "LATENCY",
    "MIGRATE",
    "MODULE",
    "MONITOR",
    "MULTI",
    "PSUBSCRIBE",
    "PSYNC",
    "PUNSUBSCRIBE",
    "QUIT",
    "READONLY",
    "READWRITE",
    "REPLCONF",
    "REPLICAOF",
    "RESET",
    "RESTORE-ASKING",
    "SAVE",
    "SCRIPT",
    "SHUTDOWN",
    "SLAVEOF",
    "SLOWLOG",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SUNSUBSCRIBE",
    "SYNC",
    "UNSUBSCRIBE",
    "WAIT",
    "WATCH",
];

/// Returns the number in an environment variable.
fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{variable} is a number")),
    )
}

fn is_safe(command: &Command) -> bool {
    let blocks = command.word(0).starts_with('B') && command.word(0) != "BITCOUNT";
    !blocks && !command.word(0).starts_with("XREAD") && !UNSAFE.contains(&&*command.word(0))
}

/// Returns whether Redis 7.0 forgets to check a key of the command, which changes that key: it finds
/// no keys in PFMERGE without sources.
fn is_hole(command: &Command) -> bool {
    command.word(0) == "PFMERGE" && command.0.len() == 2
}

/// Returns the verdict about a command that was run.
fn verdict(reply: &Reply) -> Option<String> {
    let text = text(reply);
    (reply.is_error() && text.starts_with("NOPERM")).then_some(text)
}

/// The differences that were found, one for each command.
#[derive(Default)]
struct Differences(BTreeMap<String, String>);

impl Differences {
    fn note(&mut self, command: &Command, ours: &str, judge: &str) {
        let text = format!("{command}\n  ours {ours}\n  Redis {judge}\n");
        self.0.entry(command.word(0)).or_insert(text);
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.values().try_for_each(|text| out.write_str(text))
    }
}

fn log_in(client: &mut Client) {
    let reply = client.call(["AUTH", "u", "p"]).expect("a reply");
    assert!(!reply.is_error(), "{reply:?}");
}

#[test]
fn random_users_have_the_rights_that_they_have_in_redis() {
    let Some(pair) = Pair::start() else {
        return;
    };
    let seed = number("UNDERCROFT_SEED").unwrap_or_else(|| fastrand::u64(..1 << 40));
    println!("seed {seed} (replay with UNDERCROFT_SEED={seed})");
    let pairs = number("UNDERCROFT_PAIRS").map_or(PAIRS, |pairs| pairs as usize);
    let mut admin = pair.connect();
    let mut random = Random::new(seed, &mut admin);
    let (mut allowed, mut denied, mut refused_rules) = (0, 0, 0);
    let mut differences = Differences::default();
    for user in 0..pairs.div_ceil(COMMANDS) {
        admin.call("ACL SETUSER u reset");
        if user % 3 == 0 {
            admin.call("ACL SETUSER u +@all ~*");
        }
        for _ in 0..random.rng.usize(1..4) {
            let rules = random.rules();
            refused_rules += u32::from(set(&mut admin, &rules).is_error());
            for line in ["ACL GETUSER u", "ACL LIST"] {
                let words = || line.split(' ');
                let judge = admin.judge.call(words()).expect("a reply");
                let ours = admin.ours.call(words()).expect("a reply");
                assert_eq!(normal(&ours), normal(&judge), "{line} after {rules:?}");
            }
        }
        let commands = std::iter::repeat_with(|| random.command());
        let commands = commands.filter(|command| !is_hole(command));
        let commands: Vec<Command> = commands.take(COMMANDS).collect();
        let dry = |command: &Command| {
            let start = ["ACL", "DRYRUN", "u"].map(|word| word.as_bytes().to_vec());
            Command(start.into_iter().chain(command.0.iter().cloned()).collect())
        };
        let tried: Vec<Command> = commands.iter().map(dry).collect();
        let judge = admin.judge.pipeline(&tried).expect("replies");
        let ours = admin.ours.pipeline(&tried).expect("replies");
        for ((command, judge), ours) in commands.iter().zip(&judge).zip(&ours) {
            if ours != judge {
                differences.note(command, &text(ours), &text(judge));
            }
            match text(judge).as_str() {
                "OK" => allowed += 1,
                _ => denied += 1,
            }
        }
        admin.call("ACL SETUSER u on >p");
        let mut client = pair.connect();
        log_in(&mut client.judge);
        log_in(&mut client.ours);
        let safe: Vec<Command> = commands.into_iter().filter(is_safe).collect();
        let judge = client.judge.pipeline(&safe).expect("replies");
        let ours = client.ours.pipeline(&safe).expect("replies");
        for ((command, judge), ours) in safe.iter().zip(&judge).zip(&ours) {
            if verdict(ours) != verdict(judge) {
                differences.note(command, &text(ours), &text(judge));
            }
        }
        for line in ["FLUSHALL", "ACL LOG RESET"] {
            admin.call(line);
        }
    }
    println!("{allowed} calls allowed, {denied} denied, {refused_rules} lists of rules refused");
    assert!(differences.0.is_empty(), "seed {seed}: {differences}");
    let part = pairs / 10;
    assert!(allowed > part && denied > part && refused_rules > 0);
}

/// Applies rules on both servers, and checks that the replies are equal.
fn set(admin: &mut Both, rules: &[String]) -> Reply {
    let words = ["ACL", "SETUSER", "u"]
        .into_iter()
        .chain(rules.iter().map(String::as_str));
    let words: Vec<&str> = words.collect();
    let judge = admin.judge.call(&words).expect("a reply");
    let ours = admin.ours.call(&words).expect("a reply");
    assert_eq!(ours, judge, "{rules:?}");
    ours
}
