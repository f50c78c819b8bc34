//! How a thread waits (M6): for how long, whether signals interrupt the wait, and what the language
//! runtime does during it.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// Hooks for waiting inside a language runtime, which runs its other threads during the wait and
/// checks for signals.
///
/// All methods except [`is_signalled`](Self::is_signalled) and [`script`](Self::script) are called
/// with no store lock held.
pub trait WaitHook: Send + Sync {
    /// Calls `block`, which sleeps. The implementation should release the runtime's locks during
    /// the call.
    fn blocked(&self, block: &mut dyn FnMut());
    /// Returns whether the wait must end because a signal handler is pending. Not called while
    /// signals are [deferred](defer_signals).
    fn interrupted(&self) -> bool;
    /// Returns whether a signal has arrived, so that [`interrupted`](Self::interrupted) should be
    /// called soon. Called during a script with locks held, so the implementation must not run any
    /// code that uses the store.
    fn is_signalled(&self) -> bool {
        false
    }
    /// Calls `run`, which executes a script with store locks held. `run` does not use the runtime,
    /// so the implementation may release the runtime's locks during the call.
    fn script(&self, run: &mut dyn FnMut()) {
        run();
    }
}

thread_local! {
    /// The number of [`SignalsDeferred`] guards that exist on this thread.
    static DEFERRED: Cell<usize> = const { Cell::new(0) };
    /// The limit on the duration of this thread's waits.
    static LIMIT: Limit = const {
        Limit {
            microseconds: Cell::new(0),
            until: Cell::new(None),
            is_without_sync: Cell::new(false),
        }
    };
}

/// A thread's time limit for lock waits, in addition to the configured timeout.
struct Limit {
    /// The limit in microseconds plus 1, counted from the thread's first wait. 0 means that only
    /// the configured timeout applies.
    microseconds: Cell<u32>,
    /// The deadline, set when the thread first waits.
    until: Cell<Option<Instant>>,
    /// Whether the thread may not wait for a sync of the journal either.
    is_without_sync: Cell<bool>,
}

/// A guard that limits the total time for which its thread waits for locks.
#[derive(Debug)]
#[must_use = "patience is limited only while this guard is alive"]
pub struct PatienceLimited {
    /// Whether a limit was already set, which then remains in force after this guard.
    before: bool,
    /// Makes the guard `!Send`, because the limit belongs to its thread.
    _thread: PhantomData<*const ()>,
}

/// Limits the patience of this thread until the guard is dropped (M6). From its first lock wait on,
/// all waits of the thread together last at most `longest`, even if the locks make progress. A
/// limit that is already set remains in force.
///
/// The call costs a few instructions: the clock is first read when the thread waits.
#[inline(always)]
pub fn limit_patience(longest: Duration) -> PatienceLimited {
    let microseconds = longest.as_micros().min(u128::from(u32::MAX - 1)) as u32 + 1;
    LIMIT.with(|limit| {
        let before = limit.microseconds.get() != 0;
        if !before {
            limit.microseconds.set(microseconds);
        }
        PatienceLimited {
            before,
            _thread: PhantomData,
        }
    })
}

impl Drop for PatienceLimited {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.before {
            LIMIT.with(|limit| {
                limit.microseconds.set(0);
                limit.until.set(None);
                limit.is_without_sync.set(false);
            });
        }
    }
}

/// Limits the patience of this thread like [`limit_patience`]. In addition, a change that would have
/// to wait until it is durable fails with [`Error::MustSync`](crate::Error::MustSync) and changes
/// nothing. For the thread of an event loop, which repeats the change in another thread.
#[inline(always)]
pub fn limit_patience_without_sync(longest: Duration) -> PatienceLimited {
    let limited = limit_patience(longest);
    if !limited.before {
        LIMIT.with(|limit| limit.is_without_sync.set(true));
    }
    limited
}

/// Returns whether a change of this thread may not wait until it is durable.
pub(crate) fn is_without_sync() -> bool {
    LIMIT.with(|limit| limit.is_without_sync.get())
}

/// Calls `body` without a limit on this thread's patience. Use it for work that must not be cut
/// short, such as returning a popped item to its key.
pub fn unlimited_patience<R>(body: impl FnOnce() -> R) -> R {
    /// A guard that restores the limit, even if `body` panics.
    struct Again(u32, Option<Instant>, bool);
    impl Drop for Again {
        fn drop(&mut self) {
            LIMIT.with(|limit| {
                limit.microseconds.set(self.0);
                limit.until.set(self.1);
                limit.is_without_sync.set(self.2);
            });
        }
    }
    let _again = LIMIT.with(|limit| {
        let is_without_sync = limit.is_without_sync.take();
        Again(
            limit.microseconds.take(),
            limit.until.take(),
            is_without_sync,
        )
    });
    body()
}

/// Returns whether the patience of this thread is [limited](limit_patience).
pub fn is_patience_limited() -> bool {
    LIMIT.with(|limit| limit.microseconds.get() != 0)
}

/// Returns how long this thread may still wait, or `None` if its patience is not limited. The first
/// call starts the limit.
pub(crate) fn time_left() -> Option<Duration> {
    LIMIT.with(|limit| {
        let microseconds = limit.microseconds.get().checked_sub(1)?;
        if let Some(end) = limit.until.get() {
            return Some(end.saturating_duration_since(Instant::now()));
        }
        let longest = Duration::from_micros(microseconds.into());
        limit.until.set(Some(Instant::now() + longest));
        Some(longest)
    })
}

/// Returns whether this thread has reached its limit and must not wait any longer.
pub(crate) fn is_out_of_time() -> bool {
    time_left().is_some_and(|left| left.is_zero())
}

/// A guard during which signals do not interrupt the waits of its thread.
#[derive(Debug)]
#[must_use = "signals are deferred only while this guard is alive"]
pub struct SignalsDeferred {
    /// Makes the guard `!Send`, because the deferral belongs to its thread.
    _thread: PhantomData<*const ()>,
}

/// Defers signals: until the guard is dropped, this thread does not call [`WaitHook::interrupted`].
/// Use it for work after a commit, when the operation can no longer fail. The hook may run a signal
/// handler of the runtime, and an exception raised there would make the operation fail.
///
/// Because no signal ends such a wait early, its timeout covers all waits of this process for the
/// same lock. If the lock has already made no progress for that long, the process does not wait for
/// it again.
pub fn defer_signals() -> SignalsDeferred {
    DEFERRED.set(DEFERRED.get() + 1);
    SignalsDeferred {
        _thread: PhantomData,
    }
}

impl Drop for SignalsDeferred {
    fn drop(&mut self) {
        DEFERRED.set(DEFERRED.get() - 1);
    }
}

/// Returns whether signals are [deferred](defer_signals) in this thread.
pub fn are_signals_deferred() -> bool {
    DEFERRED.get() > 0
}

/// Returns whether a signal must end the wait. Calls the hook unless signals are deferred.
pub(crate) fn is_interrupted(hook: &dyn WaitHook) -> bool {
    !are_signals_deferred() && hook.interrupted()
}
