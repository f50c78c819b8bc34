//! The usual call of a synchronous client in one step: an idle connection is taken, the command
//! sent over it, its reply received, and the connection given back.
//!
//! This runs no Python code but what makes an exception of an error. Whatever is unusual is left
//! to Python, either with nothing sent, or with the connection and what has come.

use pyo3::exceptions::PyBaseException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySet, PyString, PyTuple};

use super::pipeline::{self, ACCOMPANIED};
use super::{Wire, names, pack};

/// See [`Wire::call_at_once`].
pub(super) fn call<'py>(
    pool: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    options: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = pool.py();
    if !is_usual(args, options)? {
        return names::missing(py);
    }
    let Some(taken) = Taken::of(pool)? else {
        return names::missing(py);
    };
    match taken.ask(args.iter_borrowed()) {
        Ok(Some(reply)) if is_special(&reply) || taken.is_to_go()? => taken.leave(reply, false),
        Ok(Some(reply)) => {
            taken.give()?;
            Ok(reply)
        }
        Ok(None) => {
            taken.give()?;
            names::missing(py)
        }
        // Nothing was sent.
        Err(error) if !taken.wire.borrow().owed => {
            taken.give()?;
            Err(error)
        }
        Err(error) => taken.leave(error.into_value(py).into_bound(py).into_any(), true),
    }
}

/// Whether the command's name is in capitals, and nothing is unusual about it and the options.
fn is_usual(args: &Bound<'_, PyTuple>, options: &Bound<'_, PyDict>) -> PyResult<bool> {
    let Ok(name) = args.get_borrowed_item(0) else {
        return Ok(false);
    };
    let Ok(name) = name.cast_exact::<PyString>() else {
        return Ok(false);
    };
    let Ok(text) = name.to_cow() else {
        return Ok(false);
    };
    // redis-py's dictionary of callbacks finds names however they are written.
    let small = text.bytes().any(|byte| byte.is_ascii_lowercase());
    let text = text.as_bytes();
    if small || text.starts_with(ACCOMPANIED) || pack::streams(text) {
        return Ok(false);
    }
    let never = intern!(options.py(), "NEVER_DECODE");
    Ok(options.is_empty() || !options.contains(never)?)
}

/// A connection that is in use by this call.
struct Taken<'py> {
    /// The pool's idle connections, and those in use. A pool that begins anew, as in a forked
    /// child, has others, which a connection of before has no place in.
    idle: Bound<'py, PyList>,
    used: Bound<'py, PySet>,
    connection: Bound<'py, PyAny>,
    wire: Bound<'py, Wire>,
    timeout: Option<f64>,
}

impl<'py> Taken<'py> {
    /// Takes the connection that was used last, if it is as usual. It is out of the list before anything is asked of it:
    /// what is asked may run Python, and so let another thread in.
    fn of(pool: &Bound<'py, PyAny>) -> PyResult<Option<Taken<'py>>> {
        let py = pool.py();
        let Ok(idle) = pool
            .getattr(intern!(py, "_available_connections"))?
            .cast_into_exact::<PyList>()
        else {
            return Ok(None);
        };
        let Some(last) = idle.len().checked_sub(1) else {
            return Ok(None);
        };
        let connection = idle.get_item(last)?;
        idle.del_item(last)?;
        match Taken::known(pool, &connection) {
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

    /// What is to be known of a connection, which is among those in use from then on; None where it is not as usual.
    #[expect(clippy::type_complexity, reason = "three fields of the caller's")]
    fn known(
        pool: &Bound<'py, PyAny>,
        connection: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(Bound<'py, PySet>, Bound<'py, Wire>, Option<f64>)>> {
        let py = pool.py();
        let wire = connection.getattr(intern!(py, "wire"))?;
        let Ok(wire) = wire.cast_into_exact::<Wire>() else {
            return Ok(None);
        };
        let health = connection.getattr(intern!(py, "health_check_interval"))?;
        let socket = connection.getattr(intern!(py, "_sock"))?;
        if health.is_truthy()? || socket.is_none() {
            return Ok(None);
        }
        let timeout = socket.getattr(intern!(py, "timeout"))?.extract()?;
        let used = pool.getattr(intern!(py, "_in_use_connections"))?;
        let Ok(used) = used.cast_into::<PySet>() else {
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

    /// Whether redis-py wants the connection made anew.
    fn is_to_go(&self) -> PyResult<bool> {
        let anew = intern!(self.connection.py(), "_should_reconnect");
        self.connection.getattr(anew)?.is_truthy()
    }

    /// Gives the connection back, unless somebody else has done so.
    fn give(self) -> PyResult<()> {
        if self.used.discard(&self.connection)? {
            self.idle.append(&self.connection)?;
        }
        Ok(())
    }

    /// Leaves the connection to the caller, with what has come over it or was raised.
    #[cold]
    fn leave(self, came: Bound<'py, PyAny>, raised: bool) -> PyResult<Bound<'py, PyAny>> {
        let left = (self.connection, came, raised);
        Ok(left.into_pyobject(self.wire.py())?.into_any())
    }
}

/// Whether it is an error, or a message that nobody asked for.
fn is_special(reply: &Bound<'_, PyAny>) -> bool {
    pipeline::is_message(reply) || reply.is_instance_of::<PyBaseException>()
}
