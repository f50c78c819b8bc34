//! From C's arguments to ours, and back to a status.

use std::any::Any;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use smallvec::SmallVec;

use crate::status::{Outcome, Refused, Status};

/// So many words or keys are worked on without an allocation.
const FEW: usize = 8;

/// `uc_bytes`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Bytes {
    data: *const c_void,
    length: usize,
}

/// `uc_words`: one command.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Words {
    count: usize,
    words: *const Bytes,
}

/// Bytes of the caller's, several times.
pub(crate) type List<'a> = SmallVec<[&'a [u8]; FEW]>;

/// Runs a call. A panic ends here, as it must not run into C.
#[inline(always)]
pub(crate) fn call(body: impl FnOnce() -> Outcome) -> c_int {
    // What a panic left half done is closed to later calls, see `handle`.
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
    let Refused(status) = Refused::new(Status::Internal, &format!("a bug in undercroft: {text}"));
    status as c_int
}

/// The caller's bytes.
///
/// # Safety
/// There are so many at `data`, unless that is null, and nobody changes them before the call returns.
#[inline(always)]
pub(crate) unsafe fn bytes<'a>(data: *const c_void, length: usize) -> Outcome<&'a [u8]> {
    if data.is_null() {
        return match length {
            0 => Ok(&[]),
            _ => Err(missing("bytes", length)),
        };
    }
    check_length(length)?;
    // SAFETY: the caller's promise; the pointer is not null and the length not too large.
    Ok(unsafe { slice::from_raw_parts(data.cast(), length) })
}

/// The caller's memory for so many bytes.
///
/// # Safety
/// There is room for so many at `data`, unless that is null, which nobody uses before the call returns.
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
    // SAFETY: the caller's promise; the pointer is not null and the length not too large.
    Ok(unsafe { slice::from_raw_parts_mut(data.cast(), capacity) })
}

/// What several `uc_bytes` stand for; there must be one at least.
///
/// # Safety
/// There are so many at `items`, unless that is null, and [`bytes`]' condition holds for each.
#[inline]
pub(crate) unsafe fn list<'a>(count: usize, items: *const Bytes) -> Outcome<List<'a>> {
    // SAFETY: the caller's promise.
    let items = unsafe { array(count, items) }?;
    let mut list = List::with_capacity(items.len());
    for item in items {
        // SAFETY: the caller's promise.
        list.push(unsafe { bytes(item.data, item.length) }?);
    }
    Ok(list)
}

/// So many values of the caller's; there must be one at least.
///
/// # Safety
/// There are so many at `items`, unless that is null, and nobody changes them before the call returns.
#[inline]
pub(crate) unsafe fn array<'a, T>(count: usize, items: *const T) -> Outcome<&'a [T]> {
    if count == 0 {
        return Err(Refused::misuse("expected one item at least, got none"));
    }
    if items.is_null() {
        return Err(missing("an array of items", count));
    }
    check_length(count.saturating_mul(size_of::<T>()))?;
    check_aligned(items)?;
    // SAFETY: the caller's promise; the pointer is not null, aligned, and the length not too large.
    Ok(unsafe { slice::from_raw_parts(items, count) })
}

/// The caller's memory for so many numbers; none where it is null and none are wanted.
///
/// # Safety
/// There is room for so many at `items`, unless that is null, which nobody uses before the call returns.
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
    // SAFETY: the caller's promise; the pointer is not null, aligned, and the length not too large.
    Ok(unsafe { slice::from_raw_parts_mut(items.cast(), count) })
}

fn check_aligned<T>(items: *const T) -> Outcome<()> {
    match items.is_aligned() {
        true => Ok(()),
        false => Err(Refused::misuse(&format!(
            "expected an address that {} divides, got {items:p}",
            align_of::<T>()
        ))),
    }
}

/// The words of several commands.
///
/// # Safety
/// There are so many at `commands`, unless that is null, and [`list`]'s condition holds for each.
pub(crate) unsafe fn commands<'a>(
    count: usize,
    commands: *const Words,
) -> Outcome<impl ExactSizeIterator<Item = Outcome<List<'a>>>> {
    // SAFETY: the caller's promise.
    let commands: &[Words] = unsafe { array(count, commands) }?;
    Ok(commands.iter().map(|command| {
        // SAFETY: the caller's promise.
        unsafe { list(command.count, command.words) }
    }))
}

/// The caller's text.
///
/// # Safety
/// `text` is null, or there is a zero behind it and nobody changes it before the call returns.
pub(crate) unsafe fn text<'a>(what: &str, text: *const c_char) -> Outcome<&'a str> {
    if text.is_null() {
        return Err(Refused::misuse(&format!("expected {what}, got NULL")));
    }
    // SAFETY: the caller's promise; the pointer is not null.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map_err(|error| Refused::misuse(&format!("expected {what} in UTF-8: {error}")))
}

/// Gives the caller a result, unless it is not wanted.
///
/// # Safety
/// `place` is null, or there is room for it.
#[inline(always)]
pub(crate) unsafe fn give<T>(place: *mut T, result: T) {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { place.write(result) };
    }
}

/// Whether there is a place for a result that cannot be done without.
#[inline(always)]
pub(crate) fn check_place<T>(place: *mut T) -> Outcome<()> {
    match place.is_null() {
        false => Ok(()),
        true => Err(Refused::misuse("expected a place for the result, got NULL")),
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
        "expected a length that memory can have, got {length}"
    ))
}

#[cold]
fn missing(what: &str, length: usize) -> Refused {
    Refused::misuse(&format!(
        "expected {what}, got NULL with the length {length}"
    ))
}
