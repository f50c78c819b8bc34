//! Makes a synchronous client's common calls in one step: removes an idle connection from the pool,
//! sends the command, receives the reply, and returns the connection.
//!
//! This path runs no Python code except to create an exception from an error reply. Unusual calls
//! are left to Python, either before anything is sent, or together with the connection and the
//! reply. A C function that owns nothing then calls the client's method `_go_on`.

use pyo3::Borrowed;
use pyo3::exceptions::PyBaseException;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySet, PyString, PyTuple};

use crate::methods::fastcall::{Next, Step};

use super::pipeline::{self, ACCOMPANIED};
use super::plug::{self, Fields};
use super::{Wire, pack};

/// The prefix of WAIT and WAITAOF, which refer to the last write on their own connection. The
/// program's last write may have used another connection in the pool.
const REPLICATED: &[u8] = b"WAIT";

/// Runs a command as `undercroft.remote.client.RemoteRedis.execute_command` documents.
pub(super) unsafe extern "C-unwind" fn execute_command(
    client: *mut ffi::PyObject,
    args: *mut ffi::PyObject,
    options: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls this method with valid arguments on an attached thread, and
    // this frame owns nothing to drop.
    unsafe { plug::run(attempt, client, args, options) }
}

fn attempt<'py>(
    client: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Step> {
    let py = client.py();
    let came = call(client, args, options)?;
    let Ok(left) = came.cast_exact::<PyTuple>() else {
        return Ok(Step::Done(came.into_ptr()));
    };
    let options = options.map_or_else(|| PyDict::new(py), Bound::clone);
    let function = client.getattr(intern!(py, "_go_on"))?;
    let arguments = (left, args, options).into_pyobject(py)?;
    Ok(Step::Next(Next::new(function, arguments, None)))
}

/// Makes a common call over an idle connection from the client's pool and returns its reply.
///
/// In all other cases returns a tuple, because a reply is never a tuple. An empty tuple means that
/// nothing was sent. A tuple of one item contains a reply for which the client has a callback. A
/// tuple of four items is returned for an error or a message, or if an exception was raised after
/// sending. It contains the pool, the connection that the caller must return to it, the reply or
/// exception, and whether the exception was raised.
fn call<'py>(
    client: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = client.py();
    let nothing = || Ok(PyTuple::empty(py).into_any());
    let client = Fields::of(client)?;
    let Some(pool) = client.get(intern!(py, "connection_pool"))? else {
        return nothing();
    };
    let usual = client.get(intern!(py, "_usual_pool"))?;
    if !usual.is_some_and(|usual| usual.is(&pool))
        || !is_usual(args, options)?
        || plug::is_measured(py)?
    {
        return nothing();
    }
    let Some(taken) = Taken::of(&pool)? else {
        return nothing();
    };
    match taken.ask(args.iter_borrowed()) {
        Ok(Some(reply)) if is_special(&reply) || taken.is_to_go()? => {
            taken.leave(pool, reply, false)
        }
        Ok(Some(reply)) => {
            taken.give()?;
            let callbacks = client.get(intern!(py, "response_callbacks"))?;
            match callbacks.as_ref().map(Bound::cast::<PyDict>) {
                // Both the name and the dictionary's keys are in upper case.
                Some(Ok(callbacks)) if !callbacks.contains(args.get_borrowed_item(0)?)? => {
                    Ok(reply)
                }
                _ => Ok((reply,).into_pyobject(py)?.into_any()),
            }
        }
        Ok(None) => {
            taken.give()?;
            nothing()
        }
        // Nothing was sent.
        Err(error) if !taken.wire.borrow().owed => {
            taken.give()?;
            Err(error)
        }
        Err(error) => {
            let error = error.into_value(py).into_bound(py).into_any();
            taken.leave(pool, error, true)
        }
    }
}

/// Whether the command's name is in upper case and neither the command nor its options are unusual.
fn is_usual(args: &Bound<'_, PyTuple>, options: Option<&Bound<'_, PyDict>>) -> PyResult<bool> {
    let Ok(name) = args.get_borrowed_item(0) else {
        return Ok(false);
    };
    let Ok(name) = name.cast_exact::<PyString>() else {
        return Ok(false);
    };
    let Ok(text) = name.to_cow() else {
        return Ok(false);
    };
    // redis-py's dictionary of callbacks ignores case, but this lookup does not.
    let small = text.bytes().any(|byte| byte.is_ascii_lowercase());
    let text = text.as_bytes();
    if small || text.starts_with(ACCOMPANIED) || text.starts_with(REPLICATED) || pack::streams(text)
    {
        return Ok(false);
    }
    match options {
        Some(options) => Ok(!options.contains(intern!(options.py(), "NEVER_DECODE"))?),
        None => Ok(true),
    }
}

/// A pooled connection that this call uses.
struct Taken<'py> {
    /// The pool's idle and used connections. A pool that resets itself, for example in a forked
    /// child, replaces both collections. A connection that was removed before the reset must not
    /// enter the new collections.
    idle: Bound<'py, PyList>,
    used: Bound<'py, PySet>,
    connection: Bound<'py, PyAny>,
    wire: Bound<'py, Wire>,
    timeout: Option<f64>,
}

impl<'py> Taken<'py> {
    /// Removes the most recently used connection from the pool, if it supports this path. The
    /// connection leaves the idle list first, because reading its attributes may run Python code,
    /// and then another thread can run.
    fn of(pool: &Bound<'py, PyAny>) -> PyResult<Option<Taken<'py>>> {
        let pool = Fields::of(pool)?;
        let idle = pool.get(intern!(pool.py(), "_available_connections"))?;
        let Some(Ok(idle)) = idle.map(Bound::cast_into_exact::<PyList>) else {
            return Ok(None);
        };
        let Some(last) = idle.len().checked_sub(1) else {
            return Ok(None);
        };
        let connection = idle.get_item(last)?;
        idle.del_item(last)?;
        match Taken::known(&pool, &connection) {
            Ok(Some((used, wire, timeout))) => Ok(Some(Taken {
                idle,
                used,
                connection,
                wire,
                timeout,
            })),
            other => {
                idle.append(&connection)?;
                other.map(|_| None)
            }
        }
    }

    /// Returns the connection's state and marks the connection as used, or returns None if it does
    /// not support this path.
    #[expect(
        clippy::type_complexity,
        reason = "one parameter for each field of the caller"
    )]
    fn known(
        pool: &Fields<'py>,
        connection: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(Bound<'py, PySet>, Bound<'py, Wire>, Option<f64>)>> {
        let py = connection.py();
        let fields = Fields::of(connection)?;
        let wire = fields.get(intern!(py, "wire"))?;
        let Some(Ok(wire)) = wire.map(Bound::cast_into_exact::<Wire>) else {
            return Ok(None);
        };
        let socket = fields.get(intern!(py, "_sock"))?;
        let health = fields.get(intern!(py, "health_check_interval"))?;
        let (Some(socket), Some(health)) = (socket, health) else {
            return Ok(None);
        };
        if health.is_truthy()? || socket.is_none() {
            return Ok(None);
        }
        let timeout = socket.getattr(intern!(py, "timeout"))?.extract()?;
        let used = pool.get(intern!(py, "_in_use_connections"))?;
        let Some(Ok(used)) = used.map(Bound::cast_into::<PySet>) else {
            return Ok(None);
        };
        used.add(connection)?;
        Ok(Some((used, wire, timeout)))
    }

    fn ask<'a>(
        &self,
        args: impl ExactSizeIterator<Item = Borrowed<'a, 'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>>
    where
        'py: 'a,
    {
        match self.wire.try_borrow_mut() {
            Ok(mut wire) => wire.ask(self.wire.py(), args, self.timeout),
            Err(_) => Ok(None),
        }
    }

    /// Whether redis-py asked this connection to reconnect.
    fn is_to_go(&self) -> PyResult<bool> {
        let py = self.connection.py();
        let anew = Fields::of(&self.connection)?.get(intern!(py, "_should_reconnect"))?;
        anew.map_or(Ok(false), |anew| anew.is_truthy())
    }

    /// Returns the connection to the pool, unless another thread has already returned it.
    fn give(self) -> PyResult<()> {
        if self.used.discard(&self.connection)? {
            self.idle.append(&self.connection)?;
        }
        Ok(())
    }

    /// Passes the pool, the connection, and the reply or exception to the caller.
    #[cold]
    fn leave(
        self,
        pool: Bound<'py, PyAny>,
        came: Bound<'py, PyAny>,
        raised: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let left = (pool, self.connection, came, raised);
        Ok(left.into_pyobject(self.wire.py())?.into_any())
    }
}

/// Whether the reply is an error or an unsolicited message.
fn is_special(reply: &Bound<'_, PyAny>) -> bool {
    pipeline::is_message(reply) || reply.is_instance_of::<PyBaseException>()
}
