//! What a long undo log holds already: each word is saved once (W10).
//!
//! A transaction over many items changes the same words again and again: counts,
//! bitmaps of free blocks, the leaves of a tree. Only what a word held first is
//! needed to undo that. So from a certain length of the log on it is remembered
//! which words it holds, and a long log is bounded by the memory that is
//! changed, not by the number of changes.
//!
//! A savepoint needs what words held when it was made. Only the process that runs
//! the transaction goes back to one, and its death undoes all of it: so what a
//! word of the log held at a savepoint is kept in that process' own memory.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::mapped::mapping::Mapping;
use crate::undo::log::{Full, Log};

/// Words whose bits share an entry.
const WORDS: u64 = 64;
const BYTES: u64 = WORDS * 8;

/// What is known of the words of one place, a bit for each.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The log holds them.
    logged: u64,
    /// The epoch of the next field.
    epoch: u64,
    /// What they held when that epoch began is known: by the log, or by what is kept for savepoints.
    known: u64,
}

/// The words that a transaction's logs hold, and what they held at its savepoints.
#[derive(Default)]
pub(crate) struct Saved {
    places: HashMap<u64, Place, BuildHasherDefault<PlaceHasher>>,
    /// Counts savepoints, and ways back to them.
    epoch: Cell<u64>,
    /// Words that were changed since a savepoint and had been logged before it: where, and what they held. Oldest first.
    kept: Vec<(u64, u64)>,
}

impl Saved {
    /// Begins an epoch: a savepoint was made or gone back to. O(1).
    pub(crate) fn begin_epoch(&self) {
        self.epoch.set(self.epoch.get() + 1);
    }

    /// How many words are kept for savepoints.
    pub(crate) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Forgets what is kept for savepoints, as nobody goes back to any of them.
    pub(crate) fn forget_kept(&mut self) {
        self.kept.clear();
    }

    /// The words that were kept since there were so many, oldest first; they are kept no more.
    pub(crate) fn take_kept(&mut self, since: usize) -> Vec<(u64, u64)> {
        self.kept.split_off(since.min(self.kept.len()))
    }

    /// The words among `wanted` that are not logged yet, and count as logged from now on; what the others hold is
    /// kept where a savepoint needs it.
    fn take_missing(&mut self, place: u64, wanted: u64, load: impl Fn(u64) -> u64) -> u64 {
        let now = self.epoch.get();
        let known = self.places.entry(place).or_default();
        if known.epoch != now {
            (known.epoch, known.known) = (now, 0);
        }
        let missing = wanted & !known.logged;
        // Before the first savepoint there is nothing to go back to.
        let mut needed = if now == 0 {
            0
        } else {
            wanted & !known.known & !missing
        };
        known.logged |= missing;
        known.known |= wanted;
        while needed != 0 {
            let at = place * BYTES + u64::from(needed.trailing_zeros()) * 8;
            self.kept.push((at, load(at)));
            needed &= needed - 1;
        }
        missing
    }

    /// Saves those of some words that a log does not hold yet.
    pub(crate) fn save(
        &mut self,
        mapping: &Mapping,
        log: &Log<'_>,
        at: u64,
        words: u64,
    ) -> Result<(), Full> {
        for (place, wanted) in places(at, words) {
            let mut missing = self.take_missing(place, wanted, |at| mapping.load(at));
            while missing != 0 {
                let first = missing.trailing_zeros();
                let count = (missing >> first).trailing_ones();
                if let Err(full) = log.save(place * BYTES + u64::from(first) * 8, count.into()) {
                    // The log does not hold them, whatever becomes of the transaction.
                    self.forget_some(place, missing);
                    return Err(full);
                }
                missing &= !bits(first.into(), (first + count).into());
            }
        }
        Ok(())
    }

    /// Notes that the log holds some words of a place no more.
    fn forget_some(&mut self, place: u64, words: u64) {
        if let Some(known) = self.places.get_mut(&place) {
            known.logged &= !words;
            known.known &= !words;
        }
    }

    /// Notes that the log holds `words` words from `at` on no more.
    pub(crate) fn forget_logged(&mut self, at: u64, words: u64) {
        for (place, bits) in places(at, words) {
            self.forget_some(place, bits);
        }
    }
}

/// The places that some words lie in, and the bits of those in each.
fn places(at: u64, words: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = at.saturating_add(words.saturating_mul(8));
    let mut from = at;
    std::iter::from_fn(move || {
        if from >= end {
            return None;
        }
        let place = from / BYTES;
        let start = place * BYTES;
        let to = end.min(start + BYTES);
        let bits = bits((from - start) / 8, (to - start) / 8);
        from = to;
        Some((place, bits))
    })
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
    fn a_word_is_missing_once_and_kept_once_for_each_savepoint() {
        let mut saved = Saved::default();
        let content = Cell::new(1);
        let load = |_| content.get();
        assert_eq!(saved.take_missing(7, 0b010, load), 0b010);
        assert_eq!(saved.take_missing(7, 0b111, load), 0b101);
        assert_eq!(saved.take_missing(7, 0b111, load), 0);
        assert_eq!(saved.take_missing(8, 0b111, load), 0b111);
        assert_eq!(saved.kept(), 0, "there is no savepoint");
        saved.begin_epoch();
        content.set(2);
        assert_eq!(saved.take_missing(7, 0b1001, load), 0b1000);
        assert_eq!(saved.take_missing(7, 0b1001, load), 0);
        content.set(3);
        saved.begin_epoch();
        assert_eq!(saved.take_missing(7, 0b1000, load), 0);
        let at = 7 * BYTES;
        assert_eq!(saved.take_kept(0), [(at, 2), (at + 24, 3)]);
        saved.forget_logged(at, 2);
        assert_eq!(saved.take_missing(7, 0b111, load), 0b011);
    }

    #[test]
    fn words_lie_in_as_many_places_as_they_reach_into() {
        let all = |at, words| places(at, words).collect::<Vec<_>>();
        assert_eq!(all(8, 2), [(0, 0b110)]);
        assert_eq!(all(BYTES - 8, 2), [(0, 1 << 63), (1, 1)]);
        assert_eq!(all(0, 129), [(0, u64::MAX), (1, u64::MAX), (2, 1)]);
        assert_eq!(all(0, 0), []);
    }
}
