//! Implements the most frequently called list methods.

use std::cell::Cell;
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;
use smallvec::SmallVec;
use undercroft_commands::reply::Tree;
use undercroft_engine::lists::End;
use undercroft_engine::{Ranges, ThreadCached};

use crate::conversion::codec;
use crate::execute::Argument;
use crate::hot::{Hot, Taking};
use crate::methods::fastcall::{Call, Miss, Outcome, made};
use crate::methods::row::is_none;

/// The maximum number of values that are pushed without an allocation.
const FEW: usize = 16;
/// The maximum capacity in bytes of a buffer that is retained for the next call.
const KEPT: usize = 64 * 1024;

thread_local! {
    /// This thread's buffer, which contains items until they are converted to objects.
    static ITEMS: Cell<Ranges> = const { Cell::new(Ranges::new()) };
}

/// Runs `body` with this thread's buffer.
fn with_items(body: impl FnOnce(&mut Ranges) -> Outcome) -> Outcome {
    let mut items = ITEMS.take_cached();
    items.clear();
    let outcome = body(&mut items);
    if items.capacity() <= KEPT {
        ITEMS.put_back(items);
    }
    outcome
}

/// Returns items as a list of objects, or of `bytes` objects if `raw` is set.
fn list(call: &Call<'_, '_>, items: &Ranges, raw: bool) -> Outcome {
    // SAFETY: the thread is attached.
    let list = unsafe { ffi::PyList_New(items.len() as ffi::Py_ssize_t) };
    if list.is_null() {
        return Err(Miss::set());
    }
    for (index, item) in items.iter().enumerate() {
        let item = match raw {
            true => codec::raw(call.py, item),
            false => call.client.codec.object(call.py, item),
        };
        // SAFETY: the list is new, the index is below its length, and it takes ownership of the
        // reference. A list may be dropped before all its items are set.
        unsafe {
            if item.is_null() {
                ffi::Py_DECREF(list);
                return Err(Miss::set());
            }
            ffi::PyList_SetItem(list, index as ffi::Py_ssize_t, item);
        }
    }
    Ok(list)
}

#[inline(always)]
fn push(call: &Call<'_, '_>, end: End) -> Outcome {
    let [name, values @ ..] = call.unnamed()? else {
        return Err(Miss::UNUSUAL);
    };
    if values.is_empty() {
        return Err(Miss::UNUSUAL);
    }
    let name = call.bytes(*name)?;
    let mut given: SmallVec<[Argument<'_>; FEW]> = SmallVec::new();
    for &value in values {
        given.push(call.word(value)?);
    }
    let values: SmallVec<[&[u8]; FEW]> = given.iter().map(Argument::bytes).collect();
    let shared = call.enter()?;
    match shared.store.list_push(call.database(), name, end, &values) {
        Ok(length) => made(codec::number(call.py, length as i64)),
        Err(error) => Err(call.failed(&shared, error)),
    }
}

/// Pops items, and records them in `taken` as bytes before it creates the result objects.
#[inline(always)]
fn pop<'py>(call: &Call<'_, 'py>, taken: &Bound<'py, PyList>, end: End) -> Outcome {
    let (name, count) = match *call.unnamed()? {
        [name] => (name, None),
        [name, count] if is_none(count) => (name, None),
        [name, count] => {
            let count = u64::try_from(call.integer(count)?).map_err(|_| Miss::UNUSUAL)?;
            (name, Some(count))
        }
        _ => return Err(Miss::UNUSUAL),
    };
    let name = call.bytes(name)?;
    let shared = call.enter()?;
    with_items(|items| {
        let wanted = count.unwrap_or(1);
        let found = match shared
            .store
            .list_pop(call.database(), name, end, wanted, items)
        {
            Ok(found) => found,
            Err(error) => return Err(call.failed(&shared, error)),
        };
        if !found {
            return Ok(codec::none(call.py));
        }
        let raw = match count {
            Some(_) => list(call, items, true),
            None => made(codec::raw(call.py, items.get(0))),
        };
        let command: &[u8] = match end {
            End::Left => b"LPOP",
            End::Right => b"RPOP",
        };
        let lost = || {
            let items = items.iter().map(|item| Tree::Bulk(item.to_vec()));
            (Tree::Array(items.collect()), None)
        };
        let raw = match raw {
            Ok(raw) => raw,
            Err(_) => ptr::null_mut(),
        };
        let raw = call.keep_raw(&shared, taken, raw, (&[command, name], lost))?;
        if !call.client.codec.decode {
            return Ok(raw);
        }
        // SAFETY: the thread is attached, and this call owns the reference.
        unsafe { ffi::Py_DECREF(raw) };
        match count {
            Some(_) => list(call, items, false),
            None => call.string(items.get(0)),
        }
    })
}

pub(crate) struct Lpush;

impl Hot for Lpush {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        push(call, End::Left)
    }
}

pub(crate) struct Rpush;

impl Hot for Rpush {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        push(call, End::Right)
    }
}

pub(crate) struct Lpop;

impl Taking for Lpop {
    #[inline(always)]
    fn take<'py>(call: &Call<'_, 'py>, taken: &Bound<'py, PyList>) -> Outcome {
        pop(call, taken, End::Left)
    }
}

pub(crate) struct Rpop;

impl Taking for Rpop {
    #[inline(always)]
    fn take<'py>(call: &Call<'_, 'py>, taken: &Bound<'py, PyList>) -> Outcome {
        pop(call, taken, End::Right)
    }
}

pub(crate) struct Lrange;

impl Hot for Lrange {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let &[name, start, end] = call.exactly()?;
        let name = call.bytes(name)?;
        let (start, end) = (call.integer(start)?, call.integer(end)?);
        let shared = call.enter()?;
        with_items(|items| {
            match shared
                .store
                .list_range(call.database(), name, start, end, items)
            {
                Ok(_) => list(call, items, false),
                Err(error) => Err(call.failed(&shared, error)),
            }
        })
    }
}

pub(crate) struct Llen;

impl Hot for Llen {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let &[name] = call.exactly()?;
        let name = call.bytes(name)?;
        let shared = call.enter()?;
        match shared.store.list_length(call.database(), name) {
            Ok(length) => made(codec::number(call.py, length as i64)),
            Err(error) => Err(call.failed(&shared, error)),
        }
    }
}
