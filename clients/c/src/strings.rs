//! Implements the string functions.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use undercroft_commands::protocol::Protocol;
use undercroft_commands::reply::Reply;
use undercroft_engine::strings::{Condition, Held, SetOptions as Set, Text, TextBuffer, Values};
use undercroft_engine::{Error, Expiry, Scratch, View};

use crate::border::{Bytes, bytes, check_place, give, list, memory};
use crate::handle::Handle;
use crate::options::{SetOptions, Setting, Time, read_set_options};
use crate::reply::{ReplyHandle, Tree};
use crate::session::run;
use crate::status::{Outcome, Refused, Status};
use crate::store::{Database, StoreHandle, call_on};

/// The caller's buffer, which receives a string if it is large enough.
struct Buffer<'a> {
    memory: &'a mut [MaybeUninit<u8>],
    /// The length of the string, even if the buffer is too small for it.
    length: usize,
}

impl Scratch for Buffer<'_> {
    #[inline(always)]
    fn clear(&mut self) {
        self.length = 0;
    }
}

impl TextBuffer for Buffer<'_> {
    #[inline(always)]
    fn fill(&mut self, view: &View<'_>, text: Text) -> Result<(), Error> {
        match text {
            Text::Bytes(at, length) => {
                self.length = length as usize;
                if let Some(place) = self.memory.get_mut(..self.length) {
                    view.copy_into(at, place)?;
                }
            }
            Text::Integer(value) => {
                let mut digits = itoa::Buffer::new();
                let digits = digits.format(value).as_bytes();
                self.length = digits.len();
                if let Some(place) = self.memory.get_mut(..self.length) {
                    for (place, digit) in place.iter_mut().zip(digits) {
                        place.write(*digit);
                    }
                }
            }
        }
        Ok(())
    }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_get(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    buffer: *mut c_void,
    capacity: usize,
    length: *mut usize,
) -> c_int {
    let body = |on: &Database<'_>| {
        check_place(length)?;
        // SAFETY: the caller guarantees that each pointer is null or valid for its length.
        let (key, memory) = unsafe { (bytes(key, key_length)?, memory(buffer, capacity)?) };
        let mut value = Buffer { memory, length: 0 };
        let got = on.shared.store.get(on.number, key, &mut value);
        // SAFETY: `check_place` verified that `length` is not null, and the caller guarantees that
        // it is writable.
        unsafe { length.write(value.length) };
        match got {
            Ok(true) if value.length <= capacity => Ok(Status::Ok),
            Ok(true) => Ok(Status::TooSmall),
            Ok(false) => Ok(Status::None),
            Err(error) => Err(Refused::engine(&on.shared.store, error)),
        }
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_set(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
) -> c_int {
    let body = |on: &Database<'_>| {
        // SAFETY: the caller guarantees that each pointer is null or valid for its length.
        let (key, value) = unsafe { (bytes(key, key_length)?, bytes(value, value_length)?) };
        match on.shared.store.set(on.number, key, value) {
            Ok(()) => Ok(Status::Ok),
            Err(error) => Err(Refused::engine(&on.shared.store, error)),
        }
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_set_with(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
    options: *const SetOptions,
    old: *mut ReplyHandle,
) -> c_int {
    let body = |on: &Database<'_>| {
        // SAFETY: the caller guarantees that each pointer is null or valid for its length, and that
        // the structure is valid for the length in its `size` field.
        let (key, value, setting) = unsafe {
            (
                bytes(key, key_length)?,
                bytes(value, value_length)?,
                read_set_options(options)?,
            )
        };
        if !old.is_null() {
            // SAFETY: the caller guarantees that `old` is null or a handle from this library.
            let mut old = unsafe { Handle::exclusive(old) }?;
            return set_and_get(on, key, value, &setting, &mut old);
        }
        let store = &on.shared.store;
        let options = Set {
            condition: setting.condition,
            expiry: expiry(setting.time, store.now())?,
        };
        match store.set_with(on.number, key, value, options) {
            Ok(true) => Ok(Status::Ok),
            Ok(false) => Ok(Status::None),
            Err(error) => Err(Refused::engine(store, error)),
        }
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}

fn expiry(time: Time, now: u64) -> Outcome<Expiry> {
    let (time, at) = match time {
        Time::Never => return Ok(Expiry::Never),
        Time::Keep => return Ok(Expiry::Keep),
        Time::After(after) => (after, after.checked_add(now as i64)),
        Time::At(at) => (at, Some(at)),
    };
    match at {
        Some(at) if time > 0 => Ok(Expiry::At(at.unsigned_abs())),
        _ => Err(Refused::misuse(&format!(
            "expected an expiry of more than 0 and less than 2^63 milliseconds, got {time}"
        ))),
    }
}

/// Runs SET with GET as a command, because the engine has no typed call for it.
fn set_and_get(
    on: &Database<'_>,
    key: &[u8],
    value: &[u8],
    setting: &Setting,
    old: &mut Tree,
) -> Outcome {
    let condition: &[&[u8]] = match setting.condition {
        Condition::Always => &[],
        Condition::IfMissing => &[b"NX"],
        Condition::IfPresent => &[b"XX"],
    };
    let mut digits = itoa::Buffer::new();
    let time: [&[u8]; 2] = match setting.time {
        Time::Never => [b"", b""],
        Time::Keep => [b"KEEPTTL", b""],
        Time::After(after) => [b"PX", digits.format(after).as_bytes()],
        Time::At(at) => [b"PXAT", digits.format(at).as_bytes()],
    };
    let time = time.into_iter().filter(|word| !word.is_empty());
    let mut words: Vec<&[u8]> = vec![b"SET", key, value, b"GET"];
    words.extend(condition);
    words.extend(time);
    let mut session = on.shared.session();
    session.database = on.number as u32;
    run(on.shared, &mut session, &words, old, None)
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_incr(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    by: i64,
    sum: *mut i64,
) -> c_int {
    let body = |on: &Database<'_>| {
        // SAFETY: the caller guarantees that `key` is null or valid for `key_length` bytes.
        let key = unsafe { bytes(key, key_length)? };
        match on.shared.store.increment(on.number, key, by) {
            Ok(found) => {
                // SAFETY: the caller guarantees that `sum` is null or writable.
                unsafe { give(sum, found) };
                Ok(Status::Ok)
            }
            Err(error) => Err(Refused::engine(&on.shared.store, error)),
        }
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_mget(
    store: *const StoreHandle,
    count: usize,
    keys: *const Bytes,
    reply: *mut ReplyHandle,
) -> c_int {
    let body = |on: &Database<'_>| {
        // SAFETY: the caller guarantees that each handle is null or from this library, and that
        // every other pointer is null or valid for its length.
        let (names, mut reply) = unsafe { (list(count, keys)?, Handle::exclusive(reply)?) };
        let store = &on.shared.store;
        let keys: Vec<_> = names.iter().map(|name| store.key(name)).collect();
        let mut values = Values::in_memory(std::mem::take(&mut reply.scratch));
        reply.begin(Protocol::Resp3);
        let read = store.access().read_values(on.number, &keys, &mut values);
        if read.is_ok() {
            reply.array(keys.len());
            for (key, held) in keys.iter().zip(values.iter()) {
                store.looked_up(on.number, key, held != Held::Missing);
                match held {
                    Held::Text(text) => reply.bulk(text),
                    Held::Missing | Held::Other => reply.null(),
                }
            }
        }
        let finished = reply.finish();
        reply.scratch = values.into_memory();
        match read {
            Ok(()) => finished.map(|()| Status::Ok),
            Err(error) => Err(Refused::engine(store, error)),
        }
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_mset(
    store: *const StoreHandle,
    count: usize,
    keys: *const Bytes,
    values: *const Bytes,
) -> c_int {
    let body = |on: &Database<'_>| {
        // SAFETY: the caller guarantees that each pointer is null or valid for its length.
        let (keys, values) = unsafe { (list(count, keys)?, list(count, values)?) };
        let pairs: Vec<(&[u8], &[u8])> = keys.into_iter().zip(values).collect();
        match on.shared.store.set_many(on.number, &pairs) {
            Ok(()) => Ok(Status::Ok),
            Err(error) => Err(Refused::engine(&on.shared.store, error)),
        }
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}
