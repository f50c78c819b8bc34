//! Tests all commands on an embedded store: each command has a handler, writes at most one reply,
//! and can be retried after being blocked.

#[path = "../support/alone.rs"]
mod alone;
mod batches;
mod durability;
mod followed;
mod mailboxes;
mod replica;
mod retries;
mod usage;
mod uses;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use alone::Alone;
use tempfile::TempDir;
use undercroft_commands::context::Pause;
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session::{Login, Session};
use undercroft_commands::statistics::latency::Event as LatencyEvent;
use undercroft_commands::table::{Flag, all, with_subcommands};
use undercroft_commands::users::set_default_password;
use undercroft_commands::{Blocked, Context, execute};
use undercroft_engine::messages::{Event, Topic};
use undercroft_engine::{Options, Store};

/// A client of an embedded store.
struct Client {
    host: Alone,
    session: Session,
    store: Store,
    directory: TempDir,
}

impl Client {
    fn new(password: Option<&'static [u8]>) -> Client {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let host = Alone::new();
        let store = Store::create(&path, &Options::default()).expect("a new store");
        let mut session = host.session();
        if password.is_some() {
            let users = (&host.host().process.users, store.access());
            set_default_password(users, password).expect("room");
            session = Session::new(1, Login::unknown(), 0);
        }
        Client {
            session,
            store,
            host,
            directory,
        }
    }

    /// Runs a command and returns its reply, or `None` if the command writes no reply.
    fn try_run(&mut self, arguments: &[&[u8]]) -> Result<Option<Tree>, Blocked> {
        let mut reply = Recorder::new();
        let mut context = Context::new(&mut self.session, self.host.host(), &self.store);
        context.look_up_user().expect("no process holds a lock");
        let outcome = execute(&mut context, arguments, &mut reply);
        let mut replies = reply.finish().expect("a whole reply");
        // UNSUBSCRIBE writes one confirmation for each channel.
        let confirms = replies.iter().all(|reply| matches!(reply, Tree::Push(_)));
        assert!(replies.len() <= 1 || confirms, "{replies:?}");
        if outcome.is_err() {
            assert_eq!(replies, [], "a blocked command wrote something");
        }
        outcome.map(|()| replies.pop())
    }

    fn run(&mut self, line: &str) -> Tree {
        let arguments: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let reply = self.try_run(&arguments).expect("no process holds a lock");
        reply.unwrap_or_else(|| panic!("no reply to {line}"))
    }

    fn error(&mut self, line: &str) -> String {
        match self.run(line) {
            Tree::Error(text) => text,
            other => panic!("{line}: expected an error, got {other:?}"),
        }
    }
}

#[test]
fn write_pause_suspends_exec_with_replicated_commands() {
    let pause = Pause::default();
    pause.begin(1000, false);
    for (queued, holds) in [("PUBLISH c m", true), ("PFCOUNT h", true), ("GET k", false)] {
        let mut client = Client::new(None);
        client.run("MULTI");
        client.run(queued);
        assert_eq!(
            pause.holds(&client.session, &[b"EXEC"], 5),
            holds,
            "{queued}"
        );
    }
}

#[test]
fn repeated_items_that_exceed_memory_are_refused() {
    let mut client = Client::new(None);
    client.run("HSET h f v");
    client.run("SADD s m");
    client.run("ZADD z 1 m");
    for line in ["HRANDFIELD h", "SRANDMEMBER s", "ZRANDMEMBER z"] {
        assert!(
            matches!(client.run(&format!("{line} -3")), Tree::Array(items) if items.len() == 3)
        );
        let none = line.replace(' ', " no:");
        for count in ["-16777217", "-100000000000", "-9223372036854775807"] {
            let error = client.error(&format!("{line} {count}"));
            assert_eq!(error, "ERR value is out of range", "{line} {count}");
            let of_none = client.run(&format!("{none} {count}"));
            assert!(matches!(of_none, Tree::Array(items) if items.is_empty()));
        }
    }
    // The reply would repeat a member until it is 4 GiB long.
    let long = "m".repeat(1 << 16);
    client.run(&format!("HSET h {long} v"));
    client.run("DEL s z");
    client.run(&format!("SADD s {long}"));
    client.run(&format!("ZADD z 1 {long}"));
    client.run("HDEL h f");
    for line in ["HRANDFIELD h", "SRANDMEMBER s", "ZRANDMEMBER z"] {
        let error = client.error(&format!("{line} -65536"));
        assert_eq!(error, "ERR value is out of range", "{line}");
    }
}

#[test]
fn handlers_survive_arbitrary_arguments() {
    const WORDS: [&str; 16] = [
        "k",
        "j",
        "0",
        "1",
        "-1",
        "9223372036854775807",
        "EX",
        "GET",
        "NX",
        "XX",
        "ID",
        "DB",
        "LEN",
        "COUNT",
        "",
        "\u{e4}\r\n",
    ];
    let seed = fastrand::u64(..1 << 40);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut client = Client::new(None);
    let mut ran = 0;
    for command in with_subcommands() {
        for _ in 0..200 {
            let mut arguments: Vec<&[u8]> = command.name.split('|').map(str::as_bytes).collect();
            for _ in 0..random.usize(..6) {
                arguments.push(random.choice(WORDS).unwrap_or_default().as_bytes());
            }
            if command.name == "debug" {
                arguments.truncate(2);
            }
            // Outside a transaction, the command waits indefinitely if the key does not exist.
            let waits = command.flags.has(Flag::Blocking);
            if waits {
                client.run("MULTI");
            }
            client.try_run(&arguments).expect("no process holds a lock");
            if waits {
                client.try_run(&[b"EXEC"]).expect("no process holds a lock");
            }
            client.session.reset();
            ran += 1;
        }
    }
    println!("{ran} commands ran");
    let report = client.store.check().expect("the store can be checked");
    assert!(report.problems.is_empty(), "{report:?}");
}

#[test]
fn transaction_on_a_read_only_store_fails_with_readonly() {
    let mut client = Client::new(None);
    assert_eq!(client.run("SET k v"), Tree::Simple("OK".into()));
    let path = client.directory.path().join("store");
    client.store = Store::open(&path, false).expect("the same store");
    assert!(client.error("SET k w").starts_with("READONLY "));
    assert_eq!(client.run("MULTI"), Tree::Simple("OK".into()));
    assert_eq!(client.run("SET k w"), Tree::Simple("QUEUED".into()));
    let error = client.error("EXEC");
    assert!(error.starts_with("READONLY "), "{error}");
    // The transaction has ended without any effect.
    assert_eq!(client.error("EXEC"), "ERR EXEC without MULTI");
    assert_eq!(client.run("GET k"), Tree::Bulk(b"v".to_vec()));
}

#[test]
fn blocked_command_changes_nothing_and_can_be_retried() {
    let mut client = Client::new(None);
    client.run("MSET k 1 other 2 third 3");
    client.store.set_patience(Duration::from_millis(1));
    let path = client.directory.path().join("store");
    for line in [
        "SET k 2",
        "SET k 20 GET",
        "INCR k",
        "APPEND k x",
        "SETRANGE k 0 y",
        "GETSET k 7",
        "GETEX k EX 100",
        "MSET other 5 k 6",
        "EXPIRE k 100",
        "COPY k other REPLACE",
        "SWAPDB 0 1",
        "SWAPDB 0 1",
        "RENAME other k",
        "MOVE k 3",
        "FLUSHALL",
    ] {
        let arguments: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let before = contents(&mut client);
        // Hold every lock of the store through a separate handle, as another process would, until
        // the test sends a message.
        let (held, wait_held) = mpsc::channel();
        let (go_on, wait_go_on) = mpsc::channel::<()>();
        let path = path.clone();
        let holder = thread::spawn(move || {
            let store = Store::open(&path, true).expect("the same store");
            store.hold(store.all_shards(), || {
                held.send(()).expect("a client is waiting");
                wait_go_on.recv().expect("a word to go on");
            })
        });
        wait_held.recv().expect("the locks are held");
        let blocked = client.try_run(&arguments).expect_err("a lock is held");
        let is_lock = matches!(&blocked, Blocked::Lock(error) if error.is_wait());
        assert!(is_lock, "{blocked}");
        go_on.send(()).expect("the holder waits");
        let held = holder.join().expect("the holder ends");
        held.expect("its transaction does nothing");
        assert_eq!(contents(&mut client), before, "{line}");
        let reply = client.try_run(&arguments).expect("no process holds a lock");
        assert!(
            !matches!(reply, None | Some(Tree::Error(_))),
            "{line}: {reply:?}"
        );
        if line != "COPY k other REPLACE" {
            assert_ne!(contents(&mut client), before, "{line}");
        }
    }
}

#[test]
fn exec_publishes_with_its_commit_or_not_at_all() {
    let mut client = Client::new(None);
    client.store.set_patience(Duration::from_millis(1));
    let path = client.directory.path().join("store");
    let shard_of = |name: &str| client.store.key(name.as_bytes()).shard();
    let names: Vec<String> = (0..1000).map(|number| format!("c{number}")).collect();
    let channel = names.iter().find(|name| shard_of(name) != shard_of("k"));
    let channel = channel.expect("a store of several shards").clone();
    for line in ["MULTI", "SET k 1"] {
        client.run(line);
    }
    client.run(&format!("PUBLISH {channel} m"));
    let other = Store::open(&path, true).expect("the same store");
    let mut subscriber = other.subscriber();
    let subscribed = subscriber.subscribe(Topic::Channel, &[channel.as_bytes()]);
    subscribed.expect("no process holds a lock");
    let (held, wait_held) = mpsc::channel();
    let (go_on, wait_go_on) = mpsc::channel::<()>();
    let name = channel.clone();
    let holder = thread::spawn(move || {
        let store = Store::open(&path, true).expect("the same store");
        let key = store.key(name.as_bytes());
        store.hold(store.shards_of([&key]), || {
            held.send(()).expect("a client is waiting");
            wait_go_on.recv().expect("a word to go on");
        })
    });
    wait_held.recv().expect("the lock is held");
    client.try_run(&[b"EXEC"]).expect_err("a lock is held");
    let mut value = Vec::new();
    let found = client.store.get(0, b"k", &mut value);
    assert!(!found.expect("a free shard"));
    go_on.send(()).expect("the holder waits");
    let held = holder.join().expect("the holder ends");
    held.expect("its transaction does nothing");
    let replies = vec![Tree::Simple("OK".into()), Tree::Integer(1)];
    assert_eq!(client.run("EXEC"), Tree::Array(replies));
    let event = subscriber.try_next().expect("no process holds a lock");
    assert!(matches!(event, Some(Event::Message(message)) if message.payload == b"m"));
}

fn contents(client: &mut Client) -> Vec<Tree> {
    let questions = [
        "MGET k other third",
        "PEXPIRETIME k",
        "DBSIZE",
        "OBJECT ENCODING other",
    ];
    questions.map(|line| client.run(line)).to_vec()
}

#[test]
fn commands_are_refused_before_authentication() {
    let mut client = Client::new(Some(b"secret"));
    assert_eq!(client.error("GET k"), "NOAUTH Authentication required.");
    assert_eq!(client.error("SET k v"), "NOAUTH Authentication required.");
    assert_eq!(client.error("COMMAND"), "NOAUTH Authentication required.");
    assert!(client.error("NOSUCH").starts_with("ERR unknown command"));
    assert!(
        client
            .error("HELLO 3")
            .starts_with("NOAUTH HELLO must be called")
    );
    assert!(client.error("AUTH wrong").starts_with("WRONGPASS "));
    assert_eq!(client.error("GET k"), "NOAUTH Authentication required.");
    assert!(matches!(
        client.run("HELLO 3 AUTH default secret"),
        Tree::Map(_)
    ));
    assert_eq!(client.run("GET k"), Tree::Null);
    assert_eq!(client.run("RESET"), Tree::Simple("RESET".into()));
    assert_eq!(client.error("GET k"), "NOAUTH Authentication required.");
    assert_eq!(client.run("AUTH secret"), Tree::Simple("OK".into()));
    assert_eq!(client.run("SET k v"), Tree::Simple("OK".into()));
}

#[test]
fn full_store_refuses_only_commands_that_need_memory() {
    let mut client = Client::new(None);
    client.run("SET k v");
    client.run("CONFIG SET maxmemory 1");
    let out_of_memory = "OOM command not allowed when used memory > 'maxmemory'.";
    for line in [
        "SET k w",
        "APPEND k w",
        "INCR n",
        "MSET a 1",
        "COPY k j",
        "GETSET k w",
    ] {
        assert_eq!(client.error(line), out_of_memory, "{line}");
    }
    assert_eq!(client.run("GET k"), Tree::Bulk(b"v".to_vec()));
    assert_eq!(client.run("DEL k"), Tree::Integer(1));
    client.run("CONFIG SET maxmemory 0");
    assert_eq!(client.run("SET k w"), Tree::Simple("OK".into()));
}

#[test]
fn slow_log_hides_passwords() {
    let mut client = Client::new(None);
    client.run("CONFIG SET slowlog-log-slower-than 0");
    client.run("SLOWLOG RESET");
    client.run("GET key");
    client.run("AUTH default hidden1");
    client.run("HELLO 2 AUTH default hidden2 SETNAME me");
    client.run("MIGRATE host 1 no 0 100 COPY AUTH2 me hidden3 KEYS AUTH");
    client.run("CONFIG SET requirepass hidden4 timeout 0");
    let log = format!("{:?}", client.host.host().slowlog().newest(100));
    let words: Vec<Vec<Vec<u8>>> = client
        .host
        .host()
        .slowlog()
        .newest(100)
        .into_iter()
        .map(|entry| entry.arguments)
        .collect();
    let text = |entry: usize| {
        let words = &words[entry];
        words
            .iter()
            .map(|word| String::from_utf8_lossy(word))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        text(0),
        "CONFIG SET requirepass (redacted) timeout 0",
        "{log}"
    );
    assert_eq!(
        text(1),
        "MIGRATE host 1 no 0 100 COPY AUTH2 (redacted) (redacted) KEYS AUTH"
    );
    assert_eq!(text(2), "HELLO 2 AUTH (redacted) (redacted) SETNAME me");
    assert_eq!(text(3), "AUTH (redacted) (redacted)");
    assert_eq!(text(4), "GET key");
}

#[test]
fn restored_deadline_beyond_64_bits_has_already_passed() {
    let mut client = Client::new(None);
    client.run("SET k v");
    let Tree::Bulk(payload) = client.run("DUMP k") else {
        panic!("DUMP k: expected a payload");
    };
    for (time, there) in [("9223372036854775807", 0), ("9000000000000000000", 1)] {
        let restore: [&[u8]; 5] = [b"RESTORE", b"j", time.as_bytes(), &payload, b"REPLACE"];
        let reply = client.try_run(&restore).expect("no process holds a lock");
        assert_eq!(reply, Some(Tree::Simple("OK".into())));
        assert_eq!(client.run("EXISTS j"), Tree::Integer(there), "{time}");
    }
}

#[test]
fn slow_commands_are_reported_by_event_name() {
    let mut client = Client::new(None);
    client.run("CONFIG SET latency-monitor-threshold 1");
    // The running time of EXEC includes the queued commands.
    for line in ["DEBUG SLEEP 0.005", "MULTI", "DEBUG SLEEP 0.002", "EXEC"] {
        client.run(line);
    }
    let events = client.host.host().latency().all();
    let slow = events
        .iter()
        .find(|(event, _)| *event == LatencyEvent::Command);
    // The test clock is stopped, so all samples fall in the same second.
    let (_, samples) = slow.expect("a slow command");
    assert_eq!(samples.kept.len(), 1);
    assert!(samples.kept[0].milliseconds >= 5, "{samples:?}");
    assert_eq!(samples.longest, samples.kept[0].milliseconds);
    assert!(matches!(client.run("LATENCY RESET"), Tree::Integer(1..)));
    client.run("CONFIG SET latency-monitor-threshold 0");
    client.run("DEBUG SLEEP 0.005");
    assert_eq!(client.run("LATENCY LATEST"), Tree::Array(Vec::new()));
}

#[test]
fn free_memory_is_returned() {
    let mut client = Client::new(None);
    let value = vec![b'x'; 1 << 20];
    for number in 0..8 {
        let key = format!("k{number}");
        client.store.set(0, key.as_bytes(), &value).expect("room");
    }
    let figure = |client: &mut Client, name: &str| {
        let Tree::Map(pairs) = client.run("MEMORY STATS") else {
            panic!("MEMORY STATS: expected a map");
        };
        let found = pairs
            .into_iter()
            .find(|(key, _)| *key == Tree::Bulk(name.into()));
        match found {
            Some((_, Tree::Integer(bytes))) => bytes,
            other => panic!("{name}: {other:?}"),
        }
    };
    assert_eq!(figure(&mut client, "keys.count"), 8);
    assert!(figure(&mut client, "dataset.bytes") >= 8 << 20);
    client.run("FLUSHALL");
    client.store.upkeep_all().expect("no process holds a lock");
    assert!(figure(&mut client, "allocator.resident") >= 8 << 20);
    client.run("MEMORY PURGE");
    assert!(figure(&mut client, "allocator.resident") < 4 << 20);
    assert_eq!(figure(&mut client, "dataset.bytes"), 0);
    // Memory that was returned to the system can be allocated again.
    client.store.set(0, b"k", &value).expect("room");
}

#[test]
fn help_is_generated_from_the_table() {
    let mut client = Client::new(None);
    for container in all()
        .iter()
        // As in Redis, CLUSTER HELP fails if cluster mode is off.
        .filter(|command| !command.subcommands.is_empty() && command.name != "cluster")
    {
        let Tree::Array(lines) = client.run(&format!("{} HELP", container.name)) else {
            panic!("{} HELP: expected an array", container.name);
        };
        assert_eq!(
            lines.len(),
            1 + 2 * container.subcommands.len(),
            "{}",
            container.name
        );
    }
    assert!(matches!(client.run("DEBUG HELP"), Tree::Array(_)));
}
