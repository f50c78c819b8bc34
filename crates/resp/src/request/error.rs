//! What a server says before it closes the connection of a client that does not speak the protocol.

use std::fmt;

/// A breach of the protocol. The server answers with [`ProtocolError::reply`] and closes the connection.
///
/// The texts are Redis 7.0's, because client libraries and their tests match them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The count after `*` is not an integer, or above the limit.
    InvalidMultibulkLength,
    /// No end of line within 64 KiB of `*`.
    TooBigMultibulkCount,
    /// No end of line within 64 KiB of where `$` belongs.
    TooBigBulkCount,
    /// A line that should begin with `$` begins with this byte.
    ExpectedDollar(u8),
    /// The length after `$` is not an integer, negative, or above the limit.
    InvalidBulkLength,
    /// No end of line within 64 KiB of an inline command.
    TooBigInlineRequest,
    /// A quote of an inline command is not closed, or text follows right after the closing one.
    UnbalancedQuotes,
    /// More than 10 arguments from a client that has yet to log in.
    UnauthenticatedMultibulkLength,
    /// An argument above 16 KiB from a client that has yet to log in.
    UnauthenticatedBulkLength,
}

impl ProtocolError {
    /// Appends the error reply, `-ERR Protocol error: ...\r\n`.
    pub fn reply(&self, out: &mut Vec<u8>) {
        let mut text = b"ERR Protocol error: ".to_vec();
        match self {
            // The byte goes out as it came, which need not be UTF-8.
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
    fn replies_carry_the_byte_that_came() {
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
