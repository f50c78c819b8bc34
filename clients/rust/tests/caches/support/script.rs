//! Runs a server whose replies are written by the test.

use std::future::Future;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use undercroft_resp::{ReplyReader, Value};

/// A server on a Unix socket that calls a function in the test for each connection.
pub(crate) struct Script {
    directory: TempDir,
    task: tokio::task::JoinHandle<()>,
}

impl Script {
    /// Starts a server and calls `serve` with each connection and its number. The first command of
    /// each connection, a PING, is answered before `serve` is called.
    pub(crate) fn start<F>(serve: impl Fn(usize, Peer) -> F + Send + 'static) -> Script
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let directory = tempfile::tempdir().expect("a directory");
        let listener = UnixListener::bind(directory.path().join("socket")).expect("a socket");
        let task = tokio::spawn(async move {
            for number in 0.. {
                let (stream, _) = listener.accept().await.expect("a connection");
                let mut peer = Peer {
                    stream,
                    input: Vec::new(),
                    reader: ReplyReader::default(),
                };
                if peer.command().await.is_some() {
                    peer.send(b"+PONG\r\n").await;
                    tokio::spawn(serve(number, peer));
                }
            }
        });
        Script { directory, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("unix://{}/socket", self.directory.path().display())
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The server's end of a connection.
pub(crate) struct Peer {
    stream: UnixStream,
    input: Vec<u8>,
    reader: ReplyReader,
}

impl Peer {
    /// Returns the words of the next command, or `None` at the end of the connection.
    pub(crate) async fn command(&mut self) -> Option<Vec<Vec<u8>>> {
        loop {
            let mut rest = &self.input[..];
            let value = self.reader.read(&mut rest).expect("a command");
            let used = self.input.len() - rest.len();
            self.input.drain(..used);
            match value {
                Some(Value::Array(words)) => {
                    let word = |word| match word {
                        Value::Bulk(bytes) => bytes,
                        other => panic!("{other:?} in a command"),
                    };
                    return Some(words.into_iter().map(word).collect());
                }
                Some(other) => panic!("{other:?} is no command"),
                None => {}
            }
            let read = self.stream.read_buf(&mut self.input).await;
            if !matches!(read, Ok(1..)) {
                return None;
            }
        }
    }

    /// Returns whether further bytes arrive while all other tasks run.
    pub(crate) async fn has_more(&mut self) -> bool {
        for _ in 0..1000 {
            tokio::task::yield_now().await;
            let _ = self.stream.try_read_buf(&mut self.input);
        }
        !self.input.is_empty()
    }

    /// Sends bytes. Ignores errors, because the connection may be closed.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }
}
