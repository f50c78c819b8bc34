//! The connection to a source with its buffer, and the commands that begin the replication.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use undercroft_resp::encode;

use crate::follow::error::FollowError;
use crate::follow::source_url::{Address, SourceUrl};
use crate::follow::stream::{Encryption, Stream};

/// The interval at which a waiting follower looks for requests to stop.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// The maximum time without a byte from the source, as Redis' `repl-timeout`.
pub(super) const SILENCE: Duration = Duration::from_secs(60);
/// The maximum length of a line, which no reply of a source comes close to.
const LINE_MAX: usize = 64 << 10;
/// The number of bytes requested from the connection at once.
const CHUNK: usize = 256 << 10;

/// A connection to a source.
pub(super) struct Link<'a> {
    stream: Stream,
    /// The bytes that have arrived and were not consumed.
    pub(super) input: Vec<u8>,
    /// When the last byte arrived.
    heard: Instant,
    /// Returns whether the work must end.
    stops: &'a dyn Fn() -> bool,
}

impl<'a> Link<'a> {
    /// Connects to the source of a URL, or to a Sentinel or another node, with the URL's encryption.
    pub(super) fn connect(
        address: &Address,
        url: &SourceUrl,
        stops: &'a dyn Fn() -> bool,
    ) -> Result<Link<'a>, FollowError> {
        let encryption = match url.is_encrypted {
            true => Encryption::Files(&url.tls),
            false => Encryption::None,
        };
        let stream = Stream::connect(address, encryption)?;
        stream.set_timeout(LOOK)?;
        Ok(Link {
            stream,
            input: Vec::new(),
            heard: Instant::now(),
            stops,
        })
    }

    /// Logs in, if the URL has a password.
    pub(super) fn log_in(&mut self, url: &SourceUrl) -> Result<(), FollowError> {
        match (url.user.as_bytes(), url.password.as_bytes()) {
            (_, b"") => Ok(()),
            (b"", password) => self.expect_ok(&[b"AUTH", password]),
            (user, password) => self.expect_ok(&[b"AUTH", user, password]),
        }
    }

    /// Sends a command.
    pub(super) fn send(&mut self, words: &[&[u8]]) -> Result<(), FollowError> {
        let mut bytes = Vec::new();
        encode::command(&mut bytes, words);
        let mut left = &bytes[..];
        let start = Instant::now();
        while !left.is_empty() {
            match self.stream.write(left) {
                Ok(0) => return Err(io::Error::from(ErrorKind::WriteZero).into()),
                Ok(written) => left = &left[written..],
                Err(error) if is_timeout(&error) && start.elapsed() < SILENCE => {
                    if (self.stops)() {
                        return Err(FollowError::Stopped);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.stream.flush()?)
    }

    /// Sends a command, and returns the line with its reply, including the type byte.
    pub(super) fn ask(&mut self, words: &[&[u8]]) -> Result<String, FollowError> {
        self.send(words)?;
        self.line()
    }

    /// Sends a command that must not fail.
    pub(super) fn expect_ok(&mut self, words: &[&[u8]]) -> Result<(), FollowError> {
        let line = self.ask(words)?;
        match line.strip_prefix('-') {
            Some(error) => Err(FollowError::Refused(error.to_owned())),
            None => Ok(()),
        }
    }

    /// Reads the next line that is not empty. A source sends empty lines while it prepares a data
    /// set.
    pub(super) fn line(&mut self) -> Result<String, FollowError> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.input[searched..]
                .iter()
                .position(|&byte| byte == b'\n')
            {
                let end = searched + end;
                let line = self.input[..end]
                    .strip_suffix(b"\r")
                    .unwrap_or(&self.input[..end]);
                let line = String::from_utf8_lossy(line).into_owned();
                self.input.drain(..=end);
                searched = 0;
                if !line.is_empty() {
                    return Ok(line);
                }
                continue;
            }
            searched = self.input.len();
            if searched > LINE_MAX {
                return Err(FollowError::Protocol(format!(
                    "expected a line, got {searched} bytes without an end of line"
                )));
            }
            while !self.receive()? {}
        }
    }

    /// Reads bytes that have arrived into the buffer. Returns whether there were any. Waits at most
    /// for [`LOOK`].
    pub(super) fn receive(&mut self) -> Result<bool, FollowError> {
        if (self.stops)() {
            return Err(FollowError::Stopped);
        }
        let start = self.input.len();
        self.input.resize(start + CHUNK, 0);
        let read = self.stream.read(&mut self.input[start..]);
        self.input.truncate(start + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
            Ok(_) => {
                self.heard = Instant::now();
                Ok(true)
            }
            Err(error) if is_timeout(&error) => match self.heard.elapsed() < SILENCE {
                true => Ok(false),
                false => Err(silent().into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Reads bytes into another buffer: first those that have already arrived. Returns 0 only at the
    /// end of the connection.
    pub(super) fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.input.is_empty() {
            let some = self.input.len().min(buffer.len());
            buffer[..some].copy_from_slice(&self.input[..some]);
            self.input.drain(..some);
            return Ok(some);
        }
        loop {
            if (self.stops)() {
                return Err(io::Error::other("interrupted"));
            }
            match self.stream.read(buffer) {
                Err(error) if is_timeout(&error) && self.heard.elapsed() >= SILENCE => {
                    return Err(silent());
                }
                Err(error) if is_timeout(&error) => {}
                read => {
                    self.heard = Instant::now();
                    return read;
                }
            }
        }
    }

    /// Puts bytes that were read in front of those that have arrived.
    pub(super) fn put_back(&mut self, bytes: &[u8]) {
        self.input.splice(..0, bytes.iter().copied());
    }

    /// Returns when the last byte arrived.
    pub(super) fn heard(&self) -> Instant {
        self.heard
    }

    /// Returns whether the work must end.
    pub(super) fn must_stop(&self) -> bool {
        (self.stops)()
    }
}

impl Drop for Link<'_> {
    fn drop(&mut self) {
        self.stream.close();
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

fn silent() -> io::Error {
    let text = format!("no byte for {} seconds", SILENCE.as_secs());
    io::Error::new(ErrorKind::TimedOut, text)
}
