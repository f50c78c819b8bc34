//! Starts servers with a configuration file, and reads the replies of their clients.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The time limit for an event that a server announces.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Returns the binary with arguments, isolated from the user's environment.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("undercroft"));
    command.args(arguments).env_clear().stdin(Stdio::null());
    command
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

    /// Writes a file and returns its path.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        fs::write(&path, content).expect("space");
        path
    }

    /// Returns the command that serves a small store on a Unix socket with these lines of
    /// configuration.
    pub(crate) fn serve(&self, lines: &str) -> Command {
        let (store, socket) = (self.path("served"), self.path("socket"));
        let port = match lines.lines().any(|line| line.starts_with("port ")) {
            true => "",
            false => "port 0\n",
        };
        let config = format!("capacity 64mb\nthreads 2\nunixsocket {socket}\n{port}{lines}\n");
        let config = self.file("undercroft.conf", &config);
        command(&["serve", "--store", &store, "--config", &config])
    }

    /// Runs a server that must refuse to start. Returns the reason.
    pub(crate) fn refuse(&self, lines: &str) -> String {
        let output = self.serve(lines).output().expect("the binary runs");
        let errors = String::from_utf8(output.stderr).expect("text");
        assert!(!output.status.success(), "{errors}");
        errors.trim_end().to_owned()
    }
}

/// A running `undercroft serve`. It is killed on drop.
pub(crate) struct Server {
    pub(crate) child: Child,
    socket: String,
    /// The log up to the line that shows that the server is listening.
    pub(crate) start: String,
    log: BufReader<ChildStderr>,
}

impl Server {
    /// Starts a server with these lines of configuration.
    pub(crate) fn start(place: &Place, lines: &str) -> Server {
        Server::of(place, place.serve(lines))
    }

    /// Starts a server with a command.
    pub(crate) fn of(place: &Place, mut command: Command) -> Server {
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut log = BufReader::new(child.stderr.take().expect("it is a pipe"));
        let mut start = String::new();
        while !start.ends_with("the data stays\n") {
            assert_ne!(log.read_line(&mut start).expect("text"), 0, "{start}");
        }
        Server {
            child,
            socket: place.path("socket"),
            start,
            log,
        }
    }

    pub(crate) fn connect(&self) -> Client<UnixStream> {
        Client::new(UnixStream::connect(&self.socket).expect("it listens"))
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the child lives");
    }

    /// Reads the log up to a line that contains `text`, and returns that line.
    pub(crate) fn log_line(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.log.read_line(&mut line).expect("text"), 0, "no {text}");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Stops the server, and returns its exit status and the rest of its log.
    pub(crate) fn stop(&mut self) -> (Option<i32>, String) {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Waits until the server exits. Returns its exit status and the rest of its log.
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

/// A client that reads replies line by line.
pub(crate) struct Client<S: Read + Write>(BufReader<S>);

impl<S: Read + Write> Client<S> {
    pub(crate) fn new(stream: S) -> Client<S> {
        Client(BufReader::new(stream))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("it reads");
    }

    /// Returns the next line without the line break, or an empty string at the end of the connection.
    pub(crate) fn line(&mut self) -> String {
        let mut line = Vec::new();
        match self.0.read_until(b'\n', &mut line) {
            // The server closed the connection before it read everything.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return String::new(),
            read => read.expect("a line"),
        };
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }

    /// Sends an inline command, and returns its reply. The items of an array are separated by spaces.
    pub(crate) fn call(&mut self, text: &str) -> String {
        self.send(format!("{text}\r\n").as_bytes());
        self.reply()
    }

    /// Returns the next reply.
    pub(crate) fn reply(&mut self) -> String {
        let line = self.line();
        let count = |line: &str| line[1..].parse::<i64>().unwrap_or(-1);
        match line.as_bytes().first() {
            Some(b'$') if count(&line) >= 0 => {
                let mut bytes = vec![0; count(&line) as usize + 2];
                self.0.read_exact(&mut bytes).expect("a string");
                String::from_utf8_lossy(&bytes[..bytes.len() - 2]).into_owned()
            }
            Some(b'*') if count(&line) >= 0 => {
                let items = (0..count(&line)).map(|_| self.reply());
                items.collect::<Vec<_>>().join(" ")
            }
            _ => line,
        }
    }
}

pub(crate) fn connect_tcp(port: u16) -> Client<TcpStream> {
    Client::new(TcpStream::connect(("127.0.0.1", port)).expect("it listens"))
}

/// Waits until a condition holds.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LONG, "{what}");
        std::thread::yield_now();
    }
}

/// Returns a TCP port that was free a moment ago.
pub(crate) fn spare_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    listener.local_addr().expect("bound").port()
}
