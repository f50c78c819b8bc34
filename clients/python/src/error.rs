//! Converts errors to exceptions of redis-py, or of this package for clients that do not use
//! redis-py.

use std::fmt::Display;

use pyo3::exceptions::{PyException, PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::{create_exception, import_exception};
use undercroft_commands::{Blocked, Failure, busy_with_script};
use undercroft_embedded::removed_text;
use undercroft_engine::{Error, Store, is_patience_limited};

use crate::threads::nonblocking::{Locked, MustSync, TakesLong};

mod exceptions {
    use super::import_exception;
    import_exception!(redis.exceptions, ConnectionError);
    import_exception!(redis.exceptions, DataError);
    import_exception!(redis.exceptions, TimeoutError);
}
pub(crate) use exceptions::{ConnectionError, DataError, TimeoutError};

create_exception!(
    undercroft,
    StoreError,
    PyException,
    "The base class of all errors that undercroft.Store raises."
);
create_exception!(
    undercroft,
    CommandError,
    StoreError,
    "An error reply to a command, with the same text as in Redis."
);
create_exception!(
    undercroft,
    BusyError,
    StoreError,
    "Another process holds a lock and is making no progress. The failed call changed nothing."
);
create_exception!(
    undercroft,
    UnavailableError,
    StoreError,
    "The store cannot be opened, or its file was removed."
);

/// The package whose exceptions a client raises.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Raises {
    RedisPys,
    Own,
}

impl Raises {
    /// Returns the exception object for an error reply without raising it.
    pub(crate) fn reply<'py>(self, py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Raises::RedisPys => from_reply(py, text),
            Raises::Own => Ok(CommandError::new_err(text.to_owned())
                .into_value(py)
                .into_bound(py)
                .into_any()),
        }
    }

    /// Returns the exception for an argument of a type that no command accepts.
    pub(crate) fn argument(self, text: String) -> PyErr {
        match self {
            Raises::RedisPys => DataError::new_err(text),
            Raises::Own => PyTypeError::new_err(text),
        }
    }

    /// Returns the exception for a store that is unavailable.
    pub(crate) fn unavailable(self, text: String) -> PyErr {
        match self {
            Raises::RedisPys => ConnectionError::new_err(text),
            Raises::Own => UnavailableError::new_err(text),
        }
    }

    /// Whether the removal of the store's file may have caused an exception. False for exceptions
    /// from signal handlers.
    pub(crate) fn is_unavailable(self, py: Python<'_>, error: &PyErr) -> bool {
        let is_unavailable = match self {
            Raises::RedisPys => error.is_instance_of::<ConnectionError>(py),
            Raises::Own => error.is_instance_of::<UnavailableError>(py),
        };
        is_unavailable || error.is_instance_of::<PyMemoryError>(py)
    }

    /// Returns the exception for a wait that failed.
    pub(crate) fn busy(self, text: String) -> PyErr {
        match self {
            Raises::RedisPys => TimeoutError::new_err(text),
            Raises::Own => BusyError::new_err(text),
        }
    }
}

/// Returns the exception that redis-py chooses for an error reply.
fn from_reply<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    static PARSE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let parse = PARSE.get_or_try_init(py, || {
        let parser = py.import("redis._parsers")?.getattr("BaseParser")?;
        Ok::<_, PyErr>(parser.getattr("parse_error")?.unbind())
    })?;
    parse.bind(py).call1((text,))
}

/// Returns the error to raise for an error reply.
pub(crate) fn raise_reply(py: Python<'_>, raises: Raises, store: &Store, text: &str) -> PyErr {
    if let Some(text) = removed_text(store, text) {
        return raises.unavailable(without_code(&text).to_owned());
    }
    match raises.reply(py, text) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// Returns the exception for an engine error.
#[cold]
pub(crate) fn raise(py: Python<'_>, raises: Raises, store: &Store, error: Error) -> PyErr {
    if error.must_sync() {
        return must_sync();
    }
    if error.is_wait() {
        let busy = busy_with_script(store, &error);
        return match busy.filter(|_| !PyErr::occurred(py)) {
            Some(busy) => raise_reply(py, raises, store, busy.text()),
            None => raise_wait(py, raises, &error),
        };
    }
    match Failure::from(error) {
        Failure::Reply(error) => raise_reply(py, raises, store, error.text()),
        Failure::Blocked(blocked) => raise_blocked(py, raises, &blocked),
    }
}

/// Returns the exception for a wait that failed: the signal handler's exception if a handler raised
/// one, otherwise a timeout. A hurried call gets [`Locked`], so that the event loop retries it.
#[cold]
pub(crate) fn raise_wait(py: Python<'_>, raises: Raises, error: &dyn Display) -> PyErr {
    if let Some(raised) = PyErr::take(py) {
        return raised;
    }
    match is_patience_limited() {
        true => Locked::new_err(error.to_string()),
        false => raises.busy(error.to_string()),
    }
}

/// Returns the exception for a command that was blocked; see [`raise_wait`].
#[cold]
pub(crate) fn raise_blocked(py: Python<'_>, raises: Raises, blocked: &Blocked) -> PyErr {
    match blocked {
        Blocked::Long if is_patience_limited() && !PyErr::occurred(py) => {
            TakesLong::new_err("the script takes long")
        }
        Blocked::Lock(error) if error.must_sync() => must_sync(),
        blocked => raise_wait(py, raises, blocked),
    }
}

#[cold]
fn must_sync() -> PyErr {
    MustSync::new_err("the change waits for the disk")
}

/// Returns the exception for a store that cannot be opened. If a signal handler has interrupted a
/// recovery, or the wait for one, returns the handler's exception.
#[cold]
pub(crate) fn raise_opening(raises: Raises, error: &Error) -> PyErr {
    if let Some(raised) = Python::attach(PyErr::take) {
        return raised;
    }
    match error {
        Error::Name(reason) | Error::Terms(reason) => PyValueError::new_err(reason.to_string()),
        error => raises.unavailable(error.to_string()),
    }
}

fn without_code(text: &str) -> &str {
    text.split_once(' ').map_or(text, |(_, rest)| rest)
}
