//! Converts replies to the results of redis-py's methods.
//!
//! redis-py converts each command's reply with a callback. This module recognizes the standard
//! callbacks by identity and replaces them with native code. Python calls any other callback, such
//! as a callback that the program set.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PySet, PyString};
use smallvec::SmallVec;

/// The form that a reply is converted to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The reply itself, unchanged.
    Reply,
    /// The truth value of the reply.
    Truth,
    /// Whether the reply is `OK`.
    Ok,
    /// Whether the reply is `OK`, or None for a null reply.
    OkOrNone,
    /// A number or None.
    Float,
    /// A list of numbers, with None for null items.
    Floats,
    /// A dictionary built from alternating names and values.
    Dict,
    /// A set.
    Set,
    /// A list of pairs built from alternating members and scores.
    Pairs,
}

/// A recognized redis-py callback.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Accepts no options and converts to this shape.
    Plain(Shape),
    /// Returns pairs of members and scores if `withscores` is set.
    ScorePairs,
    /// Always returns pairs of members and scores.
    PopPairs,
    /// Converts the reply to a number if `as_score` is set.
    Added,
    /// Converts the score that follows a rank to a number if `withscore` is set.
    Rank,
    /// Returns the old value if `get` is set, otherwise whether the reply is `OK`.
    SetResult,
}

impl Shape {
    /// Whether the result contains numbers, so that floating-point replies need no conversion to
    /// text.
    pub(crate) fn takes_numbers(self) -> bool {
        matches!(self, Shape::Float | Shape::Floats | Shape::Pairs)
    }

    /// Converts a reply that is a string, a number or null. For other replies, see
    /// [`shaped`](crate::conversion::reply::shaped).
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

/// Converts a number or its text to a `float`. None remains None.
pub(crate) fn number(reply: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    if reply.is_none() || reply.is_exact_instance_of::<PyFloat>() {
        return Ok(reply);
    }
    // SAFETY: the object is valid and the thread is attached. The result is a new reference or null
    // with an exception set, and bytes are parsed as `float()` parses them.
    unsafe { Bound::from_owned_ptr_or_err(reply.py(), ffi::PyNumber_Float(reply.as_ptr())) }
}

/// The recognized redis-py callbacks. The references prevent another function from reusing a
/// callback's address.
static KNOWN: PyOnceLock<Vec<(Py<PyAny>, Known)>> = PyOnceLock::new();

/// Register redis-py's response callbacks by command, so that native code can replace them.
///
/// Call this function when the package is imported, before the program can change the dictionary.
/// Later calls then need not run Python code inside native frames. A thread that runs Python code
/// at interpreter shutdown unwinds through those frames.
#[pyfunction]
pub(crate) fn know(usual: &Bound<'_, PyDict>) -> PyResult<()> {
    let mut known: Vec<(Py<PyAny>, Known)> = Vec::new();
    // Find each callback by a command that uses it.
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

/// A command's reply options, excluding those that every command accepts.
type Options<'py> = SmallVec<[(Bound<'py, PyString>, Bound<'py, PyAny>); 2]>;

/// Returns the options that are passed to the callback. All other options affect only the request
/// or the decoding.
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
    /// Returns the shape that the callback produces with these options, or None if the callback
    /// must be called.
    fn shape(self, options: &Options<'_>) -> PyResult<Option<Shape>> {
        // Test only an exact `bool`, because the truth of other objects may depend on Python code.
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
            // Call the callback if any option is given, because it may raise an error for the
            // option.
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

/// Returns the shape of the reply to a command under these callbacks, or None if Python must call
/// the callback.
pub(crate) fn of_command<'py>(
    callbacks: &Bound<'py, PyDict>,
    name: &Bound<'py, PyAny>,
    options: &Bound<'py, PyDict>,
) -> PyResult<Option<Shape>> {
    let Ok(text) = name.cast_exact::<PyString>() else {
        return Ok(None);
    };
    let Some(function) = callbacks.get_item(text)? else {
        // redis-py writes names in upper case, but its dictionary ignores case. Python must
        // therefore look up a name with lowercase letters.
        let is_small = text.to_cow()?.bytes().any(|byte| byte.is_ascii_lowercase());
        return Ok((!is_small).then_some(Shape::Reply));
    };
    let known = KNOWN.get(name.py()).map_or(&[][..], Vec::as_slice);
    match known.iter().find(|(other, _)| other.is(&function)) {
        Some((_, known)) => known.shape(&told(options)?),
        None => Ok(None),
    }
}
