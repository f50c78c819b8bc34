//! Implements the methods `mget` and `mset`.

use std::ptr;

use pyo3::ffi;
use smallvec::SmallVec;
use undercroft_engine::Key;
use undercroft_engine::strings::{Held as Value, Values};

use super::keys::items;
use crate::conversion::codec;
use crate::conversion::references::References;
use crate::execute::Argument;
use crate::hot::Hot;
use crate::methods::fastcall::{Call, Miss, Outcome};

/// The maximum number of keys that are handled without an allocation.
const FEW: usize = 16;

pub(crate) struct Mget;

impl Hot for Mget {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let arguments = call.unnamed()?;
        let [first, rest @ ..] = arguments else {
            return Err(Miss::UNUSUAL);
        };
        // SAFETY: the thread is attached and the arguments are valid objects.
        let listed = unsafe { items(*first) };
        let mut references = References::default();
        let mut names: SmallVec<[&[u8]; FEW]> = SmallVec::new();
        for &name in listed.iter().flatten() {
            // SAFETY: the list's items are valid now. The reference keeps the item alive if another
            // thread removes it from the list.
            unsafe { references.keep(name) };
            names.push(call.bytes(name)?);
        }
        let rest = if listed.is_some() { rest } else { arguments };
        for &name in rest {
            names.push(call.bytes(name)?);
        }
        get_many(call, &names)
    }
}

fn get_many(call: &Call<'_, '_>, names: &[&[u8]]) -> Outcome {
    let shared = call.enter()?;
    let store = &shared.store;
    let database = call.database();
    let keys: Vec<Key<'_>> = names.iter().map(|name| store.key(name)).collect();
    let mut values = Values::default();
    store
        .access()
        .read_values(database, &keys, &mut values)
        .map_err(|error| call.failed(&shared, error))?;
    for (key, value) in keys.iter().zip(values.iter()) {
        store.looked_up(database, key, value != Value::Missing);
    }
    // SAFETY: the thread is attached.
    let list = unsafe { ffi::PyList_New(values.len() as ffi::Py_ssize_t) };
    if list.is_null() {
        return Err(Miss::set());
    }
    for (index, found) in values.iter().enumerate() {
        let value = match found {
            Value::Text(text) => call.client.codec.object(call.py, text),
            Value::Missing | Value::Other => codec::none(call.py),
        };
        // SAFETY: the list is new, the index is below its length, and it takes ownership of the
        // reference. A list may be dropped before all its items are set.
        unsafe {
            if value.is_null() {
                ffi::Py_DECREF(list);
                return Err(Miss::set());
            }
            ffi::PyList_SetItem(list, index as ffi::Py_ssize_t, value);
        }
    }
    Ok(list)
}

pub(crate) struct Mset;

impl Hot for Mset {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let &[mapping] = call.exactly()?;
        let mut references = References::default();
        let mut given: SmallVec<[(&[u8], Argument<'_>); FEW]> = SmallVec::new();
        let (mut position, mut name, mut value) = (0, ptr::null_mut(), ptr::null_mut());
        // SAFETY: the mapping is a valid object. No other thread runs during the iteration, and the
        // references keep the dictionary's contents alive afterwards.
        unsafe {
            if ffi::PyDict_CheckExact(mapping) == 0 {
                return Err(Miss::UNUSUAL);
            }
            while ffi::PyDict_Next(mapping, &mut position, &mut name, &mut value) != 0 {
                references.keep(name);
                references.keep(value);
                given.push((call.bytes(name)?, call.word(value)?));
            }
        }
        let pairs: SmallVec<[(&[u8], &[u8]); FEW]> = given
            .iter()
            .map(|(name, value)| (*name, value.bytes()))
            .collect();
        if pairs.is_empty() {
            return Err(Miss::UNUSUAL);
        }
        let shared = call.enter()?;
        match shared.store.set_many(call.database(), &pairs) {
            Ok(()) => Ok(codec::boolean(call.py, true)),
            Err(error) => Err(call.failed(&shared, error)),
        }
    }
}
