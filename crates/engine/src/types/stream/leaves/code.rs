//! Defines the encoding of IDs, names and values in a leaf. A value is encoded relative to a model,
//! which is a prefix of the same field's value in the entry for which the leaf was created.
//!
//! ```text
//! a number: seven bits a byte, the lowest first; all but the last byte have their eighth bit set
//! a text: its length as a number, and its bytes
//! a value, encoded relative to the model's value:
//! | tag 0..=95    a text of that many bytes         |
//! | tag 96..=127  the integer tag - 96              |
//! | tag 128       a text, as above                  |
//! | tag 129..=136 an integer of 1 to 8 bytes        |
//! | tag 137       the model                         |
//! | tag 138..=145 an integer, as the difference from the model's, of 1 to 8 bytes |
//! | tag 146..=255 the first tag - 145 bytes of the model, and a text |
//! ```
//!
//! Only integers in canonical decimal form are encoded as integers, so that decoding restores the
//! exact text.

use undercroft_memory::Fault;
use undercroft_numbers::parse_integer;

const TEXT_MAX: usize = 95;
const SMALL: u8 = 96;
const SMALL_MAX: i64 = 31;
const LONG: u8 = 128;
const INTEGER: u8 = 129;
const MODEL: u8 = 137;
const DISTANCE: u8 = 138;
const SHARED: u8 = 145;
/// The length in bytes of a value with a given tag, including the tag, or [`TEXT`] if a text of
/// variable length follows the tag.
const LENGTHS: [u8; 256] = lengths();
const TEXT: u8 = u8::MAX;
/// The maximum length of the prefix that a value can share with its model, the text relative to
/// which the value is encoded.
pub(in crate::types::stream) const SHARED_MAX: usize = (u8::MAX - SHARED) as usize;

pub(in crate::types::stream) const DAMAGED: Fault = Fault {
    at: 0,
    what: "a stream leaf that its entries fill exactly",
};

const fn lengths() -> [u8; 256] {
    let mut lengths = [0; 256];
    let mut place = 0;
    while place < lengths.len() {
        let tag = place as u8;
        lengths[place] = match tag {
            0..SMALL => tag + 1,
            SMALL..LONG | MODEL => 1,
            LONG => TEXT,
            INTEGER..MODEL => tag - INTEGER + 2,
            DISTANCE..=SHARED => tag - DISTANCE + 2,
            _ => TEXT,
        };
        place += 1;
    }
    lengths
}

/// Appends a number to `out`.
#[inline]
pub(in crate::types::stream) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a text to `out`, preceded by its length.
#[inline]
pub(in crate::types::stream) fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    push_number(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Returns whether two texts are equal. Fast for texts of 4 to 16 bytes, which are compared as two
/// words that can overlap.
#[inline]
pub(in crate::types::stream) fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    if let (4..=8, Some(first), Some(last)) =
        (one.len(), one.first_chunk::<4>(), one.last_chunk::<4>())
    {
        return Some(first) == other.first_chunk() && Some(last) == other.last_chunk();
    }
    if let (8..=16, Some(first), Some(last)) =
        (one.len(), one.first_chunk::<8>(), one.last_chunk::<8>())
    {
        return Some(first) == other.first_chunk() && Some(last) == other.last_chunk();
    }
    one == other
}

/// Returns the minimum number of bytes needed to store a signed integer.
fn width(value: i64) -> usize {
    let bits = 65 - (value ^ value >> 63).leading_zeros();
    bits.div_ceil(8) as usize
}

/// Appends the shortest encoding of a value relative to `model`, a prefix of the same field's value
/// in another entry. Returns the number of bytes that the value occupies in a Redis listpack.
pub(in crate::types::stream) fn push_value(out: &mut Vec<u8>, text: &[u8], model: &[u8]) -> usize {
    let integer = parse_integer(text);
    if is_same(text, model) {
        out.push(MODEL);
    } else {
        push_other(out, (text, integer), model);
    }
    listpack_value(integer, text.len())
}

/// Appends a value that differs from `model`, the text relative to which this field's values are
/// encoded. `integer` is the integer that the text represents, if any.
#[inline]
fn push_other(out: &mut Vec<u8>, (text, integer): (&[u8], Option<i64>), model: &[u8]) {
    if let Some(value) = integer {
        if (0..=SMALL_MAX).contains(&value) {
            return out.push(SMALL + value as u8);
        }
        let distance = parse_integer(model).and_then(|model| value.checked_sub(model));
        let (first, number) = match distance {
            Some(distance) if width(distance) < width(value) => (DISTANCE, distance),
            _ => (INTEGER, value),
        };
        let bytes = width(number);
        if bytes < text.len() {
            out.push(first + bytes as u8 - 1);
            out.extend_from_slice(&number.to_le_bytes()[..bytes]);
            return;
        }
    }
    let both = text.iter().zip(model).take(SHARED_MAX);
    let shared = both.take_while(|(one, other)| one == other).count();
    // A shared prefix requires a length in addition to the tag, so sharing a single byte saves
    // nothing.
    if shared > 1 {
        out.push(SHARED + shared as u8);
        push_text(out, &text[shared..]);
    } else if text.len() <= TEXT_MAX {
        out.push(text.len() as u8);
        out.extend_from_slice(text);
    } else {
        out.push(LONG);
        push_text(out, text);
    }
}

/// Returns the size of a Redis listpack element in bytes, including the length field at its end.
/// `bytes` is the size without the length field.
fn with_length(bytes: usize) -> usize {
    bytes
        + match bytes {
            0..=127 => 1,
            128..16_383 => 2,
            16_383..2_097_151 => 3,
            2_097_151..268_435_455 => 4,
            _ => 5,
        }
}

/// Returns the number of bytes that an integer occupies in a Redis listpack.
pub(in crate::types::stream) fn listpack_number(value: i64) -> usize {
    with_length(match value {
        0..=127 => 1,
        -4096..=4095 => 2,
        -0x8000..=0x7fff => 3,
        -0x80_0000..=0x7f_ffff => 4,
        -0x8000_0000..=0x7fff_ffff => 5,
        _ => 9,
    })
}

/// Returns the number of bytes that a text occupies in a Redis listpack.
pub(in crate::types::stream) fn listpack_text(text: &[u8]) -> usize {
    listpack_value(parse_integer(text), text.len())
}

/// Returns the number of bytes that a text of `length` bytes occupies in a Redis listpack.
/// `integer` is the integer that the text represents, if any.
#[inline]
fn listpack_value(integer: Option<i64>, length: usize) -> usize {
    match (integer, length) {
        (Some(value), _) => listpack_number(value),
        (None, length @ 0..64) => with_length(1 + length),
        (None, length @ 64..4096) => with_length(2 + length),
        (None, length) => with_length(5 + length),
    }
}

/// Decodes the number at an offset. Returns the number and the offset after it.
#[inline(always)]
pub(in crate::types::stream) fn number_at(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    match *bytes.get(at)? {
        byte @ 0..0x80 => Some((byte.into(), at + 1)),
        byte => long_number(bytes, at + 1, byte),
    }
}

/// Decodes a number of several bytes whose first byte has already been read. Returns the number and
/// the offset after it.
fn long_number(bytes: &[u8], at: usize, first: u8) -> Option<(u64, usize)> {
    let mut number = u64::from(first & 0x7f);
    for place in 0..9 {
        let byte = *bytes.get(at + place)?;
        number |= u64::from(byte & 0x7f) << (place * 7 + 7);
        if byte < 0x80 {
            return Some((number, at + place + 1));
        }
    }
    None
}

/// Returns the offset after a value. The caller must verify that this offset is within the bytes,
/// either by reading at the offset or by calling [`end`](Decoder::end).
#[inline(always)]
pub(in crate::types::stream) fn behind_value(bytes: &[u8], at: usize) -> Option<usize> {
    match LENGTHS[usize::from(*bytes.get(at)?)] {
        TEXT => behind_text(bytes, at + 1),
        length => Some(at + usize::from(length)),
    }
}

/// Returns the length of a value in bytes, including its tag, or `None` if the length does not
/// depend on the tag alone.
#[inline(always)]
pub(in crate::types::stream) fn length_of(tag: u8) -> Option<usize> {
    match LENGTHS[usize::from(tag)] {
        TEXT => None,
        length => Some(length.into()),
    }
}

/// Predicts the tag and length of each value from the previous entry, because consecutive entries
/// are usually alike. If the prediction is correct, the processor can locate the next value without
/// waiting for the current one to be loaded.
pub(in crate::types::stream) struct Shape([(u8, usize); SHAPE]);

/// The maximum number of fields for which values are predicted.
const SHAPE: usize = 8;

impl Default for Shape {
    fn default() -> Shape {
        Shape([(0, LENGTHS[0] as usize); SHAPE])
    }
}

impl Shape {
    /// Returns the offset after an entry's values. The entry must have the `fields` fields of the
    /// leaf's model, so that no field names are stored with it.
    #[inline(always)]
    pub(in crate::types::stream) fn behind_values(
        &mut self,
        bytes: &[u8],
        fields: usize,
        mut at: usize,
    ) -> Option<usize> {
        for known in self.0.iter_mut().take(fields) {
            let tag = *bytes.get(at)?;
            if tag != known.0 {
                match LENGTHS[usize::from(tag)] {
                    TEXT => {
                        at = behind_text(bytes, at + 1)?;
                        continue;
                    }
                    length => *known = (tag, length.into()),
                }
            }
            at += known.1;
        }
        for _ in SHAPE..fields {
            at = behind_value(bytes, at)?;
        }
        Some(at)
    }
}

/// Returns the offset after a text.
pub(in crate::types::stream) fn behind_text(bytes: &[u8], at: usize) -> Option<usize> {
    let (length, at) = number_at(bytes, at)?;
    at.checked_add(usize::try_from(length).ok()?)
}

/// A decoder for the bytes of a leaf, which can be damaged or torn.
#[derive(Clone, Copy, Debug)]
pub(in crate::types::stream) struct Decoder<'b> {
    pub(in crate::types::stream) bytes: &'b [u8],
    pub(in crate::types::stream) at: usize,
}

impl<'b> Decoder<'b> {
    pub(in crate::types::stream) fn new(bytes: &'b [u8], at: usize) -> Decoder<'b> {
        Decoder { bytes, at }
    }

    #[inline(always)]
    pub(in crate::types::stream) fn take(&mut self, length: usize) -> Result<&'b [u8], Fault> {
        let end = self.at.checked_add(length).ok_or(DAMAGED)?;
        let taken = self.bytes.get(self.at..end).ok_or(DAMAGED)?;
        self.at = end;
        Ok(taken)
    }

    #[inline(always)]
    pub(in crate::types::stream) fn byte(&mut self) -> Result<u8, Fault> {
        let byte = self.bytes.get(self.at).ok_or(DAMAGED)?;
        self.at += 1;
        Ok(*byte)
    }

    #[inline(always)]
    pub(in crate::types::stream) fn number(&mut self) -> Result<u64, Fault> {
        let (number, end) = number_at(self.bytes, self.at).ok_or(DAMAGED)?;
        self.at = end;
        Ok(number)
    }

    #[inline(always)]
    pub(in crate::types::stream) fn text(&mut self) -> Result<&'b [u8], Fault> {
        let length = usize::try_from(self.number()?).map_err(|_| DAMAGED)?;
        self.take(length)
    }

    fn integer(&mut self, bytes: usize) -> Result<i64, Fault> {
        let taken = self.take(bytes)?;
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(taken);
        let unused = 64 - bytes as u32 * 8;
        Ok((u64::from_le_bytes(word) << unused) as i64 >> unused)
    }

    /// Skips a value without checking that it ends within the bytes; see [`behind_value`].
    #[inline(always)]
    pub(in crate::types::stream) fn skip_value(&mut self) -> Result<(), Fault> {
        self.at = behind_value(self.bytes, self.at).ok_or(DAMAGED)?;
        Ok(())
    }

    /// Returns the current offset. Fails if the offset is past the end of the bytes.
    #[inline(always)]
    pub(in crate::types::stream) fn end(&self) -> Result<usize, Fault> {
        match self.at <= self.bytes.len() {
            true => Ok(self.at),
            false => Err(DAMAGED),
        }
    }

    /// Decodes a value that is encoded relative to `model`, and appends it to `out`.
    #[inline]
    pub(in crate::types::stream) fn append_value(
        &mut self,
        model: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let mut digits = itoa::Buffer::new();
        let tag = self.byte()?;
        match tag {
            0..SMALL => out.extend_from_slice(self.take(usize::from(tag))?),
            SMALL..LONG => out.extend_from_slice(digits.format(tag - SMALL).as_bytes()),
            LONG => out.extend_from_slice(self.text()?),
            INTEGER..MODEL => {
                let value = self.integer(usize::from(tag - INTEGER) + 1)?;
                out.extend_from_slice(digits.format(value).as_bytes());
            }
            MODEL => out.extend_from_slice(model),
            DISTANCE..=SHARED => {
                let distance = self.integer(usize::from(tag - DISTANCE) + 1)?;
                let value = parse_integer(model).and_then(|model| model.checked_add(distance));
                out.extend_from_slice(digits.format(value.ok_or(DAMAGED)?).as_bytes());
            }
            _ => {
                let shared = usize::from(tag - SHARED);
                out.extend_from_slice(model.get(..shared).ok_or(DAMAGED)?);
                out.extend_from_slice(self.text()?);
            }
        }
        Ok(())
    }
}

const _: () =
    assert!(SMALL as usize == TEXT_MAX + 1 && SMALL as i64 + SMALL_MAX + 1 == LONG as i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_same_compares_every_byte() {
        let text: Vec<u8> = (0..20).collect();
        for length in 0..=text.len() {
            let one = &text[..length];
            assert!(is_same(one, one));
            assert!(!is_same(one, &text[..(length + 1) % 21]));
            for place in 0..length {
                let mut other = one.to_vec();
                other[place] ^= 1;
                assert!(!is_same(one, &other), "{length}: {place}");
            }
        }
    }

    #[test]
    fn every_value_round_trips_with_every_model() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut texts: Vec<Vec<u8>> = [0, 1, 2, 95, 96, 109, 110, 111, 127, 128, 300, 70_000]
            .iter()
            .flat_map(|&length| {
                [
                    vec![b'x'; length],
                    [vec![b'x'; length], vec![b'y']].concat(),
                ]
            })
            .collect();
        for value in [0, 31, 32, 127, 128, -1, i64::MAX, i64::MIN] {
            texts.push(value.to_string().into_bytes());
        }
        for _ in 0..100 {
            let value = random.i64(..) >> random.u32(..64);
            texts.push(value.to_string().into_bytes());
            texts.push(format!("user:{}", value % 1000).into_bytes());
        }
        texts.push(b"007".to_vec());
        for model in &texts {
            for text in &texts {
                let (mut bytes, mut out) = (Vec::new(), Vec::new());
                push_value(&mut bytes, text, model);
                assert!(bytes.len() <= text.len() + 1 + usize::from(text.len() > 95) * 3);
                let mut decoder = Decoder::new(&bytes, 0);
                decoder.append_value(model, &mut out).expect("sound");
                assert!(out == *text && decoder.at == bytes.len());
                let mut decoder = Decoder::new(&bytes, 0);
                decoder.skip_value().expect("sound");
                assert_eq!(decoder.end().ok(), Some(bytes.len()));
                let mut decoder = Decoder::new(&bytes[..bytes.len() - 1], 0);
                let cut = decoder.skip_value().and_then(|()| decoder.end());
                assert!(cut.is_err());
            }
        }
    }

    #[test]
    fn numbers_round_trip_and_damaged_bytes_fail() {
        for number in (0..64).flat_map(|shift| [1_u64 << shift, u64::MAX >> shift, 0]) {
            let mut bytes = Vec::new();
            push_number(&mut bytes, number);
            assert_eq!(Decoder::new(&bytes, 0).number().ok(), Some(number));
            let cut = &bytes[..bytes.len() - 1];
            assert!(Decoder::new(cut, 0).number().is_err());
        }
        assert!(Decoder::new(&[0xff; 20], 0).number().is_err());
        for bytes in [
            &[5, 1][..],
            &[LONG, 9],
            &[INTEGER + 7, 1],
            &[DISTANCE, 1],
            &[SHARED + 2, 0],
        ] {
            assert!(
                Decoder::new(bytes, 0)
                    .append_value(b"a", &mut Vec::new())
                    .is_err()
            );
        }
    }
}
