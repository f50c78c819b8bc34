//! Implements the methods `delete`, `exists`, `expire` and `ttl`.

use pyo3::ffi;
use smallvec::SmallVec;
use undercroft_engine::Error;

use crate::client::Use;
use crate::conversion::codec;
use crate::hot::Hot;
use crate::methods::fastcall::{Call, Miss, Outcome, made};

pub(crate) struct Delete;

impl Hot for Delete {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        count(call, |shared, database, keys| {
            shared.store.delete(database, keys)
        })
    }
}

pub(crate) struct Exists;

impl Hot for Exists {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        count(call, |shared, database, keys| {
            shared.store.exists(database, keys)
        })
    }
}

#[inline(always)]
fn count(
    call: &Call<'_, '_>,
    work: impl FnOnce(&Use<'_, '_>, usize, &[&[u8]]) -> Result<u64, Error>,
) -> Outcome {
    let names = call.unnamed()?;
    if names.is_empty() {
        return Err(Miss::UNUSUAL);
    }
    let mut keys: SmallVec<[&[u8]; 8]> = SmallVec::with_capacity(names.len());
    for &name in names {
        keys.push(call.bytes(name)?);
    }
    let shared = call.enter()?;
    match work(&shared, call.database(), &keys) {
        Ok(count) => made(codec::number(call.py, count as i64)),
        Err(error) => Err(call.failed(&shared, error)),
    }
}

pub(crate) struct Expire;

impl Hot for Expire {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let &[name, time] = call.exactly()?;
        let name = call.bytes(name)?;
        let seconds = call.integer(time)?;
        let shared = call.enter()?;
        let now = shared.store.now() as i64;
        // Use the general command if the expiry time overflows, because it returns Redis' error.
        let at = seconds
            .checked_mul(1000)
            .and_then(|milliseconds| milliseconds.checked_add(now))
            .ok_or(Miss::UNUSUAL)?;
        let at = u64::try_from(at).unwrap_or(0);
        match shared.store.expire_at(call.database(), name, at) {
            Ok(done) => Ok(codec::boolean(call.py, done)),
            Err(error) => Err(call.failed(&shared, error)),
        }
    }
}

pub(crate) struct Ttl;

impl Hot for Ttl {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let &[name] = call.exactly()?;
        let name = call.bytes(name)?;
        let shared = call.enter()?;
        let seconds = match shared.store.expiry(call.database(), name) {
            Ok(None) => -2,
            Ok(Some(None)) => -1,
            // Round to the nearest second, as Redis does.
            Ok(Some(Some(at))) => {
                let left = at.saturating_sub(shared.store.now());
                (left.saturating_add(500) / 1000) as i64
            }
            Err(error) => return Err(call.failed(&shared, error)),
        };
        made(codec::number(call.py, seconds))
    }
}

/// Returns the items of a list or tuple, or None for any other object.
///
/// # Safety
/// The thread must be attached, and `object` must be valid.
pub(crate) unsafe fn items(object: *mut ffi::PyObject) -> Option<Vec<*mut ffi::PyObject>> {
    // SAFETY: the caller guarantees that the object is valid, its type is checked before use, and
    // every index is below its length.
    unsafe {
        if ffi::PyList_CheckExact(object) != 0 {
            let count = ffi::PyList_Size(object);
            Some(
                (0..count)
                    .map(|index| ffi::PyList_GetItem(object, index))
                    .collect(),
            )
        } else if ffi::PyTuple_CheckExact(object) != 0 {
            let count = ffi::PyTuple_Size(object);
            Some(
                (0..count)
                    .map(|index| ffi::PyTuple_GetItem(object, index))
                    .collect(),
            )
        } else {
            None
        }
    }
}
