//! Defines how commands fail: permanently with an error reply, or temporarily.

use std::fmt;
use std::time::Duration;

use undercroft_engine::Error;

use crate::arguments::CommandError;

/// The reason why a command cannot run yet. The command has neither written a reply nor changed
/// anything, so it can be retried later (M6).
#[derive(Debug)]
pub enum Blocked {
    /// Another process holds a lock. The error names the holder.
    Lock(Error),
    /// CLIENT PAUSE has suspended the command.
    Paused,
    /// The command logs in, and must wait because earlier logins from the same address have failed.
    /// Retry it after this time.
    Delayed(Duration),
    /// The command waits for replicas, or for changes of the source. Retry it after this time, if there
    /// is one, and each time that a replica acknowledges or CLIENT UNBLOCK ends the wait.
    Waits(Option<Duration>),
    /// The command runs a slow script. If other connections share its thread, retry the command on
    /// a separate thread
    /// ([`ScriptState::has_own_thread`](crate::session::ScriptState::has_own_thread)). If it
    /// already has a separate thread, a signal has arrived, and the signal handlers must run before
    /// the retry.
    Long,
}

impl fmt::Display for Blocked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blocked::Lock(error) => error.fmt(formatter),
            Blocked::Paused => formatter.write_str("clients are paused"),
            Blocked::Delayed(_) => formatter
                .write_str("too many logins from this address have failed; try again later"),
            Blocked::Waits(_) => formatter.write_str("replicas have not acknowledged yet"),
            Blocked::Long => formatter.write_str("too many long scripts are running"),
        }
    }
}

impl std::error::Error for Blocked {}

/// The reason why a handler did not write a reply.
#[derive(Debug)]
pub enum Failure {
    /// The command failed with an error reply.
    Reply(CommandError),
    /// The command has not produced a reply yet and must be retried.
    Blocked(Blocked),
}

impl Failure {
    /// Returns an error reply for a command that cannot be retried.
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
            Error::Replica => CommandError::READ_ONLY,
            Error::FewReplicas => CommandError::NO_REPLICAS,
            error if error.is_out_of_memory() => CommandError::new(format!("OOM {error}")),
            error if error.is_not_durable() => CommandError::new(format!("MISCONF {error}")),
            error if error.is_read_only() => CommandError::new(format!("READONLY {error}")),
            error => CommandError::new(format!("ERR {error}")),
        })
    }
}

/// The return type of command handlers.
pub(crate) type Outcome = Result<(), Failure>;
