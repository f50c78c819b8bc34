//! Runs a temporary Redis server for a test.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// A running Redis server, which stops when the value is dropped.
pub(crate) struct Redis {
    directory: TempDir,
    arguments: Vec<String>,
    child: Child,
    port: u16,
    is_encrypted: bool,
}

impl Redis {
    /// Starts a server on a Unix socket and a TCP port. If `redis-server` is not installed, prints
    /// why the test is skipped.
    pub(crate) fn start(arguments: &[&str]) -> Option<Redis> {
        Redis::start_so(arguments, false)
    }

    /// Starts a server with a TLS port.
    pub(crate) fn start_with_tls(arguments: &[&str]) -> Option<Redis> {
        Redis::start_so(arguments, true)
    }

    fn start_so(arguments: &[&str], is_encrypted: bool) -> Option<Redis> {
        let directory = tempfile::tempdir().expect("a directory");
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        let program = std::env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
        if Command::new(&program)
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_err()
        {
            println!("skipped: clients of a real Redis ({program:?} is not installed)");
            return None;
        }
        // Retry, because another process may bind the free port before the server does.
        for _ in 0..5 {
            let probe = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let port = probe.local_addr().expect("an address").port();
            drop(probe);
            if let Some(child) = run(&directory, &arguments, port, is_encrypted) {
                return Some(Redis {
                    directory,
                    arguments,
                    child,
                    port,
                    is_encrypted,
                });
            }
        }
        panic!("redis-server does not start");
    }

    /// Returns the URL of the Unix socket.
    pub(crate) fn unix(&self) -> String {
        format!("unix://{}/socket", self.directory.path().display())
    }

    /// Returns the URL of the TCP port.
    pub(crate) fn tcp(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns the port for clients and the port of the cluster bus.
    pub(crate) fn cluster_ports(&self) -> (String, String) {
        let bus = self
            .arguments
            .last()
            .expect("it was started with that port");
        (self.port.to_string(), bus.clone())
    }

    /// Returns the URL of the TLS port with the given host name.
    pub(crate) fn tls(&self, host: &str) -> String {
        format!("rediss://{host}:{}", self.port)
    }

    /// Kills the server and removes its socket, so that connecting fails.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
        let _ = std::fs::remove_file(self.directory.path().join("socket"));
    }

    /// Restarts the server at the same addresses, without data.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.start_again();
    }

    /// Starts the server again after it was killed.
    pub(crate) fn start_again(&mut self) {
        self.child = run(
            &self.directory,
            &self.arguments,
            self.port,
            self.is_encrypted,
        )
        .expect("it starts again");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("it runs");
    }
}

/// Starts the program and waits until it reports that it is ready.
fn run(directory: &TempDir, arguments: &[String], port: u16, is_encrypted: bool) -> Option<Child> {
    let port = port.to_string();
    let ports = match is_encrypted {
        false => ["--port", &port],
        true => ["--tls-port", &port],
    };
    let program = std::env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
    let mut child = Command::new(program)
        .args(["--port", "0", "--bind", "127.0.0.1"])
        .args(ports)
        .args(["--unixsocket", "socket", "--save", "", "--appendonly", "no"])
        .arg("--dir")
        .arg(directory.path())
        .args(arguments)
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("redis-server starts");
    let output = child.stdout.take().expect("its output");
    let mut lines = BufReader::new(output).lines();
    let is_ready =
        lines.any(|line| line.is_ok_and(|line| line.contains("eady to accept connections")));
    if !is_ready {
        let _ = child.wait();
        return None;
    }
    // Keep reading the output, because a full pipe would block the server.
    std::thread::spawn(move || lines.for_each(drop));
    Some(child)
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
