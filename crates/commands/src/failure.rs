//! The ways in which commands fail: permanently with an error reply, or temporarily.

use std::fmt;

use undercroft_engine::Error;

use crate::arguments::CommandError;

/// Why a command could not run yet. Nothing was written to the reply and nothing was changed, so
/// the same command can be retried later (M6).
#[derive(Debug)]
pub enum Blocked {
    /// Another process holds a lock; the error names the holder.
    Lock(Error),
    /// CLIENT PAUSE suspends the command.
    Paused,
    /// The command runs a slow script. If other connections share its thread, run it on a separate
    /// thread ([`ScriptState::has_own_thread`](crate::session::ScriptState::has_own_thread)).
    /// Otherwise a signal has arrived, and its handlers must run first.
    Long,
}

impl fmt::Display for Blocked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blocked::Lock(error) => error.fmt(formatter),
            Blocked::Paused => formatter.write_str("clients are paused"),
            Blocked::Long => formatter.write_str("too many long scripts are running"),
        }
    }
}

impl std::error::Error for Blocked {}

/// Why a handler wrote no reply.
#[derive(Debug)]
pub enum Failure {
    /// The command failed with an error reply.
    Reply(CommandError),
    /// The command has no reply yet and must be retried.
    Blocked(Blocked),
}

impl Failure {
    /// Returns the error reply for a command that cannot be retried.
    pub(crate) fn into_error(self) -> CommandError {
        match self {
            Failure::Reply(error) => error,
            Failure::Blocked(blocked) => CommandError::new(format!("ERR {blocked}")),
        }
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Failure {
        Failure::Reply(error)
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Failure {
        if error.is_wait() {
            return Failure::Blocked(Blocked::Lock(error));
        }
        Failure::Reply(match error {
            Error::WrongType => CommandError::WRONG_TYPE,
            Error::TooLong => CommandError::STRING_TOO_LONG,
            Error::NotAnInteger => CommandError::NOT_AN_INTEGER,
            Error::Overflow => CommandError::OVERFLOW,
            Error::MaxMemory => CommandError::OUT_OF_MEMORY,
            error if error.is_out_of_memory() => CommandError::new(format!("OOM {error}")),
            error if error.is_read_only() => CommandError::new(format!("READONLY {error}")),
            error => CommandError::new(format!("ERR {error}")),
        })
    }
}

/// The return type of command handlers.
pub(crate) type Outcome = Result<(), Failure>;
