//! Describes a command's failure: one line of text for people, and an exit status for scripts.

use std::fmt;
use std::io;

use undercroft_engine::Error;

/// The failure of a command: its text and its exit status.
#[derive(Debug)]
pub(crate) struct Failure {
    text: String,
    status: u8,
}

impl Failure {
    pub(crate) fn new(text: impl fmt::Display) -> Failure {
        Failure {
            text: text.to_string(),
            status: FAILURE,
        }
    }

    /// Creates the failure for incorrect usage.
    pub(crate) fn usage(text: impl fmt::Display) -> Failure {
        Failure {
            text: text.to_string(),
            status: USAGE,
        }
    }

    /// Creates the failure of a command that was interrupted by a signal. The text describes the
    /// resulting state.
    pub(crate) fn interrupted(text: impl fmt::Display) -> Failure {
        Failure {
            text: format!("interrupted: {text}"),
            status: INTERRUPTED,
        }
    }

    pub(crate) fn status(&self) -> u8 {
        self.status
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::new(error)
    }
}

/// The exit status of a command that succeeded.
pub(crate) const SUCCESS: u8 = 0;
pub(crate) const FAILURE: u8 = 1;
const USAGE: u8 = 2;
/// The exit status of an interrupted command: 128 plus the signal number of SIGINT, as in shells.
pub(crate) const INTERRUPTED: u8 = 130;

/// The result of a command: either its exit status or its failure.
pub(crate) type Outcome = Result<u8, Failure>;

/// Converts a system error in a file operation to a failure. `doing` describes the operation.
pub(crate) fn at(doing: impl fmt::Display) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::new(format_args!("{doing}: {error}"))
}
