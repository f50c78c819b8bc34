//! Calls of Python from native functions that Python may never come back to.
//!
//! Before Python 3.14 an interpreter that ends unwinds its daemon threads as soon as they are to
//! run Python again. No frame on the way may have anything to drop. So a native function that
//! calls Python works in steps: each says what is to be called next, and it is called from
//! [`run`], which holds nothing but plain values.
//!
//! As the interpreter calls these functions directly, `pyo3` does not know that the thread is
//! attached: a `Py` that a step drops is kept until somebody else attaches. Steps drop `Bound`s.

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::method::panicked;

/// What comes after a step: a result, or a function to be called.
#[derive(Clone, Copy)]
pub(crate) struct Next {
    /// Null with an exception set, or where there is a function.
    result: *mut ffi::PyObject,
    function: *mut ffi::PyObject,
    args: *mut ffi::PyObject,
    options: *mut ffi::PyObject,
}

impl Next {
    pub(crate) fn done(result: Bound<'_, PyAny>) -> Next {
        Next::end(result.into_ptr())
    }

    pub(crate) fn failed(py: Python<'_>, error: PyErr) -> Next {
        error.restore(py);
        Next::end(ptr::null_mut())
    }

    pub(crate) fn call<'py>(
        function: Bound<'py, PyAny>,
        args: Bound<'py, PyTuple>,
        options: Option<Bound<'py, PyDict>>,
    ) -> Next {
        Next {
            function: function.into_ptr(),
            args: args.into_ptr(),
            options: options.map_or(ptr::null_mut(), Bound::into_ptr),
            result: ptr::null_mut(),
        }
    }

    fn end(result: *mut ffi::PyObject) -> Next {
        Next {
            result,
            function: ptr::null_mut(),
            args: ptr::null_mut(),
            options: ptr::null_mut(),
        }
    }
}

/// A native function in steps. As it can be copied, it has nothing to drop: what it has to keep
/// from one step to the next it keeps as pointers.
pub(crate) trait Steps<'py>: Copy {
    /// The first step.
    fn begin(&mut self, py: Python<'py>) -> PyResult<Next>;

    /// The step after a call that returned or raised this.
    fn resume(&mut self, py: Python<'py>, came: PyResult<Bound<'py, PyAny>>) -> PyResult<Next>;

    /// Drops what is kept, after a step that failed and before the function returns.
    fn release(&mut self, _: Python<'py>) {}
}

/// Runs a native function to its end.
///
/// # Safety
/// The thread is attached, and what the steps point to is valid. The caller has nothing to drop.
pub(crate) unsafe fn run<'py, S: Steps<'py>>(mut steps: S) -> *mut ffi::PyObject {
    // SAFETY: the caller's promise; the functions that are called come from a step.
    unsafe {
        let mut next = guarded(&mut steps, S::begin);
        while !next.function.is_null() {
            let came = call_object()(next.function, next.args, next.options);
            next = go_on(&mut steps, next, came);
        }
        next.result
    }
}

/// # Safety
/// The thread is attached.
unsafe fn guarded<'py, S: Steps<'py>>(
    steps: &mut S,
    step: impl FnOnce(&mut S, Python<'py>) -> PyResult<Next>,
) -> Next {
    // SAFETY: the caller's promise.
    let py = unsafe { Python::assume_attached() };
    match catch_unwind(AssertUnwindSafe(|| step(steps, py))) {
        Ok(Ok(next)) => next,
        Ok(Err(error)) => {
            steps.release(py);
            Next::failed(py, error)
        }
        Err(panic) => {
            steps.release(py);
            Next::failed(py, panicked(&*panic))
        }
    }
}

/// # Safety
/// The thread is attached; `called` is what a step gave, and `came` what its call returned.
unsafe fn go_on<'py, S: Steps<'py>>(steps: &mut S, called: Next, came: *mut ffi::PyObject) -> Next {
    // SAFETY: the caller's promise; the references are dropped once.
    unsafe {
        guarded(steps, |steps, py| {
            let came = Bound::from_owned_ptr_or_err(py, came);
            drop(Bound::from_owned_ptr(py, called.function));
            drop(Bound::from_owned_ptr(py, called.args));
            drop(Bound::from_owned_ptr_or_opt(py, called.options));
            steps.resume(py, came)
        })
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

/// The C function of a method that takes any arguments.
pub(crate) type Method = unsafe extern "C-unwind" fn(
    receiver: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    positional: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// Gives a class a method, and returns what the class had under its name. `doc` begins with the
/// method's signature, as `inspect` reads it.
pub(crate) fn install<'py>(
    class: &Bound<'py, PyType>,
    name: &'static CStr,
    doc: &'static CStr,
    method: Method,
) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    let attribute = name.to_str().expect("a method's name is ASCII");
    let before = class.getattr(attribute)?;
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer {
            // SAFETY: these ABIs differ only in what may unwind, and C code calls it.
            PyCFunctionFastWithKeywords: unsafe {
                std::mem::transmute::<Method, ffi::PyCFunctionFastWithKeywords>(method)
            },
        },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: doc.as_ptr(),
    }));
    // SAFETY: the class is a type, and the definition is never freed; the descriptor made of
    // them lets only instances of the class in.
    let method = unsafe {
        let method = ffi::PyDescr_NewMethod(class.as_type_ptr(), definition);
        Bound::from_owned_ptr_or_err(py, method)?
    };
    class.setattr(attribute, method)?;
    Ok(before)
}

/// What a method was called on and with, as the interpreter hands it over.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'a> {
    receiver: &'a *mut ffi::PyObject,
    positional: &'a [*mut ffi::PyObject],
    names: &'a *mut ffi::PyObject,
    /// One for each name.
    named: &'a [*mut ffi::PyObject],
}

impl<'a> Arguments<'a> {
    /// # Safety
    /// These are a [`Method`]'s arguments, and it has not returned for `'a`.
    pub(crate) unsafe fn new(
        receiver: &'a *mut ffi::PyObject,
        arguments: *const *mut ffi::PyObject,
        positional: ffi::Py_ssize_t,
        names: &'a *mut ffi::PyObject,
    ) -> Arguments<'a> {
        // SAFETY: the interpreter gives as many arguments as it says and as there are names.
        let (positional, named) = unsafe {
            let named = match names.is_null() {
                true => 0,
                false => ffi::PyTuple_Size(*names) as usize,
            };
            let positional = positional as usize;
            let arguments: &[*mut ffi::PyObject] = match positional + named {
                0 => &[],
                count => std::slice::from_raw_parts(arguments, count),
            };
            arguments.split_at(positional)
        };
        Arguments {
            receiver,
            positional,
            names,
            named,
        }
    }

    /// What the method was called on.
    pub(crate) fn receiver<'py>(&self, py: Python<'py>) -> &'a Bound<'py, PyAny> {
        // SAFETY: the interpreter keeps it alive until the method returns.
        unsafe { Bound::ref_from_ptr(py, self.receiver) }
    }

    /// The arguments without a name.
    pub(crate) fn positional<'py: 'a>(
        &self,
        py: Python<'py>,
    ) -> impl ExactSizeIterator<Item = Borrowed<'a, 'py, PyAny>> + use<'a, 'py> {
        // SAFETY: the interpreter keeps them alive until the method returns.
        let borrowed = move |each: &'a *mut ffi::PyObject| unsafe {
            Bound::ref_from_ptr(py, each).as_borrowed()
        };
        self.positional.iter().map(borrowed)
    }

    /// The first argument without a name.
    pub(crate) fn first<'py>(&self, py: Python<'py>) -> Option<&'a Bound<'py, PyAny>> {
        let first = self.positional.first();
        // SAFETY: as above.
        first.map(|first| unsafe { Bound::ref_from_ptr(py, first) })
    }

    /// The names of the others.
    pub(crate) fn names<'py: 'a>(
        &self,
        py: Python<'py>,
    ) -> impl Iterator<Item = Borrowed<'a, 'py, PyAny>> + use<'a, 'py> {
        let names = (!self.names.is_null()).then(|| {
            // SAFETY: as above; it is a tuple.
            unsafe { Bound::ref_from_ptr(py, self.names).cast_unchecked::<PyTuple>() }
        });
        names.into_iter().flat_map(|names| names.iter_borrowed())
    }

    /// Whether all of them came without a name.
    pub(crate) fn are_positional(&self) -> bool {
        self.named.is_empty()
    }

    /// The others, by name.
    pub(crate) fn options<'py: 'a>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let options = PyDict::new(py);
        for (name, value) in self.names(py).zip(self.named) {
            // SAFETY: as above.
            options.set_item(name, unsafe { Bound::ref_from_ptr(py, value) })?;
        }
        Ok(options)
    }

    /// A call of another function with the same arguments, the receiver first.
    pub(crate) fn call<'py: 'a>(&self, py: Python<'py>, function: &Py<PyAny>) -> PyResult<Next> {
        let args = std::iter::once(self.receiver(py).as_borrowed()).chain(self.positional(py));
        let args = PyTuple::new(py, args.collect::<Vec<_>>())?;
        let options = match self.are_positional() {
            true => None,
            false => Some(self.options(py)?),
        };
        Ok(Next::call(function.bind(py).clone(), args, options))
    }
}
