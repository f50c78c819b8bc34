//! The events that make up a reply, and the errors that parsing a reply can return.

use std::fmt;

/// An event in a reply, in order of arrival. Its slices point into the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// A simple string such as `+OK`.
    Simple(&'a [u8]),
    /// An error line, which starts with an error code: `-ERR ...`.
    Error(&'a [u8]),
    /// An integer.
    Integer(i64),
    /// A bulk string.
    Bulk(&'a [u8]),
    /// A null, with its encoding.
    Null(NullForm),
    /// A RESP3 double.
    Double(f64),
    /// A RESP3 Boolean.
    Boolean(bool),
    /// A RESP3 integer of any size, as decimal digits with an optional sign.
    BigNumber(&'a [u8]),
    /// A RESP3 length-prefixed error, which may contain line breaks.
    BulkError(&'a [u8]),
    /// A RESP3 text with a format such as `txt` or `mkd`.
    Verbatim {
        /// The three letters of the format.
        format: [u8; 3],
        /// The text without its format.
        text: &'a [u8],
    },
    /// The start of an aggregate. Its elements and an [`Event::End`] follow.
    Begin {
        /// The kind of aggregate.
        kind: Aggregate,
        /// The number of elements, or of pairs in maps and attributes; `None` if the aggregate is
        /// streamed. Do not allocate memory based on this number, because it is the server's
        /// unverified claim.
        len: Option<u64>,
    },
    /// A chunk of a streamed string, which is never empty.
    Chunk(&'a [u8]),
    /// The end of the innermost open aggregate.
    End(Aggregate),
}

/// A kind of element that contains other elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aggregate {
    /// Elements of any type, in order.
    Array,
    /// Keys, each followed by its value.
    Map,
    /// Elements in no particular order.
    Set,
    /// An out-of-band message, which is not the reply to a command and occurs only between replies.
    Push,
    /// Pairs that describe the element after them. They do not count as an element.
    Attribute,
    /// Chunks ([`Event::Chunk`]) of one bulk string whose length is unknown at its start.
    StreamedString,
}

/// The encoding of a null. RESP2 has two encodings, and RESP3 has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NullForm {
    /// RESP2's null bulk string, `$-1`.
    Bulk,
    /// RESP2's null array, `*-1`.
    Array,
    /// RESP3's null, `_`.
    Resp3,
}

/// Limits on a server's replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLimits {
    /// The maximum length of a bulk string in bytes, or the total length of a streamed string.
    /// Default: 512 MiB.
    pub max_bulk: usize,
    /// The maximum length of a line (simple string, error, number) in bytes. Default: 1 MiB.
    pub max_line: usize,
    /// The maximum number of elements in an aggregate. Default: 2^32.
    pub max_elements: u64,
    /// The maximum nesting depth of aggregates, at most [`ReplyLimits::DEEPEST`]. Default: 128.
    pub max_depth: usize,
}

impl ReplyLimits {
    /// The largest permitted nesting depth. It is limited because owned values are dropped and
    /// compared recursively.
    pub const DEEPEST: usize = 1024;
}

impl Default for ReplyLimits {
    fn default() -> Self {
        Self {
            max_bulk: 512 * 1024 * 1024,
            max_line: 1024 * 1024,
            max_elements: 1 << 32,
            max_depth: 128,
        }
    }
}

/// The reply is not valid RESP or exceeds the limits. The connection is no longer usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// This byte does not start any type of element.
    UnknownType(u8),
    /// An element of this type cannot occur here, such as a push inside a reply, or a chunk outside
    /// a streamed string.
    Misplaced(u8),
    /// The text after this type byte is malformed.
    Malformed(u8),
    /// These bytes arrived in place of `\r\n`.
    LineEnd([u8; 2]),
    /// The line is longer than this limit in bytes.
    LineTooLong(usize),
    /// The announced length of a bulk string exceeds the limit.
    BulkTooLong {
        /// The announced length in bytes.
        len: u64,
        /// The maximum length in bytes.
        limit: usize,
    },
    /// The announced length of an aggregate exceeds the limit.
    TooManyElements {
        /// The announced number of elements or pairs.
        len: u64,
        /// The maximum number of elements or pairs.
        limit: u64,
    },
    /// Aggregates are nested more deeply than this limit.
    TooDeep(usize),
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bad reply: ")?;
        match self {
            Self::UnknownType(byte) => {
                write!(f, "expected a RESP type, got '{}'", byte.escape_ascii())
            }
            Self::Misplaced(byte) => {
                write!(f, "element '{}' is not allowed here", byte.escape_ascii())
            }
            Self::Malformed(byte) => {
                let expected = match byte {
                    b':' => "a 64-bit integer",
                    b',' => "a double",
                    b'#' => "'t' or 'f'",
                    b'(' => "decimal digits",
                    b'_' | b'.' => "nothing",
                    b'=' => "a three-letter format and ':'",
                    _ => "a length",
                };
                write!(f, "expected {expected} after '{}'", byte.escape_ascii())
            }
            Self::LineEnd(bytes) => {
                write!(f, "expected '\\r\\n', got '{}'", bytes.escape_ascii())
            }
            Self::LineTooLong(limit) => write!(
                f,
                "expected a line of at most {limit} bytes, got a longer one"
            ),
            Self::BulkTooLong { len, limit } => {
                write!(
                    f,
                    "expected a string of at most {limit} bytes, got one of {len}"
                )
            }
            Self::TooManyElements { len, limit } => {
                write!(f, "expected at most {limit} elements, got {len}")
            }
            Self::TooDeep(limit) => {
                write!(
                    f,
                    "expected aggregates nested at most {limit} levels deep, got deeper ones"
                )
            }
        }
    }
}

impl std::error::Error for ReplyError {}
