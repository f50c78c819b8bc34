//! Byte strings to send, and functions that read the server's answers to them.

use std::io::{self, Read, Write};

use anyhow::Result;

use crate::client::{Address, Socket};
use crate::command::quote;

/// All bytes that a server sends in answer to an input until it closes the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    /// The bytes received.
    pub(super) bytes: Vec<u8>,
    /// Whether the connection was reset. In this case the server closed it without reading all
    /// input, and the system may have discarded the end of the answer.
    pub(super) reset: bool,
}

impl Answer {
    /// Returns the answer as text, truncated to a readable length.
    pub(super) fn show(&self) -> String {
        let head = &self.bytes[..self.bytes.len().min(300)];
        let reset = if self.reset { " and a reset" } else { "" };
        format!("{}{reset} ({} bytes)", quote(head, true), self.bytes.len())
    }

    /// Returns whether the answer ends with a protocol error.
    pub(super) fn tells_protocol_error(&self) -> bool {
        let text = self.bytes.windows(20).rev().take(300);
        text.into_iter()
            .any(|w| w.starts_with(b"-ERR Protocol error"))
    }
}

/// Sends each piece in a separate write, closes the sending half, and reads until the server closes
/// the connection. The answer is therefore complete, and no timeout is needed.
///
/// # Errors
/// Returns an error if the server neither answers nor closes the connection.
pub(super) fn exchange(address: &Address, pieces: &[&[u8]]) -> Result<Answer> {
    let mut socket = Socket::connect(address)?;
    let mut reader = socket.try_clone()?;
    let mut answer = Answer {
        bytes: Vec::new(),
        reset: false,
    };
    let sent = pieces.iter().try_for_each(|piece| socket.write_all(piece));
    let sent = sent.and_then(|()| socket.shutdown_write());
    if let Err(error) = sent {
        // Continue if the server has closed the connection, because its answer shows why.
        if !is_closed(&error) {
            return Err(error.into());
        }
        answer.reset = true;
    }
    match reader.read_to_end(&mut answer.bytes) {
        Ok(_) => {}
        Err(error) if is_closed(&error) => answer.reset = true,
        Err(error) => return Err(error.into()),
    }
    mask_connection_id(&mut answer.bytes);
    Ok(answer)
}

/// Masks the connection id, which differs between servers, in the reply to HELLO.
fn mask_connection_id(bytes: &mut Vec<u8>) {
    const LABEL: &[u8] = b"$2\r\nid\r\n:";
    let mut from = 0;
    while let Some(found) = bytes[from..].windows(LABEL.len()).position(|w| w == LABEL) {
        let start = from + found + LABEL.len();
        let digits = bytes[start..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        bytes.drain(start..start + digits);
        from = start;
    }
}

/// Returns whether the error means that the peer has closed the connection.
pub(super) fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NotConnected
            | io::ErrorKind::UnexpectedEof
    )
}

/// Returns well-formed input with commands in every form. The answer does not depend on time or on
/// earlier data.
pub(super) fn well_formed() -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(b"*1\r\n$4\r\nPING\r\n");
    bytes.extend(b"PING inline\r\n");
    bytes.extend(b"*3\r\n$3\r\nSET\r\n$9\r\ntorture:k\r\n$6\r\na\r\nb\x00c\r\n");
    bytes.extend(b"*2\r\n$3\r\nGET\r\n$9\r\ntorture:k\r\n");
    bytes.extend(b"  SET   torture:k  \"two \\x41\\n words\"  \r\n");
    bytes.extend(b"GET torture:k\n");
    bytes.extend(b"\r\n\r\n*0\r\n*-1\r\n");
    bytes.extend(b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n");
    bytes.extend(b"ECHO 'it\\'s'\r\n");
    bytes.extend(b"*2\r\n$6\r\nNOSUCH\r\n$1\r\nx\r\n");
    bytes.extend(b"*1\r\n$3\r\nGET\r\n");
    bytes.extend(b"*2\r\n$5\r\nHELLO\r\n$1\r\nx\r\n");
    bytes.extend(b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\nGET missing\r\n");
    bytes.extend(b"*2\r\n$3\r\nDEL\r\n$9\r\ntorture:k\r\n");
    bytes
}

/// Returns named malformed inputs, whose answers depend only on the bytes.
pub(super) fn malformed() -> Vec<(&'static str, Vec<u8>)> {
    let plain: [(&'static str, &[u8]); 46] = [
        ("nothing", b""),
        ("a line end", b"\r\n"),
        ("spaces", b"     \r\nPING\r\n"),
        ("a word without its line end", b"PING"),
        ("a count without its line end", b"*1"),
        ("a count with a bare LF", b"*1\n$4\nPING\n"),
        ("a count with a bare CR", b"*1\r$4\rPING\r"),
        ("no count", b"*\r\n"),
        ("a count that is a word", b"*abc\r\nPING\r\n"),
        ("a count with a tail", b"*1x\r\n$4\r\nPING\r\n"),
        ("a count with a space", b"* 1\r\n$4\r\nPING\r\n"),
        ("a count with a plus", b"*+1\r\n$4\r\nPING\r\n"),
        ("a count with a leading zero", b"*01\r\n$4\r\nPING\r\n"),
        ("a count of zero", b"*0\r\nPING\r\n"),
        ("a negative count", b"*-5\r\nPING\r\n"),
        ("the largest refused count", b"*2147483648\r\n"),
        (
            "a count of a million and more",
            b"*1048577\r\n$4\r\nPING\r\n",
        ),
        ("a huge count", b"*9223372036854775807\r\n"),
        ("a count beyond 64 bits", b"*99999999999999999999\r\n"),
        ("a large count, then the end", b"*1048576\r\n$4\r\nPING\r\n"),
        ("a plus for a dollar", b"*1\r\n+4\r\nPING\r\n"),
        ("a colon for a dollar", b"*2\r\n$4\r\nECHO\r\n:1\r\n"),
        ("a star for a dollar", b"*2\r\n$4\r\nECHO\r\n*1\r\n"),
        ("a NUL for a dollar", b"*1\r\n\x004\r\nPING\r\n"),
        ("no length", b"*1\r\n$\r\nPING\r\n"),
        ("a negative length", b"*1\r\n$-1\r\n"),
        ("a length that is a word", b"*1\r\n$x\r\nPING\r\n"),
        ("a length with a tail", b"*1\r\n$4x\r\nPING\r\n"),
        ("a length with a leading zero", b"*1\r\n$04\r\nPING\r\n"),
        ("a length with a plus", b"*1\r\n$+4\r\nPING\r\n"),
        ("a length above the limit", b"*1\r\n$536870913\r\n"),
        ("a huge length", b"*1\r\n$9223372036854775807\r\n"),
        (
            "a length beyond 64 bits",
            b"*1\r\n$18446744073709551620\r\nPING\r\n",
        ),
        ("a length below 64 bits", b"*1\r\n$-9223372036854775809\r\n"),
        ("a length too short", b"*2\r\n$4\r\nECHO\r\n$2\r\nabcd\r\n"),
        ("a length too long", b"*1\r\n$5\r\nPING\r\n"),
        ("a body cut short", b"*2\r\n$4\r\nECHO\r\n$10\r\nabc"),
        ("a body without its line end", b"*1\r\n$4\r\nPING"),
        (
            "good, then bad",
            b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n*x\r\nPING\r\n",
        ),
        ("an unbalanced double quote", b"ECHO \"a\r\nPING\r\n"),
        ("an unbalanced single quote", b"PING\r\nECHO 'a\r\n"),
        ("a tail after the quote", b"ECHO \"a\"b\r\n"),
        ("a reply for a command", b"+OK\r\n-ERR x\r\n:1\r\n"),
        ("a bulk string for a command", b"$4\r\nPING\r\n"),
        (
            // Not TLS, to which the server replies with an alert (`conformance/tests/tls`).
            "another protocol",
            b"\x03\x00\x00\x0b\x06\xe0\x00\x00\x00\x00\x00\r\n",
        ),
        (
            "an empty command name",
            b"*1\r\n$0\r\n\r\n*2\r\n$0\r\n\r\n$1\r\na\r\n",
        ),
    ];
    let mut all: Vec<(&'static str, Vec<u8>)> = plain
        .into_iter()
        .map(|(name, bytes)| (name, bytes.to_vec()))
        .collect();
    let endless = vec![b'1'; 70_000];
    all.push(("an endless inline command", vec![b'a'; 70_000]));
    all.push(("an endless count", [b"*", endless.as_slice()].concat()));
    all.push((
        "an endless length",
        [b"*1\r\n$", endless.as_slice()].concat(),
    ));
    all.push((
        "a long inline command",
        [b"ECHO ", vec![b'a'; 60_000].as_slice(), b"\r\n"].concat(),
    ));
    let words = "a ".repeat(20_000);
    all.push((
        "an inline command of many words",
        [b"NOSUCH ", words.as_bytes(), b"\r\n"].concat(),
    ));
    all
}
