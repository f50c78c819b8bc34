//! Implements the feed functions that identify items by value. They call the engine without running
//! a command.

use std::ffi::{c_int, c_void};

use undercroft_commands::Failure;
use undercroft_commands::arguments::CommandError;
use undercroft_engine::feeds::{Schema, Selection};
use undercroft_engine::{Key, ShardSet, Writer};

use crate::border::{array, bytes, check_place, give};
use crate::feed::{other_size, read_flags, values_of};
use crate::status::{Outcome, Refused, Status};
use crate::store::{Database, StoreHandle, call_on};

/// The C constant `UC_FEED_KEEP`.
const KEEP: i64 = -1;

/// Changes a feed if it exists, and returns the number of affected items. Fails if the feed's
/// values do not have `value_size` bytes. If `removes` is true, the change is allowed even when the
/// store is full, as in the equivalent command.
fn change(
    on: &Database<'_>,
    key: &[u8],
    (value_size, removes): (usize, bool),
    body: impl Fn(&mut Writer<'_, '_>, &Key<'_>, &Schema) -> Result<u64, Failure> + Sync,
) -> Outcome<u64> {
    let store = &on.shared.store;
    if !removes {
        let room = store.check_memory_for(0);
        room.map_err(|error| Refused::engine(store, error))?;
    }
    let key = store.key(key);
    let changed = store.write(ShardSet::one(key.shard()), |writer| {
        let Some(feed) = writer.feed(on.number, &key)? else {
            return Ok(0);
        };
        let schema = feed.schema();
        if schema.value_size() != value_size {
            return Err(other_size(schema, value_size));
        }
        body(writer, &key, schema)
    });
    let changed = changed.map_err(|failure| Refused::failure(store, failure))?;
    store.note_use(&key);
    Ok(changed)
}

/// A change to all items with given values.
#[derive(Clone, Copy)]
enum Change {
    Remove,
    Hide(bool),
}

/// Changes the items with the given values, and writes the number of affected items to `place`.
///
/// # Safety
/// Each pointer must be null or valid for the length that `undercroft.h` specifies for
/// `uc_feed_del`.
unsafe fn change_all(
    what: Change,
    store: *const StoreHandle,
    (key, key_length): (*const c_void, usize),
    (count, values, value_size): (usize, *const c_void, usize),
    place: *mut u64,
) -> c_int {
    let removes = matches!(what, Change::Remove);
    let body = |on: &Database<'_>| {
        // SAFETY: the caller guarantees that each pointer is null or valid for its length.
        let (key, values) = unsafe {
            (
                bytes(key, key_length)?,
                values_of(count, values, value_size)?,
            )
        };
        let values: Vec<&[u8]> = values.chunks_exact(value_size).collect();
        let changed = change(on, key, (value_size, removes), |writer, key, _| {
            let selection = Selection::of_values(&values);
            Ok(match what {
                Change::Remove => writer.feed_remove(on.number, key, &selection)?,
                Change::Hide(hide) => writer.feed_hide(on.number, key, &selection, hide)?,
            })
        })?;
        // SAFETY: the caller guarantees that `place` is null or writable.
        unsafe { give(place, changed) };
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
unsafe extern "C" fn uc_feed_del(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    count: usize,
    values: *const c_void,
    value_size: usize,
    removed: *mut u64,
) -> c_int {
    let (key, values) = ((key, key_length), (count, values, value_size));
    // SAFETY: the caller upholds the requirements of `change_all`.
    unsafe { change_all(Change::Remove, store, key, values, removed) }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_feed_hide(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    count: usize,
    values: *const c_void,
    value_size: usize,
    hidden: *mut u64,
) -> c_int {
    let (key, values) = ((key, key_length), (count, values, value_size));
    // SAFETY: the caller upholds the requirements of `change_all`.
    unsafe { change_all(Change::Hide(true), store, key, values, hidden) }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_feed_show(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    count: usize,
    values: *const c_void,
    value_size: usize,
    shown: *mut u64,
) -> c_int {
    let (key, values) = ((key, key_length), (count, values, value_size));
    // SAFETY: the caller upholds the requirements of `change_all`.
    unsafe { change_all(Change::Hide(false), store, key, values, shown) }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_feed_set_attributes(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_size: usize,
    attributes: *const i64,
    attribute_count: usize,
    items: *mut u64,
) -> c_int {
    let body = |on: &Database<'_>| {
        // SAFETY: the caller guarantees that each pointer is null or valid for its length.
        let (key, value, attributes) = unsafe {
            (
                bytes(key, key_length)?,
                values_of(1, value, value_size)?,
                array(attribute_count, attributes)?,
            )
        };
        let wrong = |number: i64| number != KEEP && u32::try_from(number).is_err();
        if let Some((index, number)) = attributes.iter().enumerate().find(|(_, at)| wrong(**at)) {
            return Err(Refused::misuse(&format!(
                "expected attributes of 0 to 4294967295 or UC_FEED_KEEP, got {number} for attribute {index}"
            )));
        }
        let own: Vec<Option<u32>> = attributes
            .iter()
            .map(|&it| u32::try_from(it).ok())
            .collect();
        let changed = change(on, key, (value_size, false), |writer, key, schema| {
            check_attributes(schema, &own)?;
            Ok(writer.feed_set_attributes(on.number, key, value, &own)?)
        })?;
        // SAFETY: the caller guarantees that `items` is null or writable.
        unsafe { give(items, changed) };
        Ok(Status::Ok)
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}

/// Rejects attributes that do not match the feed's, with the same error text as the feed commands.
pub(crate) fn check_attributes(schema: &Schema, own: &[Option<u32>]) -> Result<(), CommandError> {
    let (given, expected) = (own.len(), schema.widths().len());
    if given != expected {
        let text = format!("ERR ATTRS has {given} parts, expected {expected}");
        return Err(CommandError::new(text));
    }
    for (index, value) in own.iter().enumerate() {
        let greatest = schema.greatest(index);
        if let Some(value) = value.filter(|&value| value > greatest) {
            let text = format!("ERR attribute {index} is '{value}', expected 0 to {greatest}");
            return Err(CommandError::new(text));
        }
    }
    Ok(())
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_feed_position(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_size: usize,
    flags: u64,
    position: *mut u64,
) -> c_int {
    let body = |on: &Database<'_>| {
        check_place(position)?;
        // SAFETY: the caller guarantees that each pointer is null or valid for its length.
        let (key, value) = unsafe { (bytes(key, key_length)?, values_of(1, value, value_size)?) };
        let seen = read_flags(flags, 0)?.query.seen;
        let store = &on.shared.store;
        let key = store.key(key);
        let found = store.read(ShardSet::one(key.shard()), |reader| {
            let Some(feed) = reader.feed(on.number, &key)? else {
                return Ok::<_, Failure>(None);
            };
            if feed.schema().value_size() != value_size {
                return Err(other_size(feed.schema(), value_size));
            }
            Ok(Some(feed.position(reader.view(), value, seen)?))
        });
        let found = found.map_err(|failure| Refused::failure(store, failure))?;
        store.looked_up(on.number, &key, found.is_some());
        let Some(found) = found.flatten() else {
            return Ok(Status::None);
        };
        // SAFETY: `check_place` verified that `position` is not null, and the caller guarantees
        // that it is writable.
        unsafe { position.write(found) };
        Ok(Status::Ok)
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}
