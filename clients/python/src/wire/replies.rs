//! Builds Python objects from the RESP2 and RESP3 replies that `undercroft_resp` parses. The input
//! can arrive in pieces of any size.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyList, PySet, PyString};
use pyo3::{import_exception, intern};
use undercroft_resp::{Aggregate, Event, ReplyError, ReplyLimits, ReplyParser};

use crate::conversion::codec::{self, Codec};

use super::long::Long;
use super::names;

import_exception!(redis.exceptions, InvalidResponse);

/// The maximum length of a string and of a collection. The limit for collections is the same as in
/// hiredis. A longer string or collection is rejected when its header arrives, because its data
/// would never arrive.
const LONGEST: u32 = u32::MAX;
const LIMITS: ReplyLimits = ReplyLimits {
    max_bulk: LONGEST as usize,
    max_line: usize::MAX,
    max_elements: LONGEST as u64,
    max_depth: 512,
};
/// The spare capacity in bytes for the next receive.
const ROOM: usize = 64 << 10;
/// The maximum capacity in bytes that is reserved in one step for a value of known length.
const MOST: usize = 16 << 20;
/// The lengths in bytes at which a value counts as long, up to Redis' longest string.
const LONG: std::ops::RangeInclusive<usize> = ROOM..=512 << 20;
/// The capacity in bytes for a piece of a long value, which is copied while it is in the cache.
const PART: usize = 256 << 10;
/// An empty buffer with more capacity than this, in bytes, is freed.
const KEPT: usize = 1 << 20;

/// A collection that is still incomplete.
struct Open {
    kind: Aggregate,
    items: Vec<Py<PyAny>>,
}

/// The outcome of one parsing step.
enum Step<'py> {
    Value(Bound<'py, PyAny>),
    /// A piece of a value, or data that does not belong to the reply.
    Part,
    /// More bytes must arrive before the next step.
    Missing,
}

/// Received bytes, and the replies that they contain.
pub(super) struct Replies {
    parser: ReplyParser,
    buffer: Vec<u8>,
    /// The offset at which parsing continues.
    at: usize,
    /// The long value that the next bytes belong to.
    long: Option<Long>,
    /// A string that was read but could not be decoded.
    undecodable: Option<Py<PyBytes>>,
    open: Vec<Open>,
    error: Py<PyAny>,
    sets: bool,
}

impl Replies {
    pub(super) fn new(error: Py<PyAny>, sets: bool) -> Replies {
        Replies {
            parser: ReplyParser::new(LIMITS),
            buffer: Vec::new(),
            at: 0,
            long: None,
            undecodable: None,
            open: Vec::new(),
            error,
            sets,
        }
    }

    pub(super) fn has_data(&self) -> bool {
        self.at < self.buffer.len() || !self.parser.between_replies() || self.undecodable.is_some()
    }

    /// Returns the number of bytes missing from a partly received string.
    pub(super) fn missing(&self) -> usize {
        match (&self.long, self.parser.begun_string()) {
            (Some(long), _) => long.missing(),
            (None, Some(_)) => self.parser.wanted(),
            (None, None) => 0,
        }
    }

    /// Whether the partial reply is an unsolicited message.
    pub(super) fn is_push(&self) -> bool {
        let first = self.open.first();
        first.is_some_and(|first| first.kind == Aggregate::Push)
    }

    pub(super) fn feed(&mut self, py: Python<'_>, mut bytes: &[u8]) {
        self.forget();
        if let Some(long) = &mut self.long
            && self.buffer.is_empty()
        {
            bytes = &bytes[long.take(py, bytes)..];
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the buffer with spare capacity for a receive.
    pub(super) fn input(&mut self) -> &mut Vec<u8> {
        self.forget();
        let missing = match &self.long {
            Some(long) => long.missing().min(PART),
            None => self.parser.wanted(),
        };
        self.buffer.reserve(missing.clamp(ROOM, MOST));
        &mut self.buffer
    }

    /// Returns the long value that is being received, if no earlier bytes remain in the buffer.
    pub(super) fn long(&mut self) -> Option<&mut Long> {
        let is_read = self.at == self.buffer.len();
        self.long.as_mut().filter(|it| is_read && it.missing() > 0)
    }

    /// Discards bytes that have been read.
    fn forget(&mut self) {
        if self.at == self.buffer.len() {
            self.buffer.clear();
            if self.buffer.capacity() > KEPT {
                self.buffer = Vec::new();
            }
        } else if self.at >= ROOM && self.at * 2 >= self.buffer.len() {
            // Discarding removes at least as many bytes as it moves.
            self.buffer.drain(..self.at);
        } else {
            return;
        }
        self.at = 0;
    }

    /// Returns the next reply, or None if it is incomplete.
    ///
    /// After a decoding error, the next call returns the same reply, so that the caller can read it
    /// without decoding.
    pub(super) fn next<'py>(
        &mut self,
        py: Python<'py>,
        codec: &Codec,
        decode: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            let value = match self.step(py, codec, decode)? {
                Step::Value(value) => value,
                Step::Part => continue,
                Step::Missing => return Ok(None),
            };
            match self.open.last_mut() {
                Some(open) => open.items.push(value.unbind()),
                None => return Ok(Some(value)),
            }
        }
    }

    /// Performs one parsing step.
    #[inline]
    fn step<'py>(&mut self, py: Python<'py>, codec: &Codec, decode: bool) -> PyResult<Step<'py>> {
        if let Some(bytes) = &self.undecodable {
            let value = string(py, codec, decode, bytes.as_bytes(py))?;
            self.undecodable = None;
            return Ok(Step::Value(value));
        }
        if self.long.is_some() {
            return Ok(self.rest(py)?.map_or(Step::Missing, Step::Value));
        }
        let mut rest = &self.buffer[self.at..];
        if let Some(open) = self.open.last_mut() {
            let (items, undecodable) = (&mut open.items, &mut self.undecodable);
            let read: PyResult<()> = self.parser.strings(&mut rest, |bytes| {
                let value = string(py, codec, decode, bytes);
                items.push(kept(py, bytes, value, undecodable)?.unbind());
                Ok(())
            });
            self.at = self.buffer.len() - rest.len();
            read?;
        }
        let event = self.parser.next(&mut rest);
        self.at = self.buffer.len() - rest.len();
        let Some(event) = event.map_err(invalid)? else {
            return Ok(match self.begin_long(py, codec, decode)? {
                true => Step::Part,
                false => Step::Missing,
            });
        };
        Ok(Step::Value(match event {
            Event::Bulk(bytes) | Event::Simple(bytes) | Event::Verbatim { text: bytes, .. } => {
                let value = string(py, codec, decode, bytes);
                kept(py, bytes, value, &mut self.undecodable)?
            }
            Event::Integer(value) => {
                // SAFETY: the argument is a new reference, or null with an exception set.
                unsafe { Bound::from_owned_ptr_or_err(py, codec::number(py, value))? }
            }
            // Reject values without a length, as the Python parser does. Servers do not send them.
            Event::Begin { len: None, .. } | Event::Chunk(_) => {
                return Err(invalid(ReplyError::Malformed(b'*')));
            }
            Event::Begin { kind, .. } => {
                let items = Vec::new();
                self.open.push(Open { kind, items });
                return Ok(Step::Part);
            }
            Event::End(kind) => return self.end(py, kind),
            Event::Null(_) => py.None().into_bound(py),
            Event::Boolean(value) => value.into_pyobject(py)?.to_owned().into_any(),
            Event::Double(value) => PyFloat::new(py, value).into_any(),
            Event::BigNumber(digits) => {
                let value = py
                    .get_type::<PyInt>()
                    .call1((String::from_utf8_lossy(digits),));
                value.map_err(|_| invalid(ReplyError::Malformed(b'(')))?
            }
            Event::Error(text) | Event::BulkError(text) => self
                .error
                .bind(py)
                .call1((String::from_utf8_lossy(text),))?,
        }))
    }

    /// Starts receiving a partial string into its result object if the string is long. Returns
    /// whether the string is long.
    fn begin_long(&mut self, py: Python<'_>, codec: &Codec, decode: bool) -> PyResult<bool> {
        let begun = self.parser.begun_string();
        let Some(length) = begun.filter(|length| LONG.contains(length)) else {
            return Ok(false);
        };
        if decode && codec.decode {
            return Ok(false);
        }
        self.long = Some(Long::new(py, length)?);
        Ok(true)
    }

    /// Returns the long value once its remaining bytes have arrived.
    fn rest<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if let Some(long) = &mut self.long {
            self.at += long.take(py, &self.buffer[self.at..]);
            if long.missing() > 0 {
                return Ok(None);
            }
        }
        match self.buffer[self.at..] {
            [b'\r', b'\n', ..] => {}
            [first, second, ..] => return Err(invalid(ReplyError::LineEnd([first, second]))),
            _ => return Ok(None),
        }
        self.at += 2;
        self.parser.string_taken();
        Ok(self.long.take().map(|long| long.finish(py)))
    }

    /// Completes a collection.
    fn end<'py>(&mut self, py: Python<'py>, kind: Aggregate) -> PyResult<Step<'py>> {
        let items = self.open.pop().map_or_else(Vec::new, |whole| whole.items);
        // Bind the items, so that unneeded items are freed immediately. Unbound items remain in
        // memory until the interpreter lock is next acquired.
        let items: Vec<_> = items.into_iter().map(|item| item.into_bound(py)).collect();
        if kind == Aggregate::Attribute {
            // An attribute describes the next value, and no caller uses it.
            return Ok(Step::Part);
        }
        finish(py, kind, items, self.sets).map(Step::Value)
    }
}

#[inline(always)]
fn string<'py>(
    py: Python<'py>,
    codec: &Codec,
    decode: bool,
    bytes: &[u8],
) -> PyResult<Bound<'py, PyAny>> {
    if !decode {
        return Ok(PyBytes::new(py, bytes).into_any());
    }
    let object = codec.object(py, bytes);
    // SAFETY: `object` is a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, object) }
}

/// Returns a decoded string. After an error, saves its bytes for another attempt.
#[inline(always)]
fn kept<'py>(
    py: Python<'py>,
    bytes: &[u8],
    value: PyResult<Bound<'py, PyAny>>,
    undecodable: &mut Option<Py<PyBytes>>,
) -> PyResult<Bound<'py, PyAny>> {
    if value.is_err() {
        *undecodable = Some(PyBytes::new(py, bytes).unbind());
    }
    value
}

/// Builds the object for a collection of this kind.
fn finish<'py>(
    py: Python<'py>,
    kind: Aggregate,
    items: Vec<Bound<'py, PyAny>>,
    sets: bool,
) -> PyResult<Bound<'py, PyAny>> {
    if kind == Aggregate::Map {
        let map = PyDict::new(py);
        for pair in items.chunks_exact(2) {
            map.set_item(&pair[0], &pair[1])?;
        }
        return Ok(map.into_any());
    }
    if kind == Aggregate::Set && sets {
        // Fall back to a list if an item is unhashable.
        if let Ok(set) = PySet::new(py, &items) {
            return Ok(set.into_any());
        }
    }
    let list = PyList::new(py, items)?;
    if kind == Aggregate::Push {
        return names::push(&list);
    }
    Ok(list.into_any())
}

/// Converts a published message into a dictionary in redis-py's format. Any other reply is returned
/// unchanged.
pub(super) fn published(reply: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let py = reply.py();
    let Ok(items) = reply.cast::<PyList>() else {
        return Ok(reply);
    };
    let Ok(first) = items.get_item(0) else {
        return Ok(reply);
    };
    let kind = match (first.cast::<PyBytes>(), first.cast::<PyString>()) {
        (Ok(bytes), _) => bytes.as_bytes(),
        (_, Ok(text)) => text.to_str()?.as_bytes(),
        _ => return Ok(reply),
    };
    let (kind, is_by_pattern) = match (kind, items.len()) {
        (b"message", 3) => (intern!(py, "message"), false),
        (b"smessage", 3) => (intern!(py, "smessage"), false),
        (b"pmessage", 4) => (intern!(py, "pmessage"), true),
        _ => return Ok(reply),
    };
    let at = usize::from(is_by_pattern);
    let message = PyDict::new(py);
    message.set_item(intern!(py, "type"), kind)?;
    let pattern = is_by_pattern.then(|| items.get_item(1)).transpose()?;
    message.set_item(intern!(py, "pattern"), pattern)?;
    message.set_item(intern!(py, "channel"), items.get_item(1 + at)?)?;
    message.set_item(intern!(py, "data"), items.get_item(2 + at)?)?;
    Ok(message.into_any())
}

#[cold]
fn invalid(error: ReplyError) -> PyErr {
    InvalidResponse::new_err(format!("Protocol Error: {error}"))
}
