//! Why a command failed: one line for people, and an exit status for scripts.

use std::fmt;
use std::io;

use undercroft_engine::Error;

/// A failed command. Exit status 2 where it was called wrongly, 1 otherwise.
#[derive(Debug)]
pub(crate) struct Failure {
    text: String,
    usage: bool,
}

impl Failure {
    pub(crate) fn new(text: impl fmt::Display) -> Failure {
        Failure {
            text: text.to_string(),
            usage: false,
        }
    }

    /// The command was called wrongly.
    pub(crate) fn usage(text: impl fmt::Display) -> Failure {
        Failure {
            text: text.to_string(),
            usage: true,
        }
    }

    pub(crate) fn status(&self) -> u8 {
        if self.usage { USAGE } else { FAILURE }
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

/// What a command that ran returns: its exit status, or why it failed.
pub(crate) type Outcome = Result<u8, Failure>;

/// An error of the system while something was done with a file.
pub(crate) fn at(doing: impl fmt::Display) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::new(format_args!("{doing}: {error}"))
}
