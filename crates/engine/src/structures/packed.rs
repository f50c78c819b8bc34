//! Packed collections: the items of a small collection, stored consecutively in one byte string.
//!
//! ```text
//! | tag | bytes of the item |
//!
//! tag 0..=191    a text with this length
//! tag 192..=199  an integer of 1 to 8 bytes, little-endian
//! tag 200        a text whose length is in the next 4 bytes
//! tag 208..=255  the integer tag - 208, without further bytes
//! ```
//!
//! A text that is the decimal form of an integer is stored as that integer. Each text has exactly
//! one encoded form, so two texts are equal if and only if their forms are equal.

use std::ops::Range;

use undercroft_memory::{Fault, work};
use undercroft_numbers::parse_integer;

const SHORT_MAX: usize = 191;
const INTEGER: u8 = 192;
const LONG: u8 = 200;
const SMALL: u8 = 208;
const SMALL_MAX: i64 = (u8::MAX - SMALL) as i64;
/// The maximum number of bytes by which the packed form of a text is longer than the text.
const OVERHEAD_MAX: usize = 5;

/// One decoded item of a packed collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackedItem<'p> {
    Text(&'p [u8]),
    Integer(i64),
}

impl PackedItem<'_> {
    /// Appends the item's text to `out`.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        match *self {
            PackedItem::Text(text) => out.extend_from_slice(text),
            PackedItem::Integer(value) => {
                out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
            }
        }
    }

    /// Returns the length of the item's text in bytes.
    pub(crate) fn length(&self) -> usize {
        match *self {
            PackedItem::Text(text) => text.len(),
            PackedItem::Integer(value) => itoa::Buffer::new().format(value).len(),
        }
    }
}

/// Appends an item to a packed collection. The item is stored as an integer if its text is the
/// decimal form of an integer.
pub(crate) fn push(out: &mut Vec<u8>, text: &[u8]) {
    match parse_integer(text) {
        Some(value) => push_integer(out, value),
        None => push_text(out, text),
    }
}

/// Appends an integer to a packed collection.
pub(crate) fn push_integer(out: &mut Vec<u8>, value: i64) {
    if (0..=SMALL_MAX).contains(&value) {
        out.push(SMALL + value as u8);
        return;
    }
    // The sign takes one bit in addition to the bits of the value.
    let bits = 65 - (value ^ value >> 63).leading_zeros();
    let bytes = bits.div_ceil(8) as usize;
    out.push(INTEGER + bytes as u8 - 1);
    out.extend_from_slice(&value.to_le_bytes()[..bytes]);
}

/// Appends an item that is stored as a text, even if it is the decimal form of an integer.
pub(crate) fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    if text.len() <= SHORT_MAX {
        out.push(text.len() as u8);
    } else {
        out.push(LONG);
        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    }
    out.extend_from_slice(text);
}

/// An iterator over the items of a packed collection.
pub(crate) struct PackedItems<'p> {
    rest: &'p [u8],
}

/// Iterates over the items in `bytes`. If the bytes are damaged, the last result is a fault.
pub(crate) fn items(bytes: &[u8]) -> PackedItems<'_> {
    PackedItems { rest: bytes }
}

impl<'p> PackedItems<'p> {
    /// Returns the bytes after the items that the iterator has returned.
    pub(crate) fn rest(&self) -> &'p [u8] {
        self.rest
    }

    fn take(&mut self, bytes: usize) -> Result<&'p [u8], Fault> {
        work::touched(bytes as u64 / 8 + 1);
        match self.rest.split_at_checked(bytes) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(DAMAGED),
        }
    }

    fn read(&mut self, tag: u8) -> Result<PackedItem<'p>, Fault> {
        Ok(match tag {
            SMALL.. => PackedItem::Integer(i64::from(tag - SMALL)),
            INTEGER..LONG => {
                let bytes = self.take(usize::from(tag - INTEGER) + 1)?;
                let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
                let mut word = [if negative { 0xff } else { 0 }; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                PackedItem::Integer(i64::from_le_bytes(word))
            }
            LONG => {
                let length = self.take(4)?;
                let length = length
                    .iter()
                    .rev()
                    .fold(0, |sum, &byte| sum << 8 | usize::from(byte));
                PackedItem::Text(self.take(length)?)
            }
            length if usize::from(length) <= SHORT_MAX => {
                PackedItem::Text(self.take(usize::from(length))?)
            }
            _ => return Err(DAMAGED),
        })
    }
}

pub(crate) const DAMAGED: Fault = Fault {
    at: 0,
    what: "a packed collection that its items fill exactly",
};

impl<'p> Iterator for PackedItems<'p> {
    type Item = Result<PackedItem<'p>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&tag, rest) = self.rest.split_first()?;
        self.rest = rest;
        let item = self.read(tag);
        if item.is_err() {
            self.rest = &[];
        }
        Some(item)
    }
}

/// Returns a number of bytes that suffices for the packed form of the texts.
pub(crate) fn size_at_most(texts: &[&[u8]]) -> usize {
    texts.iter().map(|text| text.len() + OVERHEAD_MAX).sum()
}

/// Returns the encoded form of `text`.
pub(crate) fn form(text: &[u8]) -> Vec<u8> {
    let mut form = Vec::with_capacity(text.len() + OVERHEAD_MAX);
    push(&mut form, text);
    form
}

/// For each tag, the size of its item in bytes, or 0 if the tag does not determine the size.
const SIZES: [u8; 256] = {
    let mut sizes = [0; 256];
    let mut tag = 0;
    while tag < sizes.len() {
        sizes[tag] = match tag as u8 {
            SMALL.. => 1,
            tag @ INTEGER..LONG => tag - INTEGER + 2,
            tag if tag as usize <= SHORT_MAX => tag + 1,
            _ => 0,
        };
        tag += 1;
    }
    sizes
};

/// Returns the position after the item at `position`. Reads only the item's tag, and the length of
/// a long text.
#[inline(always)]
pub(crate) fn skip(bytes: &[u8], position: usize) -> Result<usize, Fault> {
    let Some(&tag) = bytes.get(position) else {
        return Err(DAMAGED);
    };
    // Use a branch for each kind of item, because the CPU can predict a branch, whereas a table
    // lookup has to wait for the tag.
    let end = match tag {
        SMALL.. => position + 1,
        INTEGER..LONG => position + usize::from(tag - INTEGER) + 2,
        length if usize::from(length) <= SHORT_MAX => position + 1 + usize::from(length),
        _ => return item_at(bytes, position).map(|(_, end)| end),
    };
    if end > bytes.len() {
        return Err(DAMAGED);
    }
    Ok(end)
}

/// Calls `each` for every pair of consecutive items, with the start of the first item, the start of
/// the second item, and the end of the second item. Returns the end of the last pair, which is
/// before the last item if the number of items is odd. O(items).
///
/// The end of an item is known only after its tag is read, so each step depends on the previous
/// step. Most long collections contain items of equal length, so the next pair is assumed to be as
/// long as the previous pair. Its tags are read only to verify the assumption, which makes the
/// reads independent of each other.
#[inline(always)]
pub(crate) fn for_each_pair(
    bytes: &[u8],
    mut each: impl FnMut(usize, usize, usize),
) -> Result<usize, Fault> {
    let mut at = 0;
    while at < bytes.len() {
        let middle = skip(bytes, at)?;
        if middle == bytes.len() {
            break;
        }
        let end = skip(bytes, middle)?;
        each(at, middle, end);
        let (first, both) = (middle - at, end - at);
        at = end;
        // The tag of a long text does not contain its length, so a long text never matches.
        let size = |tag: u8| usize::from(SIZES[usize::from(tag)]);
        while let Some(pair) = bytes[at..].get(..both)
            && (size(pair[0]), size(pair[first])) == (first, both - first)
        {
            each(at, at + first, at + both);
            at += both;
        }
    }
    Ok(at)
}

/// Returns the number of items. O(items).
pub(crate) fn count(bytes: &[u8]) -> Result<u64, Fault> {
    work::touched(bytes.len() as u64 / 8 + 1);
    let mut pairs = 0;
    let end = for_each_pair(bytes, |_, _, _| pairs += 1)?;
    Ok(2 * pairs + u64::from(end < bytes.len()))
}

/// Returns whether `bytes` equal `form`, an encoded item. Items of equal length mostly differ near
/// the end, so the last byte is compared first.
#[inline(always)]
pub(crate) fn is_form(bytes: &[u8], form: &[u8]) -> bool {
    bytes.len() == form.len() && bytes.last() == form.last() && bytes == form
}

/// Returns the range of the item that is encoded as `form`. O(items).
pub(crate) fn find(bytes: &[u8], form: &[u8]) -> Result<Option<Range<usize>>, Fault> {
    find_of(bytes, form, Ok)
}

/// Returns the range of the item that is encoded as `form`, considering only the first item of each
/// pair. O(items).
pub(crate) fn find_paired(bytes: &[u8], form: &[u8]) -> Result<Option<Range<usize>>, Fault> {
    find_of(bytes, form, |second| skip(bytes, second))
}

/// Finds the item that is encoded as `form`. `next` maps the end of an item to the start of the
/// next item to compare.
#[inline(always)]
fn find_of(
    bytes: &[u8],
    form: &[u8],
    next: impl Fn(usize) -> Result<usize, Fault>,
) -> Result<Option<Range<usize>>, Fault> {
    let mut at = 0;
    while at < bytes.len() {
        let end = skip(bytes, at)?;
        if is_form(&bytes[at..end], form) {
            work::touched(end as u64 / 8 + 1);
            return Ok(Some(at..end));
        }
        at = next(end)?;
    }
    work::touched(at as u64 / 8 + 1);
    Ok(None)
}

/// Returns the item at `position` and the position after it.
pub(crate) fn item_at(bytes: &[u8], position: usize) -> Result<(PackedItem<'_>, usize), Fault> {
    let mut items = items(bytes.get(position..).ok_or(DAMAGED)?);
    let item = items.next().ok_or(DAMAGED)??;
    Ok((item, bytes.len() - items.rest().len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_round_trip_and_integers_are_short() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut texts: Vec<Vec<u8>> = [0, 1, 190, 191, 192, 255, 256, 70_000]
            .map(|length| vec![b'x'; length])
            .to_vec();
        for value in [0, 1, 47, 48, 127, 128, -1, -128, -129, i64::MAX, i64::MIN] {
            texts.push(value.to_string().into_bytes());
        }
        for _ in 0..10_000 {
            let value = random.i64(..) >> random.u32(..64);
            texts.push(value.to_string().into_bytes());
        }
        let mut bytes = Vec::new();
        for text in &texts {
            let before = bytes.len();
            push(&mut bytes, text);
            assert!(bytes.len() - before <= text.len().max(1) + 1 + text.len() / 192 * 4);
        }
        let read: Vec<Vec<u8>> = items(&bytes)
            .map(|item| {
                let mut text = Vec::new();
                item.expect("sound").append_to(&mut text);
                text
            })
            .collect();
        assert_eq!(read, texts);
        assert_eq!(count(&bytes), Ok(texts.len() as u64));
        let mut small = Vec::new();
        push(&mut small, b"47");
        push(&mut small, b"-128");
        assert_eq!(small.len(), 3);
    }

    #[test]
    fn items_of_any_length_are_counted_and_found() {
        let mut random = fastrand::Rng::with_seed(5);
        let lengths = [0, 1, 5, 5, 5, 190, 191, 192, 300];
        for round in 0..2_000 {
            let runs = random.usize(..6);
            let mut texts = Vec::new();
            for _ in 0..runs {
                let pair = [(); 2].map(|()| *random.choice(&lengths).expect("one"));
                for place in 0..random.usize(..14) {
                    // Use letters, or digits that can be stored as an integer.
                    let from = *random.choice(b"a0").expect("one");
                    let text = (0..pair[place % 2]).map(|_| from + random.u8(..10));
                    texts.push(text.collect::<Vec<u8>>());
                }
            }
            let mut bytes = Vec::new();
            let mut places = Vec::new();
            for text in &texts {
                let start = bytes.len();
                push(&mut bytes, text);
                places.push(start..bytes.len());
            }
            assert_eq!(count(&bytes), Ok(texts.len() as u64), "round {round}");
            for text in &texts {
                let place = |step| texts.iter().step_by(step).position(|other| other == text);
                let any = place(1).map(|place| places[place].clone());
                assert_eq!(find(&bytes, &form(text)), Ok(any), "round {round}");
                if texts.len().is_multiple_of(2) {
                    let first = place(2).map(|place| places[2 * place].clone());
                    assert_eq!(find_paired(&bytes, &form(text)), Ok(first), "round {round}");
                }
            }
            let missing = find_paired(&bytes, &form(b"missing"));
            assert_eq!(missing.is_err(), texts.len() % 2 == 1, "round {round}");
            assert!(find(&bytes, &form(b"missing")).is_ok_and(|place| place.is_none()));
            if let Some(last) = places.last()
                && last.len() > 1
            {
                let cut = &bytes[..bytes.len() - 1];
                assert!(count(cut).is_err() && find(cut, &form(b"missing")).is_err());
            }
        }
    }

    #[test]
    fn damaged_bytes_end_with_a_fault() {
        for bytes in [
            &[5, 1][..],
            &[192],
            &[199, 1, 2],
            &[200, 255, 255, 255, 255],
            &[203],
        ] {
            assert!(items(bytes).any(|item| item.is_err()), "{bytes:?}");
            assert!(items(bytes).count() <= 2, "{bytes:?}");
            assert!(count(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn paired_search_finds_only_first_items_of_pairs() {
        let mut bytes = Vec::new();
        for text in [&b"a"[..], b"7", b"b", b"a", b"7", b"xyz"] {
            push(&mut bytes, text);
        }
        assert_eq!(count(&bytes).ok(), Some(6));
        let value = |field: &[u8]| {
            let place = find_paired(&bytes, &form(field)).expect("sound")?;
            let (item, end) = item_at(&bytes, place.end).expect("sound");
            let mut text = Vec::new();
            item.append_to(&mut text);
            assert_eq!(item.length(), text.len());
            assert!(end <= bytes.len());
            Some(text)
        };
        assert_eq!(value(b"a"), Some(b"7".to_vec()));
        assert_eq!(value(b"b"), Some(b"a".to_vec()));
        assert_eq!(value(b"7"), Some(b"xyz".to_vec()));
        assert_eq!(value(b"xyz"), None);
        assert!(find(&bytes, &form(b"xyz")).is_ok_and(|place| place.is_some()));
        assert!(find_paired(&bytes[..bytes.len() - 4], &form(b"?")).is_err());
        assert!(item_at(&bytes, bytes.len()).is_err() && item_at(&bytes, 100).is_err());
    }
}
