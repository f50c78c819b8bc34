//! The time that expiry goes by, which tests may set.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Unix time in milliseconds: the system's, or one that a test has set.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    fixed: AtomicU64,
}

impl Clock {
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        match self.fixed.load(Ordering::Relaxed) {
            0 => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |elapsed| elapsed.as_millis() as u64),
            fixed => fixed,
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
