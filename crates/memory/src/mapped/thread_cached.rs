//! Thread-local values, such as buffers, that are cached between calls.
//!
//! When a thread ends, its thread-locals are dropped in an unspecified order, and destructors that
//! run later may still call functions that use a cached value. Such a call uses a new value.
//! `LocalKey::with`, and anything built on it, would panic.

use std::cell::Cell;
use std::thread::LocalKey;

/// A thread-local value that only one call uses at any time.
pub trait ThreadCached<T: Default> {
    /// Removes the value from the cache. Returns a new value in a nested call or if the thread is
    /// ending.
    fn take_cached(&'static self) -> T;

    /// Puts the value back for the next call, or drops it if the thread is ending.
    fn put_back(&'static self, value: T);
}

impl<T: Default> ThreadCached<T> for LocalKey<Cell<T>> {
    #[inline(always)]
    fn take_cached(&'static self) -> T {
        self.try_with(Cell::take).unwrap_or_default()
    }

    #[inline(always)]
    fn put_back(&'static self, value: T) {
        let _ = self.try_with(|kept| kept.set(value));
    }
}
