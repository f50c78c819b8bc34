//! How a thread waits (M6): for how long, whether signals end it, and what its language runtime does meanwhile.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// How a thread waits in a program that has more to do than wait: a language
/// runtime lets its other threads run, and looks for signals.
///
/// Called without any lock of the store held, but for [`is_signalled`](Self::is_signalled) and
/// [`script`](Self::script).
pub trait WaitHook: Send + Sync {
    /// Calls `block`, which sleeps, with the runtime's own locks released.
    fn blocked(&self, block: &mut dyn FnMut());
    /// Whether the wait must end, because a signal handler wants to run. Not
    /// asked while signals are [deferred](defer_signals).
    fn interrupted(&self) -> bool;
    /// Whether a signal has come for which [`interrupted`](Self::interrupted) is to be asked soon. Called in the midst
    /// of a script, with locks held: nothing may run that uses the store.
    fn is_signalled(&self) -> bool {
        false
    }
    /// Calls `run`, which runs a script with locks held, and needs nothing of the runtime: its own locks may be released
    /// meanwhile.
    fn script(&self, run: &mut dyn FnMut()) {
        run();
    }
}

thread_local! {
    /// How many guards of this thread live.
    static DEFERRED: Cell<usize> = const { Cell::new(0) };
    /// How long this thread waits.
    static LIMIT: Limit = const {
        Limit {
            microseconds: Cell::new(0),
            until: Cell::new(None),
        }
    };
}

/// How long a thread waits for locks, beside the patience that is set.
struct Limit {
    /// So long, from its first wait on, and one more; 0 where only patience counts.
    microseconds: Cell<u32>,
    /// Until then, as it has begun to wait.
    until: Cell<Option<Instant>>,
}

/// While it lives, the thread that made it waits for a limited time.
#[derive(Debug)]
#[must_use = "patience is limited only while it lives"]
pub struct PatienceLimited {
    /// Whether it was limited before, and stays so.
    before: bool,
    /// It stays with its thread.
    _thread: PhantomData<*const ()>,
}

/// Limits the patience of this thread until the guard is dropped (M6): from its
/// first wait for a lock on, it waits no longer than this, all waits together and
/// whatever progress is made. Where it is limited already, that stays.
///
/// It costs a few instructions: a look at the clock comes with the first wait.
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
            });
        }
    }
}

/// Calls `body` without a limit on this thread's patience: for what is somebody
/// else's.
pub fn unlimited_patience<R>(body: impl FnOnce() -> R) -> R {
    /// Limits it again, where `body` panics, too.
    struct Again(u32, Option<Instant>);
    impl Drop for Again {
        fn drop(&mut self) {
            LIMIT.with(|limit| {
                limit.microseconds.set(self.0);
                limit.until.set(self.1);
            });
        }
    }
    let _again = LIMIT.with(|limit| Again(limit.microseconds.take(), limit.until.take()));
    body()
}

/// Whether the patience of this thread is [limited](limit_patience).
pub fn is_patience_limited() -> bool {
    LIMIT.with(|limit| limit.microseconds.get() != 0)
}

/// How long this thread may still wait, where that is limited; the time runs from
/// the first call on.
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

/// Whether this thread may wait no longer.
pub(crate) fn is_out_of_time() -> bool {
    time_left().is_some_and(|left| left.is_zero())
}

/// While it lives, waits of the thread that made it are not interrupted.
#[derive(Debug)]
#[must_use = "signals are deferred only while it lives"]
pub struct SignalsDeferred {
    /// It stays with its thread.
    _thread: PhantomData<*const ()>,
}

/// Defers signals: until the guard is dropped this thread does not ask
/// [`WaitHook::interrupted`]. For what is done behind a commit, where the
/// operation cannot fail any more: a runtime that was asked has run its handler,
/// and what that raised must be returned.
///
/// As nothing ends such a wait early, its patience counts over all waits of
/// this process for the same lock: one that was seen without progress for so
/// long is not waited for again.
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

/// Whether signals are [deferred](defer_signals) in this thread.
pub fn are_signals_deferred() -> bool {
    DEFERRED.get() > 0
}

/// Asks the hook whether the wait must end.
pub(crate) fn is_interrupted(hook: &dyn WaitHook) -> bool {
    !are_signals_deferred() && hook.interrupted()
}
