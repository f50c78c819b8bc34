//! State that the interpreter lock protects.

use std::cell::UnsafeCell;

use pyo3::Python;

/// A value that only attached threads access.
///
/// The module is built for the stable ABI of interpreters with a global lock and declares that it
/// relies on that lock. A [`Python`] token therefore proves that no other thread is inside
/// [`with`](Self::with).
pub(crate) struct GilCell<T>(UnsafeCell<T>);

// SAFETY: all access goes through `with`, which requires the interpreter lock.
unsafe impl<T: Send> Sync for GilCell<T> {}

impl<T> GilCell<T> {
    pub(crate) fn new(value: T) -> GilCell<T> {
        GilCell(UnsafeCell::new(value))
    }

    /// Runs `body` on the value. `body` must not access the same value again. It must not call into
    /// Python, because another thread could then run.
    #[inline(always)]
    pub(crate) fn with<R>(&self, _: Python<'_>, body: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the token proves that this thread owns the interpreter lock. `body` neither
        // releases the lock nor accesses this value again.
        body(unsafe { &mut *self.0.get() })
    }
}
