//! The reasons why following a source ended.

use std::fmt;
use std::io;

use undercroft_engine::Error;

use crate::load::LoadError;

/// The reason why following a source ended. After most of them, the follower connects again.
#[derive(Debug)]
#[non_exhaustive]
pub enum FollowError {
    /// The URL of the source is invalid. The text says what was expected.
    Url(String),
    /// The connection failed or was lost.
    Io(io::Error),
    /// The source refused a command that begins the replication, with this error.
    Refused(String),
    /// The source sent something that is not part of the protocol.
    Protocol(String),
    /// The source's data set cannot be loaded.
    Load(LoadError),
    /// The source sent a change that this version cannot apply.
    Unsupported(String),
    /// The source refused an ordinary command. The text contains the command's name and the error.
    Command(String),
    /// The store has no memory for a change, or its journal no space. The change can be applied
    /// later.
    NoSpace(String),
    /// The source made this change to keys that the store has from keys that its filter leaves out.
    Unfiltered(String),
    /// The cluster is not in a state that can be followed, for this reason. It can be later.
    Cluster(String),
    /// A slot of the cluster moves to a third master before its last move is over.
    MovesOn(u16),
    /// The data set of a master must be loaded again, for this reason.
    Reload(String),
    /// The store cannot be promoted, for this reason.
    Promotion(String),
    /// Another process already follows a source for this store.
    Followed,
    /// The store failed.
    Store(Error),
    /// The caller ended the work.
    Stopped,
}

impl FollowError {
    /// Returns whether another attempt cannot succeed, because the store or the source must be
    /// changed first.
    pub fn is_final(&self) -> bool {
        match self {
            FollowError::Url(_)
            | FollowError::Unsupported(_)
            | FollowError::Promotion(_)
            | FollowError::Followed
            | FollowError::Stopped => true,
            // The data set contains something that a store cannot hold.
            FollowError::Load(LoadError::Read(error)) => error.is_refused(),
            FollowError::Store(error) => !error.is_wait() && !is_lack_of_space(error),
            _ => false,
        }
    }

    /// Returns whether the store had no memory, or its journal no space.
    pub(super) fn is_lack_of_space(&self) -> bool {
        match self {
            FollowError::NoSpace(_) => true,
            FollowError::Load(LoadError::Store { error, .. }) | FollowError::Store(error) => {
                is_lack_of_space(error)
            }
            _ => false,
        }
    }
}

/// Returns whether a store failed because it had no memory, or its journal no space.
pub(super) fn is_lack_of_space(error: &Error) -> bool {
    error.is_out_of_memory() || error.is_not_durable()
}

impl fmt::Display for FollowError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FollowError::Url(text) => formatter.write_str(text),
            FollowError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                formatter.write_str("the source closed the connection")
            }
            FollowError::Io(error) => write!(formatter, "the connection to the source: {error}"),
            FollowError::Refused(text) => {
                write!(formatter, "the source refused to replicate: {text}")
            }
            FollowError::Protocol(text) => {
                write!(formatter, "expected a replication stream: {text}")
            }
            FollowError::Load(error) => write!(formatter, "the source's data set: {error}"),
            FollowError::Unsupported(text) => {
                write!(
                    formatter,
                    "the source sent a change that cannot be applied: {text}"
                )
            }
            FollowError::Command(text) => {
                write!(formatter, "the source refused a command: {text}")
            }
            FollowError::Unfiltered(text) => write!(
                formatter,
                "{text} needs keys of the source that this store leaves out; loading the data set \
                 again"
            ),
            FollowError::Cluster(text) => write!(formatter, "the cluster: {text}"),
            FollowError::MovesOn(slot) => write!(
                formatter,
                "slot {slot} of the cluster moves on before its last move is over; waiting for that"
            ),
            FollowError::Reload(text) => {
                write!(formatter, "{text}; loading the data set again")
            }
            FollowError::Promotion(text) => {
                write!(formatter, "the store stays a replica: {text}")
            }
            FollowError::NoSpace(text) => write!(
                formatter,
                "no space for a change of the source: {text}; free space in the file system, and \
                 following continues"
            ),
            FollowError::Followed => formatter.write_str(
                "another process already follows a source for this store; end it, or wait for its \
                 end with --elect",
            ),
            FollowError::Store(error) => error.fmt(formatter),
            FollowError::Stopped => formatter.write_str("interrupted"),
        }
    }
}

impl std::error::Error for FollowError {}

impl From<io::Error> for FollowError {
    fn from(error: io::Error) -> FollowError {
        FollowError::Io(error)
    }
}

impl From<Error> for FollowError {
    fn from(error: Error) -> FollowError {
        FollowError::Store(error)
    }
}

impl From<LoadError> for FollowError {
    fn from(error: LoadError) -> FollowError {
        match error {
            LoadError::Stopped => FollowError::Stopped,
            error => FollowError::Load(error),
        }
    }
}
