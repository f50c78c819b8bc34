//! Implements the methods that remove one string or one member from the store: `getdel`, `getset`,
//! `spop`, `zpopmin` and `zpopmax`.

use std::cell::Cell;
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;
use undercroft_commands::reply::Tree;
use undercroft_engine::sorted_sets::Scored;
use undercroft_engine::{Error, Ranges, ThreadCached};

use crate::client::Use;
use crate::conversion::codec;
use crate::hot::Taking;
use crate::methods::fastcall::{Call, Miss, Outcome};
use crate::methods::row::is_none;

/// The maximum capacity in bytes of a buffer that is retained for the next call.
const KEPT: usize = 64 * 1024;

thread_local! {
    /// This thread's buffer, which contains a string until it is converted to an object.
    static TEXT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Removes a string with `take`, which returns the same results as
/// [`Access::take_string`](undercroft_engine::Access::take_string).
#[inline(always)]
fn take_string<'py>(
    call: &Call<'_, 'py>,
    taken: &Bound<'py, PyList>,
    words: &[&[u8]],
    take: impl FnOnce(&Use<'_, 'py>, &mut Vec<u8>) -> Result<Option<Option<u64>>, Error>,
) -> Outcome {
    let shared = call.enter()?;
    let mut text = TEXT.take_cached();
    text.clear();
    let outcome = match take(&shared, &mut text) {
        Err(error) => Err(call.failed(&shared, error)),
        Ok(None) => Ok(codec::none(call.py)),
        Ok(Some(expires)) => keep_text(call, &shared, taken, (words, &text, expires)),
    };
    if text.capacity() <= KEPT {
        TEXT.put_back(text);
    }
    outcome
}

/// Returns the result of a call that removed a string. The string is first recorded in `taken`,
/// with its expiry time if it had one.
#[inline(always)]
fn keep_text<'py>(
    call: &Call<'_, 'py>,
    shared: &Use<'_, 'py>,
    taken: &Bound<'py, PyList>,
    (words, text, expires): (&[&[u8]], &[u8], Option<u64>),
) -> Outcome {
    let raw = codec::raw(call.py, text);
    let lost = || (Tree::Bulk(text.to_vec()), expires);
    let Some(at) = expires else {
        let raw = call.keep_raw(shared, taken, raw, (words, lost))?;
        return result(call, raw, |call| call.string(text));
    };
    let pair = match raw.is_null() {
        true => ptr::null_mut(),
        false => pair(call.py, raw, codec::number(call.py, at as i64)),
    };
    let pair = call.keep_raw(shared, taken, pair, (words, lost))?;
    // SAFETY: the thread is attached, and this call owns the reference. The list owns a separate
    // reference.
    unsafe { ffi::Py_DECREF(pair) };
    call.string(text)
}

/// Returns the recorded object if the client returns bytes, otherwise the result of `decoded`.
#[inline(always)]
fn result(
    call: &Call<'_, '_>,
    raw: *mut ffi::PyObject,
    decoded: impl FnOnce(&Call<'_, '_>) -> Outcome,
) -> Outcome {
    if !call.client.codec.decode {
        return Ok(raw);
    }
    // SAFETY: the thread is attached, and this call owns the reference.
    unsafe { ffi::Py_DECREF(raw) };
    decoded(call)
}

/// Returns a tuple of two objects, taking ownership of their references. Returns null with an
/// exception set if either object is null or memory runs out.
fn pair(
    _: Python<'_>,
    first: *mut ffi::PyObject,
    second: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the thread is attached. The tuple creates its own references, and null pointers are
    // checked before use.
    unsafe {
        let pair = match first.is_null() || second.is_null() {
            true => ptr::null_mut(),
            false => ffi::PyTuple_Pack(2, first, second),
        };
        ffi::Py_XDECREF(first);
        ffi::Py_XDECREF(second);
        pair
    }
}

pub(crate) struct Getdel;

impl Taking for Getdel {
    #[inline(always)]
    fn take<'py>(call: &Call<'_, 'py>, taken: &Bound<'py, PyList>) -> Outcome {
        let &[name] = call.exactly()?;
        let name = call.bytes(name)?;
        let database = call.database();
        take_string(call, taken, &[b"GETDEL", name], |shared, text| {
            shared.store.access().take_string(database, name, text)
        })
    }
}

pub(crate) struct Getset;

impl Taking for Getset {
    #[inline(always)]
    fn take<'py>(call: &Call<'_, 'py>, taken: &Bound<'py, PyList>) -> Outcome {
        let &[name, value] = call.exactly()?;
        let (name, value) = (call.bytes(name)?, call.word(value)?);
        let (value, database) = (value.bytes(), call.database());
        take_string(call, taken, &[b"GETSET", name, value], |shared, text| {
            let access = shared.store.access();
            access.exchange_string(database, name, value, text)
        })
    }
}

/// Returns the only argument of a call that removes a single element. A call with a count is left
/// to the table row.
#[inline(always)]
fn one<'a>(call: &Call<'a, '_>) -> Result<&'a [u8], Miss> {
    match *call.unnamed()? {
        [name] => call.bytes(name),
        [name, count] if is_none(count) => call.bytes(name),
        _ => Err(Miss::UNUSUAL),
    }
}

pub(crate) struct Spop;

impl Taking for Spop {
    #[inline(always)]
    fn take<'py>(call: &Call<'_, 'py>, taken: &Bound<'py, PyList>) -> Outcome {
        let name = one(call)?;
        let shared = call.enter()?;
        let (access, mut members) = (shared.store.access(), Ranges::new());
        match access.set_pop(call.database(), name, 1, &mut members) {
            Err(error) => Err(call.failed(&shared, error)),
            Ok(_) if members.is_empty() => Ok(codec::none(call.py)),
            Ok(_) => {
                let words: &[&[u8]] = &[b"SPOP", name];
                keep_text(call, &shared, taken, (words, members.get(0), None))
            }
        }
    }
}

/// Pops the member with the lowest or the highest score.
#[inline(always)]
fn pop_scored<'py>(
    call: &Call<'_, 'py>,
    taken: &Bound<'py, PyList>,
    command: &[u8],
    highest: bool,
) -> Outcome {
    let name = one(call)?;
    let shared = call.enter()?;
    let (access, mut popped) = (shared.store.access(), Scored::new());
    if let Err(error) = access.sorted_pop(call.database(), name, highest, 1, &mut popped) {
        return Err(call.failed(&shared, error));
    }
    let Some((member, score)) = popped.iter().next() else {
        return pairs(ptr::null_mut());
    };
    let raw = pair(call.py, codec::raw(call.py, member), float(call.py, score));
    let lost = || {
        let both = vec![Tree::Bulk(member.to_vec()), Tree::Double(score)];
        (Tree::Array(both), None)
    };
    let raw = call.keep_raw(&shared, taken, raw, (&[command, name], lost))?;
    let raw = result(call, raw, |call| {
        let member = call.client.codec.object(call.py, member);
        match member.is_null() {
            true => Err(Miss::set()),
            false => Ok(pair(call.py, member, float(call.py, score))),
        }
    })?;
    match raw.is_null() {
        true => Err(Miss::set()),
        false => pairs(raw),
    }
}

/// Returns a new reference to a `float`, or null with an exception set if memory runs out.
fn float(_: Python<'_>, value: f64) -> *mut ffi::PyObject {
    // SAFETY: the thread is attached.
    unsafe { ffi::PyFloat_FromDouble(value) }
}

/// Returns a list that contains the pair, or an empty list for null. Takes ownership of the pair's
/// reference.
fn pairs(pair: *mut ffi::PyObject) -> Outcome {
    // SAFETY: the thread is attached. The list is new, the index is below its length, and the list
    // takes ownership of the reference.
    unsafe {
        let list = ffi::PyList_New(ffi::Py_ssize_t::from(!pair.is_null()));
        if list.is_null() {
            ffi::Py_XDECREF(pair);
            return Err(Miss::set());
        }
        if !pair.is_null() {
            ffi::PyList_SetItem(list, 0, pair);
        }
        Ok(list)
    }
}

pub(crate) struct Zpopmin;

impl Taking for Zpopmin {
    #[inline(always)]
    fn take<'py>(call: &Call<'_, 'py>, taken: &Bound<'py, PyList>) -> Outcome {
        pop_scored(call, taken, b"ZPOPMIN", false)
    }
}

pub(crate) struct Zpopmax;

impl Taking for Zpopmax {
    #[inline(always)]
    fn take<'py>(call: &Call<'_, 'py>, taken: &Bound<'py, PyList>) -> Outcome {
        pop_scored(call, taken, b"ZPOPMAX", true)
    }
}
