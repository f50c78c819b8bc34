//! Executes any command through the shared command table.

use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple,
};
use pyo3::{Borrowed, intern};
use smallvec::SmallVec;
use undercroft_commands::reply::{Recorder, Tree};

use crate::client::Client;
use crate::conversion::codec::{self, Codec};
use crate::conversion::reply::{Answer, Objects};
use crate::conversion::shape::{self, Shape};
use crate::error;
use crate::taken;

/// Commands with at most this many words run without allocating memory for the words.
pub(crate) const FEW: usize = 8;

/// An argument's bytes, either owned or borrowed from a live object.
pub(crate) enum Argument<'a> {
    Of(&'a [u8]),
    Digits([u8; 20], usize),
    Own(Vec<u8>),
}

impl Argument<'_> {
    pub(crate) fn integer(value: i64) -> Self {
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(value).as_bytes();
        let mut digits = [0; 20];
        digits[..text.len()].copy_from_slice(text);
        Argument::Digits(digits, text.len())
    }

    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Argument::Of(bytes) => bytes,
            Argument::Digits(digits, length) => &digits[..*length],
            Argument::Own(bytes) => bytes,
        }
    }
}

/// Calls `body` with a command's words in wire format, starting with the command's name.
pub(crate) fn with_words<'a, 'py: 'a, R>(
    codec: &Codec,
    objects: impl ExactSizeIterator<Item = Borrowed<'a, 'py, PyAny>>,
    body: impl FnOnce(&[&[u8]]) -> PyResult<R>,
) -> PyResult<R> {
    let mut encoded: SmallVec<[Argument<'_>; FEW]> = SmallVec::with_capacity(objects.len());
    for object in objects {
        encoded.push(match encoded.is_empty() {
            true => name(codec, object)?,
            false => encode(codec, object)?,
        });
    }
    let mut words: SmallVec<[&[u8]; FEW]> = SmallVec::with_capacity(encoded.len());
    if let Some((first, rest)) = encoded.split_first() {
        let name = first.bytes();
        if name.iter().any(u8::is_ascii_whitespace) {
            // A name such as "CONFIG GET" consists of a command and its subcommand.
            let parts = name.split(u8::is_ascii_whitespace);
            words.extend(parts.filter(|word| !word.is_empty()));
        } else if !name.is_empty() {
            words.push(name);
        }
        words.extend(rest.iter().map(Argument::bytes));
    }
    body(&words)
}

/// Encodes a command's name, which is ASCII in every encoding.
#[inline]
fn name<'a>(codec: &Codec, object: Borrowed<'a, '_, PyAny>) -> PyResult<Argument<'a>> {
    // SAFETY: the thread is attached, and the reference keeps the object alive.
    if let Some(bytes) = unsafe { codec.bytes(object.as_ptr()) } {
        return Ok(Argument::Of(bytes));
    }
    match object.cast::<PyString>() {
        Ok(text) => Ok(Argument::Own(text.to_cow()?.into_owned().into_bytes())),
        Err(_) => encode(codec, object),
    }
}

/// Runs a command and returns its reply in the given shape. Strings are decoded only if `decode` is
/// set and the client decodes replies. Elements that the command removes from the store are
/// recorded in `taken`, if given, before the result is created.
#[inline]
pub(crate) fn ask<'py>(
    client: &Client,
    py: Python<'py>,
    words: &[&[u8]],
    decode: bool,
    shape: Shape,
    taken: Option<&Bound<'py, PyList>>,
) -> PyResult<Bound<'py, PyAny>> {
    match ask_once(client, py, words, decode, shape, taken) {
        Err(Refused { again: true, .. }) => ask_once(client, py, words, decode, shape, taken),
        outcome => outcome,
    }
    .map_err(|refused| refused.raised)
}

/// The reason why a command has no result.
struct Refused {
    raised: PyErr,
    /// Whether to retry the command in another store because the store's file was removed.
    again: bool,
}

impl From<PyErr> for Refused {
    fn from(raised: PyErr) -> Refused {
        Refused {
            raised,
            again: false,
        }
    }
}

#[inline]
fn ask_once<'py>(
    client: &Client,
    py: Python<'py>,
    words: &[&[u8]],
    decode: bool,
    shape: Shape,
    taken: Option<&Bound<'py, PyList>>,
) -> Result<Bound<'py, PyAny>, Refused> {
    let shared = client.enter(py)?;
    let mut session = client.session(py);
    // Check this before running the command, because EXEC ends the session's transaction and
    // watches.
    let held_nothing = session.holds_nothing();
    let mut reply = Objects::new(py, &client.codec, decode).shaped(shape);
    let ticket = match taken {
        Some(list) => shared.taking(&session, words).map(|ticket| (ticket, list)),
        None => None,
    };
    match ticket {
        None => {
            let outcome = shared.execute(&mut session, words, &mut reply);
            drop(session);
            outcome.map_err(|blocked| error::raise_blocked(py, client.codec.raises, &blocked))?;
        }
        Some((ticket, list)) => {
            let mut recorder = Recorder::new();
            let outcome = shared.execute(&mut session, words, &mut recorder);
            drop(session);
            outcome.map_err(|blocked| error::raise_blocked(py, client.codec.raises, &blocked))?;
            let whole = recorder.finish().ok().and_then(|mut all| all.pop());
            let taken = ticket.with_reply(whole.unwrap_or(Tree::Null));
            let took = taken::keep(py, &shared, list, taken)?;
            took.get().reply().write(&mut reply);
        }
    }
    match reply.finish()? {
        Answer::Value(value) => Ok(value),
        Answer::Error(text) => Err(Refused {
            raised: error::raise_reply(py, client.codec.raises, &shared.store, &text),
            again: held_nothing && client.runs_again(py, &shared, words),
        }),
    }
}

/// Encodes an argument as redis-py's encoder does.
#[inline]
pub(crate) fn encode<'a>(codec: &Codec, object: Borrowed<'a, '_, PyAny>) -> PyResult<Argument<'a>> {
    // SAFETY: the thread is attached, and the reference keeps the object alive.
    if let Some(bytes) = unsafe { codec.bytes(object.as_ptr()) } {
        return Ok(Argument::Of(bytes));
    }
    // SAFETY: the thread is attached, and the reference keeps the object alive.
    if let Some(value) = unsafe { codec::integer(object.as_ptr()) } {
        return Ok(Argument::integer(value));
    }
    encode_any(codec, object)
}

pub(crate) fn encode_any<'a>(
    codec: &Codec,
    object: Borrowed<'a, '_, PyAny>,
) -> PyResult<Argument<'a>> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Argument::Own(bytes.as_bytes().to_vec()));
    }
    if let Ok(bytes) = object.cast::<PyByteArray>() {
        return Ok(Argument::Own(bytes.to_vec()));
    }
    if object.is_instance_of::<PyMemoryView>() {
        let bytes = object.call_method0("tobytes")?;
        return Ok(Argument::Own(bytes.cast::<PyBytes>()?.as_bytes().to_vec()));
    }
    let number = object.is_instance_of::<PyInt>() || object.is_instance_of::<PyFloat>();
    if number && !object.is_instance_of::<PyBool>() {
        return Ok(Argument::Own(
            object.repr()?.to_cow()?.into_owned().into_bytes(),
        ));
    }
    if object.is_instance_of::<PyString>() {
        let encoding = codec.encoding.to_string_lossy();
        let errors = codec.errors.to_string_lossy();
        let bytes = object.call_method1("encode", (encoding.as_ref(), errors.as_ref()))?;
        return Ok(Argument::Own(bytes.cast::<PyBytes>()?.as_bytes().to_vec()));
    }
    Err(codec.raises.argument(format!(
        "Invalid input of type: '{}'. Convert to a bytes, string, int or float first.",
        object.get_type().name()?
    )))
}

/// Runs a command with redis-py's options for its reply. Returns the result and false. If only
/// Python code can compute the result, returns the reply and true.
pub(crate) fn run<'py>(
    client: &Client,
    words: &Bound<'py, PyTuple>,
    options: &Bound<'py, PyDict>,
    taken: Option<&Bound<'py, PyList>>,
) -> PyResult<(Bound<'py, PyAny>, bool)> {
    let py = words.py();
    let name = words.get_item(0)?;
    let callbacks = client.callbacks(py);
    let callbacks = callbacks.as_ref().and_then(|all| all.cast::<PyDict>().ok());
    let shape = match callbacks {
        Some(callbacks) => shape::of_command(callbacks, &name, options)?,
        None => None,
    };
    let decode = options.is_empty() || !options.contains(intern!(py, "NEVER_DECODE"))?;
    let reply = with_words(&client.codec, words.iter_borrowed(), |words| {
        let shape = shape.unwrap_or(Shape::Reply);
        ask(client, py, words, decode, shape, taken)
    })?;
    Ok((reply, shape.is_none()))
}
