//! Tests that a process stopped while it holds a lock suspends only the connections that need the
//! lock (M6).

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::Signal;
use undercroft_engine::{Error, Store};

use crate::support::{Place, Server, binary, command, signal_to, state_of, succeed};

/// The environment variable that is set in the child process that holds a lock. Its value is the
/// path of the store.
const HOLD: &str = "UNDERCROFT_TEST_HOLD";

/// This is not a real test but the body of the child process. It holds the lock of one shard until
/// the test creates a file next to the store.
#[test]
fn hold_a_lock() {
    let Ok(path) = std::env::var(HOLD) else {
        return;
    };
    let store = Store::open(Path::new(&path), true).expect("the server made it");
    let key = store.key(b"held");
    let shards = store.shards_of([&key]);
    let ended = store.write(shards, |writer| {
        let expiry = undercroft_engine::Expiry::Never;
        writer.set(0, &key, b"by the child", expiry)?;
        println!("locked");
        while !Path::new(&go_on(&path)).exists() {
            std::thread::yield_now();
        }
        Ok::<_, Error>(())
    });
    ended.expect("it continues where it was stopped");
}

fn go_on(store: &str) -> String {
    format!("{store}.go-on")
}

/// A stopped child process that holds the shard lock of the key `held`. It is killed on drop.
struct Holder {
    child: Child,
    store: String,
    /// The standard output of the child process. It must remain open, because the child's test
    /// harness also prints when it ends.
    _out: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    fn start(store: &str) -> Holder {
        let this = std::env::current_exe().expect("a test program");
        assert_ne!(this, binary());
        let mut child = std::process::Command::new(this)
            .args(["--exact", "stopped::hold_a_lock", "--nocapture"])
            .env(HOLD, store)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut lines = BufReader::new(child.stdout.take().expect("it is a pipe")).lines();
        assert!(lines.any(|line| line.expect("text").ends_with("locked")));
        signal_to(&child, Signal::STOP);
        while state_of(&child) != 'T' {
            std::thread::yield_now();
        }
        let store = store.to_owned();
        Holder {
            child,
            store,
            _out: lines,
        }
    }

    fn let_go_on(&self) {
        std::fs::write(go_on(&self.store), b"").expect("room");
        signal_to(&self.child, Signal::CONT);
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Ignore errors, because the child process may already have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Formats a command in the form that client libraries send.
fn multibulk(words: &[&str]) -> String {
    let arguments = words
        .iter()
        .map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), arguments.collect::<String>())
}

/// Returns a key that is not in the same shard as `held`.
fn elsewhere(store: &str) -> String {
    let store = Store::open(Path::new(store), true).expect("the server made it");
    let held = store.key(b"held").shard();
    let keys = (0..).map(|number| format!("free{number}"));
    let mut others = keys.filter(|key| store.key(key.as_bytes()).shard() != held);
    others.next().expect("there is more than one shard")
}

#[test]
fn stopped_holder_parks_only_commands_on_its_keys() {
    let place = Place::new();
    let server = Server::start(&place, &["--threads", "1"]);
    let store = place.path("served");
    let mut other = server.connect();
    assert_eq!(other.call("SET held before"), "+OK");
    let free = elsewhere(&store);
    let holder = Holder::start(&store);

    // Suspend enough clients that waiting for each of them in turn would take seconds.
    let mut parked: Vec<_> = (0..50).map(|_| server.connect()).collect();
    for client in &mut parked {
        // Send the commands in one piece, so that the server parses the later commands before it
        // runs the one that is suspended.
        let pipeline = [
            &["ECHO", "first"][..],
            &["APPEND", "held", "+"],
            &["SET", &free, "late"],
            &["ECHO", "last"],
        ];
        client.send(&pipeline.map(multibulk).concat());
        // Commands that precede the suspended command receive their replies.
        assert_eq!(
            (client.line(), client.line()),
            ("$5".into(), "first".into())
        );
    }
    for number in 0..2000 {
        assert_eq!(other.call(&format!("SET {free} {number}")), "+OK");
        assert_eq!(other.get(&free), number.to_string());
    }
    // A suspended client can disconnect.
    drop(parked.pop());
    let stat = succeed(&["stat", "--store", &store]);
    let line = format!("pid {} (", holder.child.id());
    assert!(
        stat.contains(&line) && stat.contains("STOPPED while it holds the lock"),
        "{stat}"
    );
    // Reads do not wait for the lock (R9).
    assert!(!stat.contains("not counted"), "{stat}");
    assert_eq!(other.get("held"), "before");

    holder.let_go_on();
    for client in &mut parked {
        let replies: Vec<String> = (0..4).map(|_| client.line()).collect();
        assert!(replies[0].starts_with(':'), "{replies:?}");
        assert_eq!(replies[1..], ["+OK", "$4", "last"]);
    }
    let value = other.get("held");
    assert!(value.starts_with("by the child+"), "{value}");
    assert!((49..=50).contains(&value.matches('+').count()), "{value}");
    assert_eq!(other.get(&free), "late");
}

#[test]
fn reply_names_the_lock_holder_after_five_seconds() {
    let place = Place::new();
    let server = Server::start(&place, &["--threads", "1"]);
    let mut client = server.connect();
    assert_eq!(client.call("SET held before"), "+OK");
    assert_eq!(
        client.call("CONFIG SET latency-monitor-threshold 1000"),
        "+OK"
    );
    let mut holder = Holder::start(&place.path("served"));
    client.send("APPEND held +\r\nPING\r\n");
    let pid = holder.child.id();
    let expected = format!(
        "-BUSY the store is busy: process {pid} holds a lock and is stopped; resume it (kill -CONT \
         {pid}) or end it"
    );
    assert_eq!((client.line(), client.line()), (expected, "+PONG".into()));
    // LATENCY reports the event and the duration of the wait.
    assert_eq!(client.call("LATENCY HISTORY lock-wait"), "*1");
    assert_eq!(client.line(), "*2");
    let sample = [client.line(), client.line()];
    let waited: Option<u64> = sample[1]
        .strip_prefix(':')
        .and_then(|text| text.parse().ok());
    assert!(waited.is_some_and(|waited| waited >= 5000), "{sample:?}");
    // If a stopped holder is killed, it counts as dead and its changes are rolled back.
    holder.child.kill().expect("it lives");
    holder.child.wait().expect("a child");
    assert_eq!(client.get("held"), "before");
}

#[test]
fn exec_names_the_lock_holder() {
    let place = Place::new();
    let store = place.store("store", &[("held", "v")]);
    let holder = Holder::start(&store);
    let found = succeed(&["exec", "--store", &store, "GET", "held"]);
    assert!(found.contains('v'), "{found}");
    let output = command(&["exec", "--store", &store, "SET", "held", "w"]).output();
    let output = output.expect("it runs");
    let errors = String::from_utf8(output.stderr).expect("text");
    let pid = holder.child.id();
    assert_eq!(
        errors,
        format!(
            "undercroft: the store is busy: process {pid} holds a lock and is stopped; resume it \
             (kill -CONT {pid}) or end it\n"
        )
    );
    assert_eq!(output.status.code(), Some(1));
}
