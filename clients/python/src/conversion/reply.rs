//! Builds Python objects from replies, either in the shapes of RESP2 that redis-py's response
//! callbacks expect or directly as a method's result.

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyList, PyNone};
use smallvec::SmallVec;
use undercroft_commands::reply::Reply;
use undercroft_numbers::double_text;

use crate::conversion::codec::Codec;
use crate::conversion::shape::{Shape, number, truth};
use crate::error::Raises;

/// Builds the object for one reply.
pub(crate) struct Objects<'py, 'c> {
    py: Python<'py>,
    codec: &'c Codec,
    decode: bool,
    /// The shape of the result.
    shape: Shape,
    /// The shapes of the replies in a list of replies.
    each: Option<&'c [Shape]>,
    /// Incomplete collections, outermost first.
    open: SmallVec<[Open<'py>; 1]>,
    /// The index of the first error in the list of replies.
    failed: Option<usize>,
    outcome: Option<PyResult<Answer<'py>>>,
}

/// A list, dictionary or set that is still incomplete.
struct Open<'py> {
    made: Bound<'py, PyAny>,
    kind: Kind<'py>,
    /// The number of items added so far.
    filled: usize,
    length: usize,
}

/// The type of a collection and its state.
enum Kind<'py> {
    List,
    /// A list of numbers.
    Floats,
    Set,
    /// A dictionary built from alternating names and values, and the name whose value is pending,
    /// if any.
    Dict(Option<Bound<'py, PyAny>>),
    /// Pairs built from alternating members and scores, and the member whose score is pending, if
    /// any.
    Pairs(Option<Bound<'py, PyAny>>),
}

/// A complete reply.
pub(crate) enum Answer<'py> {
    /// The reply's value.
    Value(Bound<'py, PyAny>),
    /// The text of an error reply.
    Error(String),
}

impl<'py> Open<'py> {
    fn new(py: Python<'py>, shape: Shape, length: usize) -> PyResult<Open<'py>> {
        // SAFETY: the thread is attached. The result is a new reference or null with an exception
        // set, and a list may be dropped before all its items are set.
        let list = |length: usize| unsafe { ffi::PyList_New(length as ffi::Py_ssize_t) };
        // SAFETY: the thread is attached. Each call returns a new reference or null with an
        // exception set.
        let (made, kind) = unsafe {
            match shape {
                Shape::Dict => (ffi::PyDict_New(), Kind::Dict(None)),
                Shape::Set => (ffi::PySet_New(std::ptr::null_mut()), Kind::Set),
                Shape::Pairs => (list(length / 2), Kind::Pairs(None)),
                Shape::Floats => (list(length), Kind::Floats),
                _ => (list(length), Kind::List),
            }
        };
        Ok(Open {
            // SAFETY: `made` is a new reference, or null with an exception set.
            made: unsafe { Bound::from_owned_ptr_or_err(py, made)? },
            kind,
            filled: 0,
            length,
        })
    }

    /// Adds an item.
    #[inline(always)]
    fn add(&mut self, item: Bound<'py, PyAny>) -> PyResult<()> {
        let place = self.filled;
        self.filled += 1;
        let made = self.made.as_ptr();
        let put = |place: usize, item: Bound<'py, PyAny>| {
            // SAFETY: the list was created with more than `place` items, and it takes ownership of
            // the reference.
            unsafe { ffi::PyList_SetItem(made, place as ffi::Py_ssize_t, item.into_ptr()) }
        };
        let status = match &mut self.kind {
            Kind::List => put(place, item),
            Kind::Floats => put(place, number(item)?),
            // SAFETY: the thread is attached, and both objects are valid. Items are strings or
            // numbers, so none of the program's code runs.
            Kind::Set => unsafe { ffi::PySet_Add(made, item.as_ptr()) },
            Kind::Dict(name) => match name.take() {
                None => {
                    *name = Some(item);
                    0
                }
                // SAFETY: the thread is attached, and all three objects are valid. Names are
                // strings or numbers, so none of the program's code runs.
                Some(name) => unsafe { ffi::PyDict_SetItem(made, name.as_ptr(), item.as_ptr()) },
            },
            Kind::Pairs(member) => match member.take() {
                None => {
                    *member = Some(item);
                    0
                }
                Some(member) => put(place / 2, pair(member, number(item)?)?),
            },
        };
        match status {
            0 => Ok(()),
            _ => Err(PyErr::fetch(self.made.py())),
        }
    }

    /// Returns the complete collection.
    fn finish(self) -> PyResult<Bound<'py, PyAny>> {
        match self.kind {
            Kind::Pairs(Some(_)) => Err(PyValueError::new_err("expected a score for each member")),
            _ => Ok(self.made),
        }
    }
}

/// Shapes a complete reply in the same way as [`Objects`] shapes a reply that is still arriving.
pub(crate) fn shaped<'py>(shape: Shape, reply: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let Ok(items) = reply.cast_exact::<PyList>() else {
        return shape.of_one(reply);
    };
    let mut open = Open::new(reply.py(), shape, items.len())?;
    for item in items {
        open.add(item)?;
    }
    open.finish()
}

/// Returns a tuple of two items.
#[inline(always)]
fn pair<'py>(first: Bound<'py, PyAny>, second: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the thread is attached. The tuple is a new reference or null with an exception set,
    // and it takes ownership of both items.
    unsafe {
        let made = Bound::from_owned_ptr_or_err(first.py(), ffi::PyTuple_New(2))?;
        ffi::PyTuple_SetItem(made.as_ptr(), 0, first.into_ptr());
        ffi::PyTuple_SetItem(made.as_ptr(), 1, second.into_ptr());
        Ok(made)
    }
}

impl<'py, 'c> Objects<'py, 'c> {
    pub(crate) fn new(py: Python<'py>, codec: &'c Codec, decode: bool) -> Self {
        Objects {
            py,
            codec,
            decode,
            shape: Shape::Reply,
            each: None,
            open: SmallVec::new(),
            failed: None,
            outcome: None,
        }
    }

    /// Sets the shape of the result.
    pub(crate) fn shaped(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// Sets the shapes for a reply that is a list of replies.
    pub(crate) fn each(mut self, shapes: &'c [Shape]) -> Self {
        self.each = Some(shapes);
        self
    }

    /// Returns the index of the first error in the list of replies, or None.
    pub(crate) fn failed(&self) -> Option<usize> {
        self.failed
    }

    /// Returns the family of exceptions that errors are converted to.
    pub(crate) fn raises(&self) -> Raises {
        self.codec.raises
    }

    /// Returns the reply, or `None` if the command wrote no reply.
    pub(crate) fn finish(&mut self) -> PyResult<Answer<'py>> {
        self.outcome
            .take()
            .unwrap_or_else(|| Ok(Answer::Value(PyNone::get(self.py).to_owned().into_any())))
    }

    /// Returns the shape of the next reply if it is not part of a collection.
    #[inline(always)]
    fn next_shape(&self) -> Option<Shape> {
        match (self.each, &self.open[..]) {
            (None, []) => Some(self.shape),
            (Some(shapes), [list]) => shapes.get(list.filled).copied(),
            _ => None,
        }
    }

    /// Adds a string or a number.
    #[inline(always)]
    fn add(&mut self, value: PyResult<Bound<'py, PyAny>>) {
        let value = match self.next_shape() {
            Some(shape) if shape != Shape::Reply => value.and_then(|value| shape.of_one(value)),
            _ => value,
        };
        self.place(value);
    }

    /// Adds a complete value to the innermost open collection, or makes it the outcome.
    #[inline(always)]
    fn place(&mut self, mut value: PyResult<Bound<'py, PyAny>>) {
        loop {
            let whole = match value {
                Ok(whole) => whole,
                // Keep the first failure as the outcome, regardless of what the command writes
                // afterwards.
                Err(error) => {
                    if !matches!(self.outcome, Some(Err(_))) {
                        self.outcome = Some(Err(error));
                    }
                    return;
                }
            };
            let Some(open) = self.open.last_mut() else {
                self.outcome.get_or_insert(Ok(Answer::Value(whole)));
                return;
            };
            value = match open.add(whole) {
                Ok(()) if open.filled < open.length => return,
                Ok(()) => match self.open.pop() {
                    Some(open) => open.finish(),
                    None => return,
                },
                Err(error) => Err(error),
            };
        }
    }

    #[inline(always)]
    fn string(&mut self, bytes: &[u8]) {
        let value = if self.decode || !self.codec.decode {
            let object = self.codec.object(self.py, bytes);
            // SAFETY: `object` is a new reference, or null with an exception set.
            unsafe { Bound::from_owned_ptr_or_err(self.py, object) }
        } else {
            Ok(PyBytes::new(self.py, bytes).into_any())
        };
        self.add(value);
    }

    fn begin(&mut self, length: usize) {
        let shape = self.next_shape().unwrap_or(Shape::Reply);
        match Open::new(self.py, shape, length) {
            Ok(open) if length > 0 => self.open.push(open),
            made => self.place(made.map(|open| open.made)),
        }
    }

    /// Whether floating point numbers become `float` rather than text.
    fn takes_numbers(&self) -> bool {
        match self.open.last() {
            None => self.shape.takes_numbers(),
            Some(open) => match open.kind {
                Kind::Floats | Kind::Pairs(_) => true,
                _ => self.next_shape().is_some_and(Shape::takes_numbers),
            },
        }
    }
}

impl Reply for Objects<'_, '_> {
    fn simple(&mut self, text: &str) {
        match self.next_shape() {
            // Compare without creating a string object.
            Some(Shape::Ok | Shape::OkOrNone) => self.place(Ok(truth(self.py, text == "OK"))),
            _ => self.string(text.as_bytes()),
        }
    }

    fn simple_bytes(&mut self, text: &[u8]) {
        match self.next_shape() {
            Some(Shape::Ok | Shape::OkOrNone) => self.place(Ok(truth(self.py, false))),
            _ => self.string(text),
        }
    }

    fn error(&mut self, text: &str) {
        if self.open.is_empty() {
            self.outcome
                .get_or_insert_with(|| Ok(Answer::Error(text.to_owned())));
        } else {
            if let [list] = &self.open[..] {
                self.failed = self.failed.or(Some(list.filled));
            }
            self.place(self.codec.raises.reply(self.py, text));
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
        if self.takes_numbers() {
            self.add(Ok(PyFloat::new(self.py, value).into_any()));
        } else {
            self.string(&double_text(value));
        }
    }

    fn decimal(&mut self, digits: &str) {
        match digits.parse() {
            Ok(value) if self.takes_numbers() => {
                self.add(Ok(PyFloat::new(self.py, value).into_any()));
            }
            _ => self.string(digits.as_bytes()),
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
