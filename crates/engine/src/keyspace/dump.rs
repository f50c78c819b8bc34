//! Converts values of any type to and from the RDB format, for DUMP and RESTORE, and for RDB files.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use smallvec::SmallVec;

use crate::rdb_form::payload::{RestoreError, seal_as, verify};
use crate::rdb_form::{Input, Output, RdbVersion};
use crate::structures::bulk::Draft;
use crate::structures::ranges::Ranges;
use crate::types::value_type::{Encoding, ValueType};

/// The maximum number of texts that are compared with each other to find duplicates.
const COMPARED_MAX: usize = 12;

/// Returns the DUMP payload of a value whose items are given in the format of
/// [`Entry::append_items`](crate::Entry::append_items). O(value).
pub fn dump(value_type: ValueType, encoding: Encoding, items: &Ranges) -> Vec<u8> {
    dump_as(RdbVersion::V10, value_type, encoding, items)
}

/// Returns the payload of a value like [`dump`], in a version that a server may understand which does not
/// understand that of DUMP. O(value).
pub fn dump_as(
    version: RdbVersion,
    value_type: ValueType,
    encoding: Encoding,
    items: &Ranges,
) -> Vec<u8> {
    let mut out = Output::default();
    value_type
        .contract()
        .dump(encoding, items, version, &mut out);
    seal_as(out.into_bytes(), version as u16)
}

/// Decodes a payload and returns the type and the items of its value. Each string in the value can
/// be at most `limit` bytes long.
///
/// # Errors
/// Returns a [`RestoreError`] if the payload is invalid. A collection that is empty or contains a
/// duplicate element is invalid.
pub fn restore(payload: &[u8], limit: usize) -> Result<(ValueType, Ranges), RestoreError> {
    let body = verify(payload)?;
    let bad = RestoreError::BadFormat;
    let (&kind, rest) = body.split_first().ok_or(bad)?;
    let mut items = Ranges::new();
    // Like Redis, accept extra bytes after the value.
    let (value_type, _) = value(kind, rest, limit, &mut items).ok_or(bad)?;
    if items.is_empty() {
        return Err(bad);
    }
    Ok((value_type, items))
}

/// Decodes a value of an RDB file into `items`, which is empty or contains an earlier value. `kind`
/// is the value's type byte, and `body` its remaining bytes. Returns the type, or `None` if the
/// value is malformed, contains a duplicate element, or is shorter than `body`. A collection without
/// elements is accepted, because some versions of Redis wrote them.
pub fn decode(kind: u8, body: &[u8], limit: usize, items: &mut Ranges) -> Option<ValueType> {
    items.clear();
    let (value_type, rest) = value(kind, body, limit, items)?;
    rest.is_empty().then_some(value_type)
}

/// Decodes a string of an RDB file, which consists of exactly `bytes`. Returns `None` if it is
/// malformed or longer than `limit` bytes.
pub fn decode_string(bytes: &[u8], limit: usize) -> Option<Cow<'_, [u8]>> {
    let mut input = Input::new(bytes, limit);
    let string = input.string()?;
    input.is_empty().then_some(string)
}

/// A string of an RDB file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodedString<'b> {
    /// The file contains the string as it is.
    Stored(&'b [u8]),
    /// The string was decoded to this range of a buffer.
    Decoded(Range<usize>),
}

/// Like [`decode_string`], but decodes a string that the file contains in another form to the end of
/// `out`, so that many strings share one buffer. `out` ends with anything if the string is malformed.
pub fn decode_string_onto<'b>(
    bytes: &'b [u8],
    limit: usize,
    out: &mut Vec<u8>,
) -> Option<DecodedString<'b>> {
    let start = out.len();
    let mut input = Input::new(bytes, limit);
    let string = input.string_onto(out)?;
    let decoded = string.map_or(
        DecodedString::Decoded(start..out.len()),
        DecodedString::Stored,
    );
    input.is_empty().then_some(decoded)
}

/// Appends a value to `out` as RDB files contain it: its type byte and its bytes, which the name of
/// its key separates in a file. The items are in the format of
/// [`Entry::append_items`](crate::Entry::append_items). O(value).
pub fn encode(
    (value_type, encoding): (ValueType, Encoding),
    items: &Ranges,
    version: RdbVersion,
    out: &mut Vec<u8>,
) {
    let mut output = Output::appending_to(std::mem::take(out));
    value_type
        .contract()
        .dump(encoding, items, version, &mut output);
    *out = output.into_bytes();
}

/// Appends a string to `out` as an RDB file contains it.
pub fn encode_string(string: &[u8], out: &mut Vec<u8>) {
    let mut output = Output::appending_to(std::mem::take(out));
    output.string(string);
    *out = output.into_bytes();
}

/// Appends a length to `out` as an RDB file contains it.
pub fn encode_length(length: u64, out: &mut Vec<u8>) {
    let mut output = Output::appending_to(std::mem::take(out));
    output.length(length as usize);
    *out = output.into_bytes();
}

/// Decodes a value into `items`. Returns its type and the bytes after it.
fn value<'b>(
    kind: u8,
    body: &'b [u8],
    limit: usize,
    items: &mut Ranges,
) -> Option<(ValueType, &'b [u8])> {
    let mut types = ValueType::ALL.into_iter();
    let value_type = types.find(|value_type| value_type.contract().rdb_kinds().contains(&kind))?;
    let mut input = Input::new(body, limit);
    value_type.contract().restore(kind, &mut input, items)?;
    let description = value_type.description();
    let width = description.width;
    let unique = !description.unique || differ(items.iter().step_by(width), items.len() / width);
    let sound = items.len().is_multiple_of(width) && unique;
    sound.then_some((value_type, input.rest()))
}

/// Returns whether all `count` texts are distinct. The hash uses a random key, so that a crafted
/// payload cannot force collisions.
fn differ<'t>(texts: impl Iterator<Item = &'t [u8]>, count: usize) -> bool {
    // Comparing a few texts with each other is faster than hashing them.
    if count <= COMPARED_MAX {
        let texts: SmallVec<[&[u8]; COMPARED_MAX]> = texts.collect();
        let mut rest = &texts[..];
        while let [first, after @ ..] = rest {
            if after.contains(first) {
                return false;
            }
            rest = after;
        }
        return true;
    }
    let random = RandomState::new();
    let mut seen = Draft::new([random.hash_one(0), random.hash_one(1)], count);
    seen.add(texts) == count as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdb_form::payload::seal;

    const LIMIT: usize = 512 << 20;

    fn dump_string(value: &[u8]) -> Vec<u8> {
        let mut items = Ranges::new();
        items.push(value);
        dump(ValueType::String, Encoding::Raw, &items)
    }

    fn restore_string(payload: &[u8], limit: usize) -> Result<Vec<u8>, RestoreError> {
        let (value_type, items) = restore(payload, limit)?;
        assert_eq!((value_type, items.len()), (ValueType::String, 1));
        Ok(items.iter().next().unwrap_or_default().to_vec())
    }

    #[test]
    fn example_payload_of_the_redis_manual_round_trips() {
        // The example payload from the DUMP page of the Redis manual, for the value 10.
        let payload = b"\x00\xc0\n\n\x00n\x9fWE\x0e\xaec\xbb";
        assert_eq!(dump_string(b"10"), payload);
        assert_eq!(restore_string(payload, LIMIT).as_deref(), Ok(&b"10"[..]));
    }

    #[test]
    fn encodings_of_old_and_new_servers_are_decoded() {
        let ziplist = b"\x13\x13\0\0\0\x0d\0\0\0\x02\0\0\x01m\x03\x03125\xff";
        let listpack = b"\x0c\x0c\0\0\0\x02\0\x81a\x02\x07\x01\xff";
        let cases: [(u8, &[u8], ValueType, &[&str]); 7] = [
            (
                3,
                b"\x03\x01a\x031.5\x01b\xfe\x01c\xff",
                ValueType::SortedSet,
                &["a", "1.5", "b", "inf", "c", "-inf"],
            ),
            (9, b"\x07\x01\x01f\x01\0v\xff", ValueType::Hash, &["f", "v"]),
            (12, ziplist, ValueType::SortedSet, &["m", "125"]),
            (13, ziplist, ValueType::Hash, &["m", "125"]),
            (10, ziplist, ValueType::List, &["m", "125"]),
            (20, listpack, ValueType::Set, &["a", "7"]),
            (16, listpack, ValueType::Hash, &["a", "7"]),
        ];
        let mut items = Ranges::new();
        for (kind, body, value_type, expected) in cases {
            let found = decode(kind, body, LIMIT, &mut items);
            assert_eq!(found, Some(value_type), "type {kind}");
            let texts: Vec<&[u8]> = items.iter().collect();
            let expected: Vec<&[u8]> = expected.iter().map(|text| text.as_bytes()).collect();
            assert_eq!(texts, expected, "type {kind}");
        }
        let twice = b"\x02\x01a\x01a";
        assert_eq!(decode(2, twice, LIMIT, &mut items), None, "a duplicate");
        let not_a_number = b"\x01\x01a\xfd";
        assert_eq!(decode(3, not_a_number, LIMIT, &mut items), None, "NaN");
        let empty = decode(4, b"\x00", LIMIT, &mut items);
        assert_eq!((empty, items.len()), (Some(ValueType::Hash), 0));
    }

    #[test]
    fn every_length_encoding_round_trips() {
        let mut random = fastrand::Rng::with_seed(7);
        for length in [0, 1, 11, 12, 20, 21, 63, 64, 16_383, 16_384, 70_000] {
            for letters in [1u8, 3, 255] {
                let value: Vec<u8> = (0..length).map(|_| random.u8(..letters)).collect();
                assert_eq!(restore_string(&dump_string(&value), LIMIT), Ok(value));
            }
        }
    }

    #[test]
    fn damage_is_detected_at_every_position() {
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
    fn malformed_values_with_valid_checksum_are_bad_data() {
        let seal = |body: &[u8]| restore_string(&seal(body.to_vec()), 1 << 20);
        let bad = Err(RestoreError::BadFormat);
        assert_eq!(seal(b""), bad);
        assert_eq!(seal(b"\x00\x05abc"), bad, "cut short");
        assert_eq!(
            seal(b"\x00\xc3\x03\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
            bad,
            "a huge length"
        );
        assert_eq!(seal(b"\x00\xc4a"), bad, "an unknown encoding");
        assert_eq!(
            seal(b"\x00\x01abc").as_deref(),
            Ok(&b"a"[..]),
            "bytes after the value"
        );
        let mut random = fastrand::Rng::with_seed(9);
        for _ in 0..20_000 {
            let mut body: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
            body.insert(0, 0);
            // Random data may be accepted or rejected, but must not cause a panic.
            assert!(seal(&body).is_ok_and(|value| value.len() <= 1 << 20) || seal(&body) == bad);
        }
    }
}
