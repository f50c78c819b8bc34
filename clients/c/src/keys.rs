//! Implements the functions for keys of any type, and `uc_publish`.

use std::ffi::{c_int, c_void};

use undercroft_engine::messages::Topic;
use undercroft_engine::{Error, Store};

use crate::border::{Bytes, bytes, check_place, give, list};
use crate::status::{Refused, Status};
use crate::store::{Database, StoreHandle, call_on};

/// A store function that takes keys and returns the number of keys that it found or removed.
type Count = fn(&Store, usize, &[&[u8]]) -> Result<u64, Error>;

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_del(
    store: *const StoreHandle,
    count: usize,
    keys: *const Bytes,
    removed: *mut u64,
) -> c_int {
    // SAFETY: the caller upholds the requirements of `counted`.
    unsafe { counted(store, count, keys, removed, Store::delete) }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_exists(
    store: *const StoreHandle,
    count: usize,
    keys: *const Bytes,
    found: *mut u64,
) -> c_int {
    // SAFETY: the caller upholds the requirements of `counted`.
    unsafe { counted(store, count, keys, found, Store::exists) }
}

/// Calls a store function with keys and writes its count to `place`.
///
/// # Safety
/// Each pointer must be null or valid for the length that `undercroft.h` specifies for `uc_del`.
unsafe fn counted(
    store: *const StoreHandle,
    count: usize,
    keys: *const Bytes,
    place: *mut u64,
    work: Count,
) -> c_int {
    let body = |on: &Database<'_>| {
        // SAFETY: the caller guarantees that each pointer is null or valid for its length.
        let keys = unsafe { list(count, keys)? };
        let counted = work(&on.shared.store, on.number, &keys)
            .map_err(|error| Refused::engine(&on.shared.store, error))?;
        // SAFETY: the caller guarantees that `place` is null or writable.
        unsafe { give(place, counted) };
        Ok(Status::Ok)
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_expire(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    milliseconds: i64,
) -> c_int {
    let body = |on: &Database<'_>| {
        // SAFETY: the caller guarantees that `key` is null or valid for `key_length` bytes.
        let key = unsafe { bytes(key, key_length)? };
        let store = &on.shared.store;
        let Some(at) = milliseconds.checked_add(store.now() as i64) else {
            return Err(Refused::misuse(&format!(
                "expected an expiry of less than 2^63 milliseconds, got {milliseconds}"
            )));
        };
        match store.expire_at(on.number, key, u64::try_from(at).unwrap_or(0)) {
            Ok(true) => Ok(Status::Ok),
            Ok(false) => Ok(Status::None),
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
unsafe extern "C" fn uc_ttl(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    milliseconds: *mut i64,
) -> c_int {
    let body = |on: &Database<'_>| {
        check_place(milliseconds)?;
        // SAFETY: the caller guarantees that `key` is null or valid for `key_length` bytes.
        let key = unsafe { bytes(key, key_length)? };
        let store = &on.shared.store;
        let left = match store.expiry(on.number, key) {
            Ok(None) => return Ok(Status::None),
            Ok(Some(None)) => -1,
            Ok(Some(Some(at))) => at.saturating_sub(store.now()) as i64,
            Err(error) => return Err(Refused::engine(store, error)),
        };
        // SAFETY: `check_place` verified that `milliseconds` is not null, and the caller guarantees
        // that it is writable.
        unsafe { milliseconds.write(left) };
        Ok(Status::Ok)
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_publish(
    store: *const StoreHandle,
    channel: *const c_void,
    channel_length: usize,
    message: *const c_void,
    message_length: usize,
    receivers: *mut u64,
) -> c_int {
    let body = |on: &Database<'_>| {
        // SAFETY: the caller guarantees that each pointer is null or valid for its length.
        let (channel, message) = unsafe {
            (
                bytes(channel, channel_length)?,
                bytes(message, message_length)?,
            )
        };
        let store = &on.shared.store;
        let reached = store
            .publish(Topic::Channel, channel, message)
            .map_err(|error| Refused::engine(store, error))?;
        // SAFETY: the caller guarantees that `receivers` is null or writable.
        unsafe { give(receivers, reached) };
        Ok(Status::Ok)
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}
