//! Values that a thread keeps from one call to the next, such as buffers.
//!
//! A thread that ends drops them in some order, and destructors of the program that run later may still make calls: then
//! there is none, and a call does with a new one. `LocalKey::with` and what builds on it would panic.

use std::cell::Cell;
use std::thread::LocalKey;

/// A value of each thread's, for one call at a time.
pub trait ThreadCached<T: Default> {
    /// Takes it out: a new one where the thread ends, and for a call within a call.
    fn take_cached(&'static self) -> T;

    /// Puts it back for the next call; drops it where the thread ends.
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
