//! Why a command failed: one line for people, and an exit status for scripts.

use std::fmt;
use std::io;

use undercroft_engine::Error;

/// A failed command, and its exit status.
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

    /// The command was called wrongly.
    pub(crate) fn usage(text: impl fmt::Display) -> Failure {
        Failure {
            text: text.to_string(),
            status: USAGE,
        }
    }

    /// A signal ended the command; the text says what that leaves.
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

/// Exit statuses.
pub(crate) const SUCCESS: u8 = 0;
pub(crate) const FAILURE: u8 = 1;
const USAGE: u8 = 2;
/// 128 and the number of SIGINT, as shells count it.
pub(crate) const INTERRUPTED: u8 = 130;

/// What a command that ran returns: its exit status, or why it failed.
pub(crate) type Outcome = Result<u8, Failure>;

/// An error of the system while something was done with a file.
pub(crate) fn at(doing: impl fmt::Display) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::new(format_args!("{doing}: {error}"))
}
