//! The usual call of a client in one step: an idle connection is taken, the command sent over
//! it, its reply received and made into a result, and the connection given back.
//!
//! Whatever is unusual is left to Python, either with nothing sent, or with what has come.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use pyo3::exceptions::PyBaseException;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PySet, PyString, PyTuple, PyType};

use super::Wire;
use super::many::{self, ACCOMPANIED};
use super::pack;
use crate::method::panicked;

/// What this uses of the Python half of the package.
struct Parts {
    /// The client's method for all calls.
    method: Py<PyAny>,
    pool: Py<PyType>,
    measured: Py<PyAny>,
    shaped: Py<PyAny>,
}

type Method = unsafe extern "C-unwind" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    ffi::Py_ssize_t,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

static PARTS: PyOnceLock<Parts> = PyOnceLock::new();

/// See [`Wire::shorten`].
pub(super) fn shorten(
    class: &Bound<'_, PyType>,
    pool: &Bound<'_, PyType>,
    measured: &Bound<'_, PyAny>,
    shaped: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let py = class.py();
    let name = intern!(py, "execute_command");
    let parts = Parts {
        method: class.getattr(name)?.unbind(),
        pool: pool.clone().unbind(),
        measured: measured.clone().unbind(),
        shaped: shaped.clone().unbind(),
    };
    if PARTS.set(py, parts).is_err() {
        return Ok(());
    }
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: c"execute_command".as_ptr(),
        ml_meth: ffi::PyMethodDefPointer {
            // SAFETY: these ABIs differ only in what may unwind, and C code calls it.
            PyCFunctionFastWithKeywords: unsafe {
                std::mem::transmute::<Method, ffi::PyCFunctionFastWithKeywords>(execute_command)
            },
        },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: c"execute_command($self, /, *args, **options)\n--\n\n\
                  Run any command and return its reply, in the form redis-py gives it."
            .as_ptr(),
    }));
    // SAFETY: the class is a type, and the definition is never freed; the descriptor made of
    // them lets only instances of the class in.
    let method = unsafe {
        let method = ffi::PyDescr_NewMethod(class.as_type_ptr(), definition);
        Bound::from_owned_ptr_or_err(py, method)?
    };
    class.setattr(name, method)
}

/// The C function of the method.
///
/// Before Python 3.14 an interpreter that ends unwinds its daemon threads as soon as they are to
/// run Python again. So methods and callbacks run from here only, where there is nothing to
/// drop; what makes an error of a reply, or bytes of an unusual argument, runs inside.
unsafe extern "C-unwind" fn execute_command(
    client: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    positional: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls this with valid arguments, and with the thread attached;
    // what is called next is valid, too.
    unsafe {
        let next = begin(client, arguments, positional, names);
        if next.function.is_null() {
            return next.result;
        }
        let result = call_object()(next.function, next.args, next.options);
        end(next, result)
    }
}

/// `PyObject_Call`, which may unwind.
type CallObject = unsafe extern "C-unwind" fn(
    function: *mut ffi::PyObject,
    args: *mut ffi::PyObject,
    options: *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// The interpreter's function, of which the compiler is not to know the name: for `pyo3::ffi`
/// functions of that name do not unwind, and what it knows of one it may use for all.
fn call_object() -> CallObject {
    let function = ffi::PyObject_Call as *const ();
    // SAFETY: these ABIs differ only in what may unwind.
    unsafe { std::mem::transmute::<*const (), CallObject>(std::hint::black_box(function)) }
}

/// What comes after the native part of a call: its result, or a function to be called.
#[derive(Clone, Copy)]
struct Next {
    /// Null with an exception set, or where there is a function.
    result: *mut ffi::PyObject,
    function: *mut ffi::PyObject,
    args: *mut ffi::PyObject,
    options: *mut ffi::PyObject,
    /// A boxed [`Taken`] to be given back after that, or null.
    taken: *mut c_void,
}

impl Next {
    fn done(result: *mut ffi::PyObject) -> Next {
        Next {
            result,
            function: ptr::null_mut(),
            args: ptr::null_mut(),
            options: ptr::null_mut(),
            taken: ptr::null_mut(),
        }
    }

    fn failed(py: Python<'_>, error: PyErr) -> Next {
        error.restore(py);
        Next::done(ptr::null_mut())
    }

    fn call<'py>(
        function: Bound<'py, PyAny>,
        args: Bound<'py, PyTuple>,
        options: Option<Bound<'py, PyDict>>,
    ) -> Next {
        Next {
            function: function.into_ptr(),
            args: args.into_ptr(),
            options: options.map_or(ptr::null_mut(), Bound::into_ptr),
            ..Next::done(ptr::null_mut())
        }
    }
}

/// Runs the native part of a call.
///
/// # Safety
/// As for the C function of a method.
unsafe fn begin(
    client: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    positional: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> Next {
    // SAFETY: the interpreter calls this with a client, and with as many arguments as it says
    // and as there are names, all of which it keeps alive; the thread is attached.
    let call = unsafe {
        let py = Python::assume_attached();
        let names = Bound::from_borrowed_ptr_or_opt(py, names);
        let names = names.map(|names| names.cast_into_unchecked::<PyTuple>());
        let named = names.as_ref().map_or(0, |names| names.len());
        let positional = positional as usize;
        let arguments: &[*mut ffi::PyObject] = match positional + named {
            0 => &[],
            count => std::slice::from_raw_parts(arguments, count),
        };
        let (args, values) = arguments.split_at(positional);
        Call {
            py,
            client: Bound::ref_from_ptr(py, &client),
            args,
            names,
            values,
        }
    };
    match catch_unwind(AssertUnwindSafe(|| call.run())) {
        Ok(Ok(next)) => next,
        Ok(Err(error)) => Next::failed(call.py, error),
        Err(panic) => Next::failed(call.py, panicked(&*panic)),
    }
}

/// Gives back what a call has needed until its function returned this.
///
/// # Safety
/// It comes from [`begin`], and nobody else uses what it refers to; the thread is attached.
unsafe fn end(next: Next, result: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: references that `begin` has made, the caller's result, and the thread is attached.
    unsafe {
        let py = Python::assume_attached();
        let result = Bound::from_owned_ptr_or_err(py, result);
        drop(Bound::from_owned_ptr(py, next.function));
        drop(Bound::from_owned_ptr(py, next.args));
        drop(Bound::from_owned_ptr_or_opt(py, next.options));
        let given = match next.taken.is_null() {
            true => Ok(()),
            false => Box::from_raw(next.taken.cast::<Taken<'_>>()).give(),
        };
        match result.and_then(|result| given.map(|()| result)) {
            Ok(result) => result.into_ptr(),
            Err(error) => {
                error.restore(py);
                ptr::null_mut()
            }
        }
    }
}

/// One call: what it is called on, and its arguments.
struct Call<'a, 'py> {
    py: Python<'py>,
    client: &'a Bound<'py, PyAny>,
    args: &'a [*mut ffi::PyObject],
    /// The names of the others, if there are any, and their values.
    names: Option<Bound<'py, PyTuple>>,
    values: &'a [*mut ffi::PyObject],
}

impl<'a, 'py> Call<'a, 'py> {
    fn run(&self) -> PyResult<Next> {
        let Some(parts) = PARTS.get(self.py) else {
            unreachable!("the method is made after its parts");
        };
        if let Some(next) = self.usual(parts)? {
            return Ok(next);
        }
        let args = std::iter::once(self.client.as_borrowed()).chain(self.args());
        let args = PyTuple::new(self.py, args.collect::<Vec<_>>())?;
        let method = parts.method.bind(self.py).clone();
        Ok(Next::call(method, args, Some(self.options()?)))
    }

    /// Makes a usual call; None, with nothing sent, where it is none.
    fn usual(&self, parts: &Parts) -> PyResult<Option<Next>> {
        let py = self.py;
        let Some(name) = self.name()? else {
            return Ok(None);
        };
        let measured = parts.measured.bind(py);
        let measured = measured.getattr(intern!(py, "_provider_manager"))?;
        let short = self.client.getattr(intern!(py, "_short"))?;
        if !measured.is_none() || !short.is_truthy()? {
            return Ok(None);
        }
        let pool = self.client.getattr(intern!(py, "connection_pool"))?;
        if !pool.get_type().is(&parts.pool) {
            return Ok(None);
        }
        let Some(taken) = Taken::of(pool)? else {
            return Ok(None);
        };
        let asked = taken.ask(self);
        let result = match asked {
            Ok(Some(reply)) if !is_special(&reply) => Ok(Some(reply)),
            Ok(None) => Ok(None),
            Ok(Some(reply)) => return taken.resumed(self, reply, false).map(Some),
            // Nothing was sent.
            Err(error) if !taken.wire.borrow().owed => Err(error),
            Err(error) => {
                let error = error.into_value(py).into_bound(py).into_any();
                return taken.resumed(self, error, true).map(Some);
            }
        };
        taken.give()?;
        match result? {
            Some(reply) => self.shaped(parts, name, reply).map(Some),
            None => Ok(None),
        }
    }

    /// The command's name, if it is in capitals and nothing is unusual about the options.
    fn name(&self) -> PyResult<Option<&'a Bound<'py, PyString>>> {
        let Some(name) = self.args.first() else {
            return Ok(None);
        };
        // SAFETY: the interpreter keeps the arguments alive.
        let name = unsafe { Bound::ref_from_ptr(self.py, name) };
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
        for option in self.names.iter().flat_map(|names| names.iter_borrowed()) {
            if option.cast::<PyString>()?.to_cow()? == "NEVER_DECODE" {
                return Ok(None);
            }
        }
        Ok(Some(name))
    }

    /// What redis-py makes of the reply.
    fn shaped(
        &self,
        parts: &Parts,
        name: &Bound<'py, PyString>,
        reply: Bound<'py, PyAny>,
    ) -> PyResult<Next> {
        let py = self.py;
        let callbacks = self.client.getattr(intern!(py, "response_callbacks"))?;
        if let Ok(callbacks) = callbacks.cast::<PyDict>() {
            match callbacks.get_item(name)? {
                Some(callback) if self.values.is_empty() => {
                    return Ok(Next::call(callback, (reply,).into_pyobject(py)?, None));
                }
                Some(_) => {}
                None => return Ok(Next::done(reply.into_ptr())),
            }
        }
        let args = (callbacks, name, reply, self.options()?).into_pyobject(py)?;
        Ok(Next::call(parts.shaped.bind(py).clone(), args, None))
    }

    fn args(&self) -> impl ExactSizeIterator<Item = Borrowed<'a, 'py, PyAny>> {
        let py = self.py;
        // SAFETY: the interpreter keeps the arguments alive.
        let borrowed = move |arg: &'a *mut ffi::PyObject| unsafe {
            Bound::ref_from_ptr(py, arg).as_borrowed()
        };
        self.args.iter().map(borrowed)
    }

    fn options(&self) -> PyResult<Bound<'py, PyDict>> {
        let options = PyDict::new(self.py);
        let names = self.names.iter().flat_map(|names| names.iter_borrowed());
        for (name, value) in names.zip(self.values) {
            // SAFETY: the interpreter keeps the arguments alive.
            options.set_item(name, unsafe { Bound::ref_from_ptr(self.py, value) })?;
        }
        Ok(options)
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
    /// Takes the connection that was used last, if it is as usual. No other thread comes
    /// between, as nothing here runs Python.
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
        used.add(&connection)?;
        idle.del_item(last)?;
        Ok(Some(Taken {
            pool,
            idle,
            used,
            connection,
            wire,
            timeout,
        }))
    }

    fn ask(&self, call: &Call<'_, 'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.wire.try_borrow_mut() {
            Ok(mut wire) => wire.ask(call.py, call.args(), self.timeout),
            Err(_) => Ok(None),
        }
    }

    /// Leaves it to the client to go on after what has come, or was raised.
    #[cold]
    fn resumed(
        self,
        call: &Call<'_, 'py>,
        came: Bound<'py, PyAny>,
        raised: bool,
    ) -> PyResult<Next> {
        let py = call.py;
        let resume = call.client.getattr(intern!(py, "_resume"))?;
        let args = PyTuple::new(py, call.args())?;
        let args = (&self.connection, came, raised, args, call.options()?).into_pyobject(py)?;
        Ok(Next {
            taken: Box::into_raw(Box::new(self)).cast(),
            ..Next::call(resume, args, None)
        })
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
    many::is_message(reply) || reply.is_instance_of::<PyBaseException>()
}
