//! Zipmaps, the encoding of small hashes before Redis 2.6. They are decoded but never written.
//!
//! ```text
//! pairs (1) | length (1 or 5) | field | length (1 or 5) | unused (1) | value | unused bytes | ... | 0xff
//! ```
//!
//! The number of pairs is 254 if it does not fit, and a length of 254 is stored in the next four
//! bytes.

use crate::structures::ranges::Ranges;

const END: u8 = 0xff;
/// The largest value that the header's count can hold. If a zipmap has more pairs, counting them
/// requires a walk.
const COUNT_MAX: usize = 254;
/// The first byte of a length that is stored in the next four bytes.
const LONG: u8 = 254;

/// Appends the alternating fields and values of a zipmap to `out`. Returns `None` unless the entire
/// zipmap is well-formed.
pub(super) fn read(bytes: &[u8], out: &mut Ranges) -> Option<()> {
    let (&counted, mut rest) = bytes.split_first()?;
    let mut count = 0;
    while rest != [END] {
        let (length, after) = read_length(rest)?;
        let (field, after) = after.split_at_checked(length)?;
        let (length, after) = read_length(after)?;
        let (&unused, after) = after.split_first()?;
        let (value, after) = after.split_at_checked(length)?;
        let (_, after) = after.split_at_checked(unused.into())?;
        out.push(field);
        out.push(value);
        rest = after;
        count += 1;
    }
    let counted = usize::from(counted);
    (counted == count || counted >= COUNT_MAX).then_some(())
}

fn read_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    match first {
        LONG => {
            let (length, rest) = rest.split_first_chunk()?;
            Some((usize::try_from(u32::from_le_bytes(*length)).ok()?, rest))
        }
        END => None,
        length => Some((length.into(), rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipmap_pairs_are_read() {
        // The example from the zipmap documentation in the Redis source, with two unused bytes and
        // a value of 300 bytes in addition.
        let mut bytes = b"\x03\x03foo\x03\x00bar\x05hello\x05\x02worldxx".to_vec();
        bytes.extend(b"\x01k\xfe\x2c\x01\x00\x00\x00");
        bytes.extend([b'v'; 300]);
        bytes.push(END);
        let mut out = Ranges::new();
        assert_eq!(read(&bytes, &mut out), Some(()));
        let all: Vec<&[u8]> = out.iter().collect();
        let long = [b'v'; 300];
        assert_eq!(all, [&b"foo"[..], b"bar", b"hello", b"world", b"k", &long]);
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length], &mut Ranges::new()), None, "{length}");
        }
        bytes[0] = 2;
        assert_eq!(read(&bytes, &mut Ranges::new()), None, "another count");
    }
}
