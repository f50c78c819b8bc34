//! Objects that must outlive a wait.

use pyo3::ffi;
use smallvec::SmallVec;

/// Keeps objects alive whose bytes are in use, for the time in which other
/// threads may run and change the list or dictionary they came from.
#[derive(Default)]
pub(crate) struct References(SmallVec<[*mut ffi::PyObject; 16]>);

impl References {
    /// Keeps an object alive.
    ///
    /// # Safety
    /// `object` is a valid object, and the thread is attached, as it is when
    /// this value is dropped.
    pub(crate) unsafe fn keep(&mut self, object: *mut ffi::PyObject) {
        // SAFETY: the caller's promise.
        unsafe { ffi::Py_INCREF(object) };
        self.0.push(object);
    }

    /// Takes over a reference.
    pub(crate) fn take(&mut self, object: *mut ffi::PyObject) {
        self.0.push(object);
    }
}

impl Drop for References {
    fn drop(&mut self) {
        for &object in &self.0 {
            // SAFETY: `keep` made a reference to each, or `take` was given one.
            unsafe { ffi::Py_DECREF(object) };
        }
    }
}
