//! Converts C arguments to Rust values, and Rust results to a `uc_status`.

use std::any::Any;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use smallvec::SmallVec;

use crate::status::{Outcome, Refused, Status};

/// The number of words or keys that a call handles without an allocation.
const FEW: usize = 8;

/// The C type `uc_bytes`: bytes that the caller owns.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Bytes {
    data: *const c_void,
    length: usize,
}

/// The C type `uc_words`: the words of one command.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Words {
    count: usize,
    words: *const Bytes,
}

/// A list of byte strings borrowed from the caller.
pub(crate) type List<'a> = SmallVec<[&'a [u8]; FEW]>;

/// Runs the body of a C function and catches its panics, which must not unwind into C.
#[inline(always)]
pub(crate) fn call(body: impl FnOnce() -> Outcome) -> c_int {
    // Later calls refuse a handle that a panic left inconsistent (see `handle`), so the body counts
    // as unwind-safe.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status) | Err(Refused(status))) => status as c_int,
        Err(panic) => internal(&*panic),
    }
}

#[cold]
fn internal(panic: &(dyn Any + Send)) -> c_int {
    let text = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text.as_str(),
        _ => "panic",
    };
    let Refused(status) = Refused::new(
        Status::Internal,
        &format!("a bug in Undercroft, report it: {text}"),
    );
    status as c_int
}

/// Borrows `length` bytes of the caller's memory.
///
/// # Safety
/// `data` must be null or valid for `length` bytes, which must not change before the call returns.
#[inline(always)]
pub(crate) unsafe fn bytes<'a>(data: *const c_void, length: usize) -> Outcome<&'a [u8]> {
    if data.is_null() {
        return match length {
            0 => Ok(&[]),
            _ => Err(missing("bytes", length)),
        };
    }
    check_length(length)?;
    // SAFETY: the pointer is not null and the length is at most `isize::MAX`. The caller guarantees
    // that the bytes are valid and unchanged during the call.
    Ok(unsafe { slice::from_raw_parts(data.cast(), length) })
}

/// Borrows the caller's output buffer of `capacity` bytes.
///
/// # Safety
/// `data` must be null or writable for `capacity` bytes, which no other code may use before the
/// call returns.
#[inline(always)]
pub(crate) unsafe fn memory<'a>(
    data: *mut c_void,
    capacity: usize,
) -> Outcome<&'a mut [MaybeUninit<u8>]> {
    if data.is_null() {
        return match capacity {
            0 => Ok(&mut []),
            _ => Err(missing("a buffer", capacity)),
        };
    }
    check_length(capacity)?;
    // SAFETY: the pointer is not null and the capacity is at most `isize::MAX`. The caller
    // guarantees that the memory is writable and unused during the call.
    Ok(unsafe { slice::from_raw_parts_mut(data.cast(), capacity) })
}

/// Borrows a list of one or more byte strings from the caller.
///
/// # Safety
/// `items` must be null or valid for `count` items, each of which must meet the requirements of
/// [`bytes`].
#[inline]
pub(crate) unsafe fn list<'a>(count: usize, items: *const Bytes) -> Outcome<List<'a>> {
    // SAFETY: the caller guarantees that `items` is null or valid for `count` items.
    let items = unsafe { array(count, items) }?;
    let mut list = List::with_capacity(items.len());
    for item in items {
        // SAFETY: the caller guarantees that each pointer is null or valid for its length.
        list.push(unsafe { bytes(item.data, item.length) }?);
    }
    Ok(list)
}

/// Borrows an array of one or more values from the caller.
///
/// # Safety
/// `items` must be null or valid for `count` values, which must not change before the call returns.
#[inline]
pub(crate) unsafe fn array<'a, T>(count: usize, items: *const T) -> Outcome<&'a [T]> {
    if count == 0 {
        return Err(Refused::misuse("expected at least one item, got none"));
    }
    if items.is_null() {
        return Err(missing("an array of items", count));
    }
    check_length(count.saturating_mul(size_of::<T>()))?;
    check_aligned(items)?;
    // SAFETY: the pointer is non-null and aligned, and the length is at most `isize::MAX`. The
    // caller guarantees that the items are valid and unchanged during the call.
    Ok(unsafe { slice::from_raw_parts(items, count) })
}

/// Borrows the caller's output array of `count` numbers. Null is accepted if `count` is 0.
///
/// # Safety
/// `items` must be null or writable for `count` numbers, which no other code may use before the
/// call returns.
pub(crate) unsafe fn numbers<'a, T>(
    count: usize,
    items: *mut T,
) -> Outcome<&'a mut [MaybeUninit<T>]> {
    if items.is_null() {
        return match count {
            0 => Ok(&mut []),
            _ => Err(missing("a buffer of numbers", count)),
        };
    }
    check_length(count.saturating_mul(size_of::<T>()))?;
    check_aligned(items)?;
    // SAFETY: the pointer is non-null and aligned, and the length is at most `isize::MAX`. The
    // caller guarantees that the memory is writable and unused during the call.
    Ok(unsafe { slice::from_raw_parts_mut(items.cast(), count) })
}

fn check_aligned<T>(items: *const T) -> Outcome<()> {
    match items.is_aligned() {
        true => Ok(()),
        false => Err(Refused::misuse(&format!(
            "expected an address aligned to {} bytes, got {items:p}",
            align_of::<T>()
        ))),
    }
}

/// Borrows the words of one or more commands from the caller.
///
/// # Safety
/// `commands` must be null or valid for `count` commands, each of which must meet the requirements
/// of [`list`].
pub(crate) unsafe fn commands<'a>(
    count: usize,
    commands: *const Words,
) -> Outcome<impl ExactSizeIterator<Item = Outcome<List<'a>>>> {
    // SAFETY: the caller guarantees that `commands` is null or valid for `count` commands.
    let commands: &[Words] = unsafe { array(count, commands) }?;
    Ok(commands.iter().map(|command| {
        // SAFETY: the caller guarantees that each pointer is null or valid for its length.
        unsafe { list(command.count, command.words) }
    }))
}

/// Borrows a null-terminated UTF-8 string from the caller. `what` names the argument in error
/// messages.
///
/// # Safety
/// `text` must be null or a null-terminated string that does not change before the call returns.
pub(crate) unsafe fn text<'a>(what: &str, text: *const c_char) -> Outcome<&'a str> {
    if text.is_null() {
        return Err(Refused::misuse(&format!("expected {what}, got NULL")));
    }
    // SAFETY: the pointer is not null, and the caller guarantees a null-terminated string that does
    // not change during the call.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map_err(|error| Refused::misuse(&format!("expected {what} in UTF-8: {error}")))
}

/// Writes a result to `place` unless `place` is null.
///
/// # Safety
/// `place` must be null or writable.
#[inline(always)]
pub(crate) unsafe fn give<T>(place: *mut T, result: T) {
    if !place.is_null() {
        // SAFETY: the pointer is not null, and the caller guarantees that it is writable.
        unsafe { place.write(result) };
    }
}

/// Fails if the pointer to a required result is null.
#[inline(always)]
pub(crate) fn check_place<T>(place: *mut T) -> Outcome<()> {
    match place.is_null() {
        false => Ok(()),
        true => Err(Refused::misuse(
            "expected a pointer for the result, got NULL",
        )),
    }
}

#[inline(always)]
fn check_length(length: usize) -> Outcome<()> {
    match isize::try_from(length) {
        Ok(_) => Ok(()),
        Err(_) => Err(too_long(length)),
    }
}

#[cold]
fn too_long(length: usize) -> Refused {
    Refused::misuse(&format!(
        "expected a length that fits in memory, got {length}"
    ))
}

#[cold]
fn missing(what: &str, length: usize) -> Refused {
    Refused::misuse(&format!(
        "expected {what}, got NULL with the length {length}"
    ))
}
