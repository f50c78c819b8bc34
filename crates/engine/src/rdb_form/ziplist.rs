//! Ziplists, the encoding of small collections before Redis 7.0. They are decoded but never
//! written.
//!
//! ```text
//! total bytes (4) | offset of the last entry (4) | entries (2) | length of the previous entry (1 or 5), encoding, data | ... | 0xff
//! ```

use crate::structures::ranges::Ranges;

const HEADER: usize = 10;
const END: u8 = 0xff;
/// The largest value that the header's entry count can hold. If a ziplist has more entries,
/// counting them requires a walk.
const COUNT_MAX: usize = 0xffff;
/// The first byte of a previous entry's length that is stored in the next four bytes.
const LONG_BEFORE: u8 = 0xfe;

/// Appends the entries of a ziplist to `out`. Returns `None` unless the entire ziplist is
/// well-formed.
pub(super) fn read(bytes: &[u8], out: &mut Ranges) -> Option<()> {
    let (header, mut rest) = bytes.split_first_chunk::<HEADER>()?;
    let word = |at: usize| {
        header[at..at + 4]
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    };
    let counted = usize::from(u16::from_le_bytes([header[8], header[9]]));
    if word(0) != bytes.len() {
        return None;
    }
    let (mut count, mut before, mut last) = (0, 0, HEADER);
    while rest != [END] {
        last = bytes.len() - rest.len();
        let (length, behind) = read_before(rest)?;
        if length != before {
            return None;
        }
        let behind = read_entry(behind, out)?;
        before = rest.len() - behind.len();
        rest = behind;
        count += 1;
    }
    let sound = word(4) == last && (counted == count || counted == COUNT_MAX);
    sound.then_some(())
}

/// Reads the length of the previous entry. Returns the length and the rest of the input.
fn read_before(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    match first {
        LONG_BEFORE => {
            let (length, rest) = rest.split_first_chunk()?;
            Some((usize::try_from(u32::from_le_bytes(*length)).ok()?, rest))
        }
        END => None,
        length => Some((length.into(), rest)),
    }
}

fn read_entry<'b>(bytes: &'b [u8], out: &mut Ranges) -> Option<&'b [u8]> {
    let (&first, rest) = bytes.split_first()?;
    let text = |length: usize, rest: &'b [u8], out: &mut Ranges| {
        let (text, rest) = rest.split_at_checked(length)?;
        out.push(text);
        Some(rest)
    };
    let width = match first {
        0..0x40 => return text(first.into(), rest, out),
        0x40..0x80 => {
            let (&low, rest) = rest.split_first()?;
            return text(usize::from(first & 0x3f) << 8 | usize::from(low), rest, out);
        }
        0x80 => {
            let (length, rest) = rest.split_first_chunk()?;
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            return text(length, rest, out);
        }
        0xc0 => 2,
        0xd0 => 4,
        0xe0 => 8,
        0xf0 => 3,
        0xfe => 1,
        0xf1..=0xfd => {
            out.push((first - 0xf1).to_string().as_bytes());
            return Some(rest);
        }
        _ => return None,
    };
    let (data, rest) = rest.split_at_checked(width)?;
    out.push(super::form::signed(data).to_string().as_bytes());
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ziplist_entries_are_read() {
        // The example from the ziplist documentation in the Redis source ("2" and "5"), followed by
        // a text.
        let bytes = b"\x15\0\0\0\x0e\0\0\0\x03\0\0\xf3\x02\xf6\x02\x05Hello\xff";
        let mut bytes = bytes.to_vec();
        bytes[0] = bytes.len() as u8;
        let mut out = Ranges::new();
        assert_eq!(read(&bytes, &mut out), Some(()));
        let all: Vec<&[u8]> = out.iter().collect();
        assert_eq!(all, [&b"2"[..], b"5", b"Hello"]);
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length], &mut Ranges::new()), None, "{length}");
        }
        bytes[4] += 1;
        assert_eq!(read(&bytes, &mut Ranges::new()), None, "another last entry");
    }
}
