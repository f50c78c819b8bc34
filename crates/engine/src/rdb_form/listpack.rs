//! Listpacks, the encoding of small collections in Redis 7.0.
//!
//! ```text
//! total bytes (4) | elements (2) | encoding and data, then their length (1 to 5) | ... | 0xff
//! ```
//!
//! The length after each element allows Redis to iterate backwards. Numbers are little-endian, and
//! texts that are integers are stored as integers.

use undercroft_numbers::parse_integer;

use crate::structures::ranges::Ranges;

const HEADER: usize = 6;
const END: u8 = 0xff;
/// The largest value that the header's element count can hold. If a listpack has more elements,
/// counting them requires a walk.
const COUNT_MAX: usize = 0xffff;
/// The maximum length of an integer's decimal text.
const DIGITS_MAX: usize = 20;

const TEXT_32: u8 = 0xf0;
const INTEGER_16: u8 = 0xf1;
const INTEGER_24: u8 = 0xf2;
const INTEGER_32: u8 = 0xf3;
const INTEGER_64: u8 = 0xf4;

/// Encodes the given texts as a listpack.
pub(super) fn write<'t>(texts: impl Iterator<Item = &'t [u8]>) -> Vec<u8> {
    let mut out = vec![0; HEADER];
    let mut count = 0;
    for text in texts {
        let start = out.len();
        write_element(text, &mut out);
        write_back(out.len() - start, &mut out);
        count += 1;
    }
    out.push(END);
    let (bytes, count) = (out.len() as u32, count.min(COUNT_MAX) as u16);
    out[..4].copy_from_slice(&bytes.to_le_bytes());
    out[4..HEADER].copy_from_slice(&count.to_le_bytes());
    out
}

fn write_element(text: &[u8], out: &mut Vec<u8>) {
    let short = text.len() <= DIGITS_MAX;
    if let Some(value) = short.then(|| parse_integer(text)).flatten() {
        let word = value.to_le_bytes();
        match value {
            0..=127 => out.push(word[0]),
            -4096..=4095 => out.extend([0xc0 | word[1] & 0x1f, word[0]]),
            -0x8000..=0x7fff => {
                out.push(INTEGER_16);
                out.extend(&word[..2]);
            }
            -0x80_0000..=0x7f_ffff => {
                out.push(INTEGER_24);
                out.extend(&word[..3]);
            }
            -0x8000_0000..=0x7fff_ffff => {
                out.push(INTEGER_32);
                out.extend(&word[..4]);
            }
            _ => {
                out.push(INTEGER_64);
                out.extend(word);
            }
        }
        return;
    }
    let length = (text.len() as u32).to_le_bytes();
    match text.len() {
        0..64 => out.push(0x80 | length[0]),
        64..4096 => out.extend([0xe0 | length[1], length[0]]),
        _ => {
            out.push(TEXT_32);
            out.extend(length);
        }
    }
    out.extend(text);
}

/// Appends the length of an element in groups of seven bits, from the highest group to the lowest.
/// All bytes except the first have their eighth bit set.
fn write_back(length: usize, out: &mut Vec<u8>) {
    let groups = back_length(length);
    for group in (0..groups).rev() {
        let bits = (length >> (7 * group)) as u8 & 0x7f;
        out.push(if group + 1 == groups {
            bits
        } else {
            bits | 0x80
        });
    }
}

/// Checks the length after an element, as written by [`write_back`]. Returns the bytes after the
/// length.
fn read_back(length: usize, bytes: &[u8]) -> Option<&[u8]> {
    let groups = back_length(length);
    let (back, rest) = bytes.split_at_checked(groups)?;
    let sound = (0..groups).rev().zip(back).all(|(group, byte)| {
        let more = if group + 1 == groups { 0 } else { 0x80 };
        *byte == (length >> (7 * group)) as u8 & 0x7f | more
    });
    sound.then_some(rest)
}

fn back_length(length: usize) -> usize {
    match length {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// Appends the elements of a listpack to `out`. Returns `None` unless the entire listpack is
/// well-formed.
pub(super) fn read(bytes: &[u8], out: &mut Ranges) -> Option<()> {
    let (header, mut rest) = bytes.split_first_chunk::<HEADER>()?;
    let [a, b, c, d, low, high] = *header;
    if u32::from_le_bytes([a, b, c, d]) as usize != bytes.len() {
        return None;
    }
    let mut count = 0;
    while rest != [END] {
        let before = rest.len();
        rest = read_element(rest, out)?;
        rest = read_back(before - rest.len(), rest)?;
        count += 1;
    }
    let counted = usize::from(u16::from_le_bytes([low, high]));
    (counted == count || counted == COUNT_MAX).then_some(())
}

fn read_element<'b>(bytes: &'b [u8], out: &mut Ranges) -> Option<&'b [u8]> {
    let (&first, rest) = bytes.split_first()?;
    let text = |length: usize, rest: &'b [u8], out: &mut Ranges| {
        let (text, rest) = rest.split_at_checked(length)?;
        out.push(text);
        Some(rest)
    };
    let width = match first {
        0..0x80 => {
            out.push(itoa::Buffer::new().format(first).as_bytes());
            return Some(rest);
        }
        0x80..0xc0 => return text(usize::from(first & 0x3f), rest, out),
        0xc0..0xe0 => {
            let (&low, rest) = rest.split_first()?;
            let bits = u16::from_le_bytes([low, first & 0x1f]);
            let value = ((bits << 3) as i16) >> 3;
            out.push(itoa::Buffer::new().format(value).as_bytes());
            return Some(rest);
        }
        0xe0..0xf0 => {
            let (&low, rest) = rest.split_first()?;
            let length = usize::from(first & 0x0f) << 8 | usize::from(low);
            return text(length, rest, out);
        }
        TEXT_32 => {
            let (length, rest) = rest.split_first_chunk()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            return text(length, rest, out);
        }
        INTEGER_16 => 2,
        INTEGER_24 => 3,
        INTEGER_32 => 4,
        INTEGER_64 => 8,
        _ => return None,
    };
    let (data, rest) = rest.split_at_checked(width)?;
    let value = super::form::signed(data);
    out.push(itoa::Buffer::new().format(value).as_bytes());
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(texts: &[Vec<u8>]) {
        let bytes = write(texts.iter().map(Vec::as_slice));
        let mut out = Ranges::new();
        assert_eq!(read(&bytes, &mut out), Some(()));
        assert!(out.iter().eq(texts.iter().map(Vec::as_slice)), "{texts:?}");
    }

    #[test]
    fn every_listpack_encoding_round_trips() {
        let lengths = [
            0, 1, 63, 64, 127, 4095, 4096, 16_381, 16_382, 70_000, 2_097_149,
        ];
        for length in lengths {
            round_trip(&[vec![b'x'; length], b"7".to_vec(), vec![b'y'; length]]);
        }
        for shift in 0..64 {
            for value in [
                i64::MAX >> shift,
                i64::MIN >> shift,
                (i64::MAX >> shift).wrapping_add(1),
            ] {
                round_trip(&[value.to_string().into_bytes()]);
            }
        }
        round_trip(
            &[127, 128, 4095, 4096, -4096, -4097].map(|value: i32| value.to_string().into()),
        );
        round_trip(&[]);
    }

    #[test]
    fn damaged_listpacks_are_refused() {
        let sound = write([&b"text"[..], b"12345", b"-7"].into_iter());
        for length in 0..sound.len() {
            assert_eq!(read(&sound[..length], &mut Ranges::new()), None, "{length}");
        }
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..100_000 {
            let mut bytes = sound.clone();
            for _ in 0..random.usize(1..4) {
                let place = random.usize(..bytes.len());
                bytes[place] = random.u8(..);
            }
            let mut out = Ranges::new();
            // A damaged listpack can still be valid, but its items must then have a plausible size.
            if read(&bytes, &mut out).is_some() {
                let size: usize = out.iter().map(<[u8]>::len).sum();
                assert!(size <= bytes.len() * 20);
            }
        }
    }
}
