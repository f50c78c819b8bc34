//! `get` and `set`.

use std::ffi::CStr;

use pyo3::ffi;
use undercroft_engine::{Condition, Error, Expiry, Scratch, SetOptions, Text, TextBuffer, View};

use crate::codec;
use crate::method::{Call, Method, Miss, Outcome};

/// Values up to this length are copied out by way of the stack.
const SMALL: usize = 256;

pub(crate) struct Get;

impl Method for Get {
    const NAME: &'static CStr = c"get";
    const DOC: &'static CStr =
        c"get($self, name)\n--\n\nReturn the string that a key holds, or None if there is no such key.";

    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let &[name] = call.exactly()?;
        let name = call.bytes(name)?;
        let shared = call.enter()?;
        let store = &shared.store;
        let database = call.database();
        let mut value = Value {
            small: [0; SMALL],
            length: 0,
            large: Vec::new(),
        };
        match store.get(database, name, &mut value) {
            Err(error) => Err(call.failed(&shared, error)),
            Ok(true) => call.string(value.bytes()),
            Ok(false) => Ok(codec::none(call.py)),
        }
    }
}

/// A value that `get` reads.
struct Value {
    /// A short one: its first bytes, so many.
    small: [u8; SMALL],
    length: usize,
    /// A long one; empty where it is short.
    large: Vec<u8>,
}

impl Scratch for Value {
    #[inline(always)]
    fn clear(&mut self) {
        self.length = 0;
        self.large.clear();
    }
}

impl TextBuffer for Value {
    #[inline(always)]
    fn fill(&mut self, view: &View<'_>, text: Text) -> Result<(), Error> {
        match text {
            Text::Bytes(at, length) if length <= SMALL as u64 => {
                self.length = length as usize;
                view.copy_to(at, &mut self.small[..self.length])?;
            }
            text => text.append_to(view, &mut self.large)?,
        }
        Ok(())
    }
}

impl Value {
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        if self.large.is_empty() {
            &self.small[..self.length]
        } else {
            &self.large
        }
    }
}

pub(crate) struct Set;

impl Method for Set {
    const NAME: &'static CStr = c"set";
    const DOC: &'static CStr = c"set($self, name, value, ex=None, px=None, nx=False, xx=False, keepttl=False, get=False, exat=None, pxat=None, **options)\n--\n\nSet a key to a string. Return True, or None if a condition (nx, xx) was not met; with get, return the old value.";

    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let [name, value, options @ ..] = call.by_position() else {
            return Err(Miss::Unusual);
        };
        if !options.is_empty() {
            return Err(Miss::Unusual);
        }
        let name = call.bytes(*name)?;
        let mut digits = itoa::Buffer::new();
        let value = match call.bytes(*value) {
            Ok(value) => value,
            Err(_) => digits.format(call.integer(*value)?).as_bytes(),
        };
        if call.unnamed().is_err() {
            return with_options(call, name, value);
        }
        let shared = call.enter()?;
        let database = call.database();
        match shared.store.set(database, name, value) {
            Ok(()) => Ok(codec::boolean(call.py, true)),
            Err(error) => Err(call.failed(&shared, error)),
        }
    }
}

/// SET with the options ex, px, nx and xx, given by name as exact `int` and
/// `bool`; any other is left to redis-py.
fn with_options(call: &Call<'_, '_>, name: &[u8], value: &[u8]) -> Outcome {
    let shared = call.enter()?;
    let (mut nx, mut xx, mut after) = (false, false, None);
    for (option, argument) in call.by_name() {
        match option {
            b"ex" | b"px" if is_none(argument) => {}
            b"ex" if after.is_none() => after = call.integer(argument)?.checked_mul(1000),
            b"px" if after.is_none() => after = Some(call.integer(argument)?),
            b"nx" => nx = truth(argument)?,
            b"xx" => xx = truth(argument)?,
            _ => return Err(Miss::Unusual),
        }
        if matches!(option, b"ex" | b"px") && !is_none(argument) && after.is_none() {
            return Err(Miss::Unusual);
        }
    }
    let expiry = match after {
        None => Expiry::Never,
        Some(after) => {
            let at = u64::try_from(after).ok().filter(|&after| after > 0);
            let at = at.and_then(|after| shared.store.now().checked_add(after));
            Expiry::At(
                at.filter(|&at| i64::try_from(at).is_ok())
                    .ok_or(Miss::Unusual)?,
            )
        }
    };
    let condition = match (nx, xx) {
        (true, true) => return Err(Miss::Unusual),
        (true, false) => Condition::IfMissing,
        (false, true) => Condition::IfPresent,
        (false, false) => Condition::Always,
    };
    let options = SetOptions { condition, expiry };
    let set = shared
        .store
        .set_with(call.database(), name, value, options)
        .map_err(|error| call.failed(&shared, error))?;
    if set {
        Ok(codec::boolean(call.py, true))
    } else {
        Ok(codec::none(call.py))
    }
}

fn is_none(object: *mut ffi::PyObject) -> bool {
    // SAFETY: None is always there.
    object == unsafe { ffi::Py_None() }
}

fn truth(object: *mut ffi::PyObject) -> Result<bool, Miss> {
    // SAFETY: True and False are always there.
    unsafe {
        if object == ffi::Py_True() {
            Ok(true)
        } else if object == ffi::Py_False() {
            Ok(false)
        } else {
            Err(Miss::Unusual)
        }
    }
}
