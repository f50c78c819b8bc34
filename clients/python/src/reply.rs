//! Replies as Python objects, in the shapes of RESP2, which redis-py's response
//! callbacks start from.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyNone};
use smallvec::SmallVec;
use undercroft_commands::number::double_text;
use undercroft_commands::reply::Reply;

use crate::codec::Codec;
use crate::error;

/// Builds the object for one reply.
pub(crate) struct Objects<'py, 'c> {
    py: Python<'py>,
    codec: &'c Codec,
    decode: bool,
    /// Floating point numbers are such, and no text.
    numbers: bool,
    /// The lists that still miss some of their items, outermost first.
    open: SmallVec<[Open<'py>; 1]>,
    outcome: Option<PyResult<Answer<'py>>>,
}

/// A list that still misses some of its items.
struct Open<'py> {
    list: Bound<'py, PyAny>,
    /// So many are there.
    filled: usize,
    length: usize,
}

/// A whole reply.
pub(crate) enum Answer<'py> {
    /// What it says.
    Value(Bound<'py, PyAny>),
    /// It says why not.
    Error(String),
}

impl<'py, 'c> Objects<'py, 'c> {
    pub(crate) fn new(py: Python<'py>, codec: &'c Codec, decode: bool) -> Self {
        Objects {
            py,
            codec,
            decode,
            numbers: false,
            open: SmallVec::new(),
            outcome: None,
        }
    }

    /// The same, with floating point numbers as such.
    pub(crate) fn with_numbers(mut self, numbers: bool) -> Self {
        self.numbers = numbers;
        self
    }

    /// The reply; None where the command wrote none.
    pub(crate) fn finish(self) -> PyResult<Answer<'py>> {
        self.outcome
            .unwrap_or_else(|| Ok(Answer::Value(PyNone::get(self.py).to_owned().into_any())))
    }

    #[inline(always)]
    fn add(&mut self, value: PyResult<Bound<'py, PyAny>>) {
        match value {
            Err(error) => self.fail(error),
            Ok(value) if self.open.is_empty() => {
                self.outcome.get_or_insert(Ok(Answer::Value(value)));
            }
            Ok(value) => self.add_item(value),
        }
    }

    #[inline(always)]
    fn add_item(&mut self, mut value: Bound<'py, PyAny>) {
        while let Some(open) = self.open.last_mut() {
            let place = open.filled as ffi::Py_ssize_t;
            // SAFETY: it is a list that was made with this length, and the place is below it; it takes the reference.
            unsafe { ffi::PyList_SetItem(open.list.as_ptr(), place, value.into_ptr()) };
            open.filled += 1;
            if open.filled < open.length {
                return;
            }
            let Some(open) = self.open.pop() else {
                return;
            };
            value = open.list;
        }
        self.outcome.get_or_insert(Ok(Answer::Value(value)));
    }

    /// The first failure is the outcome, whatever is written after it.
    fn fail(&mut self, error: PyErr) {
        if !matches!(self.outcome, Some(Err(_))) {
            self.outcome = Some(Err(error));
        }
    }

    #[inline(always)]
    fn string(&mut self, bytes: &[u8]) {
        let value = if self.decode || !self.codec.decode {
            let object = self.codec.object(self.py, bytes);
            // SAFETY: a new reference, or null with an exception set.
            unsafe { Bound::from_owned_ptr_or_err(self.py, object) }
        } else {
            Ok(pyo3::types::PyBytes::new(self.py, bytes).into_any())
        };
        self.add(value);
    }

    fn begin(&mut self, length: usize) {
        // SAFETY: the thread is attached; a new reference, or null with an exception set. A list with gaps may be
        // dropped.
        let list = unsafe {
            let list = ffi::PyList_New(length as ffi::Py_ssize_t);
            Bound::from_owned_ptr_or_err(self.py, list)
        };
        match list {
            Ok(list) if length > 0 => self.open.push(Open {
                list,
                filled: 0,
                length,
            }),
            list => self.add(list),
        }
    }
}

impl Reply for Objects<'_, '_> {
    fn simple(&mut self, text: &str) {
        self.string(text.as_bytes());
    }

    fn error(&mut self, text: &str) {
        if self.open.is_empty() {
            self.outcome
                .get_or_insert_with(|| Ok(Answer::Error(text.to_owned())));
        } else {
            self.add(error::from_reply(self.py, text));
        }
    }

    fn integer(&mut self, value: i64) {
        self.add(Ok(PyInt::new(self.py, value).into_any()));
    }

    fn bulk(&mut self, bytes: &[u8]) {
        self.string(bytes);
    }

    fn null(&mut self) {
        self.add(Ok(PyNone::get(self.py).to_owned().into_any()));
    }

    fn null_array(&mut self) {
        self.null();
    }

    fn array(&mut self, length: usize) {
        self.begin(length);
    }

    fn map(&mut self, pairs: usize) {
        self.begin(pairs * 2);
    }

    fn set(&mut self, length: usize) {
        self.begin(length);
    }

    fn push(&mut self, length: usize) {
        self.begin(length);
    }

    fn double(&mut self, value: f64) {
        if self.numbers {
            self.add(Ok(PyFloat::new(self.py, value).into_any()));
        } else {
            self.string(double_text(value).as_bytes());
        }
    }

    fn boolean(&mut self, value: bool) {
        self.integer(value.into());
    }

    fn big_number(&mut self, digits: &str) {
        self.string(digits.as_bytes());
    }

    fn verbatim(&mut self, _: &str, text: &[u8]) {
        self.string(text);
    }
}
