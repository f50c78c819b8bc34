//! Protocol errors, after which a server closes the connection.

use std::fmt;

/// A protocol violation. The server replies with [`ProtocolError::reply`] and closes the
/// connection.
///
/// The error texts are identical to those of Redis 7.0, because client libraries and their tests
/// depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The count after `*` is not an integer, or exceeds the limit.
    InvalidMultibulkLength,
    /// No line end follows within 64 KiB of `*`.
    TooBigMultibulkCount,
    /// No line end follows within 64 KiB of the expected `$`.
    TooBigBulkCount,
    /// A line that must start with `$` starts with this byte instead.
    ExpectedDollar(u8),
    /// The length after `$` is not an integer, is negative, or exceeds the limit.
    InvalidBulkLength,
    /// An inline command contains no line end within 64 KiB.
    TooBigInlineRequest,
    /// A quote in an inline command is not closed, or other text directly follows the closing
    /// quote.
    UnbalancedQuotes,
    /// A client sent more than 10 arguments before authentication.
    UnauthenticatedMultibulkLength,
    /// A client sent an argument of more than 16 KiB before authentication.
    UnauthenticatedBulkLength,
}

impl ProtocolError {
    /// Appends the error reply, `-ERR Protocol error: ...\r\n`.
    pub fn reply(&self, out: &mut Vec<u8>) {
        let mut text = b"ERR Protocol error: ".to_vec();
        match self {
            // The byte is repeated as received and need not be valid UTF-8.
            Self::ExpectedDollar(byte) => {
                text.extend_from_slice(b"expected '$', got '");
                text.push(*byte);
                text.push(b'\'');
            }
            other => text.extend_from_slice(other.text().as_bytes()),
        }
        crate::encode::error(out, &text);
    }

    fn text(&self) -> &'static str {
        match self {
            Self::InvalidMultibulkLength => "invalid multibulk length",
            Self::TooBigMultibulkCount => "too big mbulk count string",
            Self::TooBigBulkCount => "too big bulk count string",
            Self::ExpectedDollar(_) => "expected '$'",
            Self::InvalidBulkLength => "invalid bulk length",
            Self::TooBigInlineRequest => "too big inline request",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
            Self::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            Self::UnauthenticatedBulkLength => "unauthenticated bulk length",
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Protocol error: {}", self.text())?;
        if let Self::ExpectedDollar(byte) = self {
            write!(f, ", got '{}'", byte.escape_ascii())?;
        }
        Ok(())
    }
}

impl std::error::Error for ProtocolError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_reply_repeats_the_received_byte() {
        for (byte, reply) in [
            (b'x', &b"-ERR Protocol error: expected '$', got 'x'\r\n"[..]),
            (b'\n', b"-ERR Protocol error: expected '$', got ' '\r\n"),
            (0xff, b"-ERR Protocol error: expected '$', got '\xff'\r\n"),
        ] {
            let mut out = Vec::new();
            ProtocolError::ExpectedDollar(byte).reply(&mut out);
            assert_eq!(out, reply);
        }
        assert_eq!(
            ProtocolError::ExpectedDollar(0xff).to_string(),
            r"Protocol error: expected '$', got '\xff'"
        );
    }
}
