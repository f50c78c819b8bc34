//! Installs a native method in a Python class. The method handles common calls and leaves all
//! others to Python code.

use std::ffi::CStr;
use std::ptr;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};
use pyo3::{Borrowed, ffi, intern};

use crate::methods::fastcall::{Step, guarded};

use super::names;

/// A C function that accepts any arguments and through which a thread may be unwound.
pub(super) type Method = unsafe extern "C-unwind" fn(
    receiver: *mut ffi::PyObject,
    args: *mut ffi::PyObject,
    options: *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// Adds a native method to a class. `doc` contains its signature and docstring.
pub(super) fn install(
    class: &Bound<'_, PyType>,
    name: &'static CStr,
    doc: &'static CStr,
    method: Method,
) -> PyResult<()> {
    let py = class.py();
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer {
            // SAFETY: only the interpreter calls the function, and its C code does not depend on
            // whether the ABI allows unwinding.
            PyCFunctionWithKeywords: unsafe {
                std::mem::transmute::<Method, ffi::PyCFunctionWithKeywords>(method)
            },
        },
        ml_flags: ffi::METH_VARARGS | ffi::METH_KEYWORDS,
        ml_doc: doc.as_ptr(),
    }));
    // SAFETY: the class is a type, and the definition is never freed. The descriptor accepts only
    // instances of the class.
    let descriptor = unsafe {
        let descriptor = ffi::PyDescr_NewMethod(class.as_type_ptr(), definition);
        Bound::from_owned_ptr_or_err(py, descriptor)?
    };
    class.setattr(PyString::new(py, &name.to_string_lossy()), descriptor)
}

/// Runs a method.
///
/// # Safety
/// The thread must be attached. The arguments must be an object, a tuple, and a dictionary or null,
/// as the interpreter passes them to a method, and must stay alive during the call. The caller must
/// own nothing to drop.
#[inline(always)]
pub(super) unsafe fn run(
    attempt: impl for<'py> FnOnce(
        &Bound<'py, PyAny>,
        &Bound<'py, PyTuple>,
        Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Step>,
    receiver: *mut ffi::PyObject,
    args: *mut ffi::PyObject,
    options: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let step = guarded(|| {
        // SAFETY: the caller guarantees that the thread is attached and that the arguments are
        // valid and have these types.
        let (receiver, args, options) = unsafe {
            let py = Python::assume_attached();
            (
                Borrowed::from_ptr(py, receiver),
                Borrowed::from_ptr(py, args).cast_unchecked::<PyTuple>(),
                Borrowed::from_ptr_or_opt(py, options).map(|it| it.cast_unchecked::<PyDict>()),
            )
        };
        attempt(&receiver, &args, options.as_deref()).unwrap_or_else(Step::from)
    });
    match step {
        Step::Done(object) => object,
        // SAFETY: the caller guarantees that the thread is attached.
        Step::Next(next) => unsafe { next.run() },
    }
}

/// Whether redis-py measures commands for OpenTelemetry.
pub(super) fn is_measured(py: Python<'_>) -> PyResult<bool> {
    let manager = names::observability(py)?.getattr(intern!(py, "_provider_manager"))?;
    Ok(!manager.is_none())
}

/// An object's instance attributes. Looking up several of them here is faster than `getattr`, which
/// searches the classes first.
pub(super) struct Fields<'py>(Bound<'py, PyDict>);

impl<'py> Fields<'py> {
    pub(super) fn of(object: &Bound<'py, PyAny>) -> PyResult<Fields<'py>> {
        // SAFETY: the thread is attached, and the object is valid. The result is a new reference,
        // or null with an exception set.
        let fields = unsafe {
            let fields = ffi::PyObject_GenericGetDict(object.as_ptr(), ptr::null_mut());
            Bound::from_owned_ptr_or_err(object.py(), fields)?
        };
        Ok(Fields(fields.cast_into()?))
    }

    pub(super) fn py(&self) -> Python<'py> {
        self.0.py()
    }

    pub(super) fn get(&self, name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.get_item(name)
    }
}
