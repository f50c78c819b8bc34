//! Receives a long value directly into its result object.

use std::mem::MaybeUninit;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A value that has not arrived completely.
pub(super) struct Long {
    value: Py<PyBytes>,
    length: usize,
    filled: usize,
}

impl Long {
    /// Starts receiving a value of `length` bytes. The system allocates no physical memory for
    /// bytes that never arrive.
    pub(super) fn new(py: Python<'_>, length: usize) -> PyResult<Long> {
        // SAFETY: the thread is attached. Given a null pointer, the function allocates an
        // uninitialized object of this length. It returns null with an exception set on failure,
        // including a length that is negative as a signed number.
        let value = unsafe {
            let object = ffi::PyBytes_FromStringAndSize(std::ptr::null(), length as isize);
            Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked()
        };
        Ok(Long {
            value: value.unbind(),
            length,
            filled: 0,
        })
    }

    /// Returns the number of bytes that have not arrived yet.
    pub(super) fn missing(&self) -> usize {
        self.length - self.filled
    }

    /// Copies the bytes that belong to the value from the start of `bytes`. Returns their number.
    pub(super) fn take(&mut self, py: Python<'_>, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.missing());
        let value = self.value.bind(py);
        // SAFETY: the object has `length` bytes and is not yet visible to other code, and `filled +
        // count` is at most `length`.
        unsafe {
            let start = ffi::PyBytes_AsString(value.as_ptr()).cast::<u8>();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.add(self.filled), count);
        }
        self.filled += count;
        count
    }

    /// Returns the memory for the missing bytes. The caller reports the number written with `came`.
    pub(super) fn room(&mut self, py: Python<'_>) -> &mut [MaybeUninit<u8>] {
        // SAFETY: the object has `length` bytes, is not yet visible to other code, and lives as
        // long as `self`. `filled` is at most `length`.
        unsafe {
            let start = ffi::PyBytes_AsString(self.value.bind(py).as_ptr());
            let start = start.cast::<MaybeUninit<u8>>().add(self.filled);
            std::slice::from_raw_parts_mut(start, self.missing())
        }
    }

    /// Counts bytes that were written into the room.
    pub(super) fn came(&mut self, count: usize) {
        self.filled = self.length.min(self.filled + count);
    }

    /// Returns the complete value.
    pub(super) fn finish(self, py: Python<'_>) -> Bound<'_, PyAny> {
        debug_assert_eq!(self.missing(), 0);
        self.value.into_bound(py).into_any()
    }
}
