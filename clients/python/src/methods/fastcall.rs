//! Methods that are as fast as the interpreter's own. Each method is one C function, called with an
//! array of arguments.
//!
//! A method handles exact `bytes`, `str` and `int` objects and the common options. For any other
//! argument it calls the next method of the same name in the class's resolution order with the same
//! arguments. That method is redis-py's, so redis-py handles unusual arguments and reports their
//! errors. A class without such a method (`undercroft.Store`) raises a `TypeError`.

use std::any::Any;
use std::ffi::CString;
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use pyo3::exceptions::PyTypeError;
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::types::{PyDict, PyList, PySuper, PyTuple, PyType};
use pyo3::{Borrowed, PyClass, ffi};
use undercroft_engine::Error;

use crate::client::{Client, Use};
use crate::conversion::codec::{self, Codec};
use crate::error::{self, Raises};
use crate::execute::{Argument, encode_any};

/// A call to a native method of a class, usually the client class.
pub(crate) struct Call<'a, 'py, C = Client> {
    pub(crate) py: Python<'py>,
    pub(crate) client: &'a C,
    /// The object that the method was called on.
    receiver: *mut ffi::PyObject,
    arguments: &'a [*mut ffi::PyObject],
    /// The number of positional arguments.
    positional: usize,
    /// The names of the keyword arguments as a tuple, or null for a call without keyword arguments.
    names: *mut ffi::PyObject,
}

/// The reason why a method did not return a result.
///
/// A `Miss` is one word, so an [`Outcome`] is two words and stays in registers. An earlier `Miss`
/// of nine words was copied through memory several times in each call. Its loads were wider than
/// the preceding stores, which stalled the processor.
pub(crate) struct Miss(Option<Box<MissReason>>);

/// The reason inside a [`Miss`]. A `Miss` without a reason leaves the arguments to redis-py.
enum MissReason {
    /// The exception to raise.
    Raised(PyErr),
    /// An exception is set in the interpreter.
    Set,
    /// An exception from a store whose file was removed. A retry may find a new store.
    Again(PyErr),
}

impl Miss {
    /// Leaves the arguments to redis-py.
    pub(crate) const UNUSUAL: Miss = Miss(None);

    #[inline(always)]
    pub(crate) fn is_unusual(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the miss for an exception that is already set.
    #[cold]
    pub(crate) fn set() -> Miss {
        Miss(Some(Box::new(MissReason::Set)))
    }
}

impl From<PyErr> for Miss {
    #[cold]
    fn from(error: PyErr) -> Miss {
        Miss(Some(Box::new(MissReason::Raised(error))))
    }
}

/// A new reference, or the reason why there is none.
pub(crate) type Outcome = Result<*mut ffi::PyObject, Miss>;

/// A native method of a class.
pub(crate) trait Method<C = Client> {
    /// The name of the method.
    const NAME: &'static str;

    /// Returns the signature and the docstring in the interpreter's format.
    fn text() -> String;

    /// Runs the method.
    fn call(call: &Call<'_, '_, C>) -> Outcome;
}

impl<'a, 'py, C> Call<'a, 'py, C> {
    /// Returns the arguments if exactly `N` positional arguments and no keyword arguments were
    /// passed.
    #[inline(always)]
    pub(crate) fn exactly<const N: usize>(&self) -> Result<&'a [*mut ffi::PyObject; N], Miss> {
        if !self.names.is_null() {
            return Err(Miss::UNUSUAL);
        }
        self.arguments.try_into().map_err(|_| Miss::UNUSUAL)
    }

    /// Returns all arguments if no keyword arguments were passed.
    #[inline(always)]
    pub(crate) fn unnamed(&self) -> Result<&'a [*mut ffi::PyObject], Miss> {
        if self.names.is_null() {
            Ok(self.arguments)
        } else {
            Err(Miss::UNUSUAL)
        }
    }

    /// Returns the positional arguments.
    #[inline(always)]
    pub(crate) fn by_position(&self) -> &'a [*mut ffi::PyObject] {
        &self.arguments[..self.positional]
    }

    /// Returns the keyword arguments with their names.
    pub(crate) fn by_name(&self) -> impl Iterator<Item = (&'a [u8], *mut ffi::PyObject)> {
        let values = &self.arguments[self.positional..];
        values.iter().enumerate().map(|(index, &value)| {
            // SAFETY: `names` is a tuple with one `str` for each value, which the caller keeps
            // alive.
            let name = unsafe {
                let mut length = 0;
                let name = ffi::PyTuple_GetItem(self.names, index as ffi::Py_ssize_t);
                let text = ffi::PyUnicode_AsUTF8AndSize(name, &mut length);
                if text.is_null() {
                    ffi::PyErr_Clear();
                    &[]
                } else {
                    std::slice::from_raw_parts(text.cast(), length as usize)
                }
            };
            (name, value)
        })
    }

    /// Returns the number of keyword arguments.
    pub(crate) fn names_count(&self) -> usize {
        self.arguments.len() - self.positional
    }

    /// Returns the keyword argument with this name, if it was passed.
    pub(crate) fn named(&self, name: &[u8]) -> Option<*mut ffi::PyObject> {
        let mut named = self.by_name().filter(|(other, _)| *other == name);
        named.next().map(|(_, value)| value)
    }

    /// Splits off the first argument, which is the `taken` list. Returns the list and the call
    /// without it.
    #[inline(always)]
    pub(crate) fn split_taken(
        &self,
    ) -> Result<(Borrowed<'a, 'py, PyList>, Call<'a, 'py, C>), Miss> {
        let (Some((&first, arguments)), Some(positional)) =
            (self.arguments.split_first(), self.positional.checked_sub(1))
        else {
            return Err(Miss::UNUSUAL);
        };
        // SAFETY: the method's caller keeps the arguments alive until the method returns, and `'a`
        // ends before that.
        let list = unsafe { Borrowed::from_ptr(self.py, first) };
        let list = list.cast::<PyList>().map_err(|_| Miss::UNUSUAL)?;
        let call = Call {
            arguments,
            positional,
            ..*self
        };
        Ok((list, call))
    }

    /// Returns the object that the method was called on.
    pub(crate) fn receiver(&self) -> Borrowed<'a, 'py, PyAny> {
        // SAFETY: the method's caller keeps the receiver alive until the method returns, and `'a`
        // ends before that.
        unsafe { Borrowed::from_ptr(self.py, self.receiver) }
    }
}

impl<'a, 'py> Call<'a, 'py> {
    /// Returns the bytes of an argument that is exactly a `bytes` or a `str` object.
    #[inline(always)]
    pub(crate) fn bytes(&self, argument: *mut ffi::PyObject) -> Result<&'a [u8], Miss> {
        // SAFETY: the method's caller keeps the arguments alive until the method returns, and `'a`
        // ends before that.
        unsafe { self.client.codec.bytes(argument) }.ok_or(Miss::UNUSUAL)
    }

    /// Returns an argument that is exactly an `int` and fits into 64 bits.
    #[inline(always)]
    pub(crate) fn integer(&self, argument: *mut ffi::PyObject) -> Result<i64, Miss> {
        // SAFETY: the arguments are valid objects.
        unsafe { codec::integer(argument) }.ok_or(Miss::UNUSUAL)
    }

    /// Encodes an argument as a word of a command. The argument must be exactly a `bytes`, a `str`,
    /// a 64-bit `int` or a `float`, unless the class has no redis-py method as a fallback.
    #[inline(always)]
    pub(crate) fn word(&self, argument: *mut ffi::PyObject) -> Result<Argument<'a>, Miss> {
        // SAFETY: the method's caller keeps the arguments alive until the method returns, and `'a`
        // ends before that. The method keeps the contents of list and dictionary arguments alive
        // for as long.
        unsafe { word(&self.client.codec, self.py, argument) }
    }

    /// Begins a use of the store, unless redis-py's methods convert the results.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Result<Use<'a, 'py>, Miss> {
        if self.client.is_shaped() {
            return Err(Miss::UNUSUAL);
        }
        self.client.enter(self.py).map_err(Miss::from)
    }

    #[inline(always)]
    pub(crate) fn database(&self) -> usize {
        self.client.database(self.py)
    }

    /// Converts an engine error into a miss.
    #[cold]
    pub(crate) fn failed(&self, shared: &Use<'_, '_>, error: Error) -> Miss {
        let raises = self.client.codec.raises;
        let raised = error::raise(self.py, raises, &shared.store, error);
        match self.client.leaves(self.py, shared) {
            true => Miss(Some(Box::new(MissReason::Again(raised)))),
            false => raised.into(),
        }
    }

    /// Returns a string as an object.
    #[inline(always)]
    pub(crate) fn string(&self, bytes: &[u8]) -> Outcome {
        made(self.client.codec.object(self.py, bytes))
    }
}

/// Whether [`Call::word`] accepts an object.
///
/// # Safety
/// The thread must be attached, and `object` must be valid.
#[inline(always)]
pub(crate) unsafe fn is_word(object: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller guarantees that the thread is attached and the object is valid.
    unsafe {
        ffi::PyUnicode_CheckExact(object) != 0
            || ffi::PyBytes_CheckExact(object) != 0
            || ffi::PyLong_CheckExact(object) != 0
            || ffi::PyFloat_CheckExact(object) != 0
    }
}

/// Encodes an argument as a word of a command; see [`Call::word`].
///
/// # Safety
/// The thread must be attached. `argument` must be valid and stay alive for `'a`.
#[inline(always)]
pub(crate) unsafe fn word<'a>(
    codec: &Codec,
    py: Python<'_>,
    argument: *mut ffi::PyObject,
) -> Result<Argument<'a>, Miss> {
    // SAFETY: the caller guarantees that the argument is valid for `'a`, and its type is checked
    // before use.
    unsafe {
        if let Some(bytes) = codec.bytes(argument) {
            return Ok(Argument::Of(bytes));
        }
        if let Some(value) = codec::integer(argument) {
            return Ok(Argument::integer(value));
        }
        let object: Borrowed<'_, '_, PyAny> = Borrowed::from_ptr(py, argument);
        if ffi::PyFloat_CheckExact(argument) == 0 {
            return match codec.raises {
                Raises::RedisPys => Err(Miss::UNUSUAL),
                Raises::Own => encode_any(codec, object).map_err(Miss::from),
            };
        }
        let text = object.repr().map_err(Miss::from)?;
        let text = text.to_cow().map_err(Miss::from)?;
        Ok(Argument::Own(text.into_owned().into_bytes()))
    }
}

/// Converts an object pointer to an outcome. Null means that an exception is set.
#[inline(always)]
pub(crate) fn made(object: *mut ffi::PyObject) -> Outcome {
    if object.is_null() {
        Err(Miss::set())
    } else {
        Ok(object)
    }
}

/// Adds a method of `C` to `C` or to a class derived from it.
pub(crate) fn add<C, M>(class: &Bound<'_, PyType>) -> PyResult<()>
where
    C: PyClass<Frozen = True> + Sync,
    M: Method<C>,
{
    let py = class.py();
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: leaked(M::NAME.to_owned())?,
        ml_meth: ffi::PyMethodDefPointer {
            // SAFETY: only the interpreter calls the function, and its C code does not depend on
            // whether the ABI allows unwinding.
            PyCFunctionFastWithKeywords: unsafe {
                std::mem::transmute::<FastUnwinding, ffi::PyCFunctionFastWithKeywords>(
                    trampoline::<C, M>,
                )
            },
        },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: leaked(M::text())?,
    }));
    // SAFETY: the class is a type, and the definition is never freed. The descriptor accepts only
    // instances of `C`.
    let descriptor = unsafe {
        let owner = py.get_type::<C>();
        let descriptor = ffi::PyDescr_NewMethod(owner.as_type_ptr(), definition);
        Bound::from_owned_ptr_or_err(py, descriptor)?
    };
    class.setattr(M::NAME, descriptor)
}

/// A C function through which a thread may unwind.
type FastUnwinding = unsafe extern "C-unwind" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    ffi::Py_ssize_t,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// Returns text that is never freed, because the interpreter keeps a pointer to it.
fn leaked(text: String) -> PyResult<*const c_char> {
    Ok(CString::new(text)?.into_raw())
}

/// The C function of a method.
///
/// A thread that runs Python code when the interpreter shuts down is unwound. This frame therefore
/// owns nothing while the next method runs, so that unwinding it is safe.
unsafe extern "C-unwind" fn trampoline<C, M>(
    receiver: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    positional: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject
where
    C: PyClass<Frozen = True> + Sync,
    M: Method<C>,
{
    // SAFETY: the interpreter passes a receiver of the class, which the descriptor checked, and as
    // many arguments as it states, all kept alive. The thread is attached. The class is frozen, so
    // its objects may be shared.
    let call = unsafe {
        let named = if names.is_null() {
            0
        } else {
            ffi::PyTuple_Size(names) as usize
        };
        let positional = positional as usize;
        let py = Python::assume_attached();
        let arguments = match positional + named {
            0 => &[][..],
            count => std::slice::from_raw_parts(arguments, count),
        };
        let object: &Bound<'_, PyAny> = Bound::ref_from_ptr(py, &receiver);
        Call {
            py,
            client: object.cast_unchecked::<C>().get(),
            receiver,
            arguments,
            positional,
            names,
        }
    };
    match attempt::<C, M>(&call) {
        Step::Done(object) => object,
        // SAFETY: the thread is attached.
        Step::Next(next) => unsafe { next.run() },
    }
}

/// The result that a native method returns to its C function. It is two words long, for the reason
/// given at [`Miss`].
pub(crate) enum Step {
    /// A new reference, or null if an exception is set.
    Done(*mut ffi::PyObject),
    /// Python code to run instead.
    Next(Box<Next>),
}

const _: () = assert!(size_of::<Outcome>() == 16 && size_of::<Step>() == 16);

/// A call to a Python function, with references that [`Next::run`] releases.
pub(crate) struct Next {
    function: *mut ffi::PyObject,
    arguments: *mut ffi::PyObject,
    /// The keyword arguments, or null.
    keywords: *mut ffi::PyObject,
}

impl Next {
    pub(crate) fn new(
        function: Bound<'_, PyAny>,
        arguments: Bound<'_, PyTuple>,
        keywords: Option<Bound<'_, PyDict>>,
    ) -> Box<Next> {
        Box::new(Next {
            function: function.into_ptr(),
            arguments: arguments.into_ptr(),
            keywords: keywords.map_or(ptr::null_mut(), Bound::into_ptr),
        })
    }

    /// Calls the function. At that point the Rust frames of the call own nothing, so unwinding them
    /// is safe.
    ///
    /// # Safety
    /// The thread must be attached.
    #[inline(always)]
    pub(crate) unsafe fn run(self: Box<Next>) -> *mut ffi::PyObject {
        let Next {
            function,
            arguments,
            keywords,
        } = {
            let boxed = self;
            *boxed
        };
        // SAFETY: this call owns all three references, and the thread is attached.
        unsafe {
            let result = call_object()(function, arguments, keywords);
            ffi::Py_DECREF(function);
            ffi::Py_DECREF(arguments);
            ffi::Py_XDECREF(keywords);
            result
        }
    }
}

/// The type of `PyObject_Call` as a function that may unwind.
type CallObject = unsafe extern "C-unwind" fn(
    *mut ffi::PyObject,
    *mut ffi::PyObject,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// Returns `PyObject_Call`, hidden from the optimizer. `pyo3::ffi` declares that the function does
/// not unwind, and the compiler may apply that to every declaration of the function.
#[inline(always)]
fn call_object() -> CallObject {
    let function = ffi::PyObject_Call as *const ();
    // SAFETY: the two ABIs differ only in whether the function may unwind.
    unsafe { std::mem::transmute::<*const (), CallObject>(std::hint::black_box(function)) }
}

impl From<PyErr> for Step {
    fn from(error: PyErr) -> Step {
        Python::attach(|py| error.restore(py));
        Step::Done(ptr::null_mut())
    }
}

/// Returns the result of `body`, or an exception if it panics.
#[inline(always)]
pub(crate) fn guarded(body: impl FnOnce() -> Step) -> Step {
    // Store the result in a variable, because `catch_unwind` would copy it through memory; see
    // `Miss`.
    let mut step = Step::Done(ptr::null_mut());
    match catch_unwind(AssertUnwindSafe(|| step = body())) {
        Ok(()) => step,
        Err(panic) => panicked(&*panic).into(),
    }
}

/// Returns the native method's result, or the call to the next method in the resolution order.
#[inline(always)]
fn attempt<C, M>(call: &Call<'_, '_, C>) -> Step
where
    C: PyClass<Frozen = True> + Sync,
    M: Method<C>,
{
    guarded(|| match M::call(call) {
        Ok(object) => Step::Done(object),
        Err(miss) => missed::<C, M>(call, miss),
    })
}

/// Handles a call after the native method returned no result for it.
#[cold]
#[inline(never)]
fn missed<C, M>(call: &Call<'_, '_, C>, miss: Miss) -> Step
where
    C: PyClass<Frozen = True> + Sync,
    M: Method<C>,
{
    let why = match miss.0.map(|why| *why) {
        // Retry, because the call has changed nothing. The retry opens the store that now has the
        // name.
        Some(MissReason::Again(_)) => match M::call(call) {
            Ok(object) => return Step::Done(object),
            Err(miss) => miss.0.map(|why| *why),
        },
        why => why,
    };
    match why {
        None => next_in_order::<C, M>(call).map_or_else(Step::from, Step::Next),
        Some(MissReason::Set) => Step::Done(ptr::null_mut()),
        Some(MissReason::Raised(error) | MissReason::Again(error)) => error.into(),
    }
}

/// Returns the exception for a panic.
#[cold]
fn panicked(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("undercroft's native module failed");
    PanicException::new_err(text.to_owned())
}

/// Prepares `super(C, self).NAME(...)` with the call's arguments, if that method exists.
#[cold]
fn next_in_order<C: PyClass, M: Method<C>>(call: &Call<'_, '_, C>) -> PyResult<Box<Next>> {
    let py = call.py;
    let order = PySuper::new(&py.get_type::<C>(), &call.receiver())?;
    let Some(next) = order.getattr_opt(M::NAME)? else {
        let text = M::text();
        let signature = text.lines().next().unwrap_or_default();
        let text = format!(
            "unexpected arguments for {}",
            signature.replace("$self, ", "")
        );
        return Err(PyTypeError::new_err(text));
    };
    // SAFETY: the method's caller keeps the arguments and their names alive until the method
    // returns.
    let object = |&argument| unsafe { Borrowed::from_ptr(py, argument) };
    let positional = PyTuple::new(py, call.by_position().iter().map(object))?;
    if call.names.is_null() {
        return Ok(Next::new(next, positional, None));
    }
    let keywords = PyDict::new(py);
    // SAFETY: the method's caller keeps the tuple of names alive until the method returns.
    let names = unsafe { Borrowed::from_ptr(py, call.names) };
    let values = call.arguments[call.positional..].iter().map(object);
    for (name, value) in names.try_iter()?.zip(values) {
        keywords.set_item(name?, value)?;
    }
    Ok(Next::new(next, positional, Some(keywords)))
}
