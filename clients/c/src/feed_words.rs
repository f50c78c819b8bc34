//! Implements the feed functions that run one command each.

use std::ffi::{c_char, c_int, c_void};

use undercroft_commands::reply::Reply;
use undercroft_embedded::FeedItems;
use undercroft_engine::Ranges;
use undercroft_engine::feeds::{ATTRIBUTES_MAX, Seen};

use crate::border::{bytes, check_place, give, text};
use crate::feed::{Query, read_query, values_of};
use crate::options::Growing;
use crate::status::{Outcome, Refused, Status};
use crate::store::{Database, StoreHandle, call_on};

/// The error reply to a feed command whose key does not exist.
const NO_SUCH_KEY: &str = "ERR no such key";

/// The C type `uc_feed_info_reply`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Info {
    size: usize,
    items: u64,
    visible: u64,
    hidden: u64,
    leaves: u64,
    nodes: u64,
    bytes: u64,
    fill_percent: u64,
    value_size: u32,
    attribute_count: u32,
    attribute_bits: [u8; ATTRIBUTES_MAX],
    order: [u8; 16],
    value_type: [u8; 16],
    unique: u32,
    indexed: u32,
}

const _: () = assert!(size_of::<Info>() == 128);

// SAFETY: all fields are numbers, and the first field is the structure's size.
unsafe impl Growing for Info {
    const NAME: &'static str = "uc_feed_info_reply";
    const FIRST: usize = 104;
}

/// The words of a command, beginning with its name.
pub(crate) struct Words(Vec<Vec<u8>>);

impl Words {
    fn new(command: &str, key: &[u8]) -> Words {
        Words(vec![command.into(), key.into()])
    }

    fn with(mut self, word: impl Into<Vec<u8>>) -> Words {
        self.0.push(word.into());
        self
    }

    fn with_number(self, number: i64) -> Words {
        self.with(number.to_string())
    }

    fn with_seen(self, seen: Seen) -> Words {
        self.with(match seen {
            Seen::Visible => "VISIBLE",
            Seen::Hidden => "HIDDEN",
            Seen::All => "ALL",
        })
    }
}

/// The reply to a command.
#[derive(Default)]
pub(crate) struct CommandReply {
    pub(crate) integer: Option<i64>,
    /// The strings of the reply, and the numbers in its maps, in their original order.
    pub(crate) items: Ranges,
    is_null: bool,
    error: Option<String>,
}

impl Reply for CommandReply {
    fn simple(&mut self, text: &str) {
        self.items.push(text.as_bytes());
    }

    fn error(&mut self, text: &str) {
        self.error = Some(text.to_owned());
    }

    fn integer(&mut self, value: i64) {
        self.integer = Some(value);
        self.items
            .push(itoa::Buffer::new().format(value).as_bytes());
    }

    fn bulk(&mut self, bytes: &[u8]) {
        self.items.push(bytes);
    }

    fn bulks(&mut self, items: &Ranges) {
        self.items.clone_from(items);
    }

    fn null(&mut self) {
        self.is_null = true;
    }

    fn null_array(&mut self) {
        self.is_null = true;
    }

    fn array(&mut self, _: usize) {}

    fn map(&mut self, _: usize) {}

    fn set(&mut self, _: usize) {}

    fn push(&mut self, _: usize) {}

    fn double(&mut self, value: f64) {
        self.items.push(value.to_string().as_bytes());
    }

    fn decimal(&mut self, digits: &str) {
        self.items.push(digits.as_bytes());
    }

    fn boolean(&mut self, value: bool) {
        self.integer(value.into());
    }

    fn big_number(&mut self, digits: &str) {
        self.items.push(digits.as_bytes());
    }

    fn verbatim(&mut self, _: &str, text: &[u8]) {
        self.items.push(text);
    }
}

/// Runs a command on a `uc_store`'s database. An error reply is returned in [`CommandReply`] and
/// does not fail the call.
fn hear(on: &Database<'_>, words: &Words) -> Outcome<CommandReply> {
    let words: Vec<&[u8]> = words.0.iter().map(Vec::as_slice).collect();
    let mut session = on.shared.session();
    session.database = on.number as u32;
    let mut heard = CommandReply::default();
    let ran = on.shared.execute(&mut session, &words, &mut heard);
    ran.map_err(|blocked| Refused::blocked(&blocked))?;
    Ok(heard)
}

/// Runs a command on a `uc_store`'s database. An error reply fails the call.
pub(crate) fn ask(on: &Database<'_>, words: &Words) -> Outcome<CommandReply> {
    let heard = hear(on, words)?;
    match &heard.error {
        Some(text) => Err(Refused::reply(&on.shared.store, text)),
        None => Ok(heard),
    }
}

/// Runs a command and returns its reply, or `None` if the key does not exist.
fn ask_there(on: &Database<'_>, words: &Words) -> Outcome<Option<CommandReply>> {
    let heard = hear(on, words)?;
    match heard.error.as_deref() {
        Some(NO_SUCH_KEY) => Ok(None),
        Some(text) => Err(Refused::reply(&on.shared.store, text)),
        None => Ok(Some(heard)),
    }
}

fn joined(numbers: impl Iterator<Item = Option<u32>>) -> Vec<u8> {
    let parts = numbers.map(|number| number.map_or(String::new(), |number| number.to_string()));
    parts.collect::<Vec<_>>().join(":").into()
}

/// Runs FEED.ADD with items that the feed rejected, so that the command reports the error.
pub(crate) fn add_words(
    on: &Database<'_>,
    key: &[u8],
    position: Option<i64>,
    items: &FeedItems<'_>,
) -> Outcome<u64> {
    let place = position.map_or("*".to_owned(), |position| position.to_string());
    let mut words = Words::new("FEED.ADD", key).with(place);
    let mut rows = items.attributes.chunks_exact(items.columns.max(1));
    for (index, value) in items.values.chunks_exact(items.size).enumerate() {
        if items.columns == 0 && index > 0 && value.eq_ignore_ascii_case(b"ATTRS") {
            return Err(Refused::misuse(
                "expected attributes for the value before a value that reads ATTRS, got none",
            ));
        }
        words = words.with(value);
        if let Some(row) = rows.next() {
            let text = joined(row.iter().map(|&number| Some(number)));
            words = words.with("ATTRS").with(text);
        }
    }
    Ok(ask(on, &words)?.number())
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_feed_create(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    value_size: usize,
    attributes: *const c_char,
    order: *const c_char,
) -> c_int {
    let body = |on: &Database<'_>| {
        // SAFETY: the caller guarantees that `key` is null or valid for `key_length` bytes.
        let key = unsafe { bytes(key, key_length)? };
        let size = value_size.to_string();
        let mut words = Words::new("FEED.CREATE", key).with("SIZE").with(size);
        if !attributes.is_null() {
            // SAFETY: the caller guarantees that `attributes` is null or a null-terminated string.
            let widths = unsafe { text("the bits of attributes", attributes) }?;
            words = words.with("ATTRS").with(widths);
        }
        if !order.is_null() {
            // SAFETY: the caller guarantees that `order` is null or a null-terminated string.
            let order = unsafe { text("an order", order) }?;
            words = words.with("ORDER");
            for word in order.split(' ') {
                words = words.with(word);
            }
        }
        ask(on, &words)?;
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
unsafe extern "C" fn uc_feed_del_where(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    query: *const Query,
    removed: *mut u64,
) -> c_int {
    let body = |on: &Database<'_>| {
        check_place(query.cast_mut())?;
        // SAFETY: the caller guarantees that each pointer is null or valid for its length, and that
        // the structure is valid for the length in its `size` field.
        let (key, asked) = unsafe { (bytes(key, key_length)?, read_query(query)?) };
        if asked.reverse {
            return Err(Refused::misuse(
                "expected no UC_FEED_REVERSE when removing items",
            ));
        }
        let words = Words::new("FEED.DELWHERE", key).with(asked.query.filter.unwrap_or_default());
        let mut words = words.with_seen(asked.query.seen);
        if let Some((low, high)) = asked.query.between {
            words = words.with(b"BETWEEN").with(low).with(high);
        }
        let items = ask(on, &words)?.number();
        // SAFETY: the caller guarantees that `removed` is null or writable.
        unsafe { give(removed, items) };
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
unsafe extern "C" fn uc_feed_move(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_size: usize,
    position: i64,
) -> c_int {
    let body = |on: &Database<'_>| {
        // SAFETY: the caller guarantees that each pointer is null or valid for its length.
        let (key, value) = unsafe { (bytes(key, key_length)?, values_of(1, value, value_size)?) };
        let moved = on.shared.feed_move((on.number, key), value, position);
        let moved = match moved.map_err(|error| Refused::engine(&on.shared.store, error))? {
            Some(moved) => moved,
            // The direct call could not change the feed. FEED.MOVE returns the result or reports
            // the error.
            None => {
                let words = Words::new("FEED.MOVE", key).with(value);
                ask(on, &words.with_number(position))?.number() != 0
            }
        };
        Ok(if moved { Status::Ok } else { Status::None })
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_feed_info(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
    info: *mut Info,
) -> c_int {
    let body = |on: &Database<'_>| {
        check_place(info)?;
        // SAFETY: the caller guarantees that each pointer is null or valid for its length, and that
        // the structure is valid for the length in its `size` field.
        let key = unsafe {
            Info::common(info)?;
            bytes(key, key_length)?
        };
        let Some(heard) = ask_there(on, &Words::new("FEED.INFO", key))? else {
            return Ok(Status::None);
        };
        // SAFETY: `check_place` verified that `info` is not null, and the caller guarantees that it
        // is writable.
        unsafe { read_info(&heard.items).write_to(info) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}

/// Copies up to 15 bytes of a name, leaving room for the terminating zero byte.
fn copy_name(place: &mut [u8; 16], name: &[u8]) {
    let places = place[..15].iter_mut();
    places.zip(name).for_each(|(place, &byte)| *place = byte);
}

/// Parses the reply to FEED.INFO, in which names and values alternate.
fn read_info(items: &Ranges) -> Info {
    let mut info = Info {
        size: size_of::<Info>(),
        ..Info::default()
    };
    let mut items = items.iter();
    while let (Some(name), Some(value)) = (items.next(), items.next()) {
        let number = || {
            let text = str::from_utf8(value).unwrap_or_default();
            text.parse::<u64>().unwrap_or(0)
        };
        match name {
            b"items" => info.items = number(),
            b"visible" => info.visible = number(),
            b"hidden" => info.hidden = number(),
            b"leaves" => info.leaves = number(),
            b"nodes" => info.nodes = number(),
            b"bytes" => info.bytes = number(),
            b"fill-percent" => info.fill_percent = number(),
            b"size" => info.value_size = number() as u32,
            b"attributes" => {
                let text = str::from_utf8(value).unwrap_or_default();
                let widths = text.split(':').filter_map(|width| width.parse::<u8>().ok());
                for (place, width) in info.attribute_bits.iter_mut().zip(widths) {
                    *place = width;
                    info.attribute_count += 1;
                }
            }
            b"order" => copy_name(&mut info.order, value),
            b"type" => copy_name(&mut info.value_type, value),
            b"unique" => info.unique = number() as u32,
            b"index" => info.indexed = number() as u32,
            _ => {}
        }
    }
    info
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_feed_compact(
    store: *const StoreHandle,
    key: *const c_void,
    key_length: usize,
) -> c_int {
    let body = |on: &Database<'_>| {
        // SAFETY: the caller guarantees that `key` is null or valid for `key_length` bytes.
        let key = unsafe { bytes(key, key_length)? };
        match ask_there(on, &Words::new("FEED.COMPACT", key))? {
            Some(_) => Ok(Status::Ok),
            None => Ok(Status::None),
        }
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}
