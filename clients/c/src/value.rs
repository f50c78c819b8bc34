//! What C reads of a reply. Each function has an answer for every type, so that none can go wrong by a value's being
//! another than expected.

use std::ffi::{c_char, c_int};

use crate::handle::Handle;
use crate::reply::{ReplyHandle, Type, Value};

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_reply_value(reply: *const ReplyHandle) -> *const Value {
    // SAFETY: the caller's promise.
    unsafe { Handle::readable(reply) }.cast()
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_value_type(value: *const Value) -> c_int {
    // SAFETY: the caller's promise.
    let value = unsafe { value.as_ref() };
    value.map_or(Type::Nil, |value| value.kind) as c_int
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_value_string(value: *const Value, length: *mut usize) -> *const c_char {
    // SAFETY: the caller's promise.
    let value = unsafe { value.as_ref() }.filter(|value| value.is_text());
    if !length.is_null() {
        // SAFETY: the caller's promise.
        unsafe { length.write(value.map_or(0, |value| value.length)) };
    }
    // SAFETY: C sees only finished replies, whose texts have their address.
    value.map_or(std::ptr::null(), |value| unsafe {
        value.content.text.cast()
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_value_integer(value: *const Value) -> i64 {
    // SAFETY: the caller's promise.
    match unsafe { value.as_ref() } {
        Some(value) if matches!(value.kind, Type::Integer | Type::Boolean) => {
            // SAFETY: its type says so.
            unsafe { value.content.integer }
        }
        _ => 0,
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_value_double(value: *const Value) -> f64 {
    // SAFETY: the caller's promise.
    match unsafe { value.as_ref() } {
        // SAFETY: its type says so.
        Some(value) if value.kind == Type::Double => unsafe { value.content.double },
        // SAFETY: its type says so.
        Some(value) if value.kind == Type::Integer => unsafe { value.content.integer as f64 },
        _ => 0.0,
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_value_length(value: *const Value) -> usize {
    // SAFETY: the caller's promise.
    let value = unsafe { value.as_ref() };
    value.map_or(0, |value| value.length)
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_value_item(value: *const Value, index: usize) -> *const Value {
    // SAFETY: the caller's promise.
    unsafe {
        item(value, index, |kind, index| {
            if kind == Type::Map {
                index * 2 + 1
            } else {
                index
            }
        })
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_value_key(value: *const Value, index: usize) -> *const Value {
    // SAFETY: the caller's promise.
    let is_map = unsafe { value.as_ref() }.is_some_and(|value| value.kind == Type::Map);
    match is_map {
        // SAFETY: the caller's promise.
        true => unsafe { item(value, index, |_, index| index * 2) },
        false => std::ptr::null(),
    }
}

/// One of a value's items; null where there is none.
///
/// # Safety
/// `value` is null or of a finished reply.
unsafe fn item(value: *const Value, index: usize, place: fn(Type, usize) -> usize) -> *const Value {
    // SAFETY: the caller's promise.
    match unsafe { value.as_ref() } {
        Some(value) if index < value.length && value.items() > 0 => {
            // SAFETY: its items have their address, and the place is that of one of them.
            unsafe { value.content.items.add(place(value.kind, index)) }
        }
        _ => std::ptr::null(),
    }
}
