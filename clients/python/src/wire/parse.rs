//! Replies of RESP2 and RESP3 as Python objects, from bytes in pieces of any size.

use pyo3::import_exception;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyList, PySet};

use crate::codec::{self, Codec};

use super::long::Long;
use super::names;

import_exception!(redis.exceptions, InvalidResponse);

/// Nothing nests deeper than this in a reply that a server means.
const DEPTH: usize = 512;
/// Room for what the socket has next.
const ROOM: usize = 64 << 10;
/// The most room that is made at once for a value whose length was announced.
const MOST: usize = 16 << 20;
/// A value of so many bytes or more is long, up to the longest that Redis has.
const LONG: std::ops::RangeInclusive<usize> = ROOM..=512 << 20;
/// Room for a part of a long value, which is copied on while it is in the cache.
const PART: usize = 256 << 10;
/// An empty buffer that has grown beyond this is given back.
const KEPT: usize = 1 << 20;

/// A collection that still misses some of its items.
struct Open {
    kind: u8,
    missing: usize,
    items: Vec<Py<PyAny>>,
}

/// Bytes that came, and the replies they hold.
pub(super) struct Replies {
    buffer: Vec<u8>,
    /// Where the next value begins.
    at: usize,
    /// The length at which it is worth looking again.
    wanted: usize,
    /// What the bytes from there on belong to.
    long: Option<Long>,
    open: Vec<Open>,
    error: Py<PyAny>,
    sets: bool,
}

/// What one look at the bytes found.
enum Item<'py> {
    Value(Bound<'py, PyAny>),
    Begin(u8, usize),
    /// Nothing that counts.
    Skip,
}

impl Replies {
    pub(super) fn new(error: Py<PyAny>, sets: bool) -> Replies {
        Replies {
            buffer: Vec::new(),
            at: 0,
            wanted: 0,
            long: None,
            open: Vec::new(),
            error,
            sets,
        }
    }

    pub(super) fn has_data(&self) -> bool {
        self.at < self.buffer.len() || !self.open.is_empty() || self.long.is_some()
    }

    /// Whether the reply that is half read is a message that nobody asked for.
    pub(super) fn is_push(&self) -> bool {
        self.open.first().is_some_and(|open| open.kind == b'>')
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

    /// The buffer, with room behind its bytes.
    pub(super) fn input(&mut self) -> &mut Vec<u8> {
        self.forget();
        let missing = match &self.long {
            Some(long) => long.missing().min(PART),
            None => self.wanted.saturating_sub(self.buffer.len()),
        };
        self.buffer.reserve(missing.clamp(ROOM, MOST));
        &mut self.buffer
    }

    /// Forgets bytes that have been read.
    fn forget(&mut self) {
        if self.at == self.buffer.len() {
            self.buffer.clear();
            if self.buffer.capacity() > KEPT {
                self.buffer = Vec::new();
            }
        } else if self.at >= ROOM && self.at * 2 >= self.buffer.len() {
            // At least as much goes as has to be moved.
            self.buffer.drain(..self.at);
            self.wanted = self.wanted.saturating_sub(self.at);
        } else {
            return;
        }
        self.at = 0;
        if self.buffer.is_empty() {
            self.wanted = 0;
        }
    }

    /// The next reply; None if it has not come as a whole.
    pub(super) fn next<'py>(
        &mut self,
        py: Python<'py>,
        codec: &Codec,
        decode: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.buffer.len() < self.wanted {
            return Ok(None);
        }
        self.wanted = 0;
        loop {
            let item = match self.long {
                Some(_) => self.rest(py).map(Item::Value),
                None => {
                    self.strings(py, codec, decode)?;
                    self.item(py, codec, decode)?
                }
            };
            let Some(item) = item else {
                return Ok(None);
            };
            let mut value = match item {
                Item::Value(value) => value,
                Item::Skip => continue,
                Item::Begin(kind, missing) => {
                    if self.open.len() >= DEPTH {
                        return Err(InvalidResponse::new_err("Protocol Error: nested too deep"));
                    }
                    self.open.push(Open {
                        kind,
                        missing,
                        items: Vec::new(),
                    });
                    continue;
                }
            };
            loop {
                let Some(inner) = self.open.last_mut() else {
                    return Ok(Some(value));
                };
                inner.items.push(value.unbind());
                inner.missing -= 1;
                if inner.missing > 0 {
                    break;
                }
                let Some(whole) = self.open.pop() else {
                    break;
                };
                let items = bound(py, whole.items);
                if whole.kind == b'|' {
                    // Nobody has asked for what it says about the next value.
                    break;
                }
                value = finish(py, whole.kind, items, self.sets)?;
            }
        }
    }

    /// The long value, once the rest of it has come.
    fn rest<'py>(&mut self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        let long = self.long.as_mut()?;
        self.at += long.take(py, &self.buffer[self.at..]);
        if long.missing() > 0 || self.buffer.len() < self.at + 2 {
            return None;
        }
        self.at += 2;
        self.long.take().map(|long| long.finish(py))
    }

    /// Reads what most of what comes is: short strings of an array, as far as they are there
    /// and not the last of it.
    #[inline]
    fn strings(&mut self, py: Python<'_>, codec: &Codec, decode: bool) -> PyResult<()> {
        let Some(array) = self.open.last_mut() else {
            return Ok(());
        };
        while array.missing > 1 {
            let rest = &self.buffer[self.at..];
            let Some((begin, end)) = short_string(rest) else {
                break;
            };
            let value = string(py, codec, decode, &rest[begin..end])?;
            array.items.push(value.unbind());
            array.missing -= 1;
            self.at += end + 2;
        }
        Ok(())
    }

    /// Reads one item and goes behind it; None if it has not come as a whole.
    #[inline]
    fn item<'py>(
        &mut self,
        py: Python<'py>,
        codec: &Codec,
        decode: bool,
    ) -> PyResult<Option<Item<'py>>> {
        let Some((line, behind)) = line(&self.buffer, self.at) else {
            return Ok(None);
        };
        let Some((&kind, text)) = line.split_first() else {
            return Err(invalid(line));
        };
        let mut next = behind;
        let value = match kind {
            b'$' | b'=' | b'!' => {
                let length = number(text).ok_or_else(|| invalid(line))?;
                match usize::try_from(length) {
                    Err(_) => none(py),
                    Ok(length) => {
                        let end = behind.saturating_add(length);
                        if end.saturating_add(2) > self.buffer.len() {
                            let raw = kind == b'$' && !(decode && codec.decode);
                            if raw && LONG.contains(&length) {
                                let mut long = Long::new(py, length)?;
                                self.at = behind + long.take(py, &self.buffer[behind..]);
                                self.long = Some(long);
                                return Ok(None);
                            }
                            self.wanted = end.saturating_add(2);
                            return Ok(None);
                        }
                        next = end + 2;
                        let bytes = &self.buffer[behind..end];
                        match kind {
                            b'$' => string(py, codec, decode, bytes)?,
                            b'=' => string(py, codec, decode, bytes.get(4..).unwrap_or(b""))?,
                            _ => self.error(py, bytes)?,
                        }
                    }
                }
            }
            b':' => {
                let value = number(text).ok_or_else(|| invalid(line))?;
                // SAFETY: a new reference, or null with an exception set.
                unsafe { Bound::from_owned_ptr_or_err(py, codec::number(py, value))? }
            }
            b'+' => string(py, codec, decode, text)?,
            b'-' => self.error(py, text)?,
            b'*' | b'~' | b'%' | b'>' | b'|' => {
                let length = number(text).ok_or_else(|| invalid(line))?;
                self.at = behind;
                let length = match usize::try_from(length) {
                    Err(_) => return Ok(Some(Item::Value(none(py)))),
                    Ok(length) if kind == b'%' || kind == b'|' => length.saturating_mul(2),
                    Ok(length) => length,
                };
                return Ok(Some(match (kind, length) {
                    (b'|', 0) => Item::Skip,
                    (_, 0) => Item::Value(finish(py, kind, Vec::new(), self.sets)?),
                    _ => Item::Begin(kind, length),
                }));
            }
            b'_' => none(py),
            b'#' => (text == b"t").into_pyobject(py)?.to_owned().into_any(),
            b',' => {
                let value = std::str::from_utf8(text).ok();
                let value: Option<f64> = value.and_then(|text| text.parse().ok());
                PyFloat::new(py, value.ok_or_else(|| invalid(line))?).into_any()
            }
            b'(' => {
                let text = std::str::from_utf8(text).map_err(|_| invalid(line))?;
                let int = py.get_type::<pyo3::types::PyInt>();
                int.call1((text,)).map_err(|_| invalid(line))?
            }
            _ => return Err(invalid(line)),
        };
        self.at = next;
        Ok(Some(Item::Value(value)))
    }

    #[cold]
    fn error<'py>(&self, py: Python<'py>, text: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        self.error.bind(py).call1((String::from_utf8_lossy(text),))
    }
}

/// The line that begins here without its end, and where the next one begins.
#[inline(always)]
fn line(buffer: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = &buffer[at..];
    let mut from = 0;
    loop {
        let end = from + memchr::memchr(b'\r', &rest[from..])?;
        match rest.get(end + 1) {
            None => return None,
            Some(b'\n') => return Some((&rest[..end], at + end + 2)),
            Some(_) => from = end + 1,
        }
    }
}

/// Where a string of up to four digits of bytes lies, if there is one and it is here as a whole.
#[inline(always)]
fn short_string(bytes: &[u8]) -> Option<(usize, usize)> {
    let [b'$', line @ ..] = bytes else {
        return None;
    };
    let mut length = 0;
    for (digits, byte) in line.iter().take(5).enumerate() {
        match byte {
            b'0'..=b'9' => length = length * 10 + usize::from(byte - b'0'),
            b'\r' if digits > 0 && line.get(digits + 1) == Some(&b'\n') => {
                let begin = digits + 3;
                let end = begin + length;
                return (end + 2 <= bytes.len()).then_some((begin, end));
            }
            _ => return None,
        }
    }
    None
}

/// A decimal number with an optional sign; None where it is none or is too large.
#[inline(always)]
fn number(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_i64;
    for digit in digits {
        let digit = i64::from(digit.wrapping_sub(b'0'));
        if digit > 9 {
            return None;
        }
        // Towards the negative, which reaches one further.
        value = value.checked_mul(10)?.checked_sub(digit)?;
    }
    if negative {
        Some(value)
    } else {
        value.checked_neg()
    }
}

fn none(py: Python<'_>) -> Bound<'_, PyAny> {
    py.None().into_bound(py)
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
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, object) }
}

/// Items that are dropped at once where they are not wanted: those that are not bound to the
/// interpreter's lock would be kept until it is taken anew.
fn bound<'py>(py: Python<'py>, items: Vec<Py<PyAny>>) -> Vec<Bound<'py, PyAny>> {
    items.into_iter().map(|item| item.into_bound(py)).collect()
}

/// What the items of a collection of this kind are.
fn finish<'py>(
    py: Python<'py>,
    kind: u8,
    items: Vec<Bound<'py, PyAny>>,
    sets: bool,
) -> PyResult<Bound<'py, PyAny>> {
    if kind == b'%' {
        let map = PyDict::new(py);
        for pair in items.chunks_exact(2) {
            map.set_item(&pair[0], &pair[1])?;
        }
        return Ok(map.into_any());
    }
    if kind == b'~' && sets {
        // An item may have no hash.
        if let Ok(set) = PySet::new(py, &items) {
            return Ok(set.into_any());
        }
    }
    let list = PyList::new(py, items)?;
    if kind == b'>' {
        return names::push(&list);
    }
    Ok(list.into_any())
}

#[cold]
fn invalid(line: &[u8]) -> PyErr {
    Python::attach(|py| match PyBytes::new(py, line).repr() {
        Ok(shown) => InvalidResponse::new_err(format!("Protocol Error: {shown}")),
        Err(error) => error,
    })
}
