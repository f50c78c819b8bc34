//! Implements the most frequently called stream methods.

use std::cell::Cell;
use std::time::Duration;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;
use smallvec::SmallVec;
use undercroft_commands::session::wait::{MOST_WAITED_FOR, error_of};
use undercroft_embedded::Taken;
use undercroft_engine::streams::{
    AddedEntry, Delivery, EntryId, IdRange, StreamEntries, StreamId, Trim, TrimTo,
};
use undercroft_engine::waiting::{Answer, Take, Wanted};
use undercroft_engine::{Scratch, ThreadCached};

use crate::client::Use;
use crate::conversion::codec;
use crate::conversion::references::References;
use crate::error;
use crate::execute::{Argument, FEW};
use crate::hot::{Hot, Taking};
use crate::methods::fastcall::{Call, Miss, Outcome, made};
use crate::methods::row::{Word, is_none, pairs, truth};
use crate::taken;

/// The maximum size in bytes of an entry. Longer entries are left to redis-py's method.
const ENTRY_MAX: usize = 1 << 20;
/// The maximum capacity in bytes of a buffer that is retained for the next call.
const KEPT: usize = 64 * 1024;

type Object = *mut ffi::PyObject;

thread_local! {
    /// This thread's buffer, which contains entries until they are converted to objects.
    static ENTRIES: Cell<StreamEntries> = const { Cell::new(StreamEntries::new()) };
}

/// Runs `body` with this thread's buffer.
fn with_entries(body: impl FnOnce(&mut StreamEntries) -> Outcome) -> Outcome {
    let mut entries = ENTRIES.take_cached();
    entries.clear();
    let outcome = body(&mut entries);
    if entries.capacity() <= KEPT {
        ENTRIES.put_back(entries);
    }
    outcome
}

/// Returns a call's arguments in the order of `names`. A call with any other argument is unusual.
#[inline(always)]
fn arguments<const N: usize>(
    call: &Call<'_, '_>,
    names: [&[u8]; N],
) -> Result<[Option<Object>; N], Miss> {
    let given = call.by_position();
    let mut found = [None; N];
    if given.len() > N {
        return Err(Miss::UNUSUAL);
    }
    for (place, &value) in found.iter_mut().zip(given) {
        *place = Some(value);
    }
    if call.names_count() > 0 {
        for (name, value) in call.by_name() {
            let place = names.iter().position(|other| *other == name);
            let place = place.ok_or(Miss::UNUSUAL)?;
            if found[place].replace(value).is_some() {
                return Err(Miss::UNUSUAL);
            }
        }
    }
    Ok(found)
}

/// Returns the argument if it was passed and is not `None`.
#[inline(always)]
fn told(argument: Option<Object>) -> Option<Object> {
    argument.filter(|&argument| !is_none(argument))
}

/// Returns the maximum number of entries, at least 1, or no limit if the argument is missing.
#[inline(always)]
fn count(call: &Call<'_, '_>, argument: Option<Object>) -> Result<u64, Miss> {
    match told(argument) {
        None => Ok(u64::MAX),
        Some(argument) => match u64::try_from(call.integer(argument)?) {
            Ok(count @ 1..) => Ok(count),
            _ => Err(Miss::UNUSUAL),
        },
    }
}

/// Parses plain decimal digits. Returns None for any text that Redis might parse differently.
#[inline]
fn number(digits: &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + u64::from(digit - b'0');
    }
    Some(value)
}

/// Parses a stream id. If the text has no sequence number, uses `missing`.
#[inline]
fn id_of_text(text: &[u8], missing: u64) -> Option<StreamId> {
    match text.iter().position(|&byte| byte == b'-') {
        Some(place) => Some(StreamId {
            ms: number(&text[..place])?,
            seq: number(&text[place + 1..])?,
        }),
        None => Some(StreamId {
            ms: number(text)?,
            seq: missing,
        }),
    }
}

/// Parses an argument as a stream id. Any other argument is unusual.
#[inline]
fn id(call: &Call<'_, '_>, argument: Object, missing: u64) -> Result<StreamId, Miss> {
    if let Ok(text) = call.bytes(argument) {
        return id_of_text(text, missing).ok_or(Miss::UNUSUAL);
    }
    let ms = u64::try_from(call.integer(argument)?).map_err(|_| Miss::UNUSUAL)?;
    Ok(StreamId { ms, seq: missing })
}

/// Returns the name and the start id of the only stream. A call with several streams is unusual.
#[inline]
fn only_stream(streams: Option<Object>) -> Result<(Object, Object), Miss> {
    let streams = streams.ok_or(Miss::UNUSUAL)?;
    let (mut position, mut name, mut id) = (0, std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the thread is attached, and the argument is a valid object whose type is checked
    // first.
    let is_one = unsafe {
        ffi::PyDict_CheckExact(streams) != 0
            && ffi::PyDict_Size(streams) == 1
            && ffi::PyDict_Next(streams, &mut position, &mut name, &mut id) != 0
    };
    match is_one {
        true => Ok((name, id)),
        false => Err(Miss::UNUSUAL),
    }
}

/// Takes ownership of a new reference. Null means that an exception is set.
#[inline(always)]
fn owned<'py>(py: Python<'py>, object: Object) -> Result<Bound<'py, PyAny>, Miss> {
    // SAFETY: the thread is attached, and `object` is a new reference or null with an exception
    // set.
    unsafe { Bound::from_owned_ptr_or_opt(py, object) }.ok_or_else(Miss::set)
}

/// Returns a new list or tuple of two items.
#[inline(always)]
fn two<'py>(
    py: Python<'py>,
    is_list: bool,
    items: [Bound<'py, PyAny>; 2],
) -> Result<Bound<'py, PyAny>, Miss> {
    // SAFETY: the thread is attached. The new object has room for both items and takes ownership of
    // their references.
    unsafe {
        let new = match is_list {
            true => ffi::PyList_New(2),
            false => ffi::PyTuple_New(2),
        };
        let new = owned(py, new)?;
        for (place, item) in (0..).zip(items) {
            match is_list {
                true => ffi::PyList_SetItem(new.as_ptr(), place, item.into_ptr()),
                false => ffi::PyTuple_SetItem(new.as_ptr(), place, item.into_ptr()),
            };
        }
        Ok(new)
    }
}

/// Returns entries as a list of pairs, each of which consists of an id and a dictionary of fields.
fn list<'py>(call: &Call<'_, 'py>, entries: &StreamEntries) -> Result<Bound<'py, PyAny>, Miss> {
    let (py, codec) = (call.py, &call.client.codec);
    // SAFETY: the thread is attached. A list may be dropped before all its items are set.
    let list = owned(py, unsafe {
        ffi::PyList_New(entries.len() as ffi::Py_ssize_t)
    })?;
    // Reuse the previous entry's name objects, because entries usually repeat field names.
    let mut names: SmallVec<[(&[u8], Bound<'py, PyAny>); FEW]> = SmallVec::new();
    for index in 0..entries.len() {
        // SAFETY: the thread is attached.
        let fields = owned(py, unsafe { ffi::PyDict_New() })?;
        let mut texts = entries.texts(index);
        let mut place = 0;
        while let (Some(name), Some(value)) = (texts.next(), texts.next()) {
            let value = owned(py, codec.object(py, value))?;
            if names.get(place).is_none_or(|(known, _)| *known != name) {
                let object = owned(py, codec.object(py, name))?;
                names.truncate(place);
                names.push((name, object));
            }
            let (_, name) = &names[place];
            // SAFETY: all three objects are valid, and hashing a `str` or `bytes` runs none of the
            // program's code.
            if unsafe { ffi::PyDict_SetItem(fields.as_ptr(), name.as_ptr(), value.as_ptr()) } != 0 {
                return Err(Miss::set());
            }
            place += 1;
        }
        let id = owned(py, codec.object(py, entries.id(index).text().as_bytes()))?;
        let entry = two(py, false, [id, fields])?.into_ptr();
        // SAFETY: the list is new, the index is below its length, and it takes ownership of the
        // reference.
        unsafe { ffi::PyList_SetItem(list.as_ptr(), index as ffi::Py_ssize_t, entry) };
    }
    Ok(list)
}

/// Returns one stream's entries in the format of XREAD and XREADGROUP.
fn read(call: &Call<'_, '_>, name: &[u8], entries: &StreamEntries) -> Outcome {
    let py = call.py;
    let name = owned(py, call.client.codec.object(py, name))?;
    let stream = two(py, true, [name, list(call, entries)?])?;
    // SAFETY: the thread is attached, and the new list takes ownership of the reference.
    unsafe {
        let streams = owned(py, ffi::PyList_New(1))?;
        ffi::PyList_SetItem(streams.as_ptr(), 0, stream.into_ptr());
        Ok(streams.into_ptr())
    }
}

/// Returns None for a call that does not wait for entries. Otherwise returns the timeout, which is
/// None for an unlimited wait. The call is unusual if redis-py rejects the timeout or the client is
/// hurried.
#[inline(always)]
fn waits(call: &Call<'_, '_>, block: Option<Object>) -> Result<Option<Option<Duration>>, Miss> {
    let Some(block) = told(block) else {
        return Ok(None);
    };
    match u64::try_from(call.integer(block)?) {
        _ if call.client.hurries(call.py) => Err(Miss::UNUSUAL),
        Ok(0) => Ok(Some(None)),
        Ok(milliseconds) => Ok(Some(Some(Duration::from_millis(milliseconds)))),
        Err(_) => Err(Miss::UNUSUAL),
    }
}

/// Waits for entries if the call blocks. Returns an empty list on timeout, or if the call does not
/// block. `words` are the stream's name and the words that select its entries.
#[cold]
#[inline(never)]
fn waited_for(
    call: &Call<'_, '_>,
    shared: &Use<'_, '_>,
    wait: Option<Option<Duration>>,
    (words, take): (&[&[u8]], Take),
    keep: impl FnOnce(&StreamEntries) -> Result<(), Miss>,
) -> Outcome {
    let Some(time) = wait else {
        // SAFETY: the thread is attached.
        return made(unsafe { ffi::PyList_New(0) });
    };
    let wanted = Wanted {
        database: call.database(),
        keys: words,
        take,
    };
    let answer = shared.store.take_or_wait(&wanted, time);
    let answer = answer.map_err(|error| call.failed(shared, error))?;
    match (error_of(&answer), answer) {
        (Some(error), _) => {
            let raises = call.client.codec.raises;
            let text = error.text();
            let raised = error::raise_reply(call.py, raises, &shared.store, text);
            Err(raised.into())
        }
        (None, Answer::Taken(taken)) => {
            let entries = StreamEntries::of_texts(&taken.items);
            keep(&entries)?;
            read(call, &taken.key, &entries)
        }
        // SAFETY: the thread is attached.
        (None, _) => made(unsafe { ffi::PyList_New(0) }),
    }
}

/// Returns the maximum number of entries that a blocked call receives.
fn most_waited_for(count: u64) -> u64 {
    match count {
        u64::MAX => MOST_WAITED_FOR,
        count => count,
    }
}

pub(crate) struct Xadd;

impl Hot for Xadd {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let names: [&[u8]; 8] = [
            b"name",
            b"fields",
            b"id",
            b"maxlen",
            b"approximate",
            b"nomkstream",
            b"minid",
            b"limit",
        ];
        let [
            name,
            fields,
            id,
            maxlen,
            approximate,
            nomkstream,
            minid,
            limit,
        ] = arguments(call, names)?;
        let (Some(name), Some(fields)) = (name, fields) else {
            return Err(Miss::UNUSUAL);
        };
        let name = call.bytes(name)?;
        let id = match id {
            None => EntryId::Now,
            Some(id) => added_id(call, id)?,
        };
        let create = !nomkstream.map(truth).transpose()?.unwrap_or(false);
        let about = approximate.map(truth).transpose()?.unwrap_or(true);
        let mut references = References::default();
        let mut words: SmallVec<[Word; FEW]> = SmallVec::new();
        if pairs(fields, false, &mut references, &mut words)? == 0 {
            return Err(Miss::UNUSUAL);
        }
        let mut given: SmallVec<[Argument<'_>; FEW]> = SmallVec::with_capacity(words.len());
        for word in &words {
            if let Word::Object(object) = *word {
                given.push(call.word(object)?);
            }
        }
        let texts: SmallVec<[&[u8]; FEW]> = given.iter().map(Argument::bytes).collect();
        if texts.iter().map(|text| text.len()).sum::<usize>() > ENTRY_MAX {
            return Err(Miss::UNUSUAL);
        }
        let to = match (told(maxlen), told(minid)) {
            (None, None) => None,
            (Some(length), None) => {
                let length = u64::try_from(call.integer(length)?).map_err(|_| Miss::UNUSUAL)?;
                Some(TrimTo::Length(length))
            }
            (None, Some(least)) => Some(TrimTo::From(self::id(call, least, 0)?)),
            (Some(_), Some(_)) => return Err(Miss::UNUSUAL),
        };
        let limit = told(limit).map(|limit| call.integer(limit)).transpose()?;
        if limit.is_some() && (to.is_none() || !about) {
            return Err(Miss::UNUSUAL);
        }
        let limit = limit
            .map(u64::try_from)
            .transpose()
            .map_err(|_| Miss::UNUSUAL)?;
        let shared = call.enter()?;
        let limits = shared.process().config.stream_limits();
        let about = about.then(|| match limit {
            None => limits.trimmed_at_once(),
            Some(0) => u64::MAX,
            Some(most) => most,
        });
        let trim = to.map(|to| Trim { to, about });
        let store = &shared.store;
        let added = store.stream_add(
            call.database(),
            name,
            id,
            &texts,
            create,
            trim.as_ref(),
            &limits,
        );
        match added {
            Ok(AddedEntry::Added(id)) => call.string(id.text().as_bytes()),
            Ok(AddedEntry::Missing) => Ok(codec::none(call.py)),
            // Nothing was changed, so the general command can run and report the error.
            Ok(AddedEntry::Exhausted | AddedEntry::NotBehind) => Err(Miss::UNUSUAL),
            Err(error) => Err(call.failed(&shared, error)),
        }
    }
}

/// Parses the id for a new entry. An incomplete id is unusual.
#[inline]
fn added_id(call: &Call<'_, '_>, argument: Object) -> Result<EntryId, Miss> {
    if call.bytes(argument).is_ok_and(|text| text == b"*") {
        return Ok(EntryId::Now);
    }
    match id(call, argument, 0)? {
        StreamId::MIN => Err(Miss::UNUSUAL),
        id => Ok(EntryId::Exactly(id)),
    }
}

pub(crate) struct Xlen;

impl Hot for Xlen {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let &[name] = call.exactly()?;
        let name = call.bytes(name)?;
        let shared = call.enter()?;
        match shared.store.stream_length(call.database(), name) {
            Ok(length) => made(codec::number(call.py, length as i64)),
            Err(error) => Err(call.failed(&shared, error)),
        }
    }
}

pub(crate) struct Xrange;

impl Hot for Xrange {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let [name, from, to, most] = arguments(call, [b"name", b"min", b"max", b"count"])?;
        range(call, (name, most), (from, to), false)
    }
}

pub(crate) struct Xrevrange;

impl Hot for Xrevrange {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let [name, to, from, most] = arguments(call, [b"name", b"max", b"min", b"count"])?;
        range(call, (name, most), (from, to), true)
    }
}

fn range(
    call: &Call<'_, '_>,
    (name, most): (Option<Object>, Option<Object>),
    (from, to): (Option<Object>, Option<Object>),
    reverse: bool,
) -> Outcome {
    let edge = |argument: Option<Object>, missing: u64, all: (&[u8], StreamId)| match argument {
        None => Ok(all.1),
        Some(argument) if call.bytes(argument).is_ok_and(|text| text == all.0) => Ok(all.1),
        Some(argument) => id(call, argument, missing),
    };
    let name = call.bytes(name.ok_or(Miss::UNUSUAL)?)?;
    let range = IdRange {
        from: edge(from, 0, (b"-", StreamId::MIN))?,
        to: edge(to, u64::MAX, (b"+", StreamId::MAX))?,
        count: count(call, most)?,
        reverse,
    };
    let shared = call.enter()?;
    with_entries(|entries| {
        match shared
            .store
            .stream_range(call.database(), name, range, entries)
        {
            Ok(_) => list(call, entries).map(Bound::into_ptr),
            Err(error) => Err(call.failed(&shared, error)),
        }
    })
}

pub(crate) struct Xread;

impl Hot for Xread {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let [streams, most, block] = arguments(call, [b"streams", b"count", b"block"])?;
        let (name, behind) = only_stream(streams)?;
        let mut references = References::default();
        // SAFETY: the name is valid now. The reference keeps it alive if another thread removes it
        // from the dictionary.
        unsafe { references.keep(name) };
        let name = call.bytes(name)?;
        let behind = id(call, behind, 0)?;
        let from = behind.next().ok_or(Miss::UNUSUAL)?;
        let range = IdRange {
            from,
            count: count(call, most)?,
            ..IdRange::ALL
        };
        let wait = waits(call, block)?;
        let shared = call.enter()?;
        with_entries(|entries| {
            match shared
                .store
                .stream_range(call.database(), name, range, entries)
            {
                Ok(_) if entries.is_empty() => {
                    let count = most_waited_for(range.count);
                    let words = [name, &behind.to_bytes()];
                    waited_for(
                        call,
                        &shared,
                        wait,
                        (&words, Take::Entries { count }),
                        |_| Ok(()),
                    )
                }
                Ok(_) => read(call, name, entries),
                Err(error) => Err(call.failed(&shared, error)),
            }
        })
    }
}

pub(crate) struct Xreadgroup;

impl Taking for Xreadgroup {
    #[inline(always)]
    fn take<'py>(call: &Call<'_, 'py>, taken: &Bound<'py, PyList>) -> Outcome {
        let names: [&[u8]; 6] = [
            b"groupname",
            b"consumername",
            b"streams",
            b"count",
            b"block",
            b"noack",
        ];
        let [group, consumer, streams, most, block, noack] = arguments(call, names)?;
        let (name, behind) = only_stream(streams)?;
        let mut references = References::default();
        // SAFETY: the name is valid now. The reference keeps it alive if another thread removes it
        // from the dictionary.
        unsafe { references.keep(name) };
        if call.bytes(behind)? != b">" {
            return Err(Miss::UNUSUAL);
        }
        let name = call.bytes(name)?;
        let group = call.bytes(group.ok_or(Miss::UNUSUAL)?)?;
        let consumer = call.bytes(consumer.ok_or(Miss::UNUSUAL)?)?;
        let acknowledged = noack.map(truth).transpose()?.unwrap_or(false);
        let delivery = Delivery {
            group,
            consumer,
            count: count(call, most)?,
            acknowledged,
        };
        let wait = waits(call, block)?;
        let shared = call.enter()?;
        let keep = |entries: &StreamEntries| {
            let ids = (0..entries.len()).map(|index| {
                String::from_utf8_lossy(entries.id(index).text().as_bytes()).into_owned()
            });
            let names = [name, group, consumer];
            let delivered = Taken::entries(call.database(), names, acknowledged, ids);
            taken::keep(call.py, &shared, taken, delivered)
                .map(drop)
                .map_err(Miss::from)
        };
        with_entries(|entries| {
            let (store, database) = (&shared.store, call.database());
            match store.stream_deliver(database, name, &delivery, entries) {
                // Run the general command, which reports that the group does not exist.
                Ok(false) => Err(Miss::UNUSUAL),
                Ok(true) if entries.is_empty() => {
                    let take = Take::Deliver {
                        count: most_waited_for(delivery.count),
                        acknowledged,
                    };
                    let words = [name, group, consumer];
                    waited_for(call, &shared, wait, (&words, take), keep)
                }
                Ok(true) => {
                    keep(entries)?;
                    read(call, name, entries)
                }
                Err(error) => Err(call.failed(&shared, error)),
            }
        })
    }
}

pub(crate) struct Xack;

impl Hot for Xack {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let [name, group, acknowledged @ ..] = call.unnamed()? else {
            return Err(Miss::UNUSUAL);
        };
        if acknowledged.is_empty() {
            return Err(Miss::UNUSUAL);
        }
        let (name, group) = (call.bytes(*name)?, call.bytes(*group)?);
        let mut ids: SmallVec<[StreamId; FEW]> = SmallVec::with_capacity(acknowledged.len());
        for &argument in acknowledged {
            ids.push(id(call, argument, 0)?);
        }
        let shared = call.enter()?;
        let (store, database) = (&shared.store, call.database());
        match store.stream_acknowledge(database, name, group, &ids) {
            Ok(count) => made(codec::number(call.py, count.unwrap_or(0) as i64)),
            Err(error) => Err(call.failed(&shared, error)),
        }
    }
}
