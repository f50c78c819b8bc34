//! Hashes whose fields expire. RDB files contain them since Redis 7.4 and Valkey 9, which use the
//! same type bytes for different encodings.
//!
//! ```text
//! Redis, type 22: fields, and for each: expiry, field, value
//! Redis, type 24: earliest expiry (8) | fields, and for each: 0, or 1 + expiry - earliest | field | value
//! Redis, type 23: listpack of fields, values and expiries; type 25: earliest expiry (8) | listpack
//! Valkey, type 22: fields, and for each: field, value, expiry (8), which is -1 if there is none
//! ```
//!
//! Expiries are in Unix milliseconds. Except in Valkey, 0 means that the field does not expire.

use undercroft_numbers::parse_integer;

use super::input::Input;
use crate::structures::ranges::Ranges;

/// The encoding of a hash whose fields can expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiringHash {
    /// Redis' encoding of a large hash. Release candidates of Redis 7.4 wrote each expiry in full.
    Redis {
        /// Whether the earliest expiry precedes the fields.
        has_earliest: bool,
    },
    /// Redis' encoding of a small hash as a listpack.
    RedisListpack {
        /// Whether the earliest expiry precedes the listpack.
        has_earliest: bool,
    },
    /// Valkey's encoding.
    Valkey,
}

/// Decodes a hash whose fields can expire. Returns its alternating fields and values, and for each
/// field the expiry in Unix milliseconds, or `None` if the field does not expire. Returns `None` if
/// the value is malformed or has more bytes than the hash.
pub fn decode_expiring_hash(
    encoding: ExpiringHash,
    body: &[u8],
    limit: usize,
) -> Option<(Ranges, Vec<Option<u64>>)> {
    let mut input = Input::new(body, limit);
    let (mut items, mut expiries) = (Ranges::new(), Vec::new());
    let earliest = match encoding {
        ExpiringHash::Redis { has_earliest: true }
        | ExpiringHash::RedisListpack { has_earliest: true } => u64::from_le_bytes(input.take()?),
        _ => 0,
    };
    match encoding {
        ExpiringHash::Redis { has_earliest } => {
            for _ in 0..input.length()? {
                let expiry = match input.length()? as u64 {
                    0 => None,
                    delta if has_earliest => Some(earliest.checked_add(delta - 1)?),
                    expiry => Some(expiry),
                };
                expiries.push(expiry);
                input.strings(2, &mut items)?;
            }
        }
        ExpiringHash::RedisListpack { .. } => {
            let mut triples = Ranges::new();
            input.listpack(&mut triples)?;
            if !triples.len().is_multiple_of(3) {
                return None;
            }
            for (index, item) in triples.iter().enumerate() {
                match index % 3 {
                    2 => {
                        let expiry = u64::try_from(parse_integer(item)?).ok()?;
                        expiries.push((expiry != 0).then_some(expiry));
                    }
                    _ => items.push(item),
                }
            }
        }
        ExpiringHash::Valkey => {
            for _ in 0..input.length()? {
                input.strings(2, &mut items)?;
                let expiry = i64::from_le_bytes(input.take()?);
                expiries.push(match expiry {
                    -1 => None,
                    expiry => Some(u64::try_from(expiry).ok()?),
                });
            }
        }
    }
    input.is_empty().then_some((items, expiries))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdb_form::Output;

    const LIMIT: usize = 1 << 20;

    fn texts(items: &Ranges) -> Vec<&[u8]> {
        items.iter().collect()
    }

    #[test]
    fn every_encoding_of_expiring_fields_is_decoded() {
        let mut large = Output::default();
        large.length(2);
        for (expiry, field, value) in [(0, "a", "1"), (6, "b", "2")] {
            large.length(expiry);
            large.string(field.as_bytes());
            large.string(value.as_bytes());
        }
        let large = large.into_bytes();
        let with_earliest = [&1000_u64.to_le_bytes()[..], &large].concat();
        let mut small = Output::default();
        small.listpack([&b"a"[..], b"1", b"0", b"b", b"2", b"1005"].into_iter());
        let small = small.into_bytes();
        let small_with_earliest = [&1005_u64.to_le_bytes()[..], &small].concat();
        let mut valkey = Output::default();
        valkey.length(2);
        for (field, value, expiry) in [("a", "1", -1), ("b", "2", 1005_i64)] {
            valkey.string(field.as_bytes());
            valkey.string(value.as_bytes());
            valkey.raw(&expiry.to_le_bytes());
        }
        let valkey = valkey.into_bytes();
        let redis = |has_earliest| ExpiringHash::Redis { has_earliest };
        let listpack = |has_earliest| ExpiringHash::RedisListpack { has_earliest };
        for (encoding, body, second) in [
            (redis(false), &large, 6),
            (redis(true), &with_earliest, 1005),
            (listpack(false), &small, 1005),
            (listpack(true), &small_with_earliest, 1005),
            (ExpiringHash::Valkey, &valkey, 1005),
        ] {
            let (items, expiries) =
                decode_expiring_hash(encoding, body, LIMIT).expect("a sound value");
            assert_eq!(texts(&items), [&b"a"[..], b"1", b"b", b"2"], "{encoding:?}");
            assert_eq!(expiries, [None, Some(second)], "{encoding:?}");
            for length in 0..body.len() {
                let cut = decode_expiring_hash(encoding, &body[..length], LIMIT);
                assert_eq!(cut, None, "{encoding:?} cut to {length} bytes");
            }
            let longer = [&body[..], b"x"].concat();
            assert_eq!(decode_expiring_hash(encoding, &longer, LIMIT), None);
        }
    }
}
