//! Methods at the speed of the interpreter's own: one C function for each,
//! called with an array of arguments.
//!
//! A method works on exact `bytes`, `str` and `int` objects and the common
//! options. For everything else it calls the method of the same name that comes
//! next in the class's order, which is redis-py's, with the very same arguments;
//! so unusual arguments, errors and all, are redis-py's own business. A class without one
//! (`undercroft.Store`) raises a `TypeError`.

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

/// One call of a method of a class, the client's for most.
pub(crate) struct Call<'a, 'py, C = Client> {
    pub(crate) py: Python<'py>,
    pub(crate) client: &'a C,
    /// The same as an object.
    receiver: *mut ffi::PyObject,
    arguments: &'a [*mut ffi::PyObject],
    /// How many of them were passed by position.
    positional: usize,
    /// The names of the others, a tuple; null without any.
    names: *mut ffi::PyObject,
}

/// Why a method did not answer.
///
/// It is one word, so that an [`Outcome`] is two, which stay in registers. One of nine words is copied through memory a
/// few times in each call, by loads that are wider than the stores before them: a processor waits for these.
pub(crate) struct Miss(Option<Box<Why>>);

/// See [`Miss`], which without one says that the arguments are redis-py's to handle.
enum Why {
    /// An exception.
    Raised(PyErr),
    /// An exception is set already.
    Set,
    /// An exception, of a store whose file was removed: the same call may find another one.
    Again(PyErr),
}

impl Miss {
    /// The arguments are redis-py's to handle.
    pub(crate) const UNUSUAL: Miss = Miss(None);

    #[inline(always)]
    pub(crate) fn is_unusual(&self) -> bool {
        self.0.is_none()
    }

    /// An exception is set already.
    #[cold]
    pub(crate) fn set() -> Miss {
        Miss(Some(Box::new(Why::Set)))
    }
}

impl From<PyErr> for Miss {
    #[cold]
    fn from(error: PyErr) -> Miss {
        Miss(Some(Box::new(Why::Raised(error))))
    }
}

/// A new reference, or why there is none.
pub(crate) type Outcome = Result<*mut ffi::PyObject, Miss>;

/// A method of a class.
pub(crate) trait Method<C = Client> {
    /// Its name.
    const NAME: &'static str;

    /// Its signature and what it does, as the interpreter wants to have it.
    fn text() -> String;

    /// Runs it.
    fn call(call: &Call<'_, '_, C>) -> Outcome;
}

impl<'a, 'py, C> Call<'a, 'py, C> {
    /// The arguments, where so many came by position and none by name.
    #[inline(always)]
    pub(crate) fn exactly<const N: usize>(&self) -> Result<&'a [*mut ffi::PyObject; N], Miss> {
        if !self.names.is_null() {
            return Err(Miss::UNUSUAL);
        }
        self.arguments.try_into().map_err(|_| Miss::UNUSUAL)
    }

    /// All arguments, where none came by name.
    #[inline(always)]
    pub(crate) fn unnamed(&self) -> Result<&'a [*mut ffi::PyObject], Miss> {
        if self.names.is_null() {
            Ok(self.arguments)
        } else {
            Err(Miss::UNUSUAL)
        }
    }

    /// The arguments that came by position.
    #[inline(always)]
    pub(crate) fn by_position(&self) -> &'a [*mut ffi::PyObject] {
        &self.arguments[..self.positional]
    }

    /// The arguments that came by name.
    pub(crate) fn by_name(&self) -> impl Iterator<Item = (&'a [u8], *mut ffi::PyObject)> {
        let values = &self.arguments[self.positional..];
        values.iter().enumerate().map(|(index, &value)| {
            // SAFETY: `names` is a tuple of as many `str` as there are values,
            // which the caller keeps alive.
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

    /// How many arguments came by name.
    pub(crate) fn names_count(&self) -> usize {
        self.arguments.len() - self.positional
    }

    /// The argument of this name, if it came by name.
    pub(crate) fn named(&self, name: &[u8]) -> Option<*mut ffi::PyObject> {
        let mut named = self.by_name().filter(|(other, _)| *other == name);
        named.next().map(|(_, value)| value)
    }

    /// The first argument, which is a list for what is taken, and the call without it.
    #[inline(always)]
    pub(crate) fn split_taken(
        &self,
    ) -> Result<(Borrowed<'a, 'py, PyList>, Call<'a, 'py, C>), Miss> {
        let (Some((&first, arguments)), Some(positional)) =
            (self.arguments.split_first(), self.positional.checked_sub(1))
        else {
            return Err(Miss::UNUSUAL);
        };
        // SAFETY: the caller of the method keeps its arguments alive until it returns, and `'a` ends before.
        let list = unsafe { Borrowed::from_ptr(self.py, first) };
        let list = list.cast::<PyList>().map_err(|_| Miss::UNUSUAL)?;
        let call = Call {
            arguments,
            positional,
            ..*self
        };
        Ok((list, call))
    }

    /// The object that the method was called on.
    pub(crate) fn receiver(&self) -> Borrowed<'a, 'py, PyAny> {
        // SAFETY: the caller of the method keeps it alive until it returns, and `'a` ends before.
        unsafe { Borrowed::from_ptr(self.py, self.receiver) }
    }
}

impl<'a, 'py> Call<'a, 'py> {
    /// The bytes of an argument that is exactly a `bytes` or a `str`.
    #[inline(always)]
    pub(crate) fn bytes(&self, argument: *mut ffi::PyObject) -> Result<&'a [u8], Miss> {
        // SAFETY: the caller of the method keeps its arguments alive until it
        // returns, and `'a` ends before.
        unsafe { self.client.codec.bytes(argument) }.ok_or(Miss::UNUSUAL)
    }

    /// An argument that is exactly an `int` of 64 bits.
    #[inline(always)]
    pub(crate) fn integer(&self, argument: *mut ffi::PyObject) -> Result<i64, Miss> {
        // SAFETY: the arguments are valid objects.
        unsafe { codec::integer(argument) }.ok_or(Miss::UNUSUAL)
    }

    /// An argument as a word of a command: exactly a `bytes`, a `str`, an `int` of 64 bits or a `float`, unless there is
    /// no method of redis-py's to leave others to.
    #[inline(always)]
    pub(crate) fn word(&self, argument: *mut ffi::PyObject) -> Result<Argument<'a>, Miss> {
        // SAFETY: the caller of the method keeps its arguments alive until it returns, and `'a` ends before; so does
        // the method with what its arguments hold.
        unsafe { word(&self.client.codec, self.py, argument) }
    }

    /// Begins to use the store, unless results are to be shaped by redis-py.
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

    /// The outcome for an error of the engine.
    #[cold]
    pub(crate) fn failed(&self, shared: &Use<'_, '_>, error: Error) -> Miss {
        let raises = self.client.codec.raises;
        let raised = error::raise(self.py, raises, &shared.store, error);
        match self.client.leaves(self.py, shared) {
            true => Miss(Some(Box::new(Why::Again(raised)))),
            false => raised.into(),
        }
    }

    /// A string as an object.
    #[inline(always)]
    pub(crate) fn string(&self, bytes: &[u8]) -> Outcome {
        made(self.client.codec.object(self.py, bytes))
    }
}

/// Whether an object is one that [`Call::word`] takes.
///
/// # Safety
/// The thread is attached, and `object` is valid.
#[inline(always)]
pub(crate) unsafe fn is_word(object: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        ffi::PyUnicode_CheckExact(object) != 0
            || ffi::PyBytes_CheckExact(object) != 0
            || ffi::PyLong_CheckExact(object) != 0
            || ffi::PyFloat_CheckExact(object) != 0
    }
}

/// See [`Call::word`].
///
/// # Safety
/// The thread is attached, and `argument` is valid and stays alive for `'a`.
#[inline(always)]
pub(crate) unsafe fn word<'a>(
    codec: &Codec,
    py: Python<'_>,
    argument: *mut ffi::PyObject,
) -> Result<Argument<'a>, Miss> {
    // SAFETY: the caller's promise; the type is checked before the object is used as that.
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

/// The outcome of making an object: null means that an exception is set.
#[inline(always)]
pub(crate) fn made(object: *mut ffi::PyObject) -> Outcome {
    if object.is_null() {
        Err(Miss::set())
    } else {
        Ok(object)
    }
}

/// Adds a method of `C` to a class, which is `C` or derived from it.
pub(crate) fn add<C, M>(class: &Bound<'_, PyType>) -> PyResult<()>
where
    C: PyClass<Frozen = True> + Sync,
    M: Method<C>,
{
    let py = class.py();
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: leaked(M::NAME.to_owned())?,
        ml_meth: ffi::PyMethodDefPointer {
            // SAFETY: only the interpreter calls it, which is C and does not care.
            PyCFunctionFastWithKeywords: unsafe {
                std::mem::transmute::<FastUnwinding, ffi::PyCFunctionFastWithKeywords>(
                    trampoline::<C, M>,
                )
            },
        },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: leaked(M::text())?,
    }));
    // SAFETY: the class is a type, and the definition is never freed; the
    // descriptor made of them lets only instances of `C` in.
    let descriptor = unsafe {
        let owner = py.get_type::<C>();
        let descriptor = ffi::PyDescr_NewMethod(owner.as_type_ptr(), definition);
        Bound::from_owned_ptr_or_err(py, descriptor)?
    };
    class.setattr(M::NAME, descriptor)
}

/// A C function through which a thread may be unwound.
type FastUnwinding = unsafe extern "C-unwind" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    ffi::Py_ssize_t,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// Text that the interpreter keeps for ever.
fn leaked(text: String) -> PyResult<*const c_char> {
    Ok(CString::new(text)?.into_raw())
}

/// The C function of a method.
///
/// A thread that runs Python code when the interpreter ends is unwound. So this frame owns nothing while the next
/// method runs, and may be unwound.
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
    // SAFETY: the interpreter calls this with a receiver of the class (its
    // descriptor checked that), and with as many arguments as it says, all of
    // which it keeps alive; the thread is attached. The class is frozen, so its
    // objects may be shared.
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

/// What a method written in Rust gives back to its C function. Two words, as [`Miss`] says.
pub(crate) enum Step {
    /// A new reference; null where an exception is set.
    Done(*mut ffi::PyObject),
    /// Python code that is to be run in its place.
    Next(Box<Next>),
}

const _: () = assert!(size_of::<Outcome>() == 16 && size_of::<Step>() == 16);

/// A call of a Python function: references that [`Next::run`] gives up.
pub(crate) struct Next {
    function: *mut ffi::PyObject,
    arguments: *mut ffi::PyObject,
    /// Null where there are none.
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

    /// Calls the function. The frames of the call own nothing by then, so that they may be unwound.
    ///
    /// # Safety
    /// The thread is attached.
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
        // SAFETY: these are references of our own.
        unsafe {
            let result = call_object()(function, arguments, keywords);
            ffi::Py_DECREF(function);
            ffi::Py_DECREF(arguments);
            ffi::Py_XDECREF(keywords);
            result
        }
    }
}

/// `PyObject_Call`, which may unwind.
type CallObject = unsafe extern "C-unwind" fn(
    *mut ffi::PyObject,
    *mut ffi::PyObject,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// The interpreter's function, of which the compiler is not to know the name: `pyo3::ffi` says that it does not unwind,
/// and what the compiler knows of one declaration it may use for all.
#[inline(always)]
fn call_object() -> CallObject {
    let function = ffi::PyObject_Call as *const ();
    // SAFETY: these ABIs differ only in what may unwind.
    unsafe { std::mem::transmute::<*const (), CallObject>(std::hint::black_box(function)) }
}

impl From<PyErr> for Step {
    fn from(error: PyErr) -> Step {
        Python::attach(|py| error.restore(py));
        Step::Done(ptr::null_mut())
    }
}

/// What `body` gives; an exception where it panics.
#[inline(always)]
pub(crate) fn guarded(body: impl FnOnce() -> Step) -> Step {
    // Not by the value of `catch_unwind`, which goes through memory as a whole, see `Miss`.
    let mut step = Step::Done(ptr::null_mut());
    match catch_unwind(AssertUnwindSafe(|| step = body())) {
        Ok(()) => step,
        Err(panic) => panicked(&*panic).into(),
    }
}

/// What a method of ours answers, or the call of the next in order.
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

/// What follows where a method did not answer.
#[cold]
#[inline(never)]
fn missed<C, M>(call: &Call<'_, '_, C>, miss: Miss) -> Step
where
    C: PyClass<Frozen = True> + Sync,
    M: Method<C>,
{
    let why = match miss.0.map(|why| *why) {
        // The call has changed nothing, and the client opens the store again for it.
        Some(Why::Again(_)) => match M::call(call) {
            Ok(object) => return Step::Done(object),
            Err(miss) => miss.0.map(|why| *why),
        },
        why => why,
    };
    match why {
        None => next_in_order::<C, M>(call).map_or_else(Step::from, Step::Next),
        Some(Why::Set) => Step::Done(ptr::null_mut()),
        Some(Why::Raised(error) | Why::Again(error)) => error.into(),
    }
}

/// The exception for a panic.
#[cold]
fn panicked(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("the native half of undercroft failed");
    PanicException::new_err(text.to_owned())
}

/// `super(C, self).NAME(...)` with the arguments of the call, where there is such a method.
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
    // SAFETY: the caller of the method keeps its arguments and their names alive until it returns.
    let object = |&argument| unsafe { Borrowed::from_ptr(py, argument) };
    let positional = PyTuple::new(py, call.by_position().iter().map(object))?;
    if call.names.is_null() {
        return Ok(Next::new(next, positional, None));
    }
    let keywords = PyDict::new(py);
    // SAFETY: as above.
    let names = unsafe { Borrowed::from_ptr(py, call.names) };
    let values = call.arguments[call.positional..].iter().map(object);
    for (name, value) in names.try_iter()?.zip(values) {
        keywords.set_item(name?, value)?;
    }
    Ok(Next::new(next, positional, Some(keywords)))
}
