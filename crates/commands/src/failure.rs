//! How commands fail: with an error as their reply, or for now.

use std::fmt;

use undercroft_engine::Error;

use crate::arguments::CommandError;

/// The command could not run yet; nothing was written to the reply and nothing was changed, so the same command can be
/// run again later (M6).
#[derive(Debug)]
pub enum Blocked {
    /// Another process holds a lock; the error says who.
    Lock(Error),
    /// CLIENT PAUSE holds it back.
    Paused,
    /// It is a script that takes long. Where other connections wait for its thread, it is to be run by a thread of its own
    /// ([`ScriptState::has_own_thread`](crate::session::ScriptState::has_own_thread)); else a signal has come, whose
    /// handlers are to be run.
    Long,
}

impl fmt::Display for Blocked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blocked::Lock(error) => error.fmt(formatter),
            Blocked::Paused => formatter.write_str("clients are paused"),
            Blocked::Long => formatter.write_str("too many scripts take long"),
        }
    }
}

impl std::error::Error for Blocked {}

/// Why a handler wrote no reply.
#[derive(Debug)]
pub enum Failure {
    /// The reply is an error.
    Reply(CommandError),
    /// There is no reply yet.
    Blocked(Blocked),
}

impl Failure {
    /// The error reply for a command that cannot be run again.
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

/// What a handler returns.
pub(crate) type Outcome = Result<(), Failure>;
