//! Converts values of any type to and from the RDB format, for DUMP and RESTORE.

use std::hash::{BuildHasher, RandomState};

use crate::rdb_form::payload::{RestoreError, seal, verify};
use crate::rdb_form::{Input, Output};
use crate::structures::bulk::Draft;
use crate::structures::ranges::Ranges;
use crate::types::value_type::{Encoding, ValueType};

/// Returns the DUMP payload of a value whose items are given in the format of
/// [`Entry::append_items`](crate::Entry::append_items). O(value).
pub fn dump(value_type: ValueType, encoding: Encoding, items: &Ranges) -> Vec<u8> {
    let mut out = Output::default();
    value_type.contract().dump(encoding, items, &mut out);
    seal(out.into_bytes())
}

/// Decodes a payload and returns the type and the items of its value. Each string in the value can
/// be at most `limit` bytes long.
///
/// # Errors
/// Returns a [`RestoreError`] if the payload is invalid. A collection that is empty or contains a
/// duplicate element is invalid.
pub fn restore(payload: &[u8], limit: usize) -> Result<(ValueType, Ranges), RestoreError> {
    let body = verify(payload)?;
    value(body, limit).ok_or(RestoreError::BadFormat)
}

fn value(body: &[u8], limit: usize) -> Option<(ValueType, Ranges)> {
    let (&kind, rest) = body.split_first()?;
    let mut types = ValueType::ALL.into_iter();
    let value_type = types.find(|value_type| value_type.contract().rdb_kinds().contains(&kind))?;
    let mut items = Ranges::new();
    let mut input = Input::new(rest, limit);
    value_type
        .contract()
        .restore(kind, &mut input, &mut items)?;
    // Like Redis, accept extra bytes after the value.
    let description = value_type.description();
    let width = description.width;
    let sound = !items.is_empty() && items.len().is_multiple_of(width);
    let unique = !description.unique || differ(items.iter().step_by(width), items.len() / width);
    (sound && unique).then_some((value_type, items))
}

/// Returns whether all `count` texts are distinct. The hash uses a random key, so that a crafted
/// payload cannot force collisions.
fn differ<'t>(texts: impl Iterator<Item = &'t [u8]>, count: usize) -> bool {
    let random = RandomState::new();
    let mut seen = Draft::new([random.hash_one(0), random.hash_one(1)], count);
    seen.add(texts) == count as u64
}

#[cfg(test)]
mod tests {
    use super::*;

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
