//! Implements a connection that one caller at a time uses exclusively.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use undercroft_resp::{Value, encode};

use crate::address::Server;
use crate::command::{Reply, from_value, outcome};
use crate::error::{Error, Result};
use crate::remote::both::{closed, not_accepted};
use crate::remote::input::Input;
use crate::remote::socket::Socket;

/// A connection whose handshake is complete.
pub(crate) struct Connection {
    pub(crate) socket: Socket,
    pub(crate) input: Input,
    output: Vec<u8>,
    name: Arc<str>,
    /// Whether every request has been answered.
    is_idle: bool,
}

impl Connection {
    /// Connects and completes the handshake within a time limit.
    pub(crate) async fn open(server: &Server, within: Duration) -> Result<Connection> {
        match timeout(within, Connection::introduced(server)).await {
            Ok(opened) => opened,
            Err(_) => {
                let text = format!("no reply within {within:?}");
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
        self.write().await
    }

    /// Writes the output. An encrypted socket buffers bytes until it is flushed, if the socket
    /// accepts no more, or if the task has made all operations that the runtime lets it make in a turn.
    async fn write(&mut self) -> Result<()> {
        let sent = match self.socket.write_all(&self.output).await {
            Ok(()) => self.socket.flush().await,
            failed => failed,
        };
        sent.map_err(|error| Error::lost(&self.name, error))
    }

    /// Returns the next reply or push message.
    pub(crate) async fn receive(&mut self) -> Result<Value> {
        loop {
            match self.received()? {
                Some(value) => return Ok(value),
                None => self.fill().await?,
            }
        }
    }

    /// Returns the next reply or push message if it has arrived completely.
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

    /// Sends a command and waits for its reply. If the call is cancelled, the connection is no
    /// longer idle.
    pub(crate) async fn call(&mut self, words: &[&[u8]]) -> Result<Reply> {
        self.send(words).await?;
        self.answer().await
    }

    /// Sends commands together and waits for all replies. If the call is cancelled, the connection is
    /// no longer idle.
    pub(crate) async fn call_all(&mut self, commands: &[Vec<&[u8]>]) -> Result<Vec<Result<Reply>>> {
        self.is_idle = false;
        self.output.clear();
        for words in commands {
            encode::command(&mut self.output, words);
        }
        self.write().await?;
        let mut replies = Vec::with_capacity(commands.len());
        while replies.len() < commands.len() {
            match self.receive().await? {
                Value::Push(_) => {}
                value => replies.push(outcome(from_value(value))),
            }
        }
        self.is_idle = true;
        Ok(replies)
    }

    /// Waits for the reply to the command that was sent last.
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

    /// Returns whether every request has been answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Returns whether the next call can use the connection: no reply is pending, and the server
    /// has not closed the connection.
    pub(crate) fn is_usable(&self) -> bool {
        self.is_idle && self.socket.is_quiet()
    }
}
