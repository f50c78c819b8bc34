//! Implements a connection with blocking calls.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use undercroft_resp::{Value, encode};

use crate::address::{Place, Server, Tls};
use crate::command::{Reply, from_value, outcome};
use crate::error::{Error, Result};
use crate::remote::both::{closed, is_quiet, not_accepted};
use crate::remote::input::Input;

/// The maximum number of bytes in one write. The kernel splits larger writes to a Unix socket and
/// restarts the time limit for each part.
const PIECE: usize = 32 << 10;

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    #[cfg(feature = "tls")]
    Tls(Box<rustls::StreamOwned<rustls::ClientConnection, TcpStream>>),
}

/// A connection whose handshake is complete.
pub(crate) struct Connection {
    socket: Socket,
    input: Input,
    output: Vec<u8>,
    name: Arc<str>,
    /// The read and write timeout that was last set on the socket.
    limit: Duration,
}

impl Connection {
    /// Connects and completes the handshake before `until`.
    pub(crate) fn open(server: &Server, until: Instant) -> Result<Connection> {
        let connecting = |error| Error::connecting(&server.name, error);
        let mut connection = Connection {
            socket: Socket::connect(&server.place, until).map_err(connecting)?,
            input: Input::new(),
            output: Vec::new(),
            name: server.name.clone(),
            limit: Duration::ZERO,
        };
        for command in server.greeting() {
            let command: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            let answered = connection.call(&command, until);
            answered.map_err(|error| not_accepted(server, error))?;
        }
        Ok(connection)
    }

    /// Sends a command and waits for its reply before `until`. After any error other than an error
    /// reply, the connection must not be used again.
    pub(crate) fn call(&mut self, words: &[&[u8]], until: Instant) -> Result<Reply> {
        self.send(words, until)?;
        loop {
            match self.receive(until)? {
                Value::Push(_) => {}
                value => return outcome(from_value(value)),
            }
        }
    }

    /// Sends commands together, and waits for all replies before `until`. After an error of the call
    /// itself, the connection must not be used again.
    pub(crate) fn call_all(
        &mut self,
        commands: &[Vec<&[u8]>],
        until: Instant,
    ) -> Result<Vec<Result<Reply>>> {
        self.output.clear();
        for words in commands {
            encode::command(&mut self.output, words);
        }
        self.write(until)?;
        let mut replies = Vec::with_capacity(commands.len());
        while replies.len() < commands.len() {
            match self.receive(until)? {
                Value::Push(_) => {}
                value => replies.push(outcome(from_value(value))),
            }
        }
        Ok(replies)
    }

    /// Sends a command, or fails at `until`.
    pub(crate) fn send(&mut self, words: &[&[u8]], until: Instant) -> Result<()> {
        self.output.clear();
        encode::command(&mut self.output, words);
        self.write(until)
    }

    /// Returns the next reply or push message. If nothing arrives before `until`, the call fails
    /// with an error for which [`is_late`] returns true, and the call may be repeated.
    pub(crate) fn receive(&mut self, until: Instant) -> Result<Value> {
        loop {
            match self.input.next() {
                Ok(Some(value)) => return Ok(value),
                Err(error) => return Err(Error::garbage(&self.name, error)),
                Ok(None) => {
                    self.limit(until)?;
                    match self.input.fill(&mut self.socket) {
                        Ok(0) => return Err(Error::lost(&self.name, closed())),
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(Error::lost(&self.name, error)),
                    }
                }
            }
        }
    }

    /// Writes all output. The deadline covers all pieces together, so that a slow server does not
    /// get a new time limit for each piece.
    fn write(&mut self, until: Instant) -> Result<()> {
        let mut written = 0;
        while written < self.output.len() {
            self.limit(until)?;
            let lost = |error| Error::lost(&self.name, error);
            let end = self.output.len().min(written + PIECE);
            match self.socket.write(&self.output[written..end]) {
                Ok(0) => return Err(lost(io::ErrorKind::WriteZero.into())),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(error)),
            }
        }
        self.limit(until)?;
        let flushed = self.socket.flush();
        flushed.map_err(|error| Error::lost(&self.name, error))
    }

    /// Sets the time limit for the next read or write. If the previous limit is within 10 % of the
    /// new limit, it is left unchanged, which saves a system call.
    fn limit(&mut self, until: Instant) -> Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        let lost = |error| Error::lost(&self.name, error);
        if left.is_zero() {
            return Err(lost(io::ErrorKind::TimedOut.into()));
        }
        if left < self.limit.mul_f64(0.9) || left > self.limit.mul_f64(1.1) {
            self.socket.limit(left).map_err(lost)?;
            self.limit = left;
        }
        Ok(())
    }

    /// Returns whether the connection is open and the server has sent no unsolicited data.
    pub(crate) fn is_usable(&self) -> bool {
        match &self.socket {
            Socket::Tcp(stream) => is_quiet(stream.as_fd(), true),
            Socket::Unix(stream) => is_quiet(stream.as_fd(), true),
            #[cfg(feature = "tls")]
            Socket::Tls(stream) => is_quiet(stream.sock.as_fd(), false),
        }
    }
}

/// Returns whether an error is a timeout rather than the end of the connection.
pub(crate) fn is_late(error: &Error) -> bool {
    let Error::Lost { source, .. } = error else {
        return false;
    };
    matches!(
        source.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
    )
}

impl Socket {
    fn connect(place: &Place, until: Instant) -> io::Result<Socket> {
        let (host, port, tls) = match place {
            Place::Unix(path) => return Ok(Socket::Unix(connect_unix(path, until)?)),
            Place::Tcp { host, port, tls } => (host, *port, tls),
        };
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in (host.as_str(), port).to_socket_addrs()? {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match TcpStream::connect_timeout(&address, left) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return match tls {
                        None => Ok(Socket::Tcp(stream)),
                        Some(tls) => Socket::encrypt(host, tls, stream, left),
                    };
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    #[cfg(feature = "tls")]
    fn encrypt(host: &str, tls: &Tls, stream: TcpStream, left: Duration) -> io::Result<Socket> {
        stream.set_read_timeout(Some(left))?;
        stream.set_write_timeout(Some(left))?;
        let authorities = tls.authorities.as_deref();
        let stream = super::tls::connect_blocking(host, authorities, stream)?;
        Ok(Socket::Tls(Box::new(stream)))
    }

    #[cfg(not(feature = "tls"))]
    fn encrypt(_: &str, _: &Tls, _: TcpStream, _: Duration) -> io::Result<Socket> {
        Err(super::both::no_encryption())
    }

    fn limit(&self, limit: Duration) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => {
                stream.set_read_timeout(Some(limit))?;
                stream.set_write_timeout(Some(limit))
            }
            Socket::Unix(stream) => {
                stream.set_read_timeout(Some(limit))?;
                stream.set_write_timeout(Some(limit))
            }
            #[cfg(feature = "tls")]
            Socket::Tls(stream) => {
                stream.sock.set_read_timeout(Some(limit))?;
                stream.sock.set_write_timeout(Some(limit))
            }
        }
    }
}

/// Connects to a Unix socket before `until`. If the server does not accept connections, the call
/// blocks until the socket's write timeout expires.
fn connect_unix(path: &Path, until: Instant) -> io::Result<UnixStream> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(left))?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => Ok(UnixStream::from(socket)),
        Err(Errno::AGAIN) => Err(io::ErrorKind::TimedOut.into()),
        Err(error) => Err(error.into()),
    }
}

impl Read for Socket {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(room),
            Socket::Unix(stream) => stream.read(room),
            #[cfg(feature = "tls")]
            Socket::Tls(stream) => stream.read(room),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
            #[cfg(feature = "tls")]
            Socket::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.flush(),
            Socket::Unix(stream) => stream.flush(),
            #[cfg(feature = "tls")]
            Socket::Tls(stream) => stream.flush(),
        }
    }
}
