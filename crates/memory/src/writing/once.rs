//! What a long undo log holds already: each word is saved once (W10).
//!
//! A transaction over many items changes the same words again and again: counts,
//! bitmaps of free blocks, the leaves of a tree. Only what a word held first is
//! needed to undo that. So from a certain length of the log on it is remembered
//! which words it holds, and a long log is bounded by the memory that is
//! changed, not by the number of changes. A savepoint needs what words held
//! when it was made: what was saved before that counts no more.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::error::Error;
use crate::writing::transaction::Transaction;

/// Words whose bits share an entry.
const WORDS: u64 = 64;
const BYTES: u64 = WORDS * 8;

/// The words that were saved since the last savepoint.
#[derive(Default)]
pub(crate) struct Saved {
    /// By place: in which epoch, and a bit for each word.
    words: HashMap<u64, (u64, u64), BuildHasherDefault<PlaceHasher>>,
    /// Counts savepoints.
    epoch: Cell<u64>,
}

impl Saved {
    /// Forgets all words: a savepoint was made or gone back to. O(1).
    pub(crate) fn forget(&self) {
        self.epoch.set(self.epoch.get() + 1);
    }

    /// The words among `wanted` that are not saved yet, and count as saved from now on.
    fn take_missing(&mut self, place: u64, wanted: u64) -> u64 {
        let now = self.epoch.get();
        let (epoch, words) = self.words.entry(place).or_insert((now, 0));
        if *epoch != now {
            (*epoch, *words) = (now, 0);
        }
        let missing = wanted & !*words;
        *words |= wanted;
        missing
    }
}

/// Spreads the numbers of places over a table: they are not chosen by anybody.
#[derive(Default)]
pub(crate) struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

impl Transaction<'_> {
    /// Saves those of some words that a long log does not hold yet.
    #[cold]
    #[inline(never)]
    pub(crate) fn save_once(&mut self, index: usize, at: u64, words: u64) -> Result<(), Error> {
        let log = self.log(index)?;
        let saved = self.rest().saved.get_or_insert_default();
        let (mut from, end) = (at, at + words * 8);
        while from < end {
            let place = from / BYTES;
            let start = place * BYTES;
            let to = end.min(start + BYTES);
            let wanted = bits((from - start) / 8, (to - start) / 8);
            let mut missing = saved.take_missing(place, wanted);
            while missing != 0 {
                let first = missing.trailing_zeros();
                let count = (missing >> first).trailing_ones();
                if let Err(full) = log.save(start + u64::from(first) * 8, count.into()) {
                    // The log does not hold them, whatever becomes of the transaction.
                    saved.forget();
                    return Err(self.log_full(index, full));
                }
                missing &= !bits(first.into(), (first + count).into());
            }
            from = to;
        }
        Ok(())
    }
}

/// Bits `from..to`, of which there are some.
fn bits(from: u64, to: u64) -> u64 {
    u64::MAX << from & u64::MAX >> (WORDS - to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_a_range() {
        assert_eq!(bits(0, 64), u64::MAX);
        assert_eq!(bits(0, 1), 1);
        assert_eq!(bits(63, 64), 1 << 63);
        assert_eq!(bits(3, 6), 0b11_1000);
    }

    #[test]
    fn a_word_is_missing_once_and_again_after_a_savepoint() {
        let mut saved = Saved::default();
        assert_eq!(saved.take_missing(7, 0b010), 0b010);
        assert_eq!(saved.take_missing(7, 0b111), 0b101);
        assert_eq!(saved.take_missing(7, 0b111), 0);
        assert_eq!(saved.take_missing(8, 0b111), 0b111);
        saved.forget();
        assert_eq!(saved.take_missing(7, 0b001), 0b001);
        assert_eq!(saved.take_missing(7, 0b111), 0b110);
    }
}
