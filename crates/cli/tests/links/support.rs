//! Runs the command, and starts real servers.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use undercroft_conformance::client::Client;
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Kind, Server, Settings};

/// The result of running the command.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) errors: String,
}

/// Returns the command with the given arguments, isolated from the user's environment.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("undercroft"));
    command.args(arguments).env_clear().stdin(Stdio::null());
    command
}

pub(crate) fn run(arguments: &[&str]) -> Run {
    let output = command(arguments).output().expect("the binary runs");
    Run {
        status: output.status.code().expect("it ended by itself"),
        out: String::from_utf8(output.stdout).expect("text"),
        errors: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Runs a command that must succeed, and returns its output.
pub(crate) fn succeed(arguments: &[&str]) -> String {
    let run = run(arguments);
    assert_eq!(run.status, 0, "{arguments:?}: {run:?}");
    run.out
}

/// Runs a command that must fail with status 1. Returns the line that it prints.
pub(crate) fn fail(arguments: &[&str]) -> String {
    let run = run(arguments);
    assert_eq!(run.status, 1, "{arguments:?}: {run:?}");
    assert_eq!(run.errors.lines().count(), 1, "{arguments:?}: {run:?}");
    run.errors.trim_end().to_owned()
}

/// A temporary directory in shared memory, for stores and files.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Place {
        Place(tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory"))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("ASCII").to_owned()
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        fs::write(&path, bytes).expect("room");
        path
    }
}

/// The real servers.
pub(crate) const REAL: [Kind; 3] = [Kind::Redis, Kind::Redis8, Kind::Valkey];

/// Starts a server. Returns `None`, and prints the reason, if a server that
/// `scripts/setup/servers.sh` unpacks is missing.
pub(crate) fn start(kind: Kind, arguments: &[&str]) -> Option<Server> {
    start_with(kind, arguments, Vec::new())
}

/// Starts a server like [`start`], with files in its directory.
pub(crate) fn start_with(
    kind: Kind,
    arguments: &[&str],
    files: Vec<(String, Vec<u8>)>,
) -> Option<Server> {
    if kind.program().is_none() {
        println!(
            "skipped: files of {kind:?} (the server is missing; type: scripts/setup/servers.sh)"
        );
        return None;
    }
    let settings = Settings {
        arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        files,
        ..Settings::default()
    };
    let server = Server::start(kind, settings).expect("the server starts");
    // A server that loads its files answers, but refuses commands on keys.
    let mut client = connect(&server);
    while client
        .call(["DBSIZE"])
        .expect("the server answers")
        .is_error()
    {
        std::thread::yield_now();
    }
    Some(server)
}

pub(crate) fn connect(server: &Server) -> Client {
    Client::connect(server.address()).expect("the server listens")
}

/// Runs a command that must succeed on a server.
pub(crate) fn call<A: AsRef<[u8]>>(client: &mut Client, words: &[A]) -> Reply {
    let reply = client.call(words).expect("the server answers");
    let shown: Vec<String> = words
        .iter()
        .map(|word| word.as_ref().escape_ascii().to_string())
        .collect();
    assert!(!reply.is_error(), "{shown:?}: {reply:?}");
    reply
}

/// Runs a command given as one line.
pub(crate) fn line(client: &mut Client, line: &str) -> Reply {
    let words: Vec<&str> = line.split(' ').collect();
    call(client, &words)
}

/// Returns the path of a server's snapshot, which SAVE writes.
pub(crate) fn save(server: &Server) -> PathBuf {
    line(&mut connect(server), "SAVE");
    server.directory().join("dump.rdb")
}

/// Starts `undercroft serve` on a new store.
pub(crate) fn serve(arguments: &[&str]) -> Server {
    let settings = Settings {
        arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        // The image of a snapshot has the size of the store's address space.
        memory_max: None,
        ..Settings::default()
    };
    Server::start(Kind::Undercroft, settings).expect("undercroft serve starts")
}
