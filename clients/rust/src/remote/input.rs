//! Parses replies in the receive buffer of a connection.

use std::io::{self, Read};
#[cfg(feature = "async")]
use std::pin::Pin;
#[cfg(feature = "async")]
use std::task::{Context, Poll, ready};

#[cfg(feature = "async")]
use tokio::io::{AsyncRead, ReadBuf};
use undercroft_resp::{ReplyError, ReplyReader, Value};

#[cfg(feature = "async")]
use crate::remote::socket::Socket;

/// The initial size of the buffer in bytes.
const ROOM: usize = 16 << 10;
/// The maximum free space in bytes that is reserved for one read when a lot of data arrives.
const ROOM_MAX: usize = 256 << 10;
/// The size in bytes up to which a buffer is reused after its replies were parsed. Larger buffers
/// are freed.
const KEPT: usize = 1 << 20;

/// The start of a message, after the byte that marks an array or a push.
#[cfg(feature = "async")]
const MESSAGE: &[u8] = b"3\r\n$7\r\nmessage\r\n";

/// Parses a bulk string whose length has at most four digits. Returns `None` unless the string has
/// arrived completely.
#[inline]
#[cfg(feature = "async")]
fn short_string<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut rest = input.strip_prefix(b"$")?;
    let mut length = 0;
    for digits in 0.. {
        let (&byte, behind) = rest.split_first()?;
        rest = behind;
        match byte {
            // A valid length has no leading zeros.
            b'0'..=b'9' if digits == 0 || (digits < 4 && length > 0) => {
                length = length * 10 + usize::from(byte - b'0');
            }
            b'\r' if digits > 0 => break,
            _ => return None,
        }
    }
    let rest = rest.strip_prefix(b"\n")?;
    let (string, rest) = rest.split_at_checked(length)?;
    *input = rest.strip_prefix(b"\r\n")?;
    Some(string)
}

/// A receive buffer, with the parser for the replies in it.
pub(crate) struct Input {
    bytes: Vec<u8>,
    /// The start of the received bytes that have not been parsed yet, which end at `end`.
    start: usize,
    end: usize,
    reader: ReplyReader,
    /// Whether the last read filled the available space.
    was_full: bool,
}

impl Input {
    pub(crate) fn new() -> Input {
        Input {
            bytes: vec![0; ROOM],
            start: 0,
            end: 0,
            reader: ReplyReader::default(),
            was_full: false,
        }
    }

    /// Returns the next reply if it has arrived completely.
    pub(crate) fn next(&mut self) -> Result<Option<Value>, ReplyError> {
        let mut rest = &self.bytes[self.start..self.end];
        let value = self.reader.read(&mut rest);
        self.start = self.end - rest.len();
        value
    }

    /// Returns the channel and the payload of the next message if it has arrived completely and
    /// uses the usual encoding. All other input must be read with [`next`](Self::next).
    #[cfg(feature = "async")]
    #[inline]
    pub(crate) fn next_message(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        if self.reader.has_begun() {
            return None;
        }
        let whole = &self.bytes[self.start..self.end];
        let (kind, rest) = whole.split_first()?;
        let mut rest = rest
            .strip_prefix(MESSAGE)
            .filter(|_| b"*>".contains(kind))?;
        let (channel, text) = (short_string(&mut rest)?, short_string(&mut rest)?);
        let message = (channel.to_vec(), text.to_vec());
        self.start = self.end - rest.len();
        Some(message)
    }

    /// Returns the number of bytes that have arrived but have not been parsed yet.
    #[cfg(feature = "async")]
    pub(crate) fn unread(&self) -> usize {
        self.end - self.start
    }

    /// Reads the available bytes once. A count of zero means the end of the stream.
    #[cfg(feature = "async")]
    pub(crate) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut (impl AsyncRead + Unpin),
    ) -> Poll<io::Result<usize>> {
        self.make_room();
        let mut room = ReadBuf::new(&mut self.bytes[self.end..]);
        ready!(Pin::new(socket).poll_read(cx, &mut room))?;
        let count = room.filled().len();
        self.filled(count);
        Poll::Ready(Ok(count))
    }

    /// Reads the available bytes with a system call, bypassing the runtime. Returns `None` if
    /// nothing has arrived.
    #[cfg(feature = "async")]
    pub(crate) fn fill_now(&mut self, socket: &Socket) -> Option<io::Result<usize>> {
        self.make_room();
        let count = socket.receive_now(&mut self.bytes[self.end..])?;
        if let Ok(count) = count {
            self.filled(count);
        }
        Some(count)
    }

    /// Reads the available bytes once, waiting for the first. A count of zero means the end of the
    /// stream.
    pub(crate) fn fill(&mut self, socket: &mut impl Read) -> io::Result<usize> {
        self.make_room();
        let count = socket.read(&mut self.bytes[self.end..])?;
        self.filled(count);
        Ok(count)
    }

    fn filled(&mut self, count: usize) {
        self.end += count;
        self.was_full = self.end == self.bytes.len();
    }

    /// Makes space after the unparsed bytes. Removes parsed bytes first, and then enlarges the
    /// buffer in proportion to the data that arrives.
    fn make_room(&mut self) {
        let is_small = self.was_full && self.bytes.len() < ROOM_MAX;
        let left = self.end - self.start;
        if left == 0 {
            (self.start, self.end) = (0, 0);
            if self.bytes.len() > KEPT {
                self.bytes = vec![0; ROOM];
                return;
            }
        } else {
            let wanted = self.reader.wanted().min(ROOM / 2);
            if self.bytes.len() - self.end >= wanted {
                return;
            }
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, left);
        }
        if is_small || left >= self.bytes.len() / 2 {
            self.bytes.resize(self.bytes.len() * 2, 0);
        }
        self.was_full = false;
    }
}

#[cfg(all(test, feature = "async"))]
mod tests {
    use super::*;

    /// A source whose reads return pieces of varying lengths.
    struct Pieces<'a>(&'a [u8], usize);

    impl AsyncRead for Pieces<'_> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            room: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.1 = self.1 % 7_001 + 1_777;
            let count = self.1.min(room.remaining()).min(self.0.len());
            let (piece, rest) = self.0.split_at(count);
            room.put_slice(piece);
            self.0 = rest;
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn replies_of_all_lengths_are_read_and_large_buffers_are_freed() {
        let lengths = [0, 1, 5_000, 16_384, 40_000, 3_000_000, 7, 1_000_000, 0];
        let mut sent = Vec::new();
        for length in lengths {
            undercroft_resp::encode::bulk(&mut sent, &vec![b'x'; length]);
        }
        let (mut input, mut pieces) = (Input::new(), Pieces(&sent, 0));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut found = Vec::new();
        while let Poll::Ready(Ok(1..)) = input.poll_fill(&mut cx, &mut pieces) {
            while let Some(value) = input.next().expect("replies") {
                let Value::Bulk(bytes) = value else {
                    panic!("{value:?}")
                };
                found.push(bytes.len());
            }
        }
        assert_eq!(found, lengths);
        input.make_room();
        assert!(input.bytes.len() <= KEPT);
    }

    #[test]
    fn the_fast_path_for_messages_agrees_with_the_reader() {
        let long = format!(
            "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$12345\r\n{}\r\n",
            "x".repeat(12_345)
        );
        let sent = [
            "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$0\r\n\r\n",
            ">3\r\n$7\r\nmessage\r\n$0\r\n\r\n$12\r\n$1\r\nx\r\n+OK\r\n\r\n",
            "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$1\r\nx\r\n",
            &long,
            "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n:1\r\n",
            "*3\r\n$7\r\nmessage\r\n$10\r\n0123456789\r\n$1000\r\n",
            &"y".repeat(1000),
            "\r\n+PONG\r\n",
        ];
        let sent = sent.concat().into_bytes();
        let bulk = |value: &Value| match value {
            Value::Bulk(bytes) => bytes.clone(),
            other => format!("{other:?}").into_bytes(),
        };
        // The parser alone and the parser with the fast path must return the same values, wherever
        // the pieces end.
        let read = |takes: bool, most: usize| {
            let (mut input, mut found, mut taken) = (Input::new(), Vec::new(), 0);
            let mut cx = Context::from_waker(std::task::Waker::noop());
            for piece in sent.chunks(most) {
                let mut piece = Pieces(piece, 0);
                while let Poll::Ready(Ok(1..)) = input.poll_fill(&mut cx, &mut piece) {
                    loop {
                        if takes && let Some((channel, text)) = input.next_message() {
                            found.push(vec![b"message".to_vec(), channel, text]);
                            taken += 1;
                            continue;
                        }
                        match input.next().expect("replies") {
                            None => break,
                            Some(Value::Array(parts) | Value::Push(parts)) => {
                                found.push(parts.iter().map(bulk).collect());
                            }
                            Some(other) => found.push(vec![bulk(&other)]),
                        }
                    }
                }
            }
            (found, taken)
        };
        let (expected, _) = read(false, sent.len());
        assert_eq!(expected.len(), 7);
        for most in [1, 2, 3, 7, 50, 101, sent.len()] {
            let (found, taken) = read(true, most);
            assert!(found == expected, "{most}");
            assert!(most < sent.len() || taken == 3, "{taken}");
        }
    }
}
