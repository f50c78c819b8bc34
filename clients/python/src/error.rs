//! Errors as redis-py's exceptions.

use std::fmt::Display;

use pyo3::exceptions::PyValueError;
use pyo3::import_exception;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use undercroft_commands::handler::Failure;
use undercroft_engine::{Error, Store, is_patience_limited};

use crate::haste::Locked;

mod exceptions {
    use super::import_exception;
    import_exception!(redis.exceptions, ConnectionError);
    import_exception!(redis.exceptions, DataError);
    import_exception!(redis.exceptions, TimeoutError);
}
pub(crate) use exceptions::{ConnectionError, DataError, TimeoutError};

/// redis-py's own choice of exception for an error reply: an object, not raised.
pub(crate) fn from_reply<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    static PARSE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let parse = PARSE.get_or_try_init(py, || {
        let parser = py.import("redis._parsers")?.getattr("BaseParser")?;
        Ok::<_, PyErr>(parser.getattr("parse_error")?.unbind())
    })?;
    parse.bind(py).call1((text,))
}

/// The exception for an error reply.
pub(crate) fn raise_reply(py: Python<'_>, store: &Store, text: &str) -> PyErr {
    if store.removed() {
        return exceptions::ConnectionError::new_err(without_code(text).to_owned());
    }
    match from_reply(py, text) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// The exception for an error of the engine.
#[cold]
pub(crate) fn raise(py: Python<'_>, store: &Store, error: Error) -> PyErr {
    if error.is_wait() {
        return raise_wait(py, &error);
    }
    match Failure::from(error) {
        Failure::Reply(error) => raise_reply(py, store, error.text()),
        Failure::Blocked(blocked) => raise_wait(py, &blocked),
    }
}

/// The exception for a wait without success: what a signal handler raised, or a
/// timeout; where the call hurries, that it may be tried again.
#[cold]
pub(crate) fn raise_wait(py: Python<'_>, error: &dyn Display) -> PyErr {
    if let Some(raised) = PyErr::take(py) {
        return raised;
    }
    match is_patience_limited() {
        true => Locked::new_err(error.to_string()),
        false => exceptions::TimeoutError::new_err(error.to_string()),
    }
}

/// The exception for a store that cannot be opened.
#[cold]
pub(crate) fn raise_opening(error: &Error) -> PyErr {
    match error {
        Error::Name(reason) | Error::Terms(reason) => PyValueError::new_err(reason.to_string()),
        error => exceptions::ConnectionError::new_err(error.to_string()),
    }
}

fn without_code(text: &str) -> &str {
    text.split_once(' ').map_or(text, |(_, rest)| rest)
}
