//! A blocking client on a raw socket that sends commands and returns every reply unchanged.

use std::fmt;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::command::Command;
use crate::resp::{self, Reply};

/// The time without a reply after which a server is considered hung.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A batch smaller than this number of bytes fits into any socket buffer and is sent in one write.
const SAFE_WRITE: usize = 32 * 1024;

/// The address on which a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A TCP address as `host:port`.
    Tcp(String),
    /// The path of a Unix domain socket.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = std::convert::Infallible;

    /// Parses text with a slash as a path, and any other text as `host:port`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.strip_prefix("redis://").unwrap_or(text);
        if let Some(path) = text.strip_prefix("unix://") {
            return Ok(Address::Unix(path.into()));
        }
        if text.contains('/') {
            return Ok(Address::Unix(text.into()));
        }
        Ok(Address::Tcp(text.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => f.write_str(address),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A connected stream, either TCP or Unix.
#[derive(Debug)]
pub enum Socket {
    /// A TCP connection without Nagle's delay.
    Tcp(TcpStream),
    /// A Unix domain socket.
    Unix(UnixStream),
}

impl Socket {
    /// Connects, with a read timeout of [`PATIENCE`].
    ///
    /// # Errors
    /// Returns the operating system's error, with the address.
    pub fn connect(address: &Address) -> Result<Self> {
        let context = || format!("connecting to {address}");
        let socket = match address {
            Address::Tcp(name) => {
                let stream = TcpStream::connect(name).with_context(context)?;
                stream.set_nodelay(true)?;
                Socket::Tcp(stream)
            }
            Address::Unix(path) => Socket::Unix(UnixStream::connect(path).with_context(context)?),
        };
        socket.set_timeouts(PATIENCE)?;
        Ok(socket)
    }

    /// Sets both the read and the write timeout.
    ///
    /// # Errors
    /// Returns an error if the duration is zero.
    pub fn set_timeouts(&self, limit: Duration) -> io::Result<()> {
        match self {
            Socket::Tcp(s) => {
                s.set_read_timeout(Some(limit))?;
                s.set_write_timeout(Some(limit))
            }
            Socket::Unix(s) => {
                s.set_read_timeout(Some(limit))?;
                s.set_write_timeout(Some(limit))
            }
        }
    }

    /// Returns a second handle for the same connection.
    ///
    /// # Errors
    /// Returns an error if the process has no free file descriptor.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Socket::Tcp(s) => Socket::Tcp(s.try_clone()?),
            Socket::Unix(s) => Socket::Unix(s.try_clone()?),
        })
    }

    /// Closes the sending half of the connection. Receiving remains possible.
    ///
    /// # Errors
    /// Returns an error if the peer has already closed the connection.
    pub fn shutdown_write(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(s) => s.shutdown(Shutdown::Write),
            Socket::Unix(s) => s.shutdown(Shutdown::Write),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(s) => s.read(buffer),
            Socket::Unix(s) => s.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(s) => s.write(bytes),
            Socket::Unix(s) => s.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection that sends commands and reads replies in order.
#[derive(Debug)]
pub struct Client {
    // A client uses only one descriptor, because some tests open thousands of clients.
    socket: BufReader<Socket>,
}

impl Client {
    /// Connects to a server.
    ///
    /// # Errors
    /// Returns the operating system's error, with the address.
    pub fn connect(address: &Address) -> Result<Self> {
        let socket = BufReader::with_capacity(16 * 1024, Socket::connect(address)?);
        Ok(Client { socket })
    }

    /// Sends one command, passed as words, and waits for its reply.
    ///
    /// # Errors
    /// Returns an error if the connection breaks or the reply is not RESP.
    pub fn call<A: AsRef<[u8]>>(&mut self, args: impl IntoIterator<Item = A>) -> io::Result<Reply> {
        self.send(&Command::of(args))?;
        self.receive()
    }

    /// Sends one command without waiting for its reply.
    ///
    /// # Errors
    /// Returns an error if the connection breaks.
    pub fn send(&mut self, command: &Command) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(command.size() + 64);
        resp::write_command(&mut bytes, &command.0)?;
        self.socket.get_mut().write_all(&bytes)
    }

    /// Sends bytes unchanged.
    ///
    /// # Errors
    /// Returns an error if the connection breaks.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.get_mut().write_all(bytes)
    }

    /// Waits for one reply.
    ///
    /// # Errors
    /// Returns an error if the connection breaks or the reply is not RESP.
    pub fn receive(&mut self) -> io::Result<Reply> {
        resp::read_reply(&mut self.socket)
    }

    /// Sends all commands in one batch and reads one reply for each.
    ///
    /// A second thread writes large batches while this thread reads. Otherwise a server that stops
    /// reading until its replies are read causes a deadlock.
    ///
    /// # Errors
    /// Returns an error if the connection breaks or a reply is not RESP. The replies before the
    /// error are then lost.
    pub fn pipeline(&mut self, commands: &[Command]) -> io::Result<Vec<Reply>> {
        let mut bytes = Vec::new();
        for command in commands {
            resp::write_command(&mut bytes, &command.0)?;
        }
        if bytes.len() <= SAFE_WRITE {
            self.socket.get_mut().write_all(&bytes)?;
            return self.receive_many(commands.len());
        }
        let mut writer = self.socket.get_ref().try_clone()?;
        std::thread::scope(|scope| {
            let sending = scope.spawn(move || writer.write_all(&bytes));
            let replies = self.receive_many(commands.len());
            let sent = sending
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the sending thread panicked")));
            // Return the read error first, because it explains more than the broken pipe that it
            // causes.
            let replies = replies?;
            sent?;
            Ok(replies)
        })
    }

    fn receive_many(&mut self, count: usize) -> io::Result<Vec<Reply>> {
        (0..count).map(|_| self.receive()).collect()
    }
}
