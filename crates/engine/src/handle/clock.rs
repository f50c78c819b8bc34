//! The time that expiry goes by, which tests may set.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use undercroft_memory::{boot_milliseconds, unix_milliseconds};

thread_local! {
    /// The time that stands still for this thread, or one of these two.
    static FROZEN: Cell<u64> = const { Cell::new(RUNS) };
}

/// Time does not stand still,
const RUNS: u64 = 0;
/// or it does from the next look on.
const STOPS: u64 = u64::MAX;

/// While it lives, time stands still for the thread that made it, from its first look at the clock on.
#[must_use]
pub struct Frozen {
    /// Another one does that, which lives for longer.
    is_inner: bool,
    /// It is that thread's alone.
    _thread: PhantomData<*const ()>,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if !self.is_inner {
            FROZEN.set(RUNS);
        }
    }
}

/// Unix time in milliseconds: the system's, or one that a test has set.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    fixed: AtomicU64,
    /// The same of the time since boot.
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

    /// Milliseconds since boot: the system's, or those that a test has set.
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

    /// Lets time stand still for this thread, from the first look at it on: the commands of a transaction all go by the
    /// same one, and most ask for none.
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

    /// The time that a test has set.
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
    fn time_stands_still_from_the_first_look_on() {
        let clock = Clock::default();
        let outer = clock.freeze();
        let before = unix_milliseconds();
        while unix_milliseconds() == before {}
        let first = clock.now();
        assert!(first > before, "nobody had looked");
        drop(clock.freeze());
        while unix_milliseconds() == first {}
        assert_eq!(clock.now(), first);
        drop(outer);
        assert!(clock.now() > first);
    }
}
