//! Replies as Python objects, in the shapes of RESP2, which redis-py's response
//! callbacks start from.

use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyNone};
use undercroft_commands::number::double_text;
use undercroft_commands::reply::Reply;

use crate::codec::Codec;
use crate::error;

/// Builds the object for one reply.
pub(crate) struct Objects<'py, 'c> {
    py: Python<'py>,
    codec: &'c Codec,
    decode: bool,
    /// The lists that still miss some of their items, outermost first.
    open: Vec<(Bound<'py, PyList>, usize)>,
    outcome: Option<PyResult<Answer<'py>>>,
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
            open: Vec::new(),
            outcome: None,
        }
    }

    /// The reply; None where the command wrote none.
    pub(crate) fn finish(self) -> PyResult<Answer<'py>> {
        self.outcome
            .unwrap_or_else(|| Ok(Answer::Value(PyNone::get(self.py).to_owned().into_any())))
    }

    fn add(&mut self, value: PyResult<Bound<'py, PyAny>>) {
        let mut value = match value {
            Ok(value) => value,
            Err(error) => return self.fail(error),
        };
        loop {
            let Some((list, missing)) = self.open.last_mut() else {
                self.outcome.get_or_insert(Ok(Answer::Value(value)));
                return;
            };
            if let Err(error) = list.append(value) {
                return self.fail(error);
            }
            *missing -= 1;
            if *missing > 0 {
                return;
            }
            let Some((list, _)) = self.open.pop() else {
                return;
            };
            value = list.into_any();
        }
    }

    /// The first failure is the outcome, whatever is written after it.
    fn fail(&mut self, error: PyErr) {
        if !matches!(self.outcome, Some(Err(_))) {
            self.outcome = Some(Err(error));
        }
    }

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
        let list = PyList::empty(self.py);
        if length == 0 {
            self.add(Ok(list.into_any()));
        } else {
            self.open.push((list, length));
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
        self.string(double_text(value).as_bytes());
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
