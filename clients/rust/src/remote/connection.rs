//! A connection that one caller has to itself at a time.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use undercroft_resp::{Value, encode};

use crate::address::Server;
use crate::error::{Error, Result};
use crate::remote::input::Input;
use crate::remote::socket::Socket;
use crate::reply::{Reply, from_value, outcome};

/// A connection on which the server has answered.
pub(crate) struct Connection {
    pub(crate) socket: Socket,
    pub(crate) input: Input,
    output: Vec<u8>,
    name: Arc<str>,
    /// Nothing is on its way: whatever was asked was answered.
    is_idle: bool,
}

impl Connection {
    /// Connects and introduces itself, within so long.
    pub(crate) async fn open(server: &Server, within: Duration) -> Result<Connection> {
        match timeout(within, Connection::introduced(server)).await {
            Ok(opened) => opened,
            Err(_) => {
                let text = format!("no answer within {within:?}");
                let error = io::Error::new(io::ErrorKind::TimedOut, text);
                Err(Error::connecting(&server.name, error))
            }
        }
    }

    async fn introduced(server: &Server) -> Result<Connection> {
        let connecting = |error| Error::connecting(&server.name, error);
        let socket = Socket::connect(&server.place).await.map_err(connecting)?;
        let mut connection = Connection {
            socket,
            input: Input::new(),
            output: Vec::new(),
            name: server.name.clone(),
            is_idle: true,
        };
        for command in server.greeting() {
            let command: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            let answered = connection.call(&command).await;
            answered.map_err(|error| not_accepted(server, error))?;
        }
        Ok(connection)
    }

    /// Sends a command.
    pub(crate) async fn send(&mut self, words: &[&[u8]]) -> Result<()> {
        self.is_idle = false;
        self.output.clear();
        encode::command(&mut self.output, words);
        let sent = self.socket.write_all(&self.output).await;
        sent.map_err(|error| Error::lost(&self.name, error))
    }

    /// The next reply, or whatever the server sends.
    pub(crate) async fn receive(&mut self) -> Result<Value> {
        loop {
            match self.received()? {
                Some(value) => return Ok(value),
                None => self.fill().await?,
            }
        }
    }

    /// What of that has come already.
    #[inline]
    pub(crate) fn received(&mut self) -> Result<Option<Value>> {
        let received = self.input.next();
        received.map_err(|error| Error::garbage(&self.name, error))
    }

    async fn fill(&mut self) -> Result<()> {
        let Connection { socket, input, .. } = self;
        match poll_fn(|cx| input.poll_fill(cx, socket)).await {
            Ok(0) => Err(Error::lost(&self.name, closed())),
            Ok(_) => Ok(()),
            Err(error) => Err(Error::lost(&self.name, error)),
        }
    }

    /// Sends a command and waits for its reply. Where that is cancelled, the connection is not idle any more.
    pub(crate) async fn call(&mut self, words: &[&[u8]]) -> Result<Reply> {
        self.send(words).await?;
        self.answer().await
    }

    /// Waits for the reply of the command that was sent last.
    pub(crate) async fn answer(&mut self) -> Result<Reply> {
        loop {
            match self.receive().await? {
                Value::Push(_) => {}
                value => {
                    self.is_idle = true;
                    return outcome(from_value(value));
                }
            }
        }
    }

    /// Whether whatever was asked was answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Whether the next call can use it: nothing is on its way, and the server has not closed it.
    pub(crate) fn is_usable(&self) -> bool {
        self.is_idle && self.socket.is_quiet()
    }
}

/// What it means that a greeting failed.
pub(crate) fn not_accepted(server: &Server, error: Error) -> Error {
    let address = server.name.clone();
    match error {
        Error::Reply(text) => Error::Refused {
            address,
            reply: text.into(),
        },
        // Whoever hangs up before the first reply accepts no connections.
        Error::Lost { source, .. } => Error::Connect { address, source },
        error => error,
    }
}

/// The end of a connection by the server.
pub(crate) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed it")
}
