//! Errors of the engine.

use std::fmt;
use std::path::Path;

use undercroft_memory::{self as memory, Fault};

/// Why an operation on keys failed. Nothing was changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The key holds a value of another type.
    WrongType,
    /// The string would become longer than the limit.
    TooLong,
    /// The value is not an integer in the range of `i64`.
    NotAnInteger,
    /// The sum does not fit an `i64`.
    Overflow,
    /// A row is not an item of the feed that it is added to.
    WrongItem,
    /// The feed is sorted by value, or is not, and that cannot be done to it.
    WrongOrder,
    /// The score would be no number.
    NotANumber,
    /// The store uses its `maxmemory`, and nothing may be evicted.
    MaxMemory,
    /// The key's shard is not among those that the transaction has locked. Only
    /// seen within [`Store::transact`](crate::Store::transact), which then runs
    /// again.
    OutsideTransaction,
    /// A change within the transaction failed and was not undone, so that none of
    /// the transaction may stay.
    Spoiled,
    /// A store's name is not one.
    Name(Box<str>),
    /// The store was made on other terms than somebody asks for.
    Terms(Box<str>),
    /// An error of the store itself; boxed, so that results stay small.
    Memory(Box<memory::Error>),
}

impl Error {
    /// That of a call which a signal handler has ended.
    pub fn interrupted() -> Error {
        memory::Error::Interrupted.into()
    }

    /// That of calls on a store whose file was removed or replaced.
    pub fn of_removal(path: &Path) -> Error {
        let path = path.into();
        memory::Error::Removed { path }.into()
    }

    /// Whether the operation can be tried again later: another process holds a
    /// lock, or the wait for it was interrupted.
    pub fn is_wait(&self) -> bool {
        matches!(
            self,
            Error::Memory(error)
                if matches!(**error, memory::Error::Busy { .. } | memory::Error::Interrupted)
        )
    }

    /// Whether another process holds a lock: the part of [`is_wait`](Self::is_wait)
    /// that whoever finds other work to do may pass over. An interruption never
    /// may be.
    pub fn is_busy(&self) -> bool {
        matches!(self, Error::Memory(error) if matches!(**error, memory::Error::Busy { .. }))
    }

    /// Whether the store or its file system is full.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Error::Memory(error) if matches!(**error, memory::Error::OutOfMemory))
    }

    /// Whether the store was not synced before its machine stopped, and is
    /// refused for that.
    pub fn is_unclean(&self) -> bool {
        matches!(self, Error::Memory(error) if matches!(**error, memory::Error::Unclean { .. }))
    }

    /// Whether the store is mapped read-only and the operation would write.
    pub fn is_read_only(&self) -> bool {
        matches!(self, Error::Memory(error) if matches!(**error, memory::Error::ReadOnly))
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
            Error::WrongItem => f.write_str("the item is not one of such a feed"),
            Error::WrongOrder => f.write_str("the feed is of another order"),
            Error::NotANumber => f.write_str("resulting score is not a number (NaN)"),
            Error::MaxMemory => f.write_str("command not allowed when used memory > 'maxmemory'."),
            Error::OutsideTransaction => {
                f.write_str("the key's shard is not locked by the transaction")
            }
            Error::Spoiled => {
                f.write_str("a change within the transaction failed and was not undone")
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
    fn what_may_be_tried_again_is_told_from_what_may_not() {
        let busy = memory::Error::Busy {
            holder: memory::Holder::Stopped,
            pid: 1,
        };
        let (busy, interrupted) = (Error::from(busy), Error::from(memory::Error::Interrupted));
        assert!(busy.is_wait() && busy.is_busy());
        assert!(interrupted.is_wait() && !interrupted.is_busy());
        let full = Error::from(memory::Error::OutOfMemory);
        assert!(full.is_out_of_memory() && !full.is_wait() && !full.is_read_only());
        assert!(Error::from(memory::Error::ReadOnly).is_read_only());
        assert!(!Error::MaxMemory.is_out_of_memory() && !Error::WrongType.is_wait());
    }
}
