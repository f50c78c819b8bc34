//! Decodes values in the RDB format. Payloads are untrusted, so every length is checked before
//! memory is allocated for it.

use std::borrow::Cow;
use std::io::Write;

use super::form::{
    INTEGER_8, INTEGER_16, INTEGER_32, LENGTH_6, LENGTH_14, LENGTH_32, LENGTH_64, LZF, SPECIAL,
    signed,
};
use super::{listpack, lzf, ziplist, zipmap};
use crate::structures::ranges::Ranges;

/// The maximum total size in bytes of all items in a payload.
const ITEMS_MAX: usize = 2 << 30;

/// The unread rest of a payload. All methods return `None` for malformed input.
#[derive(Debug)]
pub(crate) struct Input<'p> {
    rest: &'p [u8],
    /// The maximum length in bytes of a string in the payload.
    limit: usize,
}

impl<'p> Input<'p> {
    pub(crate) fn new(rest: &'p [u8], limit: usize) -> Self {
        Input { rest, limit }
    }

    /// Reads the next `N` raw bytes.
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*bytes)
    }

    /// Reads an encoded length.
    pub(crate) fn length(&mut self) -> Option<usize> {
        let (length, rest) = length(self.rest)?;
        self.rest = rest;
        Some(length)
    }

    /// Reads an encoded string. The result borrows from the payload unless the string is stored as
    /// an integer or compressed.
    pub(crate) fn string(&mut self) -> Option<Cow<'p, [u8]>> {
        let (string, rest) = string(self.rest, self.limit)?;
        self.rest = rest;
        Some(string)
    }

    /// Like [`string`](Self::string), but appends a string that does not borrow from the payload to
    /// `out`, and returns `Some(None)` for it.
    pub(crate) fn string_onto(&mut self, out: &mut Vec<u8>) -> Option<Option<&'p [u8]>> {
        let (string, rest) = string_onto(self.rest, self.limit, out)?;
        self.rest = rest;
        Some(string)
    }

    /// Reads `count` strings. Each string occupies at least one byte, so a wrong `count` fails
    /// early.
    pub(crate) fn strings(&mut self, count: usize, out: &mut Ranges) -> Option<()> {
        let mut size = 0_usize;
        for _ in 0..count {
            let string = self.string()?;
            size = size.saturating_add(string.len());
            if size > ITEMS_MAX {
                return None;
            }
            out.push(&string);
        }
        Some(())
    }

    /// Reads a listpack and appends its items to `out`.
    pub(crate) fn listpack(&mut self, out: &mut Ranges) -> Option<()> {
        listpack::read(&self.string()?, out)
    }

    /// Reads a ziplist and appends its items to `out`.
    pub(crate) fn ziplist(&mut self, out: &mut Ranges) -> Option<()> {
        ziplist::read(&self.string()?, out)
    }

    /// Reads a zipmap and appends its alternating fields and values to `out`.
    pub(crate) fn zipmap(&mut self, out: &mut Ranges) -> Option<()> {
        zipmap::read(&self.string()?, out)
    }

    /// Returns whether the entire input has been read.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the unread rest.
    pub(crate) fn rest(&self) -> &'p [u8] {
        self.rest
    }

    /// Reads the next `count` raw bytes.
    pub(crate) fn raw(&mut self, count: usize) -> Option<&'p [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(bytes)
    }
}

/// Reads an encoded string of at most `limit` bytes. Returns the string and the rest of the input.
fn string(bytes: &[u8], limit: usize) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let mut decoded = Vec::new();
    let (string, rest) = string_onto(bytes, limit, &mut decoded)?;
    Some((string.map_or(decoded.into(), Cow::Borrowed), rest))
}

/// Like [`string`], but appends a string that is stored as an integer or compressed to `out`, and
/// returns `None` for it. `out` ends with anything if the string is malformed.
fn string_onto<'b>(
    bytes: &'b [u8],
    limit: usize,
    out: &mut Vec<u8>,
) -> Option<(Option<&'b [u8]>, &'b [u8])> {
    let (first, rest) = bytes.split_first()?;
    if first & SPECIAL != SPECIAL {
        let (length, rest) = length(bytes)?;
        let (value, rest) = rest.split_at_checked(length)?;
        return (length <= limit).then_some((Some(value), rest));
    }
    let width = match first & !SPECIAL {
        INTEGER_8 => 1,
        INTEGER_16 => 2,
        INTEGER_32 => 4,
        LZF => {
            let (compressed, rest) = length(rest)?;
            let (length, rest) = length(rest)?;
            let (stream, rest) = rest.split_at_checked(compressed)?;
            if length > limit {
                return None;
            }
            lzf::decompress(stream, length, out)?;
            return Some((None, rest));
        }
        _ => return None,
    };
    let (number, rest) = rest.split_at_checked(width)?;
    // Writing to memory does not fail.
    let _ = write!(out, "{}", signed(number));
    Some((None, rest))
}

/// Reads an encoded length. Returns the length and the rest of the input.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (length, rest) = match first {
        LENGTH_32 => {
            let (length, rest) = rest.split_first_chunk()?;
            (u32::from_be_bytes(*length).into(), rest)
        }
        LENGTH_64 => {
            let (length, rest) = rest.split_first_chunk()?;
            (u64::from_be_bytes(*length), rest)
        }
        _ if first & SPECIAL == LENGTH_6 => (first.into(), rest),
        _ if first & SPECIAL == LENGTH_14 => {
            let (low, rest) = rest.split_first()?;
            (u64::from(first & !SPECIAL) << 8 | u64::from(*low), rest)
        }
        _ => return None,
    };
    Some((usize::try_from(length).ok()?, rest))
}
