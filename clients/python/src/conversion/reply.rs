//! Replies as Python objects: in the shapes of RESP2, which redis-py's response callbacks start from, or at once in that
//! of a method's result.

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
    /// What the reply becomes.
    shape: Shape,
    /// The reply is a list of replies, which become these.
    each: Option<&'c [Shape]>,
    /// What still misses some of its items, outermost first.
    open: SmallVec<[Open<'py>; 1]>,
    /// The place of the first error in the list that it is.
    failed: Option<usize>,
    outcome: Option<PyResult<Answer<'py>>>,
}

/// A list, dictionary or set that still misses some of its items.
struct Open<'py> {
    made: Bound<'py, PyAny>,
    kind: Kind<'py>,
    /// So many items are there.
    filled: usize,
    length: usize,
}

/// What items become part of.
enum Kind<'py> {
    List,
    /// The same, of numbers.
    Floats,
    Set,
    /// Names and values in turn: a name that has no value yet.
    Dict(Option<Bound<'py, PyAny>>),
    /// Members and scores in turn: a member that has no score yet.
    Pairs(Option<Bound<'py, PyAny>>),
}

/// A whole reply.
pub(crate) enum Answer<'py> {
    /// What it says.
    Value(Bound<'py, PyAny>),
    /// It says why not.
    Error(String),
}

impl<'py> Open<'py> {
    fn new(py: Python<'py>, shape: Shape, length: usize) -> PyResult<Open<'py>> {
        // SAFETY: the thread is attached; it is a new reference, or null with an exception set. A list with gaps may
        // be dropped.
        let list = |length: usize| unsafe { ffi::PyList_New(length as ffi::Py_ssize_t) };
        // SAFETY: as above.
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
            // SAFETY: as above.
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
            // SAFETY: it is a list that was made with more items than this; it takes the reference.
            unsafe { ffi::PyList_SetItem(made, place as ffi::Py_ssize_t, item.into_ptr()) }
        };
        let status = match &mut self.kind {
            Kind::List => put(place, item),
            Kind::Floats => put(place, number(item)?),
            // SAFETY: the thread is attached, and both objects are valid; items are texts or numbers, so that no code
            // of a program's is called.
            Kind::Set => unsafe { ffi::PySet_Add(made, item.as_ptr()) },
            Kind::Dict(name) => match name.take() {
                None => {
                    *name = Some(item);
                    0
                }
                // SAFETY: as above.
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

    /// What was made of all items.
    fn finish(self) -> PyResult<Bound<'py, PyAny>> {
        match self.kind {
            Kind::Pairs(Some(_)) => Err(PyValueError::new_err("expected a score for each member")),
            _ => Ok(self.made),
        }
    }
}

/// What becomes of a whole reply: in one step with what [`Objects`] make of one that comes.
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

/// A tuple of two.
#[inline(always)]
fn pair<'py>(first: Bound<'py, PyAny>, second: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the thread is attached; a new reference, or null with an exception set, which takes over both references.
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

    /// The same, as a result of this shape.
    pub(crate) fn shaped(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// The same, for a list of replies that become results of these shapes.
    pub(crate) fn each(mut self, shapes: &'c [Shape]) -> Self {
        self.each = Some(shapes);
        self
    }

    /// The place of the first error in the list of replies, if there is one.
    pub(crate) fn failed(&self) -> Option<usize> {
        self.failed
    }

    /// What becomes of errors.
    pub(crate) fn raises(&self) -> Raises {
        self.codec.raises
    }

    /// The reply; None where the command wrote none.
    pub(crate) fn finish(&mut self) -> PyResult<Answer<'py>> {
        self.outcome
            .take()
            .unwrap_or_else(|| Ok(Answer::Value(PyNone::get(self.py).to_owned().into_any())))
    }

    /// What becomes of the reply that comes next, if it is no part of another one.
    #[inline(always)]
    fn next_shape(&self) -> Option<Shape> {
        match (self.each, &self.open[..]) {
            (None, []) => Some(self.shape),
            (Some(shapes), [list]) => shapes.get(list.filled).copied(),
            _ => None,
        }
    }

    /// Adds a text or a number.
    #[inline(always)]
    fn add(&mut self, value: PyResult<Bound<'py, PyAny>>) {
        let value = match self.next_shape() {
            Some(shape) if shape != Shape::Reply => value.and_then(|value| shape.of_one(value)),
            _ => value,
        };
        self.place(value);
    }

    /// Puts what is whole where it belongs.
    #[inline(always)]
    fn place(&mut self, mut value: PyResult<Bound<'py, PyAny>>) {
        loop {
            let whole = match value {
                Ok(whole) => whole,
                // The first failure is the outcome, whatever is written after it.
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
            // SAFETY: a new reference, or null with an exception set.
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

    /// Whether floating point numbers become such, and no text.
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
            // No text is made only to be looked at.
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
