//! Runs a private `redis-server` for a test, on a Unix socket in a temporary directory.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) struct Server {
    process: Child,
    directory: PathBuf,
}

impl Server {
    /// Starts a server. If redis-server is missing or not version 7.0, prints the reason for
    /// skipping the test and returns `None`.
    pub(crate) fn start(options: &[&str]) -> Option<Self> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let version = Command::new("redis-server").arg("--version").output();
        let version = match &version {
            Ok(output) => String::from_utf8_lossy(&output.stdout),
            Err(_) => "none".into(),
        };
        if !version.contains(" v=7.0.") {
            // Write directly to standard error, because the test harness hides the output of
            // passing tests.
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: needs redis-server 7.0 to compare with, found {}",
                version.trim()
            );
            return None;
        }
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("undercroft-resp-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("a directory for the server");
        // The kernel kills the server when the test's thread ends, for whatever reason.
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "redis-server"])
            .args(["--port", "0", "--unixsocket", "socket", "--save", ""])
            .args(["--loglevel", "warning"])
            .args(options)
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server starts");
        let server = Self { process, directory };
        let begun = Instant::now();
        while server.try_connect().is_err() {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "redis-server does not listen"
            );
            std::thread::yield_now();
        }
        Some(server)
    }

    fn try_connect(&self) -> std::io::Result<UnixStream> {
        UnixStream::connect(self.directory.join("socket"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server has no data to save, so it can be killed.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Sends `input` and closes the sending side. Returns everything that the server sends.
pub(crate) fn answers(server: &Server, input: &[u8]) -> Vec<u8> {
    let mut stream = server.try_connect().expect("the server listens");
    let mut writer = stream.try_clone().expect("a second handle");
    let mut answer = Vec::new();
    std::thread::scope(|scope| {
        // A separate thread writes, so that full buffers cannot block both sides.
        scope.spawn(move || {
            // After a protocol error, the server closes the connection early. Only its output
            // before that is compared.
            let _ = writer.write_all(input);
            let _ = writer.shutdown(std::net::Shutdown::Write);
        });
        match stream.read_to_end(&mut answer) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("reading the server's answer: {error}"),
        }
    });
    answer
}
