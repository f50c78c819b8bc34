//! The error type of the engine.

use std::fmt;
use std::path::Path;

use undercroft_memory::{self as memory, Fault};

/// The reason an operation on keys failed. A failed operation changes no key.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The key holds a value of a type that the operation does not support.
    WrongType,
    /// The resulting string exceeds the maximum length.
    TooLong,
    /// The value is not an integer in the range of `i64`.
    NotAnInteger,
    /// The result of an increment does not fit in an `i64`.
    Overflow,
    /// An item does not fit the value that it was to be added to, such as a row with the wrong
    /// columns.
    WrongItem,
    /// The operation requires a feed that is sorted by value, but this feed keeps its items in
    /// insertion order, or vice versa.
    WrongOrder,
    /// The resulting score is not a number (NaN).
    NotANumber,
    /// The store has reached its `maxmemory`, and no key can be evicted.
    MaxMemory,
    /// The store is a replica, so only the changes of its source may be made; see
    /// [`Store::is_replica`](crate::Store::is_replica).
    Replica,
    /// The store requires replicas, and too few are connected; see
    /// [`Store::require_replicas_after`](crate::Store::require_replicas_after).
    FewReplicas,
    /// The store is no replica, so it has no source to wait for.
    NoReplica,
    /// The source is a cluster, so a position belongs to one of its masters, which was not named.
    ManySources,
    /// The transaction has not locked the shard of this key. This error occurs only inside
    /// [`Store::transact`](crate::Store::transact), which then rolls back and runs again with all
    /// shards locked.
    OutsideTransaction,
    /// A failed change within the transaction could not be undone, so the transaction cannot
    /// commit.
    Spoiled,
    /// The name of a store is invalid. The field explains why.
    Name(Box<str>),
    /// The caller requested terms that differ from the terms that the store was created with.
    Terms(Box<str>),
    /// An error from the memory layer, boxed to keep `Result` small.
    Memory(Box<memory::Error>),
}

impl Error {
    /// Returns the error for a call that was interrupted by a signal handler.
    pub fn interrupted() -> Error {
        memory::Error::Interrupted.into()
    }

    /// Returns the error for a store whose file was removed or replaced.
    pub fn of_removal(path: &Path) -> Error {
        let path = path.into();
        memory::Error::Removed { path }.into()
    }

    /// Whether the caller can retry the operation: another process held a lock, or a signal
    /// interrupted the wait for the lock.
    pub fn is_wait(&self) -> bool {
        matches!(
            self,
            Error::Memory(error)
                if matches!(
                    **error,
                    memory::Error::Busy { .. }
                        | memory::Error::Interrupted
                        | memory::Error::MustSync
                )
        )
    }

    /// Whether another process held a lock that the operation needed, or the operation
    /// [must wait for the disk](Self::must_sync). A caller with other work may ignore this error, but
    /// never an interruption by a signal, for which only [`is_wait`](Self::is_wait) is true.
    pub fn is_busy(&self) -> bool {
        let is_held = matches!(
            self,
            Error::Memory(error) if matches!(**error, memory::Error::Busy { .. })
        );
        is_held || self.must_sync()
    }

    /// Whether the change must wait until it is durable, which this thread
    /// [may not do](crate::limit_patience_without_sync). Another thread can make the change.
    pub fn must_sync(&self) -> bool {
        matches!(self, Error::Memory(error) if matches!(**error, memory::Error::MustSync))
    }

    /// Whether the store or its file system is out of space.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Error::Memory(error) if matches!(**error, memory::Error::OutOfMemory))
    }

    /// Whether opening failed because the machine stopped before the store was synced to disk.
    pub fn is_unclean(&self) -> bool {
        matches!(self, Error::Memory(error) if matches!(**error, memory::Error::Unclean { .. }))
    }

    /// Whether the journal cannot be written, so that changes are refused or are not durable.
    pub fn is_not_durable(&self) -> bool {
        let fails = |error: &memory::Error| {
            matches!(
                error,
                memory::Error::Journal { .. } | memory::Error::JournalFull
            )
        };
        matches!(self, Error::Memory(error) if fails(error))
    }

    /// Whether the operation had to change keys of a replica, of a store with too few replicas, or of a
    /// store that is mapped read-only.
    pub fn is_read_only(&self) -> bool {
        let is_mapped = |error: &memory::Error| matches!(error, memory::Error::ReadOnly);
        match self {
            Error::Replica | Error::FewReplicas => true,
            Error::Memory(error) => is_mapped(error),
            _ => false,
        }
    }
}

impl From<memory::Error> for Error {
    #[cold]
    fn from(error: memory::Error) -> Self {
        match error {
            memory::Error::Capacity { .. } => Error::Terms(error.to_string().into()),
            error => Error::Memory(Box::new(error)),
        }
    }
}

impl From<Fault> for Error {
    #[cold]
    fn from(fault: Fault) -> Self {
        Error::from(memory::Error::from(fault))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::WrongType => {
                f.write_str("Operation against a key holding the wrong kind of value")
            }
            Error::TooLong => f.write_str("string exceeds maximum allowed size"),
            Error::NotAnInteger => f.write_str("value is not an integer or out of range"),
            Error::Overflow => f.write_str("increment or decrement would overflow"),
            Error::WrongItem => f.write_str("the item does not match the feed's schema"),
            Error::WrongOrder => f.write_str("the operation does not fit the feed's order"),
            Error::NotANumber => f.write_str("resulting score is not a number (NaN)"),
            Error::MaxMemory => f.write_str("command not allowed when used memory > 'maxmemory'."),
            Error::FewReplicas => f.write_str("Not enough good replicas to write."),
            Error::Replica => f.write_str("You can't write against a read only replica."),
            Error::NoReplica => f.write_str(
                "the store is no replica, so no source's changes arrive; follow a source first",
            ),
            Error::ManySources => f.write_str(
                "the source is a cluster, each of whose masters has its own position; name a key of \
                 the master",
            ),
            Error::OutsideTransaction => {
                f.write_str("the key's shard is not locked by the transaction")
            }
            Error::Spoiled => {
                f.write_str("a change in the transaction failed and was not rolled back")
            }
            Error::Name(reason) | Error::Terms(reason) => f.write_str(reason),
            Error::Memory(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Memory(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_busy_and_interrupted_errors_can_be_retried() {
        let busy = memory::Error::Busy {
            holder: memory::Holder::Stopped,
            pid: 1,
        };
        let (busy, interrupted) = (Error::from(busy), Error::from(memory::Error::Interrupted));
        assert!(busy.is_wait() && busy.is_busy() && !busy.must_sync());
        let sync = Error::from(memory::Error::MustSync);
        assert!(sync.is_wait() && sync.is_busy() && sync.must_sync());
        assert!(interrupted.is_wait() && !interrupted.is_busy());
        let full = Error::from(memory::Error::OutOfMemory);
        assert!(full.is_out_of_memory() && !full.is_wait() && !full.is_read_only());
        assert!(Error::from(memory::Error::ReadOnly).is_read_only());
        assert!(!Error::MaxMemory.is_out_of_memory() && !Error::WrongType.is_wait());
    }
}
