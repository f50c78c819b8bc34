//! Retrying a transaction that ran out of memory or found a marked shard.

use undercroft_memory::{defer_signals, has_removed_in_part};

use crate::error::Error;
use crate::handle::store::Store;
use crate::transaction::above::above;
use crate::transaction::outbox::{Mark, Outbox};

/// The error of a failed try, either of the body or of the segment.
pub(crate) struct FailedTry<E> {
    error: E,
    cause: Cause,
    /// Whether the body needed a shard that was not locked.
    pub(crate) beyond: bool,
}

/// The cause of a failed try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// An error of the body, or an error that a retry cannot fix.
    Other,
    /// The segment was out of memory.
    Full,
    /// A shard is marked: items of dead clients must be restored first (L5).
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

    /// Returns the error of a change that is rolled back, and drops its outbox. The expired keys
    /// that the change removed exist again, so they are remembered. If the change runs again, it
    /// finds these keys itself.
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
    /// Prepares a retry: restores the items of dead clients in marked shards, or frees memory.
    ///
    /// # Errors
    /// Returns the original error if a retry would fail as well.
    #[cold]
    pub(crate) fn try_again<E: From<Error>>(&self, failed: FailedTry<E>) -> Result<(), E> {
        match failed.cause {
            Cause::Other => Err(failed.error),
            Cause::Marked => above(self).look_after(self).map_err(E::from),
            // A removal that was partly committed cannot run again, because it could not report the
            // removed part again.
            Cause::Full if has_removed_in_part() => Err(failed.error),
            Cause::Full => {
                // The original error takes precedence over an interruption here.
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
