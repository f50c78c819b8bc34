//! Implements the methods `get` and `set`.

use std::mem::{self, MaybeUninit};
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use undercroft_engine::strings::{Condition, SetOptions, Text, TextBuffer};
use undercroft_engine::{Error, Expiry, Offset, Scratch, View};

use crate::conversion::codec;
use crate::hot::Hot;
use crate::methods::fastcall::{Call, Miss, Outcome};
use crate::methods::row::{is_none, truth};

/// The maximum length in bytes of a value that is copied through the stack.
const SMALL: usize = 256;
/// The maximum number of exact buffers allocated for a value whose length keeps changing.
const TRIES: u32 = 3;

pub(crate) struct Get;

impl Hot for Get {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let &[name] = call.exactly()?;
        let name = call.bytes(name)?;
        let shared = call.enter()?;
        let mut value = Value::new(call);
        match shared.store.get(call.database(), name, &mut value) {
            Err(error) => Err(call.failed(&shared, error)),
            Ok(false) => Ok(codec::none(call.py)),
            Ok(true) => value.finish(),
        }
    }
}

/// The value that `get` reads. A long value is copied once, directly into the result object. A read
/// must not call into Python, so the first read finds the value's length, the object is allocated,
/// and a second read fills it.
struct Value<'c, 'a, 'py> {
    call: &'c Call<'a, 'py>,
    /// The bytes of a short value.
    small: [u8; SMALL],
    /// The length of the value in bytes.
    length: usize,
    kept: Kept,
    place: Place<'py>,
    /// The number of buffers allocated so far.
    tries: u32,
    failed: Option<Miss>,
}

/// The buffer that contains the value.
#[derive(Clone, Copy)]
enum Kept {
    Small,
    Placed,
    /// No buffer has the right length.
    Nowhere,
}

/// The kind of buffer for a long value.
enum Place<'py> {
    None,
    /// A result object of the right length, not yet visible to other code.
    Result(Bound<'py, PyBytes>),
    /// Memory of the right length, from which the value is decoded.
    Encoded(Box<[MaybeUninit<u8>]>),
    /// A growable buffer for a value whose length keeps changing.
    Any(Vec<u8>),
}

impl<'c, 'a, 'py> Value<'c, 'a, 'py> {
    #[inline(always)]
    fn new(call: &'c Call<'a, 'py>) -> Value<'c, 'a, 'py> {
        Value {
            call,
            small: [0; SMALL],
            length: 0,
            kept: Kept::Small,
            place: Place::None,
            tries: 0,
            failed: None,
        }
    }

    #[inline(always)]
    fn finish(&mut self) -> Outcome {
        match self.kept {
            Kept::Small => self.call.string(&self.small[..self.length]),
            Kept::Placed => mem::replace(&mut self.place, Place::None).finish(self.call),
            Kept::Nowhere => Err(self.failed.take().unwrap_or_else(Miss::set)),
        }
    }
}

impl Scratch for Value<'_, '_, '_> {
    #[inline(always)]
    fn clear(&mut self) {
        self.length = 0;
        self.kept = Kept::Small;
        if let Place::Any(bytes) = &mut self.place {
            bytes.clear();
        }
    }
}

impl TextBuffer for Value<'_, '_, '_> {
    #[inline(always)]
    fn fill(&mut self, view: &View<'_>, text: Text) -> Result<(), Error> {
        match text {
            Text::Bytes(at, length) if length <= SMALL as u64 => {
                self.length = length as usize;
                view.copy_to(at, &mut self.small[..self.length])?;
            }
            Text::Bytes(at, length) => {
                self.length = length as usize;
                self.kept = match self.place.fill(view, at, length)? {
                    true => Kept::Placed,
                    false => Kept::Nowhere,
                };
            }
            Text::Integer(value) => {
                let mut digits = itoa::Buffer::new();
                let digits = digits.format(value).as_bytes();
                self.length = digits.len();
                self.small[..self.length].copy_from_slice(digits);
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn makes_room(&mut self) -> bool {
        if !matches!(self.kept, Kept::Nowhere) {
            return false;
        }
        self.tries += 1;
        match Place::new(self.call, self.length, self.tries) {
            Ok(place) => {
                self.place = place;
                true
            }
            Err(miss) => {
                self.failed = Some(miss);
                false
            }
        }
    }
}

impl<'py> Place<'py> {
    #[cold]
    fn new(call: &Call<'_, 'py>, length: usize, tries: u32) -> Result<Place<'py>, Miss> {
        if tries > TRIES {
            return Ok(Place::Any(Vec::new()));
        }
        if call.client.codec.decode {
            return Ok(Place::Encoded(Box::new_uninit_slice(length)));
        }
        // SAFETY: the thread is attached. Given a null pointer, the function allocates an
        // uninitialized object of this length. It returns null with an exception set on failure,
        // including a length that is negative as a signed number.
        let made = unsafe {
            let object = ffi::PyBytes_FromStringAndSize(ptr::null(), length as ffi::Py_ssize_t);
            Bound::from_owned_ptr_or_err(call.py, object)
        };
        let made = made.map_err(Miss::from)?;
        // SAFETY: the object was just created as a `bytes` object.
        Ok(Place::Result(unsafe { made.cast_into_unchecked() }))
    }

    /// Copies the value at an offset into the buffer if the lengths match. Returns whether the
    /// value was copied.
    fn fill(&mut self, view: &View<'_>, at: Offset, length: u64) -> Result<bool, Error> {
        let memory = match self {
            Place::None => return Ok(false),
            Place::Any(bytes) => {
                view.append_to(at, length, bytes)?;
                return Ok(true);
            }
            Place::Encoded(bytes) => &mut bytes[..],
            // SAFETY: the object has this many bytes, is not yet visible to other code, and lives
            // as long as `self`.
            Place::Result(bytes) => unsafe {
                let start = ffi::PyBytes_AsString(bytes.as_ptr()).cast();
                let length = ffi::PyBytes_Size(bytes.as_ptr()) as usize;
                std::slice::from_raw_parts_mut(start, length)
            },
        };
        if memory.len() as u64 != length {
            return Ok(false);
        }
        view.copy_into(at, memory)?;
        Ok(true)
    }

    /// Returns the result from a completely filled buffer.
    fn finish(self, call: &Call<'_, '_>) -> Outcome {
        match self {
            Place::None => Err(Miss::set()),
            Place::Result(bytes) => Ok(bytes.into_ptr()),
            // SAFETY: `fill` wrote every byte.
            Place::Encoded(bytes) => call.string(&unsafe { bytes.assume_init() }),
            Place::Any(bytes) => call.string(&bytes),
        }
    }
}

pub(crate) struct Set;

impl Hot for Set {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let [name, value, options @ ..] = call.by_position() else {
            return Err(Miss::UNUSUAL);
        };
        if !options.is_empty() {
            return Err(Miss::UNUSUAL);
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

/// Runs SET with the options ex, px, nx and xx, passed by name as exact `int` and `bool` objects.
/// Other options are left to the table row.
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
            _ => return Err(Miss::UNUSUAL),
        }
        if matches!(option, b"ex" | b"px") && !is_none(argument) && after.is_none() {
            return Err(Miss::UNUSUAL);
        }
    }
    let expiry = match after {
        None => Expiry::Never,
        Some(after) => {
            let at = u64::try_from(after).ok().filter(|&after| after > 0);
            let at = at.and_then(|after| shared.store.now().checked_add(after));
            Expiry::At(
                at.filter(|&at| i64::try_from(at).is_ok())
                    .ok_or(Miss::UNUSUAL)?,
            )
        }
    };
    let condition = match (nx, xx) {
        (true, true) => return Err(Miss::UNUSUAL),
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
