//! Implements the most frequently used feed functions, which call the engine without running a
//! command.
//!
//! If a feed rejects a call's items, the call runs the equivalent command and reports that
//! command's error.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use undercroft_commands::Failure;
use undercroft_commands::arguments::CommandError;
use undercroft_embedded::{FeedItems, FeedQuery, with_feed_buffer};
use undercroft_engine::feeds::{FeedRange, FeedType, FoundItems, Schema, Seen};
use undercroft_engine::lists::End;
use undercroft_engine::{Error, ShardSet};

use crate::border::{array, bytes, check_place, give, memory, numbers};
use crate::feed_values::check_attributes;
use crate::feed_words::{CommandReply, add_words};
use crate::options::Growing;
use crate::status::{Outcome, Refused, Status};
use crate::store::{Database, StoreHandle, call_on};

const HIDDEN: u64 = 1;
const ALL: u64 = 2;
const REVERSE: u64 = 4;

/// The C constant `UC_FEED_BY_VALUE`.
const BY_VALUE: i64 = i64::MIN;

/// The C type `uc_feed_query`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Query {
    size: usize,
    flags: u64,
    filter: *const c_void,
    filter_length: usize,
    low: *const c_void,
    low_length: usize,
    high: *const c_void,
    high_length: usize,
}

const _: () = assert!(size_of::<Query>() == 64);

// SAFETY: all fields are numbers or pointers, and the first field is the structure's size.
unsafe impl Growing for Query {
    const NAME: &'static str = "uc_feed_query";
    const FIRST: usize = 32;
}

/// A parsed [`Query`].
pub(crate) struct Asked<'a> {
    /// The query. Its filter is `None` if the caller's filter is empty.
    pub(crate) query: FeedQuery<'a>,
    pub(crate) reverse: bool,
}

/// Reads a query. A null pointer selects all visible items.
///
/// # Safety
/// `query` must be null or point to a `uc_feed_query` whose `size` field is its length in bytes,
/// and whose pointers are valid.
pub(crate) unsafe fn read_query<'a>(query: *const Query) -> Outcome<Asked<'a>> {
    if query.is_null() {
        return read_flags(0, 0);
    }
    // SAFETY: the pointer is not null, and the caller guarantees a structure whose `size` field is
    // its length in bytes.
    let query = unsafe { Query::read_from(query) }?;
    // SAFETY: the caller guarantees that each pointer is null or valid for its length.
    let (filter, low, high) = unsafe {
        (
            bytes(query.filter, query.filter_length)?,
            bytes(query.low, query.low_length)?,
            bytes(query.high, query.high_length)?,
        )
    };
    let mut asked = read_flags(query.flags, REVERSE)?;
    asked.query.filter = (!filter.is_empty()).then_some(filter);
    let bounded = !low.is_empty() || !high.is_empty();
    let or = |limit: &'a [u8], other: &'a [u8]| if limit.is_empty() { other } else { limit };
    asked.query.between = bounded.then(|| (or(low, b"-"), or(high, b"+")));
    Ok(asked)
}

/// Parses `UC_FEED_*` flags. `more` contains the flags that are allowed in addition to the two
/// visibility flags.
pub(crate) fn read_flags<'a>(flags: u64, more: u64) -> Outcome<Asked<'a>> {
    let seen = match flags & (HIDDEN | ALL) {
        0 => Seen::Visible,
        HIDDEN => Seen::Hidden,
        ALL => Seen::All,
        _ => {
            return Err(Refused::misuse(
                "expected UC_FEED_HIDDEN or UC_FEED_ALL, got both",
            ));
        }
    };
    if flags & !(HIDDEN | ALL | more) != 0 {
        let text = format!("expected UC_FEED_* flags that apply to this function, got {flags:#x}");
        return Err(Refused::misuse(&text));
    }
    Ok(Asked {
        query: FeedQuery {
            seen,
            ..FeedQuery::VISIBLE
        },
        reverse: flags & REVERSE != 0,
    })
}

/// Returns the error for values of the wrong size, worded as in the feed commands.
#[cold]
pub(crate) fn other_size(schema: &Schema, given: usize) -> Failure {
    let expected = schema.value_size();
    CommandError::new(format!("ERR value has {given} bytes, expected {expected}")).into()
}

/// The layout of a feed's items: the size of a value in bytes, and the number of attributes.
pub(crate) type Form = (usize, usize);

/// Returns the error for buffers whose layout differs from that of the feed's items.
#[cold]
fn other_form(feed: Form, given: Form) -> Refused {
    Refused::misuse(&format!(
        "expected room for the feed's values of {} bytes and {} attributes, got room for {} bytes \
         and {} attributes",
        feed.0, feed.1, given.0, given.1
    ))
}

/// The caller's buffers for items.
struct ItemBuffers<'a> {
    values: &'a mut [MaybeUninit<u8>],
    attributes: &'a mut [MaybeUninit<u32>],
    form: Form,
}

impl ItemBuffers<'_> {
    /// Copies items into the buffers, whose layout must match the items'. Returns the number of
    /// items.
    fn take(&mut self, items: &FoundItems) -> usize {
        write(self.values, items.values());
        if self.form.1 > 0 {
            write(self.attributes, items.attributes());
        }
        items.len()
    }
}

/// Copies values to the start of a buffer, which must be large enough.
fn write<T: Copy>(place: &mut [MaybeUninit<T>], given: &[T]) {
    for (place, &given) in place[..given.len()].iter_mut().zip(given) {
        place.write(given);
    }
}

/// Returns the layout of a feed's items.
fn form_of(schema: &Schema) -> Form {
    (schema.value_size(), schema.widths().len())
}

/// Returns whether a feed's items match the layout of the caller's buffers. The caller can omit the
/// attributes.
fn fits(feed: Form, given: Form) -> bool {
    feed.0 == given.0 && (feed.1 == given.1 || given.1 == 0)
}

/// The arguments of a call that reads items from a feed.
struct Items {
    from: i64,
    count: usize,
    values: *mut c_void,
    value_size: usize,
    attributes: *mut u32,
    attribute_count: usize,
    found: *mut usize,
}

impl Items {
    /// Copies the selected items into the caller's buffers.
    ///
    /// # Safety
    /// Each pointer must be null or valid for the length that `undercroft.h` specifies for
    /// `uc_feed_range`.
    unsafe fn read(&self, on: &Database<'_>, key: &[u8], asked: Asked<'_>) -> Outcome {
        check_place(self.found)?;
        let columns = match self.attributes.is_null() {
            true => 0,
            false => self.attribute_count,
        };
        let given = (self.value_size, columns);
        // SAFETY: `check_place` rejected a null `found`, and the caller guarantees that each
        // pointer is null or valid for its length.
        let mut room = unsafe {
            self.found.write(0);
            ItemBuffers {
                values: memory(self.values, self.count.saturating_mul(self.value_size))?,
                attributes: numbers(self.count.saturating_mul(columns), self.attributes)?,
                form: given,
            }
        };
        let range = FeedRange {
            from: self.from,
            count: self.count as u64,
            reverse: asked.reverse,
            attributes: columns > 0,
        };
        let taken = with_feed_buffer(|items| {
            let read = on.shared.feed_items(
                (on.number, key),
                asked.query,
                range,
                |schema| fits(form_of(schema), given),
                items,
            );
            match read.map_err(|failure| Refused::failure(&on.shared.store, failure))? {
                Some(schema) if !fits(form_of(&schema), given) => {
                    Err(other_form(form_of(&schema), given))
                }
                _ => Ok(room.take(items)),
            }
        })?;
        // SAFETY: `check_place` verified that `found` is not null, and the caller guarantees that
        // it is writable.
        unsafe { self.found.write(taken) };
        Ok(Status::Ok)
    }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_feed_range(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    from: i64,
    count: usize,
    query: *const Query,
    values: *mut c_void,
    value_size: usize,
    attributes: *mut u32,
    attribute_count: usize,
    found: *mut usize,
) -> c_int {
    let items = Items {
        from,
        count,
        values,
        value_size,
        attributes,
        attribute_count,
        found,
    };
    let body = |on: &Database<'_>| {
        // SAFETY: the caller guarantees that each pointer is null or valid for its length, and that
        // the structure is valid for the length in its `size` field.
        unsafe {
            let asked = read_query(query)?;
            items.read(on, bytes(key, key_length)?, asked)
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
unsafe extern "C" fn uc_feed_between(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    low: *const c_void,
    low_length: usize,
    high: *const c_void,
    high_length: usize,
    from: u64,
    count: usize,
    query: *const Query,
    values: *mut c_void,
    value_size: usize,
    attributes: *mut u32,
    attribute_count: usize,
    found: *mut usize,
) -> c_int {
    let items = Items {
        // No feed has more than `i64::MAX` items, so a larger `from` is also past the end.
        from: i64::try_from(from).unwrap_or(i64::MAX),
        count,
        values,
        value_size,
        attributes,
        attribute_count,
        found,
    };
    let body = |on: &Database<'_>| {
        // SAFETY: the caller guarantees that each pointer is null or valid for its length, and that
        // the structure is valid for the length in its `size` field.
        unsafe {
            let mut asked = read_query(query)?;
            asked.query.between = Some((bytes(low, low_length)?, bytes(high, high_length)?));
            items.read(on, bytes(key, key_length)?, asked)
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
unsafe extern "C" fn uc_feed_count(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    query: *const Query,
    count: *mut u64,
) -> c_int {
    let body = |on: &Database<'_>| {
        check_place(count)?;
        // SAFETY: the caller guarantees that each pointer is null or valid for its length, and that
        // the structure is valid for the length in its `size` field.
        let (key, asked) = unsafe { (bytes(key, key_length)?, read_query(query)?) };
        let counted = on.shared.feed_count((on.number, key), asked.query);
        let counted = counted.map_err(|failure| Refused::failure(&on.shared.store, failure))?;
        // SAFETY: `check_place` verified that `count` is not null, and the caller guarantees that
        // it is writable.
        unsafe { count.write(counted) };
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
unsafe extern "C" fn uc_feed_add(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    position: i64,
    count: usize,
    values: *const c_void,
    value_size: usize,
    attributes: *const u32,
    attribute_count: usize,
    items: *mut u64,
) -> c_int {
    let body = |on: &Database<'_>| {
        let columns = if attributes.is_null() {
            0
        } else {
            attribute_count
        };
        // SAFETY: the caller guarantees that each pointer is null or valid for its length.
        let (key, values, attributes) = unsafe {
            (
                bytes(key, key_length)?,
                values_of(count, values, value_size)?,
                match columns {
                    0 => &[],
                    _ => array(count.saturating_mul(columns), attributes)?,
                },
            )
        };
        let given = FeedItems {
            values,
            size: value_size,
            attributes,
            columns,
        };
        let position = (position != BY_VALUE).then_some(position);
        let added = on.shared.feed_add((on.number, key), position, &given);
        let added = match added.map_err(|error| Refused::engine(&on.shared.store, error))? {
            Some(added) => added,
            None if position.is_none() => refused_by_value(on, key, &given)?,
            // The feed rejected the items. FEED.ADD rejects them too and reports the error.
            None => add_words(on, key, position, &given)?,
        };
        // SAFETY: the caller guarantees that `items` is null or writable.
        unsafe { give(items, added) };
        Ok(Status::Ok)
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}

/// Returns the error for items that a sorted feed rejects. FEED.ADD cannot report the error,
/// because it expects the values as text, and this call has them in binary form.
#[cold]
fn refused_by_value(on: &Database<'_>, key: &[u8], items: &FeedItems<'_>) -> Outcome<u64> {
    let store = &on.shared.store;
    let refused = |failure| Refused::failure(store, failure);
    let none = FeedRange {
        from: 0,
        count: 0,
        reverse: false,
        attributes: false,
    };
    let mut nothing = FoundItems::new();
    let place = (on.number, key);
    let found = on
        .shared
        .feed_items(place, FeedQuery::VISIBLE, none, |_| false, &mut nothing);
    let Some(schema) = found
        .map_err(refused)?
        .filter(|it| it.order().sorted_by().is_some())
    else {
        return add_words(on, key, None, items);
    };
    if schema.value_size() != items.size {
        return Err(refused(other_size(&schema, items.size)));
    }
    for row in items.attributes.chunks_exact(items.columns.max(1)) {
        let row: Vec<Option<u32>> = row.iter().copied().map(Some).collect();
        check_attributes(&schema, &row).map_err(|error| refused(error.into()))?;
    }
    let of = schema.order().sorted_by().map_or("", FeedType::name);
    Err(Refused::new(
        Status::Error,
        &format!("ERR value is not of type {of}, by which the feed is sorted"),
    ))
}

/// Borrows one or more contiguous values.
///
/// # Safety
/// `values` must be null or valid for `count` values of `value_size` bytes, which must not change
/// before the call returns.
pub(crate) unsafe fn values_of<'a>(
    count: usize,
    values: *const c_void,
    value_size: usize,
) -> Outcome<&'a [u8]> {
    if count == 0 || value_size == 0 {
        return Err(Refused::misuse(&format!(
            "expected at least one value of at least one byte, got {count} of {value_size} bytes"
        )));
    }
    // SAFETY: the caller guarantees that each pointer is null or valid for its length.
    unsafe { bytes(values, count.saturating_mul(value_size)) }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_feed_pop(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    end: c_int,
    count: usize,
    values: *mut c_void,
    value_size: usize,
    found: *mut usize,
) -> c_int {
    let body = |on: &Database<'_>| {
        check_place(found)?;
        let end = match end {
            0 => End::Left,
            1 => End::Right,
            other => {
                let text = format!("expected UC_FEED_LEFT or UC_FEED_RIGHT, got {other}");
                return Err(Refused::misuse(&text));
            }
        };
        // SAFETY: `check_place` rejected a null `found`, and the caller guarantees that each
        // pointer is null or valid for its length.
        let (key, mut room) = unsafe {
            found.write(0);
            (
                bytes(key, key_length)?,
                ItemBuffers {
                    values: memory(values, count.saturating_mul(value_size))?,
                    attributes: &mut [],
                    form: (value_size, 0),
                },
            )
        };
        let store = &on.shared.store;
        let key = store.key(key);
        let taken = with_feed_buffer(|items| {
            let popped = store.write_into(ShardSet::one(key.shard()), items, |writer, items| {
                let Some(feed) = writer.feed(on.number, &key)? else {
                    return Ok::<_, Error>(None);
                };
                // Items whose layout does not match the buffer stay in the feed.
                let form = form_of(feed.schema());
                if fits(form, (value_size, 0)) {
                    writer.feed_pop(on.number, &key, end, count as u64, items)?;
                }
                Ok(Some(form))
            });
            match popped.map_err(|error| Refused::engine(store, error))? {
                Some(form) if !fits(form, (value_size, 0)) => {
                    Err(other_form((form.0, 0), room.form))
                }
                _ => Ok(room.take(items)),
            }
        })?;
        store.note_use(&key);
        // SAFETY: `check_place` verified that `found` is not null, and the caller guarantees that
        // it is writable.
        unsafe { found.write(taken) };
        Ok(match taken {
            0 if count > 0 => Status::None,
            _ => Status::Ok,
        })
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}

impl CommandReply {
    /// Returns a command's integer reply, which is never negative.
    pub(crate) fn number(&self) -> u64 {
        self.integer.unwrap_or(0).unsigned_abs()
    }
}
