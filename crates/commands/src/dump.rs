//! DUMP payloads, as Redis 7.0 writes and reads them: a value in RDB form, the RDB version, a checksum.
//!
//! ```text
//! type (1) | value | RDB version (2, little-endian) | CRC-64 of all before (8, little-endian)
//! ```
//!
//! A string value is a length and that many bytes, an integer of one, two or four bytes, or an LZF stream. A collection
//! is a number of such strings, or one string that is a structure of Redis' memory. What RESTORE is given is hostile
//! until proven otherwise: every length is checked before memory is taken for it.
//!
//! - `listpack`: listpacks, in which Redis 7.0 keeps small collections.
//! - `ziplist`: ziplists, in which Redis before 7.0 kept small collections: read only.

mod listpack;
mod ziplist;

use std::collections::HashSet;

use crc::{CRC_64_REDIS, Crc};
use undercroft_engine::{Encoding, Ranges, ValueType};

use crate::arguments::parse_integer;
use crate::lzf;
use crate::number::double_text;

/// The RDB version of Redis 7.0: written, and the newest that is read.
const RDB_VERSION: u16 = 10;
const TYPE_STRING: u8 = 0;
const TYPE_LIST: u8 = 1;
const TYPE_SET: u8 = 2;
const TYPE_HASH: u8 = 4;
const TYPE_SORTED_SET: u8 = 5;
const TYPE_LIST_ZIPLIST: u8 = 10;
const TYPE_SET_INTSET: u8 = 11;
const TYPE_HASH_ZIPLIST: u8 = 13;
const TYPE_LIST_QUICKLIST: u8 = 14;
const TYPE_HASH_LISTPACK: u8 = 16;
const TYPE_SORTED_SET_LISTPACK: u8 = 17;
const TYPE_LIST_QUICKLIST_2: u8 = 18;
/// A node of a list that is one text, or a listpack.
const NODE_PLAIN: usize = 1;
const NODE_PACKED: usize = 2;
/// Bytes of a node of a list, about, as Redis' default has it.
const NODE_BYTES: usize = 8192;
/// Bytes that the items of one payload may have in all.
const ITEMS_MAX: usize = 2 << 30;
/// Behind the value: version and checksum.
const FOOTER: usize = 10;
/// Strings up to here are not worth compressing.
const LONGEST_UNCOMPRESSED: usize = 20;
/// Strings up to here may hold a number that fits 32 bits.
const LONGEST_INTEGER: usize = 11;

// The two upper bits of a length's first byte, and the special encodings below the fourth of them.
const LENGTH_6: u8 = 0 << 6;
const LENGTH_14: u8 = 1 << 6;
const LENGTH_32: u8 = 0x80;
const LENGTH_64: u8 = 0x81;
const SPECIAL: u8 = 3 << 6;
const INTEGER_8: u8 = 0;
const INTEGER_16: u8 = 1;
const INTEGER_32: u8 = 2;
const LZF: u8 = 3;

static CHECKSUM: Crc<u64> = Crc::<u64>::new(&CRC_64_REDIS);

/// Why a payload is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// Too short, of a newer version, or damaged.
    VersionOrChecksum,
    /// Not a value this store can hold.
    BadFormat,
}

impl RestoreError {
    /// Redis' reply.
    pub fn message(self) -> &'static str {
        match self {
            RestoreError::VersionOrChecksum => "ERR DUMP payload version or checksum are wrong",
            RestoreError::BadFormat => "ERR Bad data format",
        }
    }
}

/// The payload of a string value. O(n) time; at most 20 bytes longer than the value.
pub fn dump_string(value: &[u8]) -> Vec<u8> {
    let mut payload = vec![TYPE_STRING];
    append_string(value, &mut payload);
    seal(payload)
}

/// The payload of a value that is these items, as [`Entry::append_items`](undercroft_engine::Entry::append_items) gives
/// them. O(value).
pub fn dump(value_type: ValueType, encoding: Encoding, items: &Ranges) -> Vec<u8> {
    let mut out = Vec::new();
    match (value_type, encoding) {
        (ValueType::String, _) => {
            out.push(TYPE_STRING);
            append_string(items.iter().next().unwrap_or_default(), &mut out);
        }
        (ValueType::Hash, Encoding::ListPack) => {
            out.push(TYPE_HASH_LISTPACK);
            append_string(&listpack::write(items.iter()), &mut out);
        }
        (ValueType::Hash, _) => append_plain(TYPE_HASH, items.len() / 2, items, &mut out),
        (ValueType::Set, Encoding::IntSet) => {
            out.push(TYPE_SET_INTSET);
            append_string(&intset(items), &mut out);
        }
        (ValueType::Set, _) => append_plain(TYPE_SET, items.len(), items, &mut out),
        (ValueType::SortedSet, Encoding::ListPack) => {
            out.push(TYPE_SORTED_SET_LISTPACK);
            append_string(&listpack::write(items.iter()), &mut out);
        }
        (ValueType::SortedSet, _) => append_scored(items, &mut out),
        (ValueType::List, _) => append_nodes(items, &mut out),
    }
    seal(out)
}

/// A number of elements and all their strings.
fn append_plain(kind: u8, elements: usize, items: &Ranges, out: &mut Vec<u8>) {
    out.push(kind);
    append_length(elements, out);
    items.iter().for_each(|item| append_string(item, out));
}

/// Members, each with its score in eight bytes.
fn append_scored(items: &Ranges, out: &mut Vec<u8>) {
    out.push(TYPE_SORTED_SET);
    append_length(items.len() / 2, out);
    for (index, item) in items.iter().enumerate() {
        if index % 2 == 0 {
            append_string(item, out);
        } else {
            let score = std::str::from_utf8(item)
                .ok()
                .and_then(|text| text.parse().ok());
            out.extend(score.unwrap_or(0_f64).to_le_bytes());
        }
    }
}

/// A list, in nodes of about the size that Redis makes them.
fn append_nodes(items: &Ranges, out: &mut Vec<u8>) {
    let mut nodes: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut packed: Vec<&[u8]> = Vec::new();
    let mut size = 0;
    let close = |packed: &mut Vec<&[u8]>, nodes: &mut Vec<(usize, Vec<u8>)>| {
        if !packed.is_empty() {
            nodes.push((NODE_PACKED, listpack::write(packed.drain(..))));
        }
    };
    for item in items.iter() {
        if size + item.len() > NODE_BYTES {
            close(&mut packed, &mut nodes);
            size = 0;
        }
        if item.len() > NODE_BYTES {
            nodes.push((NODE_PLAIN, item.to_vec()));
        } else {
            packed.push(item);
            size += item.len();
        }
    }
    close(&mut packed, &mut nodes);
    out.push(TYPE_LIST_QUICKLIST_2);
    append_length(nodes.len(), out);
    for (container, node) in nodes {
        append_length(container, out);
        append_string(&node, out);
    }
}

/// Redis' sorted integers: width (4), how many (4), the integers in so many bytes each.
fn intset(items: &Ranges) -> Vec<u8> {
    let mut integers: Vec<i64> = items.iter().filter_map(parse_integer).collect();
    integers.sort_unstable();
    let width = |integer: &i64| match *integer {
        -0x8000..=0x7fff => 2,
        -0x8000_0000..=0x7fff_ffff => 4,
        _ => 8,
    };
    let width = integers.iter().map(width).max().unwrap_or(2);
    let mut out = (width as u32).to_le_bytes().to_vec();
    out.extend((integers.len() as u32).to_le_bytes());
    for integer in integers {
        out.extend(&integer.to_le_bytes()[..width]);
    }
    out
}

/// The integer in a few bytes, little-endian, at most eight.
fn signed(bytes: &[u8]) -> i64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let unused = 64 - 8 * bytes.len() as u32;
    (u64::from_le_bytes(word) << unused) as i64 >> unused
}

/// Adds version and checksum.
fn seal(mut payload: Vec<u8>) -> Vec<u8> {
    payload.extend(RDB_VERSION.to_le_bytes());
    let checksum = CHECKSUM.checksum(&payload);
    payload.extend(checksum.to_le_bytes());
    payload
}

/// The string value in a payload, which may be at most `limit` bytes long.
///
/// # Errors
/// As [`RestoreError`] says; values of other types are refused as bad data.
pub fn restore_string(payload: &[u8], limit: usize) -> Result<Vec<u8>, RestoreError> {
    let body = verify(payload)?;
    let [TYPE_STRING, rest @ ..] = body else {
        return Err(RestoreError::BadFormat);
    };
    // Redis does not mind bytes behind the value, so they are let pass here, too.
    read_string(rest, limit).ok_or(RestoreError::BadFormat)
}

/// The value in a payload: its type and its items. None of its strings may be longer than `limit`.
///
/// # Errors
/// As [`RestoreError`] says. A collection that is empty or has an element twice is refused as bad data.
pub fn restore(payload: &[u8], limit: usize) -> Result<(ValueType, Ranges), RestoreError> {
    let body = verify(payload)?;
    let mut input = Input { rest: body, limit };
    let value = input.value().ok_or(RestoreError::BadFormat)?;
    Ok(value)
}

/// What is left of a payload.
struct Input<'p> {
    rest: &'p [u8],
    limit: usize,
}

impl Input<'_> {
    fn length(&mut self) -> Option<usize> {
        let (length, rest) = read_length(self.rest)?;
        self.rest = rest;
        Some(length)
    }

    fn string(&mut self) -> Option<Vec<u8>> {
        let (string, rest) = read_string_and_rest(self.rest, self.limit)?;
        self.rest = rest;
        Some(string)
    }

    /// So many strings. Each takes a byte at least, so that a false number ends early.
    fn strings(&mut self, count: usize, out: &mut Ranges) -> Option<()> {
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

    fn value(&mut self) -> Option<(ValueType, Ranges)> {
        let (&kind, rest) = self.rest.split_first()?;
        self.rest = rest;
        let mut items = Ranges::new();
        let value_type = match kind {
            TYPE_STRING => {
                items.push(&self.string()?);
                return Some((ValueType::String, items));
            }
            TYPE_HASH => {
                let fields = self.length()?;
                self.strings(fields.checked_mul(2)?, &mut items)?;
                ValueType::Hash
            }
            TYPE_HASH_LISTPACK => {
                listpack::read(&self.string()?, &mut items)?;
                ValueType::Hash
            }
            TYPE_HASH_ZIPLIST => {
                ziplist::read(&self.string()?, &mut items)?;
                ValueType::Hash
            }
            TYPE_SORTED_SET => {
                for _ in 0..self.length()? {
                    self.strings(1, &mut items)?;
                    let (score, rest) = self.rest.split_first_chunk()?;
                    self.rest = rest;
                    items.push(double_text(f64::from_le_bytes(*score)).as_bytes());
                }
                ValueType::SortedSet
            }
            TYPE_SORTED_SET_LISTPACK => {
                listpack::read(&self.string()?, &mut items)?;
                ValueType::SortedSet
            }
            TYPE_SET => {
                let members = self.length()?;
                self.strings(members, &mut items)?;
                ValueType::Set
            }
            TYPE_SET_INTSET => {
                read_intset(&self.string()?, &mut items)?;
                ValueType::Set
            }
            TYPE_LIST => {
                let length = self.length()?;
                self.strings(length, &mut items)?;
                ValueType::List
            }
            TYPE_LIST_ZIPLIST => {
                ziplist::read(&self.string()?, &mut items)?;
                ValueType::List
            }
            TYPE_LIST_QUICKLIST => {
                for _ in 0..self.length()? {
                    ziplist::read(&self.string()?, &mut items)?;
                }
                ValueType::List
            }
            TYPE_LIST_QUICKLIST_2 => {
                for _ in 0..self.length()? {
                    match self.length()? {
                        NODE_PLAIN => items.push(&self.string()?),
                        NODE_PACKED => listpack::read(&self.string()?, &mut items)?,
                        _ => return None,
                    }
                }
                ValueType::List
            }
            _ => return None,
        };
        let width = match value_type {
            ValueType::Hash | ValueType::SortedSet => 2,
            _ => 1,
        };
        let sound = !items.is_empty() && items.len().is_multiple_of(width);
        let scored =
            value_type != ValueType::SortedSet || items.iter().skip(1).step_by(2).all(is_score);
        let unique = value_type == ValueType::List || {
            let mut seen = HashSet::new();
            let mut elements = items.iter().step_by(width);
            elements.all(|element| seen.insert(element))
        };
        (sound && scored && unique).then_some((value_type, items))
    }
}

/// Whether a text is a score, as it is given to the store.
fn is_score(text: &[u8]) -> bool {
    let text = std::str::from_utf8(text).ok();
    let score: Option<f64> = text.and_then(|text| text.parse().ok());
    score.is_some_and(|score| !score.is_nan())
}

fn read_intset(bytes: &[u8], out: &mut Ranges) -> Option<()> {
    let (width, rest) = bytes.split_first_chunk()?;
    let (count, rest) = rest.split_first_chunk()?;
    let width = usize::try_from(u32::from_le_bytes(*width)).ok()?;
    let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
    if !matches!(width, 2 | 4 | 8) || count.checked_mul(width)? != rest.len() {
        return None;
    }
    for integer in rest.chunks(width) {
        out.push(signed(integer).to_string().as_bytes());
    }
    Some(())
}

/// Checks version and checksum; the payload without them.
fn verify(payload: &[u8]) -> Result<&[u8], RestoreError> {
    let wrong = RestoreError::VersionOrChecksum;
    let (body, footer) = payload
        .split_at_checked(payload.len().wrapping_sub(FOOTER))
        .ok_or(wrong)?;
    let [low, high, checksum @ ..] = footer else {
        return Err(wrong);
    };
    let checked = &payload[..body.len() + 2];
    let sound = u16::from_le_bytes([*low, *high]) <= RDB_VERSION
        && *checksum == CHECKSUM.checksum(checked).to_le_bytes();
    if sound { Ok(body) } else { Err(wrong) }
}

fn append_string(value: &[u8], out: &mut Vec<u8>) {
    let short = value.len() <= LONGEST_INTEGER;
    let number = if short { parse_integer(value) } else { None };
    if let Some(number) = number.and_then(|number| i32::try_from(number).ok()) {
        return append_integer(number, out);
    }
    let long = value.len() > LONGEST_UNCOMPRESSED;
    // Not worth it unless four bytes are saved.
    if let Some(stream) = long
        .then(|| lzf::compress(value, value.len() - 4))
        .flatten()
    {
        out.push(SPECIAL | LZF);
        append_length(stream.len(), out);
        append_length(value.len(), out);
        out.extend(stream);
        return;
    }
    append_length(value.len(), out);
    out.extend(value);
}

fn append_integer(number: i32, out: &mut Vec<u8>) {
    if let Ok(number) = i8::try_from(number) {
        out.push(SPECIAL | INTEGER_8);
        out.extend(number.to_le_bytes());
    } else if let Ok(number) = i16::try_from(number) {
        out.push(SPECIAL | INTEGER_16);
        out.extend(number.to_le_bytes());
    } else {
        out.push(SPECIAL | INTEGER_32);
        out.extend(number.to_le_bytes());
    }
}

fn append_length(length: usize, out: &mut Vec<u8>) {
    if length < 1 << 6 {
        out.push(LENGTH_6 | length as u8);
    } else if length < 1 << 14 {
        out.extend([LENGTH_14 | (length >> 8) as u8, length as u8]);
    } else if let Ok(length) = u32::try_from(length) {
        out.push(LENGTH_32);
        out.extend(length.to_be_bytes());
    } else {
        out.push(LENGTH_64);
        out.extend((length as u64).to_be_bytes());
    }
}

fn read_string(bytes: &[u8], limit: usize) -> Option<Vec<u8>> {
    read_string_and_rest(bytes, limit).map(|(string, _)| string)
}

/// A string of at most `limit` bytes, and what is behind it.
fn read_string_and_rest(bytes: &[u8], limit: usize) -> Option<(Vec<u8>, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    if first & SPECIAL != SPECIAL {
        let (length, rest) = read_length(bytes)?;
        let (value, rest) = rest.split_at_checked(length)?;
        return (length <= limit).then(|| (value.to_vec(), rest));
    }
    let width = match first & !SPECIAL {
        INTEGER_8 => 1,
        INTEGER_16 => 2,
        INTEGER_32 => 4,
        LZF => {
            let (compressed, rest) = read_length(rest)?;
            let (length, rest) = read_length(rest)?;
            let (stream, rest) = rest.split_at_checked(compressed)?;
            if length > limit {
                return None;
            }
            return Some((lzf::decompress(stream, length)?, rest));
        }
        _ => return None,
    };
    let (number, rest) = rest.split_at_checked(width)?;
    Some((signed(number).to_string().into_bytes(), rest))
}

/// A plain length and what is behind it.
fn read_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 512 << 20;

    #[test]
    fn the_manuals_payload() {
        // What Redis' manual shows for DUMP after SET mykey 10.
        let payload = b"\x00\xc0\n\n\x00n\x9fWE\x0e\xaec\xbb";
        assert_eq!(dump_string(b"10"), payload);
        assert_eq!(restore_string(payload, LIMIT).as_deref(), Ok(&b"10"[..]));
    }

    #[test]
    fn every_length_encoding_comes_back() {
        let mut random = fastrand::Rng::with_seed(7);
        for length in [0, 1, 11, 12, 20, 21, 63, 64, 16_383, 16_384, 70_000] {
            for letters in [1u8, 3, 255] {
                let value: Vec<u8> = (0..length).map(|_| random.u8(..letters)).collect();
                assert_eq!(restore_string(&dump_string(&value), LIMIT), Ok(value));
            }
        }
    }

    #[test]
    fn damage_is_noticed_anywhere() {
        let payload = dump_string(&b"abcdefg".repeat(20));
        for position in 0..payload.len() {
            let mut damaged = payload.clone();
            damaged[position] ^= 0x10;
            assert_eq!(
                restore_string(&damaged, LIMIT),
                Err(RestoreError::VersionOrChecksum),
                "{position}"
            );
            assert!(
                restore_string(&payload[..position], LIMIT).is_err(),
                "{position}"
            );
        }
    }

    #[test]
    fn sealed_nonsense_is_bad_data() {
        let seal = |body: &[u8]| {
            let mut payload = [body, &RDB_VERSION.to_le_bytes()].concat();
            let checksum = CHECKSUM.checksum(&payload);
            payload.extend(checksum.to_le_bytes());
            restore_string(&payload, 1 << 20)
        };
        let bad = Err(RestoreError::BadFormat);
        assert_eq!(seal(b""), bad);
        assert_eq!(seal(b"\x00\x05abc"), bad, "cut short");
        assert_eq!(seal(b"\x01\x01\x01a"), bad, "a list");
        assert_eq!(
            seal(b"\x00\xc3\x03\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
            bad,
            "a huge length"
        );
        assert_eq!(seal(b"\x00\xc4a"), bad, "an unknown encoding");
        assert_eq!(
            seal(b"\x00\x01abc").as_deref(),
            Ok(&b"a"[..]),
            "bytes behind the value"
        );
        let mut random = fastrand::Rng::with_seed(9);
        for _ in 0..20_000 {
            let mut body: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
            body.insert(0, 0);
            // Any answer will do, as long as there is one.
            assert!(seal(&body).is_ok_and(|value| value.len() <= 1 << 20) || seal(&body) == bad);
        }
    }
}
