//! Gives C access to the values in a reply. Each function accepts a value of any type, so an
//! unexpected type is never a failure.

use std::ffi::{c_char, c_int};

use crate::handle::Handle;
use crate::reply::{ReplyHandle, Type, Value};

/// # Safety
/// `reply` must be null or a handle that this library returned.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_reply_value(reply: *const ReplyHandle) -> *const Value {
    // SAFETY: the caller guarantees that `reply` is null or a handle from this library.
    unsafe { Handle::readable(reply) }.cast()
}

/// # Safety
/// `value` must be null or point into a reply that still exists.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_value_type(value: *const Value) -> c_int {
    // SAFETY: the caller guarantees that `value` is null or points into a reply that still exists.
    let value = unsafe { value.as_ref() };
    value.map_or(Type::Nil, |value| value.kind) as c_int
}

/// # Safety
/// `value` must be null or point into a reply that still exists, and `length` must be null or
/// writable.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_value_string(value: *const Value, length: *mut usize) -> *const c_char {
    // SAFETY: the caller guarantees that `value` is null or points into a reply that still exists.
    let value = unsafe { value.as_ref() }.filter(|value| value.is_text());
    if !length.is_null() {
        // SAFETY: the pointer is not null, and the caller guarantees that it is writable.
        unsafe { length.write(value.map_or(0, |value| value.length)) };
    }
    // SAFETY: C only receives finished replies, in which the content of a text is an address.
    value.map_or(std::ptr::null(), |value| unsafe {
        value.content.text.cast()
    })
}

/// # Safety
/// `value` must be null or point into a reply that still exists.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_value_integer(value: *const Value) -> i64 {
    // SAFETY: the caller guarantees that `value` is null or points into a reply that still exists.
    match unsafe { value.as_ref() } {
        Some(value) if matches!(value.kind, Type::Integer | Type::Boolean) => {
            // SAFETY: the content of a value of this type is an integer.
            unsafe { value.content.integer }
        }
        _ => 0,
    }
}

/// # Safety
/// `value` must be null or point into a reply that still exists.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_value_double(value: *const Value) -> f64 {
    // SAFETY: the caller guarantees that `value` is null or points into a reply that still exists.
    match unsafe { value.as_ref() } {
        // SAFETY: the content of a value of this type is a double.
        Some(value) if value.kind == Type::Double => unsafe { value.content.double },
        // SAFETY: the content of a value of this type is an integer.
        Some(value) if value.kind == Type::Integer => unsafe { value.content.integer as f64 },
        _ => 0.0,
    }
}

/// # Safety
/// `value` must be null or point into a reply that still exists.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_value_length(value: *const Value) -> usize {
    // SAFETY: the caller guarantees that `value` is null or points into a reply that still exists.
    let value = unsafe { value.as_ref() };
    value.map_or(0, |value| value.length)
}

/// # Safety
/// `value` must be null or point into a reply that still exists.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_value_item(value: *const Value, index: usize) -> *const Value {
    // SAFETY: the caller guarantees that `value` is null or points into a reply that still exists.
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
/// `value` must be null or point into a reply that still exists.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_value_key(value: *const Value, index: usize) -> *const Value {
    // SAFETY: the caller guarantees that `value` is null or points into a reply that still exists.
    let is_map = unsafe { value.as_ref() }.is_some_and(|value| value.kind == Type::Map);
    match is_map {
        // SAFETY: the caller guarantees that `value` is null or points into a reply that still
        // exists.
        true => unsafe { item(value, index, |_, index| index * 2) },
        false => std::ptr::null(),
    }
}

/// Returns an item in a value, or null if the index is past the end.
///
/// # Safety
/// `value` must be null or belong to a finished reply.
unsafe fn item(value: *const Value, index: usize, place: fn(Type, usize) -> usize) -> *const Value {
    // SAFETY: the caller guarantees that `value` is null or points into a reply that still exists.
    match unsafe { value.as_ref() } {
        Some(value) if index < value.length && value.items() > 0 => {
            // SAFETY: in a finished reply, the content of an array, set or map is an address, and
            // the index is in bounds.
            unsafe { value.content.items.add(place(value.kind, index)) }
        }
        _ => std::ptr::null(),
    }
}
