//! The usual call of a client in one step: an idle connection is taken, the command sent over
//! it, its reply received and made into a result, and the connection given back.
//!
//! Whatever is unusual is left to Python, either with nothing sent, or with what has come.

use std::ffi::c_void;
use std::ptr;

use pyo3::exceptions::PyBaseException;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PySet, PyString, PyTuple, PyType};

use super::Wire;
use super::pack;
use super::pipeline::{self, ACCOMPANIED};
use crate::trampoline::{self, Arguments, Next, Steps};

/// What this uses of the Python half of the package.
struct Parts {
    /// The client's method for all calls.
    method: Py<PyAny>,
    pool: Py<PyType>,
    measured: Py<PyAny>,
    shaped: Py<PyAny>,
}

static PARTS: PyOnceLock<Parts> = PyOnceLock::new();

/// See [`Wire::shorten`].
pub(super) fn shorten(
    class: &Bound<'_, PyType>,
    pool: &Bound<'_, PyType>,
    measured: &Bound<'_, PyAny>,
    shaped: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let py = class.py();
    if PARTS.get(py).is_some() {
        return Ok(());
    }
    let doc = c"execute_command($self, /, *args, **options)\n--\n\n\
                Run any command and return its reply, in the form redis-py gives it.";
    let method = trampoline::install(class, c"execute_command", doc, execute_command)?;
    let parts = Parts {
        method: method.unbind(),
        pool: pool.clone().unbind(),
        measured: measured.clone().unbind(),
        shaped: shaped.clone().unbind(),
    };
    // The interpreter's lock is held since the look above.
    let _ = PARTS.set(py, parts);
    Ok(())
}

/// The C function of the method.
unsafe extern "C-unwind" fn execute_command(
    client: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    positional: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls this with its arguments, and with the thread attached.
    unsafe {
        trampoline::run(Call {
            arguments: Arguments::new(&client, arguments, positional, &names),
            taken: ptr::null_mut(),
        })
    }
}

/// One call.
#[derive(Clone, Copy)]
struct Call<'a> {
    arguments: Arguments<'a>,
    /// A boxed [`Taken`] to be given back when Python has gone on with it, or null.
    taken: *mut c_void,
}

impl<'a, 'py: 'a> Steps<'py> for Call<'a> {
    fn begin(&mut self, py: Python<'py>) -> PyResult<Next> {
        let Some(parts) = PARTS.get(py) else {
            unreachable!("the method is there once its parts are");
        };
        match self.usual(py, parts)? {
            Some(next) => Ok(next),
            None => self.arguments.call(py, &parts.method),
        }
    }

    fn resume(&mut self, _: Python<'py>, came: PyResult<Bound<'py, PyAny>>) -> PyResult<Next> {
        let given = match self.taken.is_null() {
            true => Ok(()),
            // SAFETY: `resumed` has made it, for nobody else, and this is its only use.
            false => unsafe { Box::from_raw(self.taken.cast::<Taken<'py>>()) }.give(),
        };
        let result = came?;
        given.map(|()| Next::done(result))
    }
}

impl<'a> Call<'a> {
    /// Makes a usual call; None, with nothing sent, where it is none.
    fn usual<'py: 'a>(&mut self, py: Python<'py>, parts: &Parts) -> PyResult<Option<Next>> {
        let Some(name) = self.name(py)? else {
            return Ok(None);
        };
        let client = self.arguments.receiver(py);
        let measured = parts.measured.bind(py);
        let measured = measured.getattr(intern!(py, "_provider_manager"))?;
        let short = client.getattr(intern!(py, "_short"))?;
        if !measured.is_none() || !short.is_truthy()? {
            return Ok(None);
        }
        let pool = client.getattr(intern!(py, "connection_pool"))?;
        if !pool.get_type().is(&parts.pool) {
            return Ok(None);
        }
        let Some(taken) = Taken::of(pool)? else {
            return Ok(None);
        };
        let asked = taken.ask(self.arguments.positional(py));
        let result = match asked {
            Ok(Some(reply)) if !is_special(&reply) => Ok(Some(reply)),
            Ok(None) => Ok(None),
            Ok(Some(reply)) => return self.resumed(taken, reply, false).map(Some),
            // Nothing was sent.
            Err(error) if !taken.wire.borrow().owed => Err(error),
            Err(error) => {
                let error = error.into_value(py).into_bound(py).into_any();
                return self.resumed(taken, error, true).map(Some);
            }
        };
        taken.give()?;
        match result? {
            Some(reply) => self.shaped(parts, name, reply).map(Some),
            None => Ok(None),
        }
    }

    /// The command's name, if it is in capitals and nothing is unusual about the options.
    fn name<'py: 'a>(&self, py: Python<'py>) -> PyResult<Option<&'a Bound<'py, PyString>>> {
        let Some(name) = self.arguments.first(py) else {
            return Ok(None);
        };
        let Ok(name) = name.cast_exact::<PyString>() else {
            return Ok(None);
        };
        let Ok(text) = name.to_cow() else {
            return Ok(None);
        };
        // redis-py's dictionary of callbacks finds names however they are written.
        let small = text.bytes().any(|byte| byte.is_ascii_lowercase());
        let text = text.as_bytes();
        if small || text.starts_with(ACCOMPANIED) || pack::streams(text) {
            return Ok(None);
        }
        for option in self.arguments.names(py) {
            if option.cast::<PyString>()?.to_cow()? == "NEVER_DECODE" {
                return Ok(None);
            }
        }
        Ok(Some(name))
    }

    /// What redis-py makes of the reply.
    fn shaped<'py: 'a>(
        &self,
        parts: &Parts,
        name: &Bound<'py, PyString>,
        reply: Bound<'py, PyAny>,
    ) -> PyResult<Next> {
        let py = reply.py();
        let client = self.arguments.receiver(py);
        let callbacks = client.getattr(intern!(py, "response_callbacks"))?;
        if let Ok(callbacks) = callbacks.cast::<PyDict>() {
            match callbacks.get_item(name)? {
                Some(callback) if self.arguments.are_positional() => {
                    return Ok(Next::call(callback, (reply,).into_pyobject(py)?, None));
                }
                Some(_) => {}
                None => return Ok(Next::done(reply)),
            }
        }
        let args = (callbacks, name, reply, self.arguments.options(py)?).into_pyobject(py)?;
        Ok(Next::call(parts.shaped.bind(py).clone(), args, None))
    }

    /// Leaves it to the client to go on after what has come, or was raised.
    #[cold]
    fn resumed<'py: 'a>(
        &mut self,
        taken: Taken<'py>,
        came: Bound<'py, PyAny>,
        raised: bool,
    ) -> PyResult<Next> {
        let py = came.py();
        let resume = self
            .arguments
            .receiver(py)
            .getattr(intern!(py, "_resume"))?;
        let args = PyTuple::new(py, self.arguments.positional(py))?;
        let options = self.arguments.options(py)?;
        let args = (&taken.connection, came, raised, args, options).into_pyobject(py)?;
        self.taken = Box::into_raw(Box::new(taken)).cast();
        Ok(Next::call(resume, args, None))
    }
}

/// A connection that is in use by this call.
struct Taken<'py> {
    pool: Bound<'py, PyAny>,
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
    fn of(pool: Bound<'py, PyAny>) -> PyResult<Option<Taken<'py>>> {
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
        match Taken::known(&pool, &connection) {
            Ok(Some((used, wire, timeout))) => Ok(Some(Taken {
                pool,
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

    /// Gives the connection back, unless somebody else has done so.
    fn give(self) -> PyResult<()> {
        let py = self.pool.py();
        if self.wire.borrow().owed {
            self.connection.call_method0(intern!(py, "disconnect"))?;
        }
        let anew = self.connection.getattr(intern!(py, "_should_reconnect"))?;
        if anew.is_truthy()? {
            let release = intern!(py, "release");
            self.pool.call_method1(release, (&self.connection,))?;
        } else if self.used.discard(&self.connection)? {
            self.idle.append(&self.connection)?;
        }
        Ok(())
    }
}

/// Whether it is an error, or a message that nobody asked for.
fn is_special(reply: &Bound<'_, PyAny>) -> bool {
    pipeline::is_message(reply) || reply.is_instance_of::<PyBaseException>()
}
