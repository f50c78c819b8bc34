//! Entries in a row that are laid out alike: each is passed over by one look at its first bytes.
//!
//! Where an entry ends is told by its head, by how many bytes its distance in milliseconds takes, and by the tags of its
//! values. Where all of these are among its first eight bytes, an entry is as long as the one before it if they are the
//! same, whatever lies between them.

use super::code::length_of;

/// The bit in the first byte of an entry that says that its fields are the model's.
pub(in crate::types::stream) const SAME: u8 = 1;
pub(in crate::types::stream) const MORE: u8 = 0x80;

/// Bytes that are looked at.
const SEEN: usize = 8;
/// The most bytes of a distance, each of which holds seven bits of it.
const DISTANCE_MAX: usize = 2;

/// How an entry is laid out whose fields are the model's.
pub(in crate::types::stream) struct Layout {
    /// What tells how it is laid out, among its first bytes, and what that is.
    mask: u64,
    told: u64,
    /// The bits of its distance that the second byte of that holds, if there is one.
    high: u64,
    /// Bytes of the entry.
    length: usize,
}

#[inline(always)]
fn first_bytes(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk::<SEEN>()?))
}

impl Layout {
    /// That of the entry at a place, with values for so many fields. None where more than its first bytes tell.
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

    /// Passes over entries from the one at a place on, which is laid out like this, at most so many: as long as they are
    /// laid out like this as well, and lie less than so far behind the first entry of the leaf. Returns how many, and where
    /// the next one lies.
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
    fn entries_that_are_laid_out_alike_are_passed_over_and_no_others() {
        let values = [b"21".as_slice(), b"700", b"oak"];
        for distance in [0, 1, 127, 128, 16_382] {
            let one = entry(distance, &values);
            // Other bytes of values do not matter, nor does the number in a millisecond.
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
                // What lies behind the end is not looked at.
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
