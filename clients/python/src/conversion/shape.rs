//! From a reply to what a method of redis-py's returns.
//!
//! redis-py has a function for each command that makes something of its reply. The usual ones are known by their
//! identity and done here, in one step; any other, a program's own among them, is for Python to call.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PySet, PyString};
use smallvec::SmallVec;

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

impl Shape {
    /// Whether it is made of numbers: then floating point numbers of a reply need not become text before.
    pub(crate) fn takes_numbers(self) -> bool {
        matches!(self, Shape::Float | Shape::Floats | Shape::Pairs)
    }

    /// What becomes of a reply that is a text, a number or none; [`shaped`](crate::conversion::reply::shaped) knows of all.
    #[inline]
    pub(crate) fn of_one<'py>(self, reply: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = reply.py();
        Ok(match self {
            Shape::Reply => reply,
            Shape::Truth => truth(py, reply.is_truthy()?),
            Shape::Ok => truth(py, is_ok(&reply)),
            Shape::OkOrNone if reply.is_none() => reply,
            Shape::OkOrNone => truth(py, is_ok(&reply)),
            Shape::Float => number(reply)?,
            Shape::Dict => PyDict::new(py).into_any(),
            Shape::Set => PySet::empty(py)?.into_any(),
            Shape::Floats | Shape::Pairs => reply,
        })
    }
}

pub(crate) fn truth(py: Python<'_>, value: bool) -> Bound<'_, PyAny> {
    PyBool::new(py, value).to_owned().into_any()
}

fn is_ok(reply: &Bound<'_, PyAny>) -> bool {
    match reply.cast_exact::<PyString>() {
        Ok(text) => text == "OK",
        Err(_) => reply.extract::<&[u8]>().is_ok_and(|text| text == b"OK"),
    }
}

/// A number, of itself or of its text; none stays none.
pub(crate) fn number(reply: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    if reply.is_none() || reply.is_exact_instance_of::<PyFloat>() {
        return Ok(reply);
    }
    // SAFETY: the object is valid and the thread is attached; a new reference, or null with an exception set. Text in
    // bytes is read as `float()` reads it.
    unsafe { Bound::from_owned_ptr_or_err(reply.py(), ffi::PyNumber_Float(reply.as_ptr())) }
}

/// What is known of redis-py's functions. They are kept, so that no other function comes to lie where one of them was.
static KNOWN: PyOnceLock<Vec<(Py<PyAny>, Known)>> = PyOnceLock::new();

/// Takes note of redis-py's functions, in a dictionary by command that no program has changed. Meant for the time when
/// the package is imported: a call runs no Python from native frames, as a thread may be in it when the interpreter
/// ends, and would be unwound through them.
#[pyfunction]
pub(crate) fn know(usual: &Bound<'_, PyDict>) -> PyResult<()> {
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
        if let Some(function) = usual.get_item(command)?
            && !known.iter().any(|(other, _)| other.is(&function))
        {
            known.push((function.unbind(), meaning));
        }
    }
    let _ = KNOWN.set(usual.py(), known);
    Ok(())
}

/// What was said about a command's reply besides what is asked of every command.
type Options<'py> = SmallVec<[(Bound<'py, PyString>, Bound<'py, PyAny>); 2]>;

/// What is said to the function that makes the result: the rest is how to ask, and nothing about the answer.
fn told<'py>(options: &Bound<'py, PyDict>) -> PyResult<Options<'py>> {
    let mut told = Options::new();
    for (name, value) in options.iter() {
        let name = name.cast_into::<PyString>()?;
        let asks = ["keys", "NEVER_DECODE", "EMPTY_RESPONSE"];
        if !asks.iter().any(|other| name == *other) {
            told.push((name, value));
        }
    }
    Ok(told)
}

fn option<'a, 'py>(options: &'a Options<'py>, name: &str) -> Option<&'a Bound<'py, PyAny>> {
    let mut named = options.iter().filter(|(other, _)| other == name);
    named.next().map(|(_, value)| value)
}

impl Known {
    /// What it makes of the reply with these options; None where it has to be called.
    fn shape(self, options: &Options<'_>) -> PyResult<Option<Shape>> {
        // Whether another object is true may be for Python to say.
        let asked = |name| match option(options, name) {
            Some(value) if value.is_exact_instance_of::<PyBool>() => value.is_truthy().map(Some),
            Some(value) => Ok(value.is_none().then_some(false)),
            None => Ok(Some(false)),
        };
        let casts_plainly = || match option(options, "score_cast_func") {
            Some(cast) => cast.as_ptr() == cast.py().get_type::<PyFloat>().as_ptr(),
            None => true,
        };
        let name = match self {
            // Whatever else was said, it would be told, and might not know it.
            Known::Plain(shape) => return Ok(options.is_empty().then_some(shape)),
            Known::PopPairs => return Ok(casts_plainly().then_some(Shape::Pairs)),
            Known::ScorePairs => "withscores",
            Known::Added => "as_score",
            Known::Rank => "withscore",
            Known::SetResult => "get",
        };
        Ok(match (self, asked(name)?) {
            (Known::SetResult, Some(false)) => Some(Shape::OkOrNone),
            (Known::SetResult, Some(true)) | (_, Some(false)) => Some(Shape::Reply),
            (Known::ScorePairs, Some(true)) => casts_plainly().then_some(Shape::Pairs),
            _ => None,
        })
    }
}

/// What becomes of the reply to a command of this name, with these callbacks; None where a function makes it that only
/// Python can call.
pub(crate) fn of_command<'py>(
    callbacks: &Bound<'py, PyDict>,
    name: &Bound<'py, PyAny>,
    options: &Bound<'py, PyDict>,
) -> PyResult<Option<Shape>> {
    let Ok(text) = name.cast_exact::<PyString>() else {
        return Ok(None);
    };
    let Some(function) = callbacks.get_item(text)? else {
        // Names are written in capitals by redis-py, by others as they like; its dictionary finds them all.
        let is_small = text.to_cow()?.bytes().any(|byte| byte.is_ascii_lowercase());
        return Ok((!is_small).then_some(Shape::Reply));
    };
    let known = KNOWN.get(name.py()).map_or(&[][..], Vec::as_slice);
    match known.iter().find(|(other, _)| other.is(&function)) {
        Some((_, known)) => known.shape(&told(options)?),
        None => Ok(None),
    }
}
