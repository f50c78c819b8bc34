//! A long value, received into the very object that it becomes.

use std::mem::MaybeUninit;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A value that has not come as a whole.
pub(super) struct Long {
    value: Py<PyBytes>,
    length: usize,
    filled: usize,
}

impl Long {
    /// A value of so many bytes, of which none has come. Memory that nothing is
    /// written to costs nothing, should the rest never come.
    pub(super) fn new(py: Python<'_>, length: usize) -> PyResult<Long> {
        // SAFETY: without bytes to copy it makes an object of this length, or null
        // with an exception set, also where the length is negative as it sees it.
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

    /// How many bytes have not come yet.
    pub(super) fn missing(&self) -> usize {
        self.length - self.filled
    }

    /// Takes what belongs to it, from the start of some bytes. Returns how many
    /// these are.
    pub(super) fn take(&mut self, py: Python<'_>, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.missing());
        let value = self.value.bind(py);
        // SAFETY: the object has `length` bytes, which nobody else has seen yet, and
        // `filled + count` is no more than that.
        unsafe {
            let start = ffi::PyBytes_AsString(value.as_ptr()).cast::<u8>();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.add(self.filled), count);
        }
        self.filled += count;
        count
    }

    /// Room for the bytes that have not come. The caller tells by `came` how many it has put there.
    pub(super) fn room(&mut self, py: Python<'_>) -> &mut [MaybeUninit<u8>] {
        // SAFETY: the object has `length` bytes, which no other code has seen yet, and lives as long as this does;
        // `filled` is no more than that.
        unsafe {
            let start = ffi::PyBytes_AsString(self.value.bind(py).as_ptr());
            let start = start.cast::<MaybeUninit<u8>>().add(self.filled);
            std::slice::from_raw_parts_mut(start, self.missing())
        }
    }

    /// Counts bytes that have been put into the room.
    pub(super) fn came(&mut self, count: usize) {
        self.filled = self.length.min(self.filled + count);
    }

    /// The value, all of which has come.
    pub(super) fn finish(self, py: Python<'_>) -> Bound<'_, PyAny> {
        debug_assert_eq!(self.missing(), 0);
        self.value.into_bound(py).into_any()
    }
}
