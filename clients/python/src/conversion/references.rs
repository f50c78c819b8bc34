//! Owns references to objects during a wait.

use pyo3::ffi;
use smallvec::SmallVec;

/// Keeps objects alive while their bytes are in use. Other threads may meanwhile run and change the
/// list or dictionary that contained the objects.
#[derive(Default)]
pub(crate) struct References(SmallVec<[*mut ffi::PyObject; 16]>);

impl References {
    /// Keeps an object alive until this value is dropped.
    ///
    /// # Safety
    /// `object` must be valid, and the thread must be attached both now and when this value is
    /// dropped.
    pub(crate) unsafe fn keep(&mut self, object: *mut ffi::PyObject) {
        // SAFETY: the caller guarantees that the object is valid and that the thread is attached.
        unsafe { ffi::Py_INCREF(object) };
        self.0.push(object);
    }

    /// Takes ownership of a reference.
    pub(crate) fn take(&mut self, object: *mut ffi::PyObject) {
        self.0.push(object);
    }
}

impl Drop for References {
    fn drop(&mut self) {
        for &object in &self.0 {
            // SAFETY: this value owns each of these references, because `keep` created it or `take`
            // took it over.
            unsafe { ffi::Py_DECREF(object) };
        }
    }
}
