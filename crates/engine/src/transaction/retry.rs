//! Another try of a transaction that has failed for want of memory, or for a shard that has to be looked after.

use undercroft_memory::{defer_signals, has_removed_in_part};

use crate::error::Error;
use crate::handle::store::Store;
use crate::transaction::above::above;
use crate::transaction::outbox::{Mark, Outbox};

/// An error of the body, into which the segment's own are turned as well.
pub(crate) struct FailedTry<E> {
    error: E,
    cause: Cause,
    /// Whether a shard was missing.
    pub(crate) beyond: bool,
}

/// Why a try failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The body said so, or something that another try does not end.
    Other,
    /// The segment had no more memory.
    Full,
    /// Somebody has to look after a shard first (L5).
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

    /// The error of a change, which is undone, and nothing in its outbox happens. The expired keys that it removed are
    /// there again, and remembered as such, unless the change runs again, which meets them itself.
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
    /// Does what another try needs: looks after marked shards, or frees memory.
    ///
    /// # Errors
    /// What failed, where another try would fail as well.
    #[cold]
    pub(crate) fn try_again<E: From<Error>>(&self, failed: FailedTry<E>) -> Result<(), E> {
        match failed.cause {
            Cause::Other => Err(failed.error),
            Cause::Marked => above(self).look_after(self).map_err(E::from),
            // What is removed already cannot be removed again, and told of.
            Cause::Full if has_removed_in_part() => Err(failed.error),
            Cause::Full => {
                // The error that there is goes before any that this comes to.
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
