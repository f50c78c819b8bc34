//! Tests that everything in a full store can be deleted (H6): every command that removes data runs
//! on a store that is filled to the last block. The store is limited by `maxmemory`, by its
//! capacity, or by its file system.

#[path = "../support/alone.rs"]
mod alone;
mod cases;

use std::path::Path;
use std::process::Command as Process;

use alone::Alone;
use cases::{CASES, CHANGES, Case, OTHERS, READS, Setup};
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session::Session;
use undercroft_commands::table::{Flag, with_subcommands};
use undercroft_commands::{Context, execute};
use undercroft_engine::{Options, Store};

/// The limit that makes a store full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    MaxMemory,
    Capacity,
    FileSystem,
}

/// The approximate number of bytes that are available for data under each limit.
const ROOM: u64 = 6 << 20;
/// The lengths of the values that fill a store, in the order in which they are tried.
const LENGTHS: [usize; 7] = [60_000, 16_000, 4000, 1000, 200, 30, 1];
/// The number of refused values after which the next length is tried.
const REFUSED: u32 = 8;

/// A client of a store, with its host and session.
struct Client {
    host: Alone,
    session: Session,
    store: Store,
}

impl Client {
    fn new(store: Store) -> Client {
        let host = Alone::new();
        Client {
            session: host.session(),
            host,
            store,
        }
    }

    fn run(&mut self, arguments: &[&[u8]]) -> Tree {
        let mut reply = Recorder::new();
        let mut context = Context::new(&mut self.session, self.host.host(), &self.store);
        execute(&mut context, arguments, &mut reply).expect("no other process holds a lock");
        let mut replies = reply.finish().expect("a whole reply");
        replies.pop().expect("a reply")
    }

    /// Runs a line. A word such as `p{0..9}` expands to the words p0 to p8.
    fn line(&mut self, line: &str) -> Tree {
        let words: Vec<String> = line.split(' ').flat_map(expanded).collect();
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.run(&words)
    }

    fn made(&mut self, line: &str) {
        let reply = self.line(line);
        assert!(!matches!(reply, Tree::Error(_)), "{line}: {reply:?}");
    }

    /// Fills the store to the last block.
    fn fill(&mut self) {
        for length in LENGTHS {
            let (value, mut refused) = (vec![b'v'; length], 0);
            for number in 0.. {
                let key = format!("fill:{length}:{number}");
                match self.run(&[b"SET", key.as_bytes(), &value]) {
                    Tree::Error(error) => {
                        assert!(error.starts_with("OOM"), "{error:?}");
                        refused += 1;
                    }
                    _ => continue,
                }
                if refused == REFUSED {
                    break;
                }
            }
        }
    }
}

fn expanded(word: &str) -> Vec<String> {
    let Some((before, rest)) = word.split_once('{') else {
        return vec![word.to_owned()];
    };
    let (range, after) = rest.split_once('}').expect("a brace that closes");
    let (from, to) = range.split_once("..").expect("a range");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    (number(from)..number(to))
        .map(|number| format!("{before}{number}{after}"))
        .collect()
}

/// Returns a client of a store that is full under the given limit. The data of the case is
/// surrounded by other data.
fn full(directory: &Path, way: Way, case: &Case) -> Client {
    let options = Options {
        capacity: (way == Way::Capacity).then_some(ROOM),
        shards: Some(4),
        ring: Some(64 << 10),
    };
    let store = Store::create(&directory.join("store"), &options).expect("a new store");
    let mut client = Client::new(store);
    for setup in case.setup {
        match setup {
            Setup::Once(line) => client.made(line),
            Setup::Times(times, line) => {
                for number in 0..*times {
                    let line = line.replace('#', &number.to_string());
                    client.made(&line.replace('%', &format!("{number:08}")));
                }
            }
        }
    }
    let limit = if way == Way::MaxMemory {
        ROOM / 4 * 3
    } else {
        0
    };
    client.store.set_max_memory(limit).expect("it may write");
    client.fill();
    client
}

fn check(store: &Store, what: &str) {
    let report = store.check().expect("a walk");
    assert!(report.problems.is_empty(), "{what}: {:?}", report.problems);
}

/// Runs each case in a full store, and then reports all failures.
fn run_all(directory: &Path, way: Way) {
    let mut failed = Vec::new();
    let removals = CASES.iter().chain(READS).map(|case| (case, false));
    let changes = CHANGES.iter().map(|case| (case, way != Way::MaxMemory));
    for (case, may_lack_room) in removals.chain(changes) {
        let mut client = full(directory, way, case);
        // A second client, which opens the store only after it is full.
        let path = directory.join("store");
        let mut late = Client::new(Store::open(&path, true).expect("the store"));
        let who = if way == Way::FileSystem {
            &mut late
        } else {
            &mut client
        };
        let reply = who.line(case.line);
        let debug = format!("{reply:?}");
        let is_refused = matches!(&reply, Tree::Error(error) if error.starts_with("OOM "));
        let is_wrong = matches!(reply, Tree::Error(_)) || !debug.starts_with(case.reply);
        if is_wrong && !(may_lack_room && is_refused) {
            let short: String = debug.chars().take(200).collect();
            eprintln!("{way:?} {}: {short}", case.line);
            failed.push(format!(
                "{way:?} {}: {short}",
                &case.line[..case.line.len().min(40)]
            ));
        }
        check(&client.store, case.line);
        std::fs::remove_file(&path).expect("the store's file");
    }
    assert!(
        failed.is_empty(),
        "{} of {}:\n{}",
        failed.len(),
        CASES.len() + CHANGES.len() + READS.len(),
        failed.join("\n")
    );
}

#[test]
fn every_removing_command_has_a_case() {
    let name_of = |line: &str| {
        let mut words = line.split(' ').map(str::to_ascii_lowercase);
        let first = words.next().unwrap_or_default();
        let both = format!("{first}|{}", words.next().unwrap_or_default());
        match with_subcommands().any(|command| command.name == both) {
            true => both,
            false => first,
        }
    };
    let all_cases = CASES.iter().chain(CHANGES);
    let cases: Vec<String> = all_cases.map(|case| name_of(case.line)).collect();
    let without: Vec<&str> = with_subcommands()
        .filter(|command| command.flags.has(Flag::Write) && !command.flags.has(Flag::DenyOom))
        .map(|command| command.name)
        .filter(|name| !cases.iter().any(|case| case == name))
        .filter(|name| !OTHERS.iter().any(|(other, _)| other == name))
        .collect();
    assert!(without.is_empty(), "commands without a case: {without:?}");
    for (other, reason) in OTHERS {
        assert!(
            with_subcommands().any(|command| command.name == *other),
            "{other}: {reason}"
        );
    }
}

#[test]
fn at_maxmemory_everything_can_be_removed() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    run_all(directory.path(), Way::MaxMemory);
}

#[test]
fn at_the_end_of_the_capacity_everything_can_be_removed() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    run_all(directory.path(), Way::Capacity);
}

#[test]
fn on_a_full_file_system_everything_can_be_removed() {
    const TEST: &str = "on_a_full_file_system_everything_can_be_removed";
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    if std::env::var_os("UNDERCROFT_OWN_MOUNTS").is_none() {
        return in_own_mounts(TEST);
    }
    mount(directory.path(), ROOM + (4 << 20));
    run_all(directory.path(), Way::FileSystem);
}

/// Uses a store with default options on a small file system, such as the /dev/shm of a container.
#[test]
fn on_a_small_file_system_keys_are_evicted() {
    const TEST: &str = "on_a_small_file_system_keys_are_evicted";
    const SIZE: u64 = 24 << 20;
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    if std::env::var_os("UNDERCROFT_OWN_MOUNTS").is_none() {
        return in_own_mounts(TEST);
    }
    mount(directory.path(), SIZE);
    let path = directory.path().join("store");
    let store = Store::create(&path, &Options::default()).expect("a new store");
    assert!(store.max_memory() <= SIZE / 4 * 3, "{}", store.max_memory());
    assert!(store.max_memory() >= SIZE / 2, "{}", store.max_memory());
    let mut client = Client::new(store);
    client.made("CONFIG SET maxmemory-policy allkeys-lru");
    // In the first round, keys are evicted at the memory limit. In the second round, they are
    // evicted because the file system is full.
    for limit in [None, Some("CONFIG SET maxmemory 0")] {
        limit.into_iter().for_each(|line| client.made(line));
        let before = client.store.evicted_keys();
        let value = [b'v'; 1000];
        for number in 0..40_000 {
            let reply = client.run(&[b"SET", format!("key:{number}").as_bytes(), &value]);
            assert!(
                matches!(reply, Tree::Simple(_)),
                "{limit:?} {number}: {reply:?}"
            );
        }
        assert!(client.store.evicted_keys() - before > 10_000, "{limit:?}");
        let mut other = Client::new(Store::open(&path, true).expect("the store"));
        other.made("RPUSH list {0..2000}");
        other.made("GET key:1");
        check(&client.store, "what was evicted");
    }
}

fn mount(directory: &Path, size: u64) {
    let mounted = Process::new("mount")
        .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
        .arg(directory)
        .status();
    assert!(
        mounted.is_ok_and(|status| status.success()),
        "a mount of its own"
    );
}

/// Reruns a test of this program in a separate, temporary mount namespace.
fn in_own_mounts(test: &str) {
    let ways: [&[&str]; 2] = [&["--user", "--map-root-user", "--mount"], &["--mount"]];
    for way in ways {
        let unshare = |arguments: &[&str]| {
            let mut command = Process::new("unshare");
            command.args(way).args(arguments);
            command
        };
        let tried = unshare(&["mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
        if !tried.is_ok_and(|tried| tried.status.success()) {
            continue;
        }
        let program = std::env::current_exe().expect("this test");
        let program = program.to_str().expect("a plain path");
        let status = unshare(&[program, "--exact", test, "--nocapture"])
            .env("UNDERCROFT_OWN_MOUNTS", "1")
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "{test} in its own mounts"
        );
        return;
    }
    println!("skipped: {test}: the mount is not allowed");
}

/// An undo log contains each word only once, regardless of the number of commands, and its memory
/// is freed when the transaction ends.
#[test]
fn long_multi_frees_its_log_memory() {
    const COMMANDS: u64 = 50_000;
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    let path = directory.path().join("store");
    let store = Store::create(&path, &Options::default()).expect("a new store");
    let mut client = Client::new(store);
    client.made("SET count 0");
    let least = client.store.statistics().logs;
    for line in ["INCR count", "SET key:# value:#"] {
        client.made("MULTI");
        for number in 0..COMMANDS {
            client.made(&line.replace('#', &number.to_string()));
        }
        let reply = client.line("EXEC");
        assert!(matches!(&reply, Tree::Array(replies) if replies.len() as u64 == COMMANDS));
        let logs = client.store.statistics().logs;
        assert!(
            logs <= least + (1 << 20),
            "{line}: {logs} bytes of logs, {least} at first"
        );
    }
    assert_eq!(
        client.line("GET count"),
        Tree::Bulk(COMMANDS.to_string().into_bytes())
    );
    check(&client.store, "a long MULTI");
}
