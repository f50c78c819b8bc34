//! Starts a real redis-server for comparison, and provides a small RESP client and encoder.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use undercroft_commands::reply::Tree;

static STARTED: AtomicU32 = AtomicU32::new(0);

/// A private redis-server on a Unix socket in a new directory. It is stopped on drop.
pub(crate) struct RealServer {
    process: Child,
    directory: PathBuf,
}

impl RealServer {
    /// Starts a server. Prints a note and returns `None` if redis-server 7.0 is not installed.
    pub(crate) fn start(options: &[&str]) -> Option<RealServer> {
        let version = Command::new("redis-server").arg("--version").output();
        let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        if !version.as_ref().is_ok_and(|text| text.contains(" v=7.0.")) {
            println!("skipped: redis-server 7.0 is not installed ({version:?})");
            return None;
        }
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("undercroft-{}-{number}", std::process::id()));
        std::fs::create_dir(&directory).expect("a directory for the server");
        // The kernel kills the server when the test thread ends, for whatever reason.
        let mut process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "redis-server"])
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--unixsocket",
                "socket",
                "--dir",
            ])
            .arg(&directory)
            .args(options)
            .current_dir(&directory)
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-server starts");
        let mut output = BufReader::new(process.stdout.take().expect("piped"));
        let mut line = String::new();
        while !line.contains("ready to accept connections")
            && !line.contains("Ready to accept connections")
        {
            line.clear();
            assert_ne!(
                output.read_line(&mut line).expect("the server's log"),
                0,
                "redis-server ended early"
            );
        }
        // Drain the rest of the log, because the server would block when the pipe is full.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        Some(RealServer { process, directory })
    }

    /// Opens a new connection.
    pub(crate) fn connect(&self) -> Client {
        let stream =
            UnixStream::connect(self.directory.join("socket")).expect("the server listens");
        Client {
            writer: stream.try_clone().expect("a second handle"),
            reader: BufReader::new(stream),
        }
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        // Ignore errors during cleanup, so that they do not hide the failure of the test.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A client connection that uses RESP.
pub(crate) struct Client {
    writer: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Client {
    /// Sends one command and reads its reply.
    pub(crate) fn call(&mut self, arguments: &[&[u8]]) -> Tree {
        self.send(arguments);
        self.receive()
    }

    /// Sends one command, given as space-separated words, and reads its reply.
    pub(crate) fn words(&mut self, line: &str) -> Tree {
        self.call(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    /// Sends one command without reading its reply.
    pub(crate) fn send(&mut self, arguments: &[&[u8]]) {
        let mut message = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments {
            message.extend(format!("${}\r\n", argument.len()).bytes());
            message.extend(*argument);
            message.extend(b"\r\n");
        }
        self.writer.write_all(&message).expect("the server reads");
    }

    /// Reads one reply.
    pub(crate) fn receive(&mut self) -> Tree {
        let mut line = String::new();
        self.reader
            .read_line(&mut line)
            .expect("the server answers");
        let line = line.trim_end_matches("\r\n");
        let (kind, rest) = line.split_at(1);
        let length = || rest.parse::<i64>().expect("a length");
        match kind {
            "+" => Tree::Simple(rest.into()),
            "-" => Tree::Error(rest.to_owned()),
            ":" => Tree::Integer(length()),
            "_" => Tree::Null,
            "#" => Tree::Boolean(rest == "t"),
            "," => Tree::Double(rest.parse().expect("a double")),
            "(" => Tree::BigNumber(rest.to_owned()),
            "$" if length() < 0 => Tree::Null,
            "$" => Tree::Bulk(self.bytes(length())),
            "=" => {
                let bytes = self.bytes(length());
                Tree::Verbatim {
                    format: String::from_utf8_lossy(&bytes[..3]).into_owned(),
                    text: bytes[4..].to_vec(),
                }
            }
            "*" if length() < 0 => Tree::NullArray,
            "*" => Tree::Array(self.items(length())),
            "~" => Tree::Set(self.items(length())),
            ">" => Tree::Push(self.items(length())),
            "%" => Tree::Map(
                (0..length())
                    .map(|_| (self.receive(), self.receive()))
                    .collect(),
            ),
            other => panic!("unknown reply type {other:?} in {line:?}"),
        }
    }

    fn items(&mut self, length: i64) -> Vec<Tree> {
        (0..length).map(|_| self.receive()).collect()
    }

    fn bytes(&mut self, length: i64) -> Vec<u8> {
        let mut bytes = vec![0; length as usize + 2];
        self.reader
            .read_exact(&mut bytes)
            .expect("a whole bulk string");
        bytes.truncate(length as usize);
        bytes
    }
}

/// Appends a reply, encoded as RESP3.
pub(crate) fn encode(tree: &Tree, out: &mut Vec<u8>) {
    let mut header = |kind: char, length: usize| out.extend(format!("{kind}{length}\r\n").bytes());
    match tree {
        Tree::Simple(text) => {
            out.push(b'+');
            out.extend(text);
            out.extend(b"\r\n");
        }
        Tree::Error(text) => out.extend(format!("-{text}\r\n").bytes()),
        Tree::Integer(value) => out.extend(format!(":{value}\r\n").bytes()),
        Tree::Bulk(bytes) => {
            header('$', bytes.len());
            out.extend(bytes);
            out.extend(b"\r\n");
        }
        Tree::Null => out.extend(b"_\r\n"),
        Tree::NullArray => out.extend(b"*-1\r\n"),
        Tree::Array(items) => {
            header('*', items.len());
            items.iter().for_each(|item| encode(item, out));
        }
        Tree::Set(items) => {
            header('~', items.len());
            items.iter().for_each(|item| encode(item, out));
        }
        Tree::Push(items) => {
            header('>', items.len());
            items.iter().for_each(|item| encode(item, out));
        }
        Tree::Map(pairs) => {
            header('%', pairs.len());
            for (key, value) in pairs {
                encode(key, out);
                encode(value, out);
            }
        }
        Tree::Double(value) => {
            out.extend(format!(",{}\r\n", undercroft_numbers::double_text(*value)).bytes());
        }
        Tree::Decimal(digits) => out.extend(format!(",{digits}\r\n").bytes()),
        Tree::Boolean(value) => out.extend(if *value { b"#t\r\n" } else { b"#f\r\n" }),
        Tree::BigNumber(digits) => out.extend(format!("({digits}\r\n").bytes()),
        Tree::Verbatim { format, text } => {
            header('=', text.len() + 4);
            out.extend(format!("{format}:").bytes());
            out.extend(text);
            out.extend(b"\r\n");
        }
    }
}

/// Returns a random number generator and prints its seed. Set `UNDERCROFT_SEED` to repeat a run.
pub(crate) fn random() -> fastrand::Rng {
    let given = std::env::var("UNDERCROFT_SEED").ok();
    let seed = given.map_or_else(
        || fastrand::u64(..),
        |seed| seed.parse().expect("UNDERCROFT_SEED is a number"),
    );
    println!("seed {seed}: repeat with UNDERCROFT_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}
