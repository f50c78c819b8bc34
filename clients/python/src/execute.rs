//! Any command, through the one command table.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyMemoryView, PyString, PyTuple};
use smallvec::SmallVec;

use crate::client::Client;
use crate::codec::Codec;
use crate::error::{self, DataError};
use crate::reply::{Answer, Objects};

/// An argument's bytes: those of an object that is kept alive, or our own.
pub(crate) enum Argument<'a> {
    Of(&'a [u8]),
    Own(Vec<u8>),
}

impl Argument<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Argument::Of(bytes) => bytes,
            Argument::Own(bytes) => bytes,
        }
    }
}

/// Calls `body` with a command's words as they are on the wire, its name first.
pub(crate) fn with_words<R>(
    client: &Client,
    arguments: &Bound<'_, PyTuple>,
    body: impl FnOnce(&[&[u8]]) -> PyResult<R>,
) -> PyResult<R> {
    let objects: SmallVec<[Bound<'_, PyAny>; 8]> = arguments.iter().collect();
    let mut encoded: SmallVec<[Argument<'_>; 8]> = SmallVec::new();
    for object in &objects {
        encoded.push(encode(&client.codec, object)?);
    }
    if let Some(first) = objects
        .first()
        .and_then(|first| first.cast::<PyString>().ok())
    {
        // Command names are ASCII, whatever the client's encoding is.
        encoded[0] = Argument::Own(first.to_cow()?.into_owned().into_bytes());
    }
    let mut words: SmallVec<[&[u8]; 8]> = SmallVec::new();
    if let Some((first, rest)) = encoded.split_first() {
        // "CONFIG GET" is a command and its subcommand.
        words.extend(
            first
                .bytes()
                .split(u8::is_ascii_whitespace)
                .filter(|word| !word.is_empty()),
        );
        words.extend(rest.iter().map(Argument::bytes));
    }
    body(&words)
}

/// Runs a command, its name first. `decode` says whether strings in the reply
/// are decoded, if the client decodes them at all.
pub(crate) fn run<'py>(
    client: &Client,
    py: Python<'py>,
    arguments: &Bound<'py, PyTuple>,
    decode: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let shared = client.enter(py)?;
    let answer = with_words(client, arguments, |words| {
        let mut session = client.session(py);
        let mut reply = Objects::new(py, &client.codec, decode);
        let outcome = shared.execute(&mut session, words, &mut reply);
        client.remember(py, session);
        outcome.map_err(|blocked| error::raise_wait(py, &blocked))?;
        reply.finish()
    })?;
    match answer {
        Answer::Value(value) => Ok(value),
        Answer::Error(text) => Err(error::raise_reply(py, &shared.store, &text)),
    }
}

/// An argument as redis-py's encoder would send it.
pub(crate) fn encode<'a>(codec: &Codec, object: &'a Bound<'_, PyAny>) -> PyResult<Argument<'a>> {
    // SAFETY: the thread is attached, and the reference keeps the object alive.
    if let Some(bytes) = unsafe { codec.bytes(object.as_ptr()) } {
        return Ok(Argument::Of(bytes));
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Argument::Of(bytes.as_bytes()));
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
    Err(DataError::new_err(format!(
        "Invalid input of type: '{}'. Convert to a bytes, string, int or float first.",
        object.get_type().name()?
    )))
}
