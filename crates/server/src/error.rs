//! Defines the error that prevents a server from starting or continuing.

use std::fmt;
use std::io;

/// An error that prevents a server from starting or continuing: a description of the failed action,
/// and the operating system's error.
#[derive(Debug)]
pub struct Error {
    doing: String,
    source: io::Error,
}

impl Error {
    pub(crate) fn new(doing: impl Into<String>, source: impl Into<io::Error>) -> Error {
        Error {
            doing: doing.into(),
            source: source.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.doing, self.source)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
