//! What a reply consists of, and what can be wrong with one.

use std::fmt;

/// A reply's elements in the order they arrive. Slices point into the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// A simple string, `+OK`.
    Simple(&'a [u8]),
    /// An error line, beginning with its code: `-ERR ...`.
    Error(&'a [u8]),
    /// An integer.
    Integer(i64),
    /// A bulk string.
    Bulk(&'a [u8]),
    /// 'No such value', in one of its three forms.
    Null(NullForm),
    /// A RESP3 double.
    Double(f64),
    /// A RESP3 boolean.
    Boolean(bool),
    /// A RESP3 integer of any size: its decimal digits, perhaps after a sign.
    BigNumber(&'a [u8]),
    /// A RESP3 error that is counted, so may hold line ends.
    BulkError(&'a [u8]),
    /// A RESP3 text with a format such as `txt` or `mkd`.
    Verbatim {
        /// Three letters.
        format: [u8; 3],
        /// The text behind them.
        text: &'a [u8],
    },
    /// An aggregate begins; its elements and an [`Event::End`] follow.
    Begin {
        /// Which kind.
        kind: Aggregate,
        /// Number of elements, of maps and attributes: of pairs; none when streamed. Not to be trusted for memory.
        len: Option<u64>,
    },
    /// A piece of a streamed string, never empty.
    Chunk(&'a [u8]),
    /// The aggregate that began last and has not ended, ends.
    End(Aggregate),
}

/// What holds other elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aggregate {
    /// Any elements in order.
    Array,
    /// Keys, each followed by its value.
    Map,
    /// Elements in no particular order.
    Set,
    /// An out-of-band message: it answers no command, and stands only between replies.
    Push,
    /// Pairs that describe the element behind them; they do not count as an element.
    Attribute,
    /// Pieces ([`Event::Chunk`]) of one bulk string whose length was not known at its start.
    StreamedString,
}

/// How a null was written: RESP2 has two forms, RESP3 one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NullForm {
    /// RESP2 `$-1`.
    Bulk,
    /// RESP2 `*-1`.
    Array,
    /// RESP3 `_`.
    Resp3,
}

/// Bounds on what a server may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLimits {
    /// Longest bulk string in bytes, a streamed one's pieces taken together; 512 MiB by default.
    pub max_bulk: usize,
    /// Longest line (simple string, error, number) in bytes; 1 MiB by default.
    pub max_line: usize,
    /// Most elements of one aggregate; 2^32 by default.
    pub max_elements: u64,
    /// Most aggregates inside one another; 128 by default. At most [`ReplyLimits::DEEPEST`].
    pub max_depth: usize,
}

impl ReplyLimits {
    /// The deepest nesting that may be allowed: an owned value is dropped and compared by recursion.
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

/// A reply that is not RESP, or is beyond the limits. The connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// No element begins with this byte.
    UnknownType(u8),
    /// An element of this kind cannot stand here: a push inside a reply, a piece outside of a streamed string, ...
    Misplaced(u8),
    /// The text behind this type byte is not what the type asks for.
    Malformed(u8),
    /// `\r\n` was expected; these bytes came.
    LineEnd([u8; 2]),
    /// The line goes beyond this many bytes.
    LineTooLong(usize),
    /// A bulk string of `len` bytes was announced; `limit` are allowed.
    BulkTooLong {
        /// Bytes announced.
        len: u64,
        /// Bytes allowed.
        limit: usize,
    },
    /// An aggregate of `len` elements was announced; `limit` are allowed.
    TooManyElements {
        /// Elements (or pairs) announced.
        len: u64,
        /// Elements (or pairs) allowed.
        limit: u64,
    },
    /// Aggregates are nested deeper than this.
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
                write!(f, "element '{}' cannot stand here", byte.escape_ascii())
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
                write!(f, "expected at most {limit} nested aggregates, got more")
            }
        }
    }
}

impl std::error::Error for ReplyError {}
