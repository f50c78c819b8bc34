//! Provides helpers that run the binary, create temporary stores, and start a server that stops at
//! the end of the test.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The exit status and the output of the binary.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) errors: String,
}

pub(crate) fn binary() -> PathBuf {
    assert_cmd::cargo::cargo_bin("undercroft")
}

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    // Isolate tests from the user's environment.
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

/// Runs a command that must succeed without printing anything on standard error. Returns its
/// output.
pub(crate) fn succeed(arguments: &[&str]) -> String {
    let run = run(arguments);
    assert_eq!(
        (run.status, run.errors.as_str()),
        (0, ""),
        "{arguments:?}: {run:?}"
    );
    run.out
}

/// Runs a command that must fail and print one line on standard error. Returns this line.
pub(crate) fn fail(arguments: &[&str], status: i32) -> String {
    let run = run(arguments);
    assert_eq!(run.status, status, "{arguments:?}: {run:?}");
    assert_eq!(run.errors.lines().count(), 1, "{arguments:?}: {run:?}");
    run.errors.trim_end().to_owned()
}

/// A temporary directory in shared memory, for stores and other files.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Place {
        Place(tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory"))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("ASCII").to_owned()
    }

    /// Creates a store that contains the given keys and values.
    pub(crate) fn store(&self, name: &str, pairs: &[(&str, &str)]) -> String {
        let path = self.path(name);
        let options = undercroft_engine::Options {
            capacity: Some(256 << 20),
            shards: Some(2),
            ring: None,
        };
        let store = undercroft_engine::Store::create(Path::new(&path), &options).expect("a store");
        for (key, value) in pairs {
            store
                .set(0, key.as_bytes(), value.as_bytes())
                .expect("room");
        }
        path
    }
}

/// A running `undercroft serve` on a Unix socket. It is stopped on drop.
pub(crate) struct Server {
    child: Child,
    pub(crate) socket: String,
    /// The log up to the line that shows that the server is listening.
    pub(crate) start: String,
    /// The standard error of the server after it has begun to listen.
    log: BufReader<std::process::ChildStderr>,
}

impl Server {
    pub(crate) fn start(place: &Place, arguments: &[&str]) -> Server {
        let (store, socket) = (place.path("served"), place.path("socket"));
        let mut all = vec!["serve", "--store", &store, "--unixsocket", &socket];
        if !arguments.contains(&"--port") {
            all.extend(["--port", "0"]);
        }
        all.extend(arguments);
        let mut child = command(&all)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut log = BufReader::new(child.stderr.take().expect("it is a pipe"));
        // The last line of the startup log appears when the server is listening.
        let mut start = String::new();
        while !start.ends_with("the data stays\n") {
            assert_ne!(log.read_line(&mut start).expect("text"), 0, "{start}");
        }
        assert!(start.contains(&socket), "{start}");
        Server {
            child,
            socket,
            start,
            log,
        }
    }

    pub(crate) fn connect(&self) -> Client<UnixStream> {
        Client::new(UnixStream::connect(&self.socket).expect("it listens"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        signal_to(&self.child, signal);
    }

    /// Returns once the server has used `ticks` more ticks (hundredths of a second) of processor
    /// time, which shows that it is processing its input.
    pub(crate) fn is_busy_for(&self, ticks: u64) {
        let used = || {
            let fields = fields_of(&self.child);
            assert_ne!(fields[0], "Z", "the server has ended");
            let time = |place: usize| fields[place].parse::<u64>().expect("a number");
            time(11) + time(12)
        };
        let until = used() + ticks;
        while used() < until {
            std::thread::yield_now();
        }
    }

    /// Waits until the server exits. Returns its exit status, and the log that it wrote after
    /// startup.
    pub(crate) fn wait(&mut self) -> (Option<i32>, String) {
        let mut log = String::new();
        self.log.read_to_string(&mut log).expect("text");
        (self.child.wait().expect("a child").code(), log)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ignore errors, because the server may already have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn signal_to(child: &Child, signal: Signal) {
    let pid = Pid::from_child(child);
    kill_process(pid, signal).expect("the child lives");
}

/// A client that reads replies line by line.
pub(crate) struct Client<S>(BufReader<S>);

impl<S: Read + Write> Client<S> {
    pub(crate) fn new(stream: S) -> Client<S> {
        Client(BufReader::new(stream))
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.0
            .get_mut()
            .write_all(text.as_bytes())
            .expect("it reads");
    }

    /// Reads the next line and returns it without the line break. Returns an empty string at the
    /// end of the connection.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            // The server closed the connection before it read everything.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return String::new(),
            read => read.expect("text"),
        };
        line.trim_end().to_owned()
    }

    /// Sends an inline command, and returns the first line of its reply.
    pub(crate) fn call(&mut self, text: &str) -> String {
        self.send(&format!("{text}\r\n"));
        self.line()
    }

    /// Reads the value of a key with GET, and returns it.
    pub(crate) fn get(&mut self, key: &str) -> String {
        match self.call(&format!("GET {key}")).as_str() {
            "$-1" => "(nil)".to_owned(),
            _ => self.line(),
        }
    }
}

pub(crate) fn connect_tcp(port: u16) -> Client<TcpStream> {
    Client::new(TcpStream::connect(("127.0.0.1", port)).expect("it listens"))
}

/// Returns a TCP port that was free a moment ago.
pub(crate) fn spare_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    listener.local_addr().expect("bound").port()
}

/// Returns the state of a process as the kernel reports it. `T` means stopped.
pub(crate) fn state_of(child: &Child) -> char {
    fields_of(child)[0].chars().next().expect("a state")
}

/// Returns the fields of /proc/PID/stat that follow the process name.
fn fields_of(child: &Child) -> Vec<String> {
    let status = fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it lives");
    let (_, rest) = status.rsplit_once(") ").expect("a name in parentheses");
    rest.split(' ').map(str::to_owned).collect()
}
