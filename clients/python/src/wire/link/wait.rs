//! How a call learns who waits for it.

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use super::parts;
use crate::outside::{self, Arguments, Next, Steps};

pub(super) fn install<'py>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    let doc = c"add_done_callback($self, fn, /, *, context=None)\n--\n\n\
                Let a function be called when there is a result.";
    outside::install(class, c"add_done_callback", doc, add_done_callback)
}

/// The C function of the method.
unsafe extern "C-unwind" fn add_done_callback(
    call: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    positional: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls this with its arguments, and with the thread attached.
    unsafe {
        outside::run(Waiting(Arguments::new(
            &call, arguments, positional, &names,
        )))
    }
}

#[derive(Clone, Copy)]
struct Waiting<'a>(Arguments<'a>);

impl<'a, 'py: 'a> Steps<'py> for Waiting<'a> {
    fn begin(&mut self, py: Python<'py>) -> PyResult<Next> {
        match self.is_kept(py)? {
            true => Ok(Next::done(py.None().into_bound(py))),
            false => self.0.call(py, &parts(py).add_done_callback),
        }
    }

    fn resume(&mut self, _: Python<'py>, came: PyResult<Bound<'py, PyAny>>) -> PyResult<Next> {
        came.map(Next::done)
    }
}

impl<'a> Waiting<'a> {
    /// Keeps the first who waits for a call without a result, and the context in which he goes on.
    fn is_kept<'py: 'a>(&self, py: Python<'py>) -> PyResult<bool> {
        let known = intern!(py, "waiter");
        let call = self.0.receiver(py);
        let (Some(waiter), true) = (self.0.only(py), call.getattr(known)?.is_none()) else {
            return Ok(false);
        };
        let context = match self.0.only_option(py) {
            Some((name, context)) => {
                let expected = intern!(py, "context");
                if !name.is(expected) && name.cast::<PyString>()?.to_cow()? != "context" {
                    return Ok(false);
                }
                (!context.is_none()).then(|| context.clone())
            }
            None if self.0.are_positional() => None,
            None => return Ok(false),
        };
        let context = match context {
            Some(context) => context,
            None => parts(py).copy_context.bind(py).call0()?,
        };
        call.setattr(known, (waiter, context))?;
        Ok(true)
    }
}
