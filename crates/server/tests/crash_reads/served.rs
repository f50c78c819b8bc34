//! Runs a server in the test's process, and connects to it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use tempfile::TempDir;
use undercroft_engine::Store;
use undercroft_resp::{ReplyLimits, ReplyReader, Value};
use undercroft_server::{Error, Handle, Options, Server, default_config};

/// A server on a Unix socket. It stops when the value is dropped.
pub(crate) struct Served {
    directory: TempDir,
    handle: Handle,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Served {
    pub(crate) fn start(store: Store) -> Served {
        let directory = undercroft_testkit::fresh::directory();
        let config = default_config();
        let socket = directory.path().join("socket");
        let socket = socket.to_str().expect("a path of ASCII");
        for (name, value) in [("port", "0"), ("unixsocket", socket)] {
            config.set_at_start(name, value).expect("a value of it");
        }
        let options = Options {
            threads: 1,
            ..Options::default()
        };
        let server = Server::bind(store, config, options).expect("a free socket");
        let handle = server.handle();
        Served {
            directory,
            handle,
            thread: Some(std::thread::spawn(|| server.run())),
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            // The tests have already reported any server error, so ignore it here.
            let _ = thread.join();
        }
    }
}

/// A client's connection to the server.
pub(crate) struct Connection {
    stream: UnixStream,
    reader: ReplyReader,
    received: Vec<u8>,
}

impl Connection {
    /// Connects to the server, and selects a version of the protocol.
    pub(crate) fn new(socket: &Path, version: u8) -> Connection {
        let stream = UnixStream::connect(socket).expect("a server");
        let mut connection = Connection::of(stream);
        let version = version.to_string();
        let hello: &[&[u8]] = &[b"HELLO", version.as_bytes()];
        let replies = connection.pipeline(&[hello]).expect("a reply");
        assert!(!matches!(replies[0], Value::Error(_)), "{replies:?}");
        connection
    }

    /// Returns a connection for a stream on which a test has already sent bytes.
    pub(crate) fn of(stream: UnixStream) -> Connection {
        Connection {
            stream,
            reader: ReplyReader::new(ReplyLimits::default()),
            received: Vec::new(),
        }
    }

    /// Sends commands in one write, and receives their replies.
    ///
    /// # Errors
    /// If a reply is malformed or missing.
    pub(crate) fn pipeline(&mut self, commands: &[&[&[u8]]]) -> Result<Vec<Value>, String> {
        let mut all = Vec::new();
        for words in commands {
            all.extend(request(words));
        }
        self.send(&all)?;
        self.receive(commands.len())
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// If the bytes cannot be sent.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream
            .write_all(bytes)
            .map_err(|error| error.to_string())
    }

    /// Receives `count` replies.
    ///
    /// # Errors
    /// If a reply is malformed or missing.
    pub(crate) fn receive(&mut self, count: usize) -> Result<Vec<Value>, String> {
        let mut replies = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        while replies.len() < count {
            let mut input = self.received.as_slice();
            let reply = self
                .reader
                .read(&mut input)
                .map_err(|error| error.to_string())?;
            let used = self.received.len() - input.len();
            self.received.drain(..used);
            match reply {
                Some(reply) => replies.push(reply),
                None => match self
                    .stream
                    .read(&mut buffer)
                    .map_err(|error| error.to_string())?
                {
                    0 => return Err("the connection was closed".into()),
                    count => self.received.extend_from_slice(&buffer[..count]),
                },
            }
        }
        Ok(replies)
    }
}

/// Encodes a command in the multibulk form.
pub(crate) fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend(format!("${}\r\n", word.len()).into_bytes());
        request.extend_from_slice(word);
        request.extend(b"\r\n");
    }
    request
}
