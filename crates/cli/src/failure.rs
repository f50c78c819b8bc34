//! Why a command failed: one line for people, and an exit status for scripts.

use std::fmt;
use std::io;
use std::process::ExitCode;

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

    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(if self.usage { 2 } else { 1 })
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

/// What a command that ran returns.
pub(crate) type Outcome = Result<ExitCode, Failure>;

/// An error of the system while something was done with a file.
pub(crate) fn at(doing: impl fmt::Display) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::new(format_args!("{doing}: {error}"))
}
