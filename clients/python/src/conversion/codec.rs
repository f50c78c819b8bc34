//! Between Python's objects and the store's bytes.

use std::ffi::CString;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::error::Raises;

/// How a client encodes text, and whether it decodes replies.
#[derive(Clone)]
pub(crate) struct Codec {
    pub(crate) encoding: CString,
    pub(crate) errors: CString,
    /// The encoding is UTF-8, in which the interpreter keeps text at hand.
    pub(crate) utf8: bool,
    /// Strings in replies become `str`.
    pub(crate) decode: bool,
    /// What becomes of errors.
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

    /// The bytes of an object, without a copy: a `bytes`, or a `str` in UTF-8.
    /// None for every other object.
    ///
    /// # Safety
    /// The thread is attached, and `object` is valid and stays alive for `'o`.
    #[inline(always)]
    pub(crate) unsafe fn bytes<'o>(&self, object: *mut ffi::PyObject) -> Option<&'o [u8]> {
        // SAFETY: the object is valid (the caller's promise); its type is
        // checked before it is used as that. Both are immutable, so their bytes
        // stay where they are as long as the object lives.
        unsafe {
            if ffi::PyUnicode_CheckExact(object) != 0 && self.utf8 {
                let mut length = 0;
                let text = ffi::PyUnicode_AsUTF8AndSize(object, &mut length);
                if text.is_null() {
                    // Text that UTF-8 cannot hold: what comes of it is for the
                    // client's error handler to say.
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

    /// A string of a reply as an object, a new reference; null with an
    /// exception set where it cannot be decoded or there is no memory.
    #[inline(always)]
    pub(crate) fn object(&self, _: Python<'_>, bytes: &[u8]) -> *mut ffi::PyObject {
        let start = bytes.as_ptr().cast();
        let length = bytes.len() as ffi::Py_ssize_t;
        // SAFETY: the thread is attached (the token), the range is a slice, and
        // both names end with a zero byte.
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

/// The value of a Python `int` that fits 64 bits; None for any other object,
/// a `bool` among them.
///
/// # Safety
/// The thread is attached and `object` is valid.
#[inline(always)]
pub(crate) unsafe fn integer(object: *mut ffi::PyObject) -> Option<i64> {
    // SAFETY: the object is valid and its type is checked first.
    unsafe {
        if ffi::PyLong_CheckExact(object) == 0 {
            return None;
        }
        let mut overflow = 0;
        let value = ffi::PyLong_AsLongLongAndOverflow(object, &mut overflow);
        (overflow == 0).then_some(value)
    }
}

/// `None`, a new reference.
#[inline(always)]
pub(crate) fn none(_: Python<'_>) -> *mut ffi::PyObject {
    // SAFETY: the thread is attached; None is always there.
    unsafe { ffi::Py_NewRef(ffi::Py_None()) }
}

/// `True` or `False`, a new reference.
#[inline(always)]
pub(crate) fn boolean(_: Python<'_>, value: bool) -> *mut ffi::PyObject {
    // SAFETY: the thread is attached.
    unsafe { ffi::PyBool_FromLong(value.into()) }
}

/// An `int`, a new reference; null with an exception set without memory.
#[inline(always)]
pub(crate) fn number(_: Python<'_>, value: i64) -> *mut ffi::PyObject {
    // SAFETY: the thread is attached.
    unsafe { ffi::PyLong_FromLongLong(value) }
}

/// Bytes as they are, as an object: a new reference, or null with an exception set.
#[inline(always)]
pub(crate) fn raw(_: Python<'_>, bytes: &[u8]) -> *mut ffi::PyObject {
    // SAFETY: the thread is attached.
    unsafe { ffi::PyBytes_FromStringAndSize(bytes.as_ptr().cast(), bytes.len() as ffi::Py_ssize_t) }
}
