//! Skips consecutive entries with the same layout, using a single comparison of the first bytes of
//! each entry.
//!
//! The length of an entry depends on its first byte, on the number of bytes in which its
//! milliseconds are encoded, and on the tags of its values. If all of these are within the first
//! eight bytes of an entry, any other entry in which they are equal has the same length, regardless
//! of its other bytes.

use super::code::length_of;

/// The bit in an entry's first byte that is set if the entry has the same fields as the leaf's
/// model, in which case no field names are stored with it.
pub(in crate::types::stream) const SAME: u8 = 1;
pub(in crate::types::stream) const MORE: u8 = 0x80;

/// The number of leading bytes that are compared.
const SEEN: usize = 8;
/// The maximum number of bytes in which milliseconds since the base ID are encoded, with seven bits
/// in each byte.
const DISTANCE_MAX: usize = 2;

/// The layout of an entry that has the same fields as the leaf's model.
pub(in crate::types::stream) struct Layout {
    /// The mask of the bits in the first bytes that determine the layout. `told` contains the
    /// values of these bits.
    mask: u64,
    told: u64,
    /// The mask of the bits that the second byte contributes to the milliseconds since the base ID,
    /// or 0 if they are encoded in a single byte.
    high: u64,
    /// The length of the entry in bytes.
    length: usize,
}

#[inline(always)]
fn first_bytes(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk::<SEEN>()?))
}

impl Layout {
    /// Returns the layout of the entry at an offset. The entry has values for `fields` fields.
    /// Returns `None` if the first bytes do not determine the layout.
    #[inline]
    pub(in crate::types::stream) fn of(bytes: &[u8], at: usize, fields: usize) -> Option<Layout> {
        let seen = first_bytes(bytes, at)?;
        let byte = |place: usize| (seen >> (8 * place)) as u8;
        if byte(0) & (SAME | MORE) != SAME {
            return None;
        }
        let distance = (1..=DISTANCE_MAX).find(|&place| byte(place) < 0x80)?;
        let mut mask = u64::from(SAME | MORE);
        (1..=distance).for_each(|place| mask |= 0x80 << (8 * place));
        let mut place = 1 + distance;
        for _ in 0..fields {
            if place >= SEEN {
                return None;
            }
            mask |= 0xff << (8 * place);
            place += length_of(byte(place))?;
        }
        Some(Layout {
            mask,
            told: seen & mask,
            high: if distance == DISTANCE_MAX {
                0x7f << 7
            } else {
                0
            },
            length: place,
        })
    }

    /// Skips at most `most` entries with this layout, starting with the entry at `at`. Stops at an
    /// entry that has a different layout, or that is at least `far` milliseconds after the leaf's
    /// base ID. Returns the number of entries skipped and the offset of the next entry.
    #[inline(always)]
    pub(in crate::types::stream) fn pass(
        &self,
        bytes: &[u8],
        at: usize,
        most: usize,
        far: u64,
    ) -> (usize, usize) {
        let (mut passed, mut at) = (1, at + self.length);
        while passed < most
            && let Some(seen) = first_bytes(bytes, at)
            && seen & self.mask == self.told
            && (seen >> 8 & 0x7f | seen >> 9 & self.high) < far
        {
            (passed, at) = (passed + 1, at + self.length);
        }
        (passed, at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::code::{push_number, push_value};
    use super::*;

    fn entry(distance: u64, values: &[&[u8]]) -> Vec<u8> {
        let mut bytes = vec![SAME];
        push_number(&mut bytes, distance);
        for value in values {
            push_value(&mut bytes, value, b"21");
        }
        bytes
    }

    #[test]
    fn only_entries_of_the_same_layout_are_skipped() {
        let values = [b"21".as_slice(), b"700", b"oak"];
        for distance in [0, 1, 127, 128, 16_382] {
            let one = entry(distance, &values);
            // The layout does not depend on the bytes of the values after their tags, or on the
            // sequence number.
            let mut like = entry(distance, &[b"21", b"-900", b"fig"]);
            like[0] |= 0x3e;
            let wider = if distance < 128 { 128 } else { 1 };
            let head = |head| [&[head], &one[1..]].concat();
            let longer_number = [&one[..1], &[one[1] ^ 0x80], &one[2..]].concat();
            let others = [
                entry(wider, &values),
                entry(distance, &[b"21", b"70000", b"oak"]),
                entry(distance, &[b"22", b"700", b"oak"]),
                entry(distance, &[b"21", b"700", b"elm-tree"]),
                longer_number,
                head(0),
                head(SAME | MORE),
                head(MORE),
            ];
            for other in &others {
                let bytes = [&one[..], &like, &like, other, &[0; SEEN]].concat();
                let layout = Layout::of(&bytes, 0, 3).expect("a short one");
                let three = (3, 3 * one.len());
                assert_eq!(layout.pass(&bytes, 0, 10, 16_383), three);
                assert_eq!(layout.pass(&bytes, 0, 2, 16_383), (2, 2 * one.len()));
                assert_eq!(layout.pass(&bytes, 0, 10, distance), (1, one.len()));
                assert_eq!(layout.pass(&bytes, 0, 10, distance + 1), three);
                // An entry is not skipped if fewer than `SEEN` bytes are left.
                let cut = &bytes[..one.len() + SEEN - 1];
                assert_eq!(layout.pass(cut, 0, 10, 16_383), (1, one.len()));
            }
            for head in [0, SAME | MORE, MORE] {
                let bytes = [&[head], &one[1..], &[0; SEEN]].concat();
                assert!(Layout::of(&bytes, 0, 3).is_none());
            }
            assert!(Layout::of(&one[..SEEN - 1], 0, 3).is_none());
        }
        let far = entry(1 << 14, &values);
        let text = entry(0, &[&[b'x'; 200]]);
        let long = entry(0, &[b"cellar", b"21"]);
        for (bytes, fields) in [(far, 3), (text, 1), (long, 2)] {
            let bytes = [&bytes[..], &[0; SEEN]].concat();
            assert!(Layout::of(&bytes, 0, fields).is_none());
        }
    }
}
