//! The time that expiry goes by, which tests may set.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use undercroft_memory::unix_milliseconds;

thread_local! {
    /// The time that stands still for this thread; 0 where it does not.
    static FROZEN: Cell<u64> = const { Cell::new(0) };
}

/// While it lives, time stands still for the thread that made it.
pub(crate) struct Frozen {
    before: u64,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        FROZEN.set(self.before);
    }
}

/// Unix time in milliseconds: the system's, or one that a test has set.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    fixed: AtomicU64,
}

impl Clock {
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        match self.fixed.load(Ordering::Relaxed) {
            0 => match FROZEN.get() {
                0 => unix_milliseconds(),
                frozen => frozen,
            },
            fixed => fixed,
        }
    }

    /// Lets time stand still for this thread: the commands of a transaction
    /// all go by the same one.
    pub(crate) fn freeze(&self) -> Frozen {
        Frozen {
            before: FROZEN.replace(self.now()),
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
