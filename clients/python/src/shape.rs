//! From a reply to what a method of redis-py's returns.
//!
//! redis-py has a function for each command that makes something of its reply. The usual ones are known by their
//! identity and done here, in one step; any other, a program's own among them, is called.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyList, PySet, PyString, PyTuple};
use pyo3::{Borrowed, ffi, intern};

/// What becomes of a reply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// It stays as it is.
    Reply,
    /// Whether it is true.
    Truth,
    /// Whether it is `OK`.
    Ok,
    /// The same, where it may be none.
    OkOrNone,
    /// A number, or none.
    Float,
    /// Numbers, or none in their places.
    Floats,
    /// Names and values in turn as a dictionary.
    Dict,
    /// A set.
    Set,
    /// Members and scores in turn as pairs.
    Pairs,
}

/// A function of redis-py's that is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// It is given the reply alone, and makes this of it.
    Plain(Shape),
    /// It makes pairs of members and scores where that was asked for.
    ScorePairs,
    /// It makes pairs of members and scores in any case.
    PopPairs,
    /// It makes a number of the reply where that was asked for.
    Added,
    /// It makes a number of a score beside a rank where that was asked for.
    Rank,
    /// It tells `OK` from an old value that was asked for.
    SetResult,
}

/// What is done with the reply of one command.
pub(crate) enum Plan<'py> {
    /// This is made of it.
    Known(Shape),
    /// A function is called with it.
    Call(Bound<'py, PyAny>),
}

impl<'py> Plan<'py> {
    /// The result of a whole reply.
    pub(crate) fn apply(
        self,
        reply: Bound<'py, PyAny>,
        options: Options<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Plan::Known(shape) => shape.apply(reply),
            Plan::Call(function) if options.is_empty() => function.call1((reply,)),
            Plan::Call(function) => {
                let named = PyDict::new(reply.py());
                for (name, value) in options {
                    named.set_item(name, value)?;
                }
                function.call((reply,), Some(&named))
            }
        }
    }
}

impl Shape {
    /// Whether it is made of numbers: then floating point numbers of a reply need not become text before.
    pub(crate) fn takes_numbers(self) -> bool {
        matches!(self, Shape::Float | Shape::Floats | Shape::Pairs)
    }

    /// What becomes of a whole reply.
    #[inline]
    pub(crate) fn apply<'py>(self, reply: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = reply.py();
        Ok(match self {
            Shape::Reply => reply,
            Shape::Truth => truth(py, reply.is_truthy()?),
            Shape::Ok => truth(py, is_ok(&reply)),
            Shape::OkOrNone if reply.is_none() => reply,
            Shape::OkOrNone => truth(py, is_ok(&reply)),
            Shape::Float => number(reply)?,
            Shape::Floats => {
                let scores = reply.try_iter()?.map(|score| number(score?));
                PyList::new(py, scores.collect::<PyResult<Vec<_>>>()?)?.into_any()
            }
            Shape::Dict => dictionary(&reply)?,
            Shape::Set => match reply.cast_exact::<PyList>() {
                Ok(members) => PySet::new(py, members)?.into_any(),
                Err(_) => PySet::empty(py)?.into_any(),
            },
            Shape::Pairs => pairs(reply)?,
        })
    }
}

fn truth(py: Python<'_>, value: bool) -> Bound<'_, PyAny> {
    PyBool::new(py, value).to_owned().into_any()
}

fn is_ok(reply: &Bound<'_, PyAny>) -> bool {
    match reply.cast_exact::<PyString>() {
        Ok(text) => text == "OK",
        Err(_) => reply.extract::<&[u8]>().is_ok_and(|text| text == b"OK"),
    }
}

/// A number, of itself or of its text; none stays none.
fn number(reply: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    if reply.is_none() || reply.is_exact_instance_of::<PyFloat>() {
        return Ok(reply);
    }
    // SAFETY: the object is valid and the thread is attached; a new reference, or null with an exception set. Text in
    // bytes is read as `float()` reads it.
    unsafe { Bound::from_owned_ptr_or_err(reply.py(), ffi::PyNumber_Float(reply.as_ptr())) }
}

fn dictionary<'py>(reply: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let made = PyDict::new(reply.py());
    if let Ok(list) = reply.cast_exact::<PyList>() {
        let mut items = list.iter();
        while let (Some(name), Some(value)) = (items.next(), items.next()) {
            made.set_item(name, value)?;
        }
    }
    Ok(made.into_any())
}

fn pairs(reply: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let py = reply.py();
    let Ok(list) = reply.cast_exact::<PyList>() else {
        return Ok(reply);
    };
    if list.is_empty() {
        return Ok(reply);
    }
    let length = list.len() / 2;
    // SAFETY: the thread is attached; a new reference, or null with an exception set.
    let made = unsafe {
        let made = ffi::PyList_New(length as ffi::Py_ssize_t);
        Bound::from_owned_ptr_or_err(py, made)?
    };
    let mut items = list.iter();
    for index in 0..length {
        let (Some(member), Some(score)) = (items.next(), items.next()) else {
            // The list was ours alone.
            return Err(PyValueError::new_err("expected a score for each member"));
        };
        let pair = PyTuple::new(py, [member, number(score)?])?;
        // SAFETY: the list is new, and the index is below its length; it takes the reference. A list with gaps may be
        // dropped.
        unsafe { ffi::PyList_SetItem(made.as_ptr(), index as ffi::Py_ssize_t, pair.into_ptr()) };
    }
    Ok(made)
}

/// What is known of redis-py's functions. They are those of a client of its own, whose dictionary no program has
/// changed; they are kept, so that no other function comes to lie where one of them was.
fn known(py: Python<'_>) -> PyResult<&'static [(Py<PyAny>, Known)]> {
    static KNOWN: PyOnceLock<Vec<(Py<PyAny>, Known)>> = PyOnceLock::new();
    let known = KNOWN.get_or_try_init(py, || {
        let options = PyDict::new(py);
        options.set_item("protocol", 2)?;
        let class = py.import("redis")?.getattr("Redis")?;
        let usual = class.call((), Some(&options))?;
        let usual = usual.getattr("response_callbacks")?;
        let mut known: Vec<(Py<PyAny>, Known)> = Vec::new();
        // Each by a command that has it.
        for (command, meaning) in [
            ("EXPIRE", Known::Plain(Shape::Truth)),
            ("INCRBYFLOAT", Known::Plain(Shape::Float)),
            ("ZSCORE", Known::Plain(Shape::Float)),
            ("LSET", Known::Plain(Shape::Ok)),
            ("HGETALL", Known::Plain(Shape::Dict)),
            ("SMEMBERS", Known::Plain(Shape::Set)),
            ("ZMSCORE", Known::Plain(Shape::Floats)),
            ("ZRANGE", Known::ScorePairs),
            ("ZPOPMIN", Known::PopPairs),
            ("ZADD", Known::Added),
            ("ZRANK", Known::Rank),
            ("SET", Known::SetResult),
        ] {
            let function = usual.call_method1("get", (command,))?;
            if !function.is_none() && !known.iter().any(|(other, _)| other.is(&function)) {
                known.push((function.unbind(), meaning));
            }
        }
        Ok::<_, PyErr>(known)
    })?;
    Ok(known)
}

/// What was said about a command's reply besides what is asked of every command.
pub(crate) type Options<'a, 'py> = &'a [(Borrowed<'a, 'py, PyString>, Borrowed<'a, 'py, PyAny>)];

/// Whether what is said by this name is how to ask, and nothing about the answer.
pub(crate) fn is_about_asking(name: &Bound<'_, PyString>) -> bool {
    let py = name.py();
    // Names of arguments are nearly always the very same objects.
    let known = [
        intern!(py, "keys"),
        intern!(py, "NEVER_DECODE"),
        intern!(py, "EMPTY_RESPONSE"),
    ];
    known.iter().any(|known| name.is(known))
        || ["keys", "NEVER_DECODE", "EMPTY_RESPONSE"]
            .iter()
            .any(|known| name == known)
}

fn option<'a, 'py>(options: Options<'a, 'py>, name: &str) -> Option<Borrowed<'a, 'py, PyAny>> {
    let mut named = options.iter().filter(|(other, _)| *other == name);
    named.next().map(|(_, value)| *value)
}

impl Known {
    /// What it makes of the reply with these options; None where it has to be called.
    fn shape(self, options: Options<'_, '_>) -> PyResult<Option<Shape>> {
        let is_asked = |name| match option(options, name) {
            Some(value) => value.is_truthy(),
            None => Ok(false),
        };
        let casts_plainly = || match option(options, "score_cast_func") {
            Some(cast) => cast.as_ptr() == cast.py().get_type::<PyFloat>().as_ptr(),
            None => true,
        };
        Ok(match self {
            // Whatever else was said, it would be told, and might not know it.
            Known::Plain(shape) => options.is_empty().then_some(shape),
            Known::ScorePairs if !is_asked("withscores")? => Some(Shape::Reply),
            Known::ScorePairs | Known::PopPairs => casts_plainly().then_some(Shape::Pairs),
            Known::Added => (!is_asked("as_score")?).then_some(Shape::Reply),
            Known::Rank => (!is_asked("withscore")?).then_some(Shape::Reply),
            Known::SetResult => match is_asked("get")? {
                true => Some(Shape::Reply),
                false => Some(Shape::OkOrNone),
            },
        })
    }
}

/// What is done with the reply to a command of this name, with these callbacks.
pub(crate) fn plan<'py>(
    callbacks: &Bound<'py, PyAny>,
    name: &Bound<'py, PyAny>,
    options: Options<'_, 'py>,
) -> PyResult<Plan<'py>> {
    let py = name.py();
    let Some(function) = callback(callbacks, name)? else {
        return Ok(Plan::Known(Shape::Reply));
    };
    if let Some((_, known)) = known(py)?.iter().find(|(other, _)| other.is(&function))
        && let Some(shape) = known.shape(options)?
    {
        return Ok(Plan::Known(shape));
    }
    Ok(Plan::Call(function))
}

/// The function for a command of this name.
fn callback<'py>(
    callbacks: &Bound<'py, PyAny>,
    name: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if let Ok(dictionary) = callbacks.cast::<PyDict>() {
        if let Some(function) = dictionary.get_item(name)? {
            return Ok(Some(function));
        }
        // Names are written in capitals by redis-py, by others as they like; its dictionary finds them all.
        let text = name.cast::<PyString>().map(|text| text.to_cow());
        if let Ok(Ok(text)) = text
            && !text.bytes().any(|byte| byte.is_ascii_lowercase())
        {
            return Ok(None);
        }
    }
    let found = callbacks.call_method1("get", (name,))?;
    Ok((!found.is_none()).then_some(found))
}
