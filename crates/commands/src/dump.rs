//! DUMP payloads, as Redis 7.0 writes and reads them: a value in RDB form, the RDB version, a checksum.
//!
//! ```text
//! type (1) | value | RDB version (2, little-endian) | CRC-64 of all before (8, little-endian)
//! ```
//!
//! A string value is a length and that many bytes, an integer of one, two or four bytes, or an LZF stream. What
//! RESTORE is given is hostile until proven otherwise: every length is checked before memory is taken for it.

use crc::{CRC_64_REDIS, Crc};

use crate::arguments::parse_integer;
use crate::lzf;

/// The RDB version of Redis 7.0: written, and the newest that is read.
const RDB_VERSION: u16 = 10;
const TYPE_STRING: u8 = 0;
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
    let (first, rest) = bytes.split_first()?;
    if first & SPECIAL != SPECIAL {
        let (length, rest) = read_length(bytes)?;
        let value = rest.get(..length)?;
        return (length <= limit).then(|| value.to_vec());
    }
    let number = match first & !SPECIAL {
        INTEGER_8 => i8::from_le_bytes(*rest.first_chunk()?).into(),
        INTEGER_16 => i16::from_le_bytes(*rest.first_chunk()?).into(),
        INTEGER_32 => i32::from_le_bytes(*rest.first_chunk()?),
        LZF => {
            let (compressed, rest) = read_length(rest)?;
            let (length, rest) = read_length(rest)?;
            let stream = rest.get(..compressed)?;
            return if length <= limit {
                lzf::decompress(stream, length)
            } else {
                None
            };
        }
        _ => return None,
    };
    Some(number.to_string().into_bytes())
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
