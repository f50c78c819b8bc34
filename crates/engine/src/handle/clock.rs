//! The clock on which expiry is based. Tests can set it.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use undercroft_memory::{boot_milliseconds, unix_milliseconds};

thread_local! {
    /// This thread's frozen time, or [`RUNS`] or [`STOPS`] if the clock is not frozen.
    static FROZEN: Cell<u64> = const { Cell::new(RUNS) };
}

/// Indicates that the clock is running.
const RUNS: u64 = 0;
/// Indicates that the clock freezes at the next read.
const STOPS: u64 = u64::MAX;

/// A guard that freezes the clock for the current thread as soon as the thread reads it.
#[must_use]
pub struct Frozen {
    /// Whether an outer guard, which outlives this guard, keeps the clock frozen.
    is_inner: bool,
    /// Prevents the guard from being sent to another thread.
    _thread: PhantomData<*const ()>,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if !self.is_inner {
            FROZEN.set(RUNS);
        }
    }
}

/// The clock for expiry, in Unix milliseconds: the system clock, or a time that a test has set.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    fixed: AtomicU64,
    /// The time since boot in milliseconds, if a test has set it; otherwise 0.
    fixed_boot: AtomicU64,
}

impl Clock {
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        match self.fixed.load(Ordering::Relaxed) {
            0 => match FROZEN.get() {
                RUNS => unix_milliseconds(),
                STOPS => Clock::stop(),
                frozen => frozen,
            },
            fixed => fixed,
        }
    }

    /// Returns the time since boot in milliseconds: the actual time, or a time that a test has set.
    pub(crate) fn boot(&self) -> u64 {
        match self.fixed_boot.load(Ordering::Relaxed) {
            0 => boot_milliseconds(),
            fixed => fixed,
        }
    }

    pub(crate) fn set_boot(&self, milliseconds: u64) {
        self.fixed_boot.store(milliseconds, Ordering::Relaxed);
    }

    #[cold]
    fn stop() -> u64 {
        let now = unix_milliseconds();
        FROZEN.set(now);
        now
    }

    /// Freezes the clock for this thread as soon as the thread reads it. All commands of a
    /// transaction then see the same time, and transactions that never read the clock pay nothing.
    pub(crate) fn freeze(&self) -> Frozen {
        let is_inner = FROZEN.get() != RUNS;
        if !is_inner {
            FROZEN.set(STOPS);
        }
        Frozen {
            is_inner,
            _thread: PhantomData,
        }
    }

    /// Returns the time that a test has set, if any.
    #[inline(always)]
    pub(crate) fn fixed(&self) -> Option<u64> {
        match self.fixed.load(Ordering::Relaxed) {
            0 => None,
            fixed => Some(fixed),
        }
    }

    pub(crate) fn set(&self, milliseconds: u64) {
        self.fixed.store(milliseconds, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_freezes_when_first_read() {
        let clock = Clock::default();
        let outer = clock.freeze();
        let before = unix_milliseconds();
        while unix_milliseconds() == before {}
        let first = clock.now();
        assert!(first > before, "no process had looked");
        drop(clock.freeze());
        while unix_milliseconds() == first {}
        assert_eq!(clock.now(), first);
        drop(outer);
        assert!(clock.now() > first);
    }
}
