//! Starts sources, `undercroft follow` and other commands, and waits for events.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::replication::{self, Changes, PATIENCE};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::seed::seed;
use undercroft_conformance::servers::{Kind, Server, Settings};
use undercroft_engine::{LinkStatus, Options, Store};

/// The pause between two looks for an event.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until a condition holds. `describe` explains a hang.
pub(crate) fn until(mut holds: impl FnMut() -> bool, describe: impl Fn() -> String) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{}", describe());
        thread::sleep(LOOK);
    }
}

/// Starts a real Redis.
pub(crate) fn redis(arguments: &[&str]) -> Server {
    let without_delay = ["--repl-diskless-sync-delay", "0"];
    let arguments = without_delay.iter().chain(arguments);
    let settings = Settings {
        arguments: arguments.map(|&word| word.to_owned()).collect(),
        ..Settings::default()
    };
    Server::start(Kind::Redis, settings).expect("redis-server starts")
}

/// The families of commands of which Redis 7.0 does not replicate everything: consumers without entries,
/// and the zeros that a BITFIELD appends whose changes overflow.
pub(crate) const NOT_REPLICATED: &[&str] = &["streams", "bitmaps"];

/// Returns random changes after which a replica equals its source.
pub(crate) fn changes_of(source: &Server) -> Changes {
    Changes::new(seed(), source.address(), NOT_REPLICATED)
}

/// Returns the address of a server as host and port.
pub(crate) fn place_of(server: &Server) -> String {
    let Address::Tcp(place) = server.address() else {
        panic!("{} is no port", server.address());
    };
    place.clone()
}

/// Returns the URL of a server.
pub(crate) fn url_of(server: &Server) -> String {
    format!("redis://{}", place_of(server))
}

/// Runs a command on a server, which must not reply with an error.
pub(crate) fn call(server: &Server, words: &[&str]) -> Reply {
    let mut client = Client::connect(server.address()).expect("it accepts");
    let reply = client.call(words).expect("a reply");
    assert!(!matches!(reply, Reply::Error(_)), "{words:?}: {reply:?}");
    reply
}

/// Returns a field of INFO.
pub(crate) fn field(server: &Server, section: &str, name: &str) -> String {
    let mut client = Client::connect(server.address()).expect("it accepts");
    replication::field(&mut client, section, name)
}

/// Returns the number of bytes in a source's stream.
pub(crate) fn offset_of(source: &Server) -> u64 {
    let text = field(source, "replication", "master_repl_offset");
    text.parse().expect("a number")
}

/// Returns the `undercroft` command with an empty environment.
pub(crate) fn command(arguments: &[&str]) -> Process {
    let mut command = Process::new(assert_cmd::cargo::cargo_bin("undercroft"));
    command.args(arguments).env_clear().stdin(Stdio::null());
    command
}

/// The exit status and the output of a command.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) errors: String,
}

/// Runs a command until it ends by itself.
pub(crate) fn run(arguments: &[&str]) -> Run {
    let output = command(arguments).output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Run {
        status: output.status.code().expect("it ended by itself"),
        out: text(output.stdout),
        errors: text(output.stderr),
    }
}

/// A running `undercroft follow`. It is killed on drop.
#[derive(Debug)]
pub(crate) struct Follower(Child);

impl Follower {
    /// Begins to follow a source.
    pub(crate) fn start(url: &str, store: &Path, options: &[&str]) -> Follower {
        Follower::start_in(url, store, options, &[])
    }

    /// Begins to follow a source, with further environment variables.
    pub(crate) fn start_in(
        url: &str,
        store: &Path,
        options: &[&str],
        variables: &[(&str, String)],
    ) -> Follower {
        let store = store.to_str().expect("ASCII");
        let mut command = command(&["follow", url, "--store", store]);
        let child = command
            .args(options)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Follower(child.expect("the binary runs"))
    }

    /// Waits until the process has printed an error that contains a text.
    pub(crate) fn wait_for_error(&mut self, text: &str) {
        let errors = self.0.stderr.as_mut().expect("it is a pipe");
        let mut lines = BufReader::new(errors).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains(text)), "{text}");
    }

    /// Kills the process without a chance to finish.
    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("it is a child");
        self.0.wait().expect("it is a child");
    }

    /// Waits until the process has ended by itself.
    pub(crate) fn finish(mut self) -> Run {
        let child = &mut self.0;
        let mut status = None;
        until(
            || {
                status = child.try_wait().expect("it is a child");
                status.is_some()
            },
            || "the follower does not end".into(),
        );
        let (mut out, mut errors) = (String::new(), String::new());
        let mut both = (self.0.stdout.take(), self.0.stderr.take());
        if let (Some(stdout), Some(stderr)) = (&mut both.0, &mut both.1) {
            stdout.read_to_string(&mut out).expect("text");
            stderr.read_to_string(&mut errors).expect("text");
        }
        Run {
            status: status.and_then(|status| status.code()).unwrap_or(-1),
            out,
            errors,
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory in shared memory with a store.
pub(crate) struct Place {
    pub(crate) store: Store,
    directory: TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place::with_capacity(256 << 20)
    }

    pub(crate) fn with_capacity(capacity: u64) -> Place {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let options = Options {
            capacity: Some(capacity),
            shards: Some(4),
            ..Options::default()
        };
        let store = Store::create(&directory.path().join("store"), &options).expect("a store");
        Place { store, directory }
    }

    /// Returns the path of another file in the directory.
    pub(crate) fn path(&self, name: &str) -> String {
        let path = self.directory.path().join(name);
        path.to_str().expect("ASCII").to_owned()
    }

    pub(crate) fn get(&self, database: usize, key: &str) -> Option<String> {
        let mut value = Vec::new();
        let found = self.store.get(database, key.as_bytes(), &mut value);
        found
            .expect("a lookup")
            .then(|| String::from_utf8_lossy(&value).into_owned())
    }

    /// Returns the position up to which the source's changes are applied.
    pub(crate) fn applied(&self) -> Option<u64> {
        let source = self.store.source().expect("a whole store");
        source.map(|source| source.position.offset)
    }

    pub(crate) fn status(&self) -> LinkStatus {
        let link = self.store.source_link().expect("a whole store");
        link.unwrap_or_default().status
    }

    /// Waits until the store has all changes that the source has now.
    pub(crate) fn catch_up(&self, source: &Server) {
        let offset = offset_of(source);
        until(
            || self.applied().is_some_and(|applied| applied >= offset),
            || self.describe(),
        );
    }

    pub(crate) fn wait_for_status(&self, status: LinkStatus) {
        until(|| self.status() == status, || self.describe());
    }

    /// Describes the state of the connection, for a failed test.
    pub(crate) fn describe(&self) -> String {
        fn shown(value: impl Debug) -> String {
            format!("{value:?}")
        }
        shown((
            self.store.source_link(),
            self.store.source(),
            self.store.lag(),
        ))
    }
}
