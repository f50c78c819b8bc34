//! A `redis-server` of the test's own, on a unix socket in a directory that goes away with it.

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
    /// Starts a server, or says why the test is skipped: there is none, or it is not a 7.0.
    pub(crate) fn start(options: &[&str]) -> Option<Self> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let version = Command::new("redis-server").arg("--version").output();
        let version = match &version {
            Ok(output) => String::from_utf8_lossy(&output.stdout),
            Err(_) => "none".into(),
        };
        if !version.contains(" v=7.0.") {
            // Written past the test harness, which swallows what a passing test prints.
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
        // The kernel ends the server with the test's thread, in whatever way that ends.
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
        // Nothing is to be saved, so the process may just end.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// All that the server sends when it is sent `input` and then the end of it.
pub(crate) fn answers(server: &Server, input: &[u8]) -> Vec<u8> {
    let mut stream = server.try_connect().expect("the server listens");
    let mut writer = stream.try_clone().expect("a second handle");
    let mut answer = Vec::new();
    std::thread::scope(|scope| {
        // Written beside the reading, so that neither side waits for the other with full buffers.
        scope.spawn(move || {
            // The server closes early after a protocol error; what it said before that is what counts.
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
