//! Tracks which words a long undo log already contains, so that each word is saved only once (W10).
//!
//! A transaction over many items changes the same words repeatedly: counters, bitmaps of free
//! blocks, the leaves of a tree. Undoing it requires only the original value of each word. Once a
//! log exceeds a certain length, the transaction therefore tracks the words in it. The length of a
//! long log is thus bounded by the amount of memory that is changed, not by the number of changes.
//!
//! A savepoint also needs the value that each word had when the savepoint was created. Only the
//! process that runs the transaction ever returns to a savepoint, because its death undoes the
//! entire transaction. The values that logged words have at a savepoint are therefore stored in
//! that process's own memory.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::mapped::mapping::Mapping;
use crate::undo::log::{Full, Log};

/// The number of words in a place, all of which are tracked in one entry, with one bit each.
const WORDS: u64 = 64;
const BYTES: u64 = WORDS * 8;

/// The state of the words in one place (a range of 64 words), with one bit for each word.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Words that are in the log.
    logged: u64,
    /// The epoch for which `known` is valid.
    epoch: u64,
    /// Words whose value at the start of the epoch is known, either from the log or from the values
    /// stored for savepoints.
    known: u64,
}

/// The words in a transaction's logs, and their values at its savepoints.
#[derive(Default)]
pub(crate) struct Saved {
    places: HashMap<u64, Place, BuildHasherDefault<PlaceHasher>>,
    /// The number of savepoints created, plus the number of rollbacks to a savepoint.
    epoch: Cell<u64>,
    /// The offset and old value of each word that was logged before a savepoint and changed after
    /// it, oldest first.
    kept: Vec<(u64, u64)>,
}

impl Saved {
    /// Begins an epoch, because a savepoint was created or rolled back to. O(1).
    pub(crate) fn begin_epoch(&self) {
        self.epoch.set(self.epoch.get() + 1);
    }

    /// Returns the number of words whose values are stored for savepoints.
    pub(crate) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Discards the values stored for savepoints. The transaction can then no longer return to
    /// those savepoints.
    pub(crate) fn forget_kept(&mut self) {
        self.kept.clear();
    }

    /// Removes and returns the values stored after the first `since`, oldest first.
    pub(crate) fn take_kept(&mut self, since: usize) -> Vec<(u64, u64)> {
        self.kept.split_off(since.min(self.kept.len()))
    }

    /// Returns the words among `wanted` that are not logged yet, and marks them as logged. Stores
    /// the values of the other words if a savepoint needs them.
    fn take_missing(&mut self, place: u64, wanted: u64, load: impl Fn(u64) -> u64) -> u64 {
        let now = self.epoch.get();
        let known = self.places.entry(place).or_default();
        if known.epoch != now {
            (known.epoch, known.known) = (now, 0);
        }
        let missing = wanted & !known.logged;
        // Before the first savepoint, no values need to be stored.
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

    /// Saves the words of a range that are not yet in the log.
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
                    // These words were not logged, so unmark them, even if the transaction
                    // continues.
                    self.forget_some(place, missing);
                    return Err(full);
                }
                missing &= !bits(first.into(), (first + count).into());
            }
        }
        Ok(())
    }

    /// Records that the given words of a place are no longer in the log.
    fn forget_some(&mut self, place: u64, words: u64) {
        if let Some(known) = self.places.get_mut(&place) {
            known.logged &= !words;
            known.known &= !words;
        }
    }

    /// Records that the `words` words at `at` are no longer in the log.
    pub(crate) fn forget_logged(&mut self, at: u64, words: u64) {
        for (place, bits) in places(at, words) {
            self.forget_some(place, bits);
        }
    }
}

/// Iterates over the places (ranges of 64 words) that contain a range of words, with a bit mask of
/// the words in each.
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

/// Hashes place numbers for a hash map. Attackers cannot choose them, so a fast hash is enough.
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

/// Returns a mask with bits `from..to` set. The range must not be empty.
fn bits(from: u64, to: u64) -> u64 {
    u64::MAX << from & u64::MAX >> (WORDS - to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_set_exactly_the_given_range() {
        assert_eq!(bits(0, 64), u64::MAX);
        assert_eq!(bits(0, 1), 1);
        assert_eq!(bits(63, 64), 1 << 63);
        assert_eq!(bits(3, 6), 0b11_1000);
    }

    #[test]
    fn a_word_is_logged_once_and_kept_once_per_savepoint() {
        let mut saved = Saved::default();
        let content = Cell::new(1);
        let load = |_| content.get();
        assert_eq!(saved.take_missing(7, 0b010, load), 0b010);
        assert_eq!(saved.take_missing(7, 0b111, load), 0b101);
        assert_eq!(saved.take_missing(7, 0b111, load), 0);
        assert_eq!(saved.take_missing(8, 0b111, load), 0b111);
        assert_eq!(saved.kept(), 0, "no savepoint is set");
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
    fn a_range_of_words_yields_every_place_it_touches() {
        let all = |at, words| places(at, words).collect::<Vec<_>>();
        assert_eq!(all(8, 2), [(0, 0b110)]);
        assert_eq!(all(BYTES - 8, 2), [(0, 1 << 63), (1, 1)]);
        assert_eq!(all(0, 129), [(0, u64::MAX), (1, u64::MAX), (2, 1)]);
        assert_eq!(all(0, 0), []);
    }
}
