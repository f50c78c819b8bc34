//! Conversions between Python objects and the store's bytes.

use std::ffi::CString;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::error::Raises;

/// A client's text encoding, and whether it decodes replies.
#[derive(Clone)]
pub(crate) struct Codec {
    pub(crate) encoding: CString,
    pub(crate) errors: CString,
    /// Whether the encoding is UTF-8, for which the interpreter caches a string's encoded bytes.
    pub(crate) utf8: bool,
    /// Whether strings in replies become `str`.
    pub(crate) decode: bool,
    /// The family of exceptions that errors are converted to.
    pub(crate) raises: Raises,
}

impl Codec {
    pub(crate) fn new(
        encoding: &str,
        errors: &str,
        decode: bool,
        raises: Raises,
    ) -> PyResult<Codec> {
        let plain = encoding.to_ascii_lowercase().replace(['-', '_'], "");
        let c_string = |text: &str| {
            CString::new(text).map_err(|_| PyValueError::new_err("embedded null character"))
        };
        Ok(Codec {
            utf8: plain == "utf8",
            encoding: c_string(encoding)?,
            errors: c_string(errors)?,
            decode,
            raises,
        })
    }

    /// Returns the bytes of a `bytes` object or of a `str` in UTF-8 without a copy, or None for any
    /// other object.
    ///
    /// # Safety
    /// The thread must be attached. `object` must be valid and stay alive for `'o`.
    #[inline(always)]
    pub(crate) unsafe fn bytes<'o>(&self, object: *mut ffi::PyObject) -> Option<&'o [u8]> {
        // SAFETY: the caller guarantees that the object is valid for `'o`, and its type is checked
        // before use. Both types are immutable, so the bytes stay in place while the object lives.
        unsafe {
            if ffi::PyUnicode_CheckExact(object) != 0 && self.utf8 {
                let mut length = 0;
                let text = ffi::PyUnicode_AsUTF8AndSize(object, &mut length);
                if text.is_null() {
                    // UTF-8 cannot encode this string, so the client's error handler decides.
                    ffi::PyErr_Clear();
                    return None;
                }
                return Some(std::slice::from_raw_parts(text.cast(), length as usize));
            }
            if ffi::PyBytes_CheckExact(object) != 0 {
                let start = ffi::PyBytes_AsString(object);
                let length = ffi::PyBytes_Size(object);
                return Some(std::slice::from_raw_parts(start.cast(), length as usize));
            }
        }
        None
    }

    /// Converts a reply's string to an object and returns a new reference to it. Returns null with
    /// an exception set if decoding or allocation fails.
    #[inline(always)]
    pub(crate) fn object(&self, _: Python<'_>, bytes: &[u8]) -> *mut ffi::PyObject {
        let start = bytes.as_ptr().cast();
        let length = bytes.len() as ffi::Py_ssize_t;
        // SAFETY: the token shows that the thread is attached, the range comes from a slice, and
        // both names are null-terminated.
        unsafe {
            if !self.decode {
                ffi::PyBytes_FromStringAndSize(start, length)
            } else if self.utf8 {
                ffi::PyUnicode_DecodeUTF8(start, length, self.errors.as_ptr())
            } else {
                ffi::PyUnicode_Decode(start, length, self.encoding.as_ptr(), self.errors.as_ptr())
            }
        }
    }
}

/// Returns the value of an exact `int` that fits into 64 bits, or None for any other object,
/// including `bool`.
///
/// # Safety
/// The thread must be attached, and `object` must be valid.
#[inline(always)]
pub(crate) unsafe fn integer(object: *mut ffi::PyObject) -> Option<i64> {
    // SAFETY: the caller guarantees that the object is valid, and its type is checked first.
    unsafe {
        if ffi::PyLong_CheckExact(object) == 0 {
            return None;
        }
        let mut overflow = 0;
        let value = ffi::PyLong_AsLongLongAndOverflow(object, &mut overflow);
        (overflow == 0).then_some(value)
    }
}

/// Returns a new reference to `None`.
#[inline(always)]
pub(crate) fn none(_: Python<'_>) -> *mut ffi::PyObject {
    // SAFETY: the thread is attached, and `None` is immortal.
    unsafe { ffi::Py_NewRef(ffi::Py_None()) }
}

/// Returns a new reference to `True` or `False`.
#[inline(always)]
pub(crate) fn boolean(_: Python<'_>, value: bool) -> *mut ffi::PyObject {
    // SAFETY: the thread is attached.
    unsafe { ffi::PyBool_FromLong(value.into()) }
}

/// Returns a new reference to an `int`, or null with an exception set if memory runs out.
#[inline(always)]
pub(crate) fn number(_: Python<'_>, value: i64) -> *mut ffi::PyObject {
    // SAFETY: the thread is attached.
    unsafe { ffi::PyLong_FromLongLong(value) }
}

/// Returns a new reference to a `bytes` object, or null with an exception set if memory runs out.
#[inline(always)]
pub(crate) fn raw(_: Python<'_>, bytes: &[u8]) -> *mut ffi::PyObject {
    // SAFETY: the thread is attached.
    unsafe { ffi::PyBytes_FromStringAndSize(bytes.as_ptr().cast(), bytes.len() as ffi::Py_ssize_t) }
}
