//! Retries a transaction that ran out of memory, or that found a marked shard, which may contain
//! items of dead clients.

use undercroft_memory::{defer_signals, has_removed_in_part};

use crate::error::Error;
use crate::handle::store::Store;
use crate::transaction::above::above;
use crate::transaction::outbox::{Mark, Outbox};

/// The error from a failed attempt at a change, raised either by the body or by the segment.
pub(crate) struct FailedTry<E> {
    error: E,
    cause: Cause,
    /// Whether the body needed a shard that was not locked.
    pub(crate) beyond: bool,
}

/// The cause of a failed attempt, which decides how to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The body returned an error, or a retry cannot fix the error.
    Other,
    /// The segment was out of memory.
    Full,
    /// A shard is marked, so the items of dead clients must first be returned to their keys (L5).
    Marked,
}

impl<E> FailedTry<E> {
    #[inline(always)]
    pub(crate) fn of(error: E) -> FailedTry<E> {
        FailedTry {
            error,
            cause: Cause::Other,
            beyond: false,
        }
    }

    /// Creates the error of a change that is rolled back, and drops the change's outbox. The
    /// expired keys that the change removed exist again, so they are remembered. If the change runs
    /// again, it finds these keys itself.
    #[cold]
    pub(crate) fn failed(error: E, mut outbox: Outbox, again: bool) -> FailedTry<E> {
        if !again {
            outbox.cut(Mark::default());
        }
        FailedTry::of(error)
    }
}

impl<E: From<Error>> From<undercroft_memory::Error> for FailedTry<E> {
    #[cold]
    fn from(error: undercroft_memory::Error) -> Self {
        let cause = match error {
            undercroft_memory::Error::OutOfMemory => Cause::Full,
            undercroft_memory::Error::Marked => Cause::Marked,
            _ => Cause::Other,
        };
        FailedTry {
            cause,
            ..FailedTry::of(Error::from(error).into())
        }
    }
}

impl Store {
    /// Prepares a retry: returns the items of dead clients in marked shards to their keys, or frees
    /// memory.
    ///
    /// # Errors
    /// Returns the original error if a retry would also fail.
    #[cold]
    pub(crate) fn try_again<E: From<Error>>(&self, failed: FailedTry<E>) -> Result<(), E> {
        match failed.cause {
            Cause::Other => Err(failed.error),
            Cause::Marked => above(self).look_after(self).map_err(E::from),
            // A removal that was partly committed must not run again, because the second run would
            // not report the keys that the first run removed.
            Cause::Full if has_removed_in_part() => Err(failed.error),
            Cause::Full => {
                // Defer signals: the original error takes precedence over an interruption.
                let _deferred = defer_signals();
                if above(self).free_memory(self) {
                    Ok(())
                } else {
                    Err(failed.error)
                }
            }
        }
    }
}
