//! The errors of reading an RDB file.

use std::fmt;
use std::io;

/// The maximum number of bytes of a key that an error shows.
const SHOWN: usize = 64;

/// The reason why an RDB file cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The file is damaged. The fields specify the offset of the damage and what was expected there.
    Damaged {
        /// The offset in the file.
        at: u64,
        /// A description of the bytes that were expected.
        expected: String,
    },
    /// The file is sound, but contains data that a store cannot hold.
    Refused {
        /// The offset in the file.
        at: u64,
        /// A description of the data, and the remedy.
        reason: String,
    },
    /// An I/O error occurred.
    Io(io::Error),
}

impl ReadError {
    /// Returns whether the file is sound, but contains data that a store cannot hold.
    pub fn is_refused(&self) -> bool {
        matches!(self, ReadError::Refused { .. })
    }

    pub(crate) fn damaged(at: u64, expected: impl Into<String>) -> ReadError {
        ReadError::Damaged {
            at,
            expected: expected.into(),
        }
    }

    pub(crate) fn refused(at: u64, reason: impl Into<String>) -> ReadError {
        ReadError::Refused {
            at,
            reason: reason.into(),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Damaged { at, expected } => {
                write!(formatter, "damaged at byte {at}: expected {expected}")
            }
            ReadError::Refused { at, reason } => write!(formatter, "at byte {at}: {reason}"),
            ReadError::Io(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Io(error)
    }
}

/// Returns a key in a printable form that fits in an error.
pub(crate) fn shown(key: &[u8]) -> String {
    match key.split_at_checked(SHOWN) {
        Some((start, rest)) if !rest.is_empty() => format!("'{}...'", start.escape_ascii()),
        _ => format!("'{}'", key.escape_ascii()),
    }
}
