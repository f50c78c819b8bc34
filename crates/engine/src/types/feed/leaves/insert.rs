//! Inserts items inside a leaf, moving the items on the shorter side of the insertion to make room.

use std::ops::Range;

use smallvec::{SmallVec, smallvec};
use undercroft_memory::Transaction;

use super::image::Image;
use super::leaf::{HIDDEN, Leaf, range_mask};
use crate::error::Error;

/// The minimum free space, in items, at which items are redistributed. If the shorter side has no
/// free space but the longer side has this much, all items move so that both sides get equal free
/// space. Repeated insertions at the same place then do not move the longer side every time.
const SHARED: usize = 16;

/// The maximum number of bytes that a change to a leaf buffers without a heap allocation.
const FEW: usize = 2048;

/// A word in little-endian byte order, as stored in a leaf.
type Word = [u8; 8];

impl Leaf {
    /// Inserts items before the item at an index. Returns whether the leaf had room for them.
    pub(in crate::types::feed) fn put_inside(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        index: usize,
        (rows, some): (&Image, Range<usize>),
    ) -> Result<bool, Error> {
        let (layout, more) = (&self.layout, some.len());
        let Some(start) = start_with(layout.places, self.start..self.end(), index, more) else {
            return Ok(false);
        };
        let (at, to, end) = (self.start + index, start + index, start + self.count + more);
        let (stays_left, stays_right) = (start == self.start, end == self.end());
        // Compute the places whose contents change, which include the items that move.
        let first = if stays_left {
            at
        } else {
            start.min(self.start)
        };
        let last = if stays_right { at } else { end.max(self.end()) };
        if start > self.start || end < self.end() {
            // The places that items vacated are now unused, but a rollback must restore their
            // contents.
            transaction.note_cut();
        }
        // If items move right, move the last items first, so that no item is overwritten before it
        // is moved.
        let mut moves = [(self.start..at, start), (at..self.end(), to + more)];
        if start > self.start {
            moves.reverse();
        }

        let from = layout.value_at(first) & !7;
        let length = layout.value_at(last).next_multiple_of(8) - from;
        let mut bytes: SmallVec<[u8; FEW]> = smallvec![0; length];
        let leaf_at = |behind: usize| self.at + behind as u64;
        transaction.view().copy_to(leaf_at(from), &mut bytes)?;
        let value_at = |place: usize| layout.value_at(place) - from;
        for (items, to) in moves.iter().filter(|(items, to)| items.start != *to) {
            bytes.copy_within(value_at(items.start)..value_at(items.end), value_at(*to));
        }
        bytes[value_at(to)..][..more * layout.value].copy_from_slice(rows.values(&some));
        transaction.write(shard, leaf_at(from), &bytes)?;

        let (block, blocks) = (first / 64, (last - 1) / 64 + 1 - first / 64);
        let begin = block * 64;
        let from = layout.word(HIDDEN, block) * 8;
        let words = (layout.planes() - 1) * layout.blocks + blocks;
        let mut bytes: SmallVec<[u8; FEW / 4]> = smallvec![0; words * 8];
        transaction.view().copy_to(leaf_at(from), &mut bytes)?;
        let masks = (block..block + blocks).map(|block| range_mask(block, first, last));
        let masks: SmallVec<[u64; 8]> = masks.collect();
        let planes = bytes.as_chunks_mut::<8>().0.chunks_mut(layout.blocks);
        for (plane, words) in planes.enumerate() {
            if more < 64 && (stays_left || stays_right) {
                shift_bits(words, &masks, more, stays_left);
            } else {
                for (items, to) in moves.iter().filter(|(items, to)| items.start != *to) {
                    move_bits(words, items.start - begin..items.end - begin, to - begin);
                }
            }
            for done in (0..more).step_by(64) {
                let count = (more - done).min(64);
                let bits = rows.bits(plane, some.start + done, count);
                put_bits(words, to - begin + done, count, bits);
            }
        }
        transaction.write(shard, leaf_at(from), &bytes)?;
        let header = Leaf::header(layout.size, start, self.count + more);
        transaction.store(shard, self.at, header)?;
        Ok(true)
    }
}

/// Returns the place of a leaf's first item after `more` items are inserted before the item at
/// `index`, or `None` if there is no room.
fn start_with(places: usize, items: Range<usize>, index: usize, more: usize) -> Option<usize> {
    let (left, right) = (items.start, places - items.end);
    let goes_left = index * 2 < items.len();
    let (near, far) = if goes_left {
        (left, right)
    } else {
        (right, left)
    };
    if near >= more {
        Some(if goes_left { left - more } else { left })
    } else if near + far < more {
        None
    } else if far >= more && far < SHARED {
        Some(if goes_left { left } else { left - more })
    } else {
        Some((places - items.len() - more) / 2)
    }
}

/// Shifts the bits that `masks` select up or down by 1 to 63 places. Bits that are shifted in from
/// outside the masks are arbitrary.
#[inline(always)]
fn shift_bits(words: &mut [Word], masks: &[u64], by: usize, up: bool) {
    let mut before = 0;
    for (index, mask) in masks.iter().enumerate() {
        let word = u64::from_le_bytes(words[index]);
        let shifted = if up {
            word << by | before >> (64 - by)
        } else {
            let next = words
                .get(index + 1)
                .map_or(0, |next| u64::from_le_bytes(*next));
            word >> by | next << (64 - by)
        };
        words[index] = (word & !mask | shifted & mask).to_le_bytes();
        before = word;
    }
}

/// Moves a range of bits to another place in `words`. The old and new ranges can overlap.
fn move_bits(words: &mut [Word], from: Range<usize>, to: usize) {
    let mut left = from.len();
    if to < from.start {
        while left > 0 {
            let done = from.len() - left;
            let count = (64 - (to + done) % 64).min(left);
            put_bits(words, to + done, count, bits(words, from.start + done));
            left -= count;
        }
    }
    while left > 0 {
        let end = to + left;
        let count = ((end - 1) % 64 + 1).min(left);
        left -= count;
        put_bits(words, end - count, count, bits(words, from.start + left));
    }
}

/// Returns 64 bits starting at the given place. Bits past the end of `words` are zero.
#[inline(always)]
fn bits(words: &[Word], place: usize) -> u64 {
    let (index, shift) = (place / 64, place % 64);
    let bits = u64::from_le_bytes(words[index]) >> shift;
    match words.get(index + 1) {
        Some(next) if shift > 0 => bits | u64::from_le_bytes(*next) << (64 - shift),
        _ => bits,
    }
}

/// Overwrites up to 64 bits, starting at the given place.
#[inline(always)]
fn put_bits(words: &mut [Word], place: usize, count: usize, bits: u64) {
    let (index, shift, mask) = (place / 64, place % 64, u64::MAX >> (64 - count));
    let put = |word: &mut Word, mask: u64, bits: u64| {
        *word = (u64::from_le_bytes(*word) & !mask | bits & mask).to_le_bytes();
    };
    put(&mut words[index], mask << shift, bits << shift);
    if shift + count > 64 {
        put(
            &mut words[index + 1],
            mask >> (64 - shift),
            bits >> (64 - shift),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved_bits_match_a_list_of_bits() {
        let mut random = fastrand::Rng::with_seed(12);
        for _ in 0..2000 {
            let mut words: Vec<Word> = (0..4).map(|_| random.u64(..).to_le_bytes()).collect();
            let list = |words: &[Word]| -> Vec<bool> {
                let bit = |place: usize| words[place / 64][place % 64 / 8] >> (place % 8) & 1 == 1;
                (0..256).map(bit).collect()
            };
            let mut expected = list(&words);
            let count = random.usize(0..=200);
            let from = random.usize(0..=256 - count);
            let to = random.usize(0..=256 - count);
            expected.copy_within(from..from + count, to);
            move_bits(&mut words, from..from + count, to);
            assert_eq!(list(&words), expected, "{count} from {from} to {to}");
            let by = random.usize(1..64).min(count);
            if by == 0 {
                continue;
            }
            for up in [true, false] {
                let (kept, range) = (list(&words), from..from + count);
                let masks = (0..4).map(|block| range_mask(block, range.start, range.end));
                shift_bits(&mut words, &masks.collect::<Vec<u64>>(), by, up);
                let (moved, to) = match up {
                    true => (from..from + count - by, from + by),
                    false => (from + by..from + count, from),
                };
                let shifted = list(&words);
                assert_eq!(shifted[to..to + moved.len()], kept[moved], "{by} {up}");
                assert_eq!(shifted[..from], kept[..from]);
                assert_eq!(shifted[range.end..], kept[range.end..]);
            }
        }
    }

    #[test]
    fn items_on_the_shorter_side_make_room() {
        // In order, the cases are: both sides have room, only the longer side has room, the longer
        // side has little room, only both sides together have enough room, and there is not enough
        // room.
        assert_eq!(start_with(310, 100..200, 10, 1), Some(99));
        assert_eq!(start_with(310, 100..200, 90, 1), Some(100));
        assert_eq!(start_with(310, 0..200, 10, 1), Some(54));
        assert_eq!(start_with(310, 4..310, 300, 1), Some(3));
        assert_eq!(start_with(310, 30..300, 10, 40), Some(0));
        assert_eq!(start_with(310, 0..310, 300, 1), None);
    }
}
