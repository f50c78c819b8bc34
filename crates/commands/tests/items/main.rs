//! Tests that the work of a command is linear in its items (W10), or proportional to n log n if it
//! sorts. For every command in the table whose running time grows, the test counts the work at n
//! items and at ten times n: words logged, words touched, and runs of the transaction body. Each
//! command runs alone, within MULTI, and in a transaction of many small commands.

#[path = "../support/alone.rs"]
mod alone;
mod cases;

use std::collections::HashSet;

use alone::Alone;
use cases::{CASES, Case};
use tempfile::TempDir;
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session::Session;
use undercroft_commands::table::{Command, Group, all};
use undercroft_commands::{Context, execute};
use undercroft_engine::{Options, Store};
use undercroft_memory::work::{self, Work};

/// The smaller number of items, which exceeds every limit at which a value changes to its large
/// form.
const FEW: usize = 2000;
const TIMES: usize = 10;
/// The factor by which the work for ten times as many items may exceed ten times the work, because
/// a tree can be higher and a table can be about to double. Quadratic work would exceed it by a
/// factor of ten.
const MORE: f64 = 2.0;
/// The maximum number of words logged per item.
const LOGGED_MAX: u64 = 150;
/// The maximum number of times that a transaction body is rerun.
const AGAIN_MAX: u64 = 3;

/// Commands whose running time does not grow with their items, and what it depends on instead.
const OTHERS: &[(&str, &str)] = &[
    ("lcs", "it compares each byte with each, as in Redis"),
    ("exec", "it is tested with every other command"),
    ("discard", "it forgets what is queued"),
    ("watch", "it notes a counter for each key"),
    ("unwatch", "it forgets those counters"),
    ("migrate", "it only looks whether the keys are there"),
];

struct Client {
    host: Alone,
    session: Session,
    store: Store,
    _directory: TempDir,
}

impl Client {
    fn new() -> Client {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let options = Options {
            shards: Some(4),
            ..Options::default()
        };
        let host = Alone::new();
        let store = Store::create(&directory.path().join("store"), &options);
        let store = store.expect("a new store");
        // Run upkeep only on request. Otherwise, its work would count toward whichever command runs
        // next.
        store.leave_upkeep_to_a_timer();
        Client {
            session: host.session(),
            store,
            host,
            _directory: directory,
        }
    }

    fn run(&mut self, arguments: &[Vec<u8>]) -> Tree {
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        let mut reply = Recorder::new();
        let mut context = Context::new(&mut self.session, self.host.host(), &self.store);
        execute(&mut context, &arguments, &mut reply).expect("no process holds a lock");
        let tree = reply
            .finish()
            .expect("a whole reply")
            .pop()
            .expect("a reply");
        let name = String::from_utf8_lossy(arguments[0]);
        assert!(!matches!(tree, Tree::Error(_)), "{name}: {tree:?}");
        tree
    }

    /// Expands a line into its arguments for the given number of items.
    fn arguments(&mut self, line: &str, items: usize) -> Vec<Vec<u8>> {
        let mut arguments = Vec::new();
        let mut words = line.split(' ');
        while let Some(word) = words.next() {
            if let Some(first) = word.strip_prefix('{') {
                let mut group = vec![first];
                while !group.last().expect("a word").ends_with('}') {
                    group.push(words.next().expect("a group that ends"));
                }
                if group == ["wordword}"] {
                    arguments.push(b"word".repeat(items));
                    continue;
                }
                for item in (1..=items).rev() {
                    let words = group.iter().map(|word| word.trim_end_matches('}'));
                    let words = words.map(|word| word.replace('#', &item.to_string()));
                    arguments
                        .extend(words.map(|word| word.replace('%', &format!("{item:08}")).into()));
                }
            } else if let Some(key) = word.strip_prefix("DUMP:") {
                match self.run(&[b"DUMP".to_vec(), key.into()]) {
                    Tree::Bulk(payload) => arguments.push(payload),
                    other => panic!("DUMP {key}: {other:?}"),
                }
            } else {
                let word = match word {
                    "N" => items.to_string(),
                    "N0" => (items * 10).to_string(),
                    "H" => (items / 2).to_string(),
                    word => word.replace(":H", &format!(":{}", items / 2)),
                };
                arguments.push(word.into());
            }
        }
        arguments
    }

    /// Counts the work that is done while `body` runs.
    fn count(&mut self, body: impl FnOnce(&mut Client)) -> Work {
        let before = work::done();
        body(self);
        let after = work::done();
        Work {
            logged: after.logged - before.logged,
            touched: after.touched - before.touched,
            transactions: after.transactions - before.transactions,
            runs: after.runs - before.runs,
        }
    }
}

/// Counts the work of a case with the given number of items.
fn work_of(case: &Case, items: usize, in_multi: bool) -> Work {
    let mut client = Client::new();
    for line in case.before {
        let each = line.strip_prefix("EACH ");
        for item in 1..=each.map_or(1, |_| items) {
            let line = each.map_or((*line).to_owned(), |line| {
                line.replace('#', &item.to_string())
            });
            let arguments = client.arguments(&line, items);
            client.run(&arguments);
        }
    }
    let arguments = client.arguments(case.run, items);
    client.count(|client| {
        if in_multi {
            client.run(&[b"MULTI".to_vec()]);
        }
        client.run(&arguments);
        if in_multi && let Tree::Array(replies) = client.run(&[b"EXEC".to_vec()]) {
            assert!(!replies.iter().any(|reply| matches!(reply, Tree::Error(_))));
        }
    })
}

/// Compares the work at n items with the work at ten times n, and returns a description of each
/// violation.
fn judge(few: &Work, many: &Work) -> Vec<String> {
    let mut wrong = Vec::new();
    // The store's random hash determines whether the neighbors of a slot are touched.
    const BY_CHANCE: u64 = 2 * FEW as u64;
    let most = |few: u64| (few + BY_CHANCE) as f64 * TIMES as f64 * MORE;
    for (what, words) in [
        ("logged", (|work| work.logged) as fn(&Work) -> u64),
        ("touched", |work| work.touched),
    ] {
        let [few, many] = [few, many].map(words);
        if many as f64 > most(few) {
            wrong.push(format!("{what}: {few} and {many} words"));
        }
    }
    if many.logged > LOGGED_MAX * (FEW * TIMES) as u64 {
        wrong.push(format!("{} words are logged", many.logged));
    }
    for work in [few, many] {
        // A command that runs in parts can run out of reserved memory once in each part.
        if work.runs > work.transactions + AGAIN_MAX.max(work.transactions) {
            wrong.push(format!(
                "{} runs of {} bodies",
                work.runs, work.transactions
            ));
        }
    }
    wrong
}

fn test_all(in_multi: bool) {
    let wanted = std::env::var("UNDERCROFT_CASE").unwrap_or_default();
    let mut wrong = Vec::new();
    for case in CASES.iter().filter(|case| case.run.contains(&wanted)) {
        let [few, many] = [FEW, FEW * TIMES].map(|items| work_of(case, items, in_multi));
        let name = format!("{} after {:?}", case.run, case.before);
        println!("{name}: {few:?} {many:?}");
        wrong.extend(
            judge(&few, &many)
                .into_iter()
                .map(|text| format!("{name}: {text}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn work_of_a_command_is_linear_in_its_items() {
    test_all(false);
}

#[test]
fn work_of_a_command_within_multi_is_linear_in_its_items() {
    test_all(true);
}

#[test]
fn work_of_many_commands_within_multi_is_linear_in_their_number() {
    let mut wrong = Vec::new();
    for line in [
        "SET k# v#",
        "HSET h f# v#",
        "SADD s m#",
        "SADD s -#",
        "ZADD z # m#",
        "ZADD z 1 m#",
        "RPUSH l item:#",
        "INCR counter",
        "FEED.ADD f -1 %",
        "FEED.ADD f 0 %",
    ] {
        let [few, many] = [FEW, FEW * TIMES].map(|items| {
            let mut client = Client::new();
            if line.starts_with("FEED") {
                let feed = client.arguments(cases::FEED_CREATED[0], items);
                client.run(&feed);
            }
            client.count(|client| {
                client.run(&[b"MULTI".to_vec()]);
                for item in 1..=items {
                    let line = line.replace('#', &item.to_string());
                    let line = line.replace('%', &format!("{item:08}"));
                    let words: Vec<Vec<u8>> = line.split(' ').map(Into::into).collect();
                    client.run(&words);
                }
                client.run(&[b"EXEC".to_vec()]);
            })
        });
        println!("{line}: {few:?} {many:?}");
        wrong.extend(
            judge(&few, &many)
                .into_iter()
                .map(|text| format!("{line}: {text}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns whether a command's running time grows with its items, according to the command table.
fn grows(command: &Command) -> bool {
    let on_keys = !matches!(
        command.group,
        Group::Connection | Group::Server | Group::Pubsub | Group::Scripting
    );
    let one_item = ["O(1)", "O(log N)", "O(log(N))"].contains(&command.complexity);
    on_keys && !one_item && command.subcommands.is_empty()
}

#[test]
fn every_command_whose_time_grows_has_a_case() {
    let cases: HashSet<&str> = CASES.iter().map(|case| case.command).collect();
    let others: HashSet<&str> = OTHERS.iter().map(|(name, _)| *name).collect();
    let growing = all().iter().filter(|command| grows(command));
    let missing: Vec<&str> = growing
        .map(|command| command.name)
        .filter(|name| !cases.contains(name) && !others.contains(name))
        .collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
    for case in CASES {
        let name = case.run.split(' ').next().unwrap_or_default();
        assert_eq!(name.to_lowercase(), case.command);
        assert!(all().iter().any(|command| command.name == case.command));
    }
}
