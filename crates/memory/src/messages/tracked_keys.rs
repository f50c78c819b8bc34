//! The filter of tracked keys (M3): writers record only the changes of the keys that it contains.
//!
//! Each shard has slots of 16 bits, and a key belongs to the slot that its hash selects. A bit of a
//! slot stands for a place in the list of trackers whose process tracks keys of the slot. Only that
//! process sets and clears the bit. Keys that share a slot with a tracked key are recorded, too.
//!
//! A tracker sets the bit and then looks at the shard's lock. A writer acquires the lock and then
//! looks at the bit. Both steps are in this order for all processes, so that the writer sees the bit,
//! or the tracker sees the lock.

use std::sync::atomic::{Ordering, compiler_fence, fence};

use crate::mapped::layout::{control, shard};
use crate::messages::trackers::TrackerPlace;
use crate::segment::Segment;

/// The binary logarithm of the number of slots in a word.
const SLOTS_IN_WORD_LOG: u64 = 2;
/// The number of words of a shard's filter.
const WORDS: u64 = shard::TRACKED_SLOTS >> SLOTS_IN_WORD_LOG;
/// The bits of all slots of a word for the first place.
const FIRST_PLACE: u64 = 0x0001_0001_0001_0001;
const PLACES: u64 = (1 << control::TRACKER_COUNT) - 1;
const _: () = assert!(control::TRACKER_COUNT == 64 >> SLOTS_IN_WORD_LOG);

/// A slot of a shard's filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TrackedSlot {
    index: usize,
    slot: u64,
}

/// Returns the slot of the keys with a hash. The highest bits of a hash select the shard, and the
/// lowest ones a bucket of a dictionary.
#[inline(always)]
fn slot(hash: u64) -> u64 {
    (hash >> 32) & (shard::TRACKED_SLOTS - 1)
}

/// Returns the shift of a slot in its word.
#[inline(always)]
fn shift(slot: u64) -> u64 {
    (slot & ((1 << SLOTS_IN_WORD_LOG) - 1)) * control::TRACKER_COUNT
}

/// Orders the acquisition of a lock before later loads. On x86-64, the acquisition itself does so.
#[inline(always)]
fn after_lock() {
    match cfg!(target_arch = "x86_64") {
        true => compiler_fence(Ordering::SeqCst),
        false => fence(Ordering::SeqCst),
    }
}

impl Segment {
    /// Returns whether the changes of the keys of a shard with this hash must be recorded. The result
    /// remains valid only as long as the shard is locked. One load while no process tracks keys,
    /// otherwise three.
    #[inline(always)]
    pub fn is_key_tracked(&self, index: usize, hash: u64) -> bool {
        self.is_tracked() && self.is_in_filter(index, hash)
    }

    #[cold]
    #[inline(never)]
    fn is_in_filter(&self, index: usize, hash: u64) -> bool {
        after_lock();
        let tracked = self.mapping.load_control::<{ control::TRACKED }>();
        let slot = slot(hash);
        let word = self.mapping.load(self.filter_word(index, slot));
        (tracked >> control::TRACKS_ALL | (word >> shift(slot) & tracked)) & PLACES != 0
    }

    /// Returns the file offset of the word that contains a slot.
    fn filter_word(&self, index: usize, slot: u64) -> u64 {
        let start = self.mapping.layout().shard(index) + shard::TRACKED_KEYS;
        start + 8 * (slot >> SLOTS_IN_WORD_LOG)
    }

    /// Tracks the keys of a shard with this hash. Returns whether the shard is locked: a transaction
    /// that is not visible yet may then change such keys without a record. All transactions that lock
    /// the shard later record the keys.
    pub fn track_key(&self, place: TrackerPlace, index: usize, hash: u64) -> bool {
        let slot = slot(hash);
        let word = self.mapping.word(self.filter_word(index, slot));
        let bit = 1 << (shift(slot) + place.number());
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        self.is_locked(index)
    }

    /// Returns the slot of the keys of a shard with this hash. Shards have no slots in common.
    pub fn tracked_slot(&self, index: usize, hash: u64) -> TrackedSlot {
        TrackedSlot {
            index,
            slot: slot(hash),
        }
    }

    /// Ends the tracking of all keys that share a slot.
    pub fn untrack_keys(&self, place: TrackerPlace, TrackedSlot { index, slot }: TrackedSlot) {
        let word = self.mapping.word(self.filter_word(index, slot));
        word.fetch_and(!(1 << (shift(slot) + place.number())), Ordering::SeqCst);
    }

    /// Begins or ends the tracking of all keys.
    pub fn track_all_keys(&self, place: TrackerPlace, all: bool) {
        let tracked = self.mapping.word(control::TRACKED);
        let bit = 1 << (control::TRACKS_ALL + place.number());
        match all {
            true => tracked.fetch_or(bit, Ordering::SeqCst),
            false => tracked.fetch_and(!bit, Ordering::SeqCst),
        };
    }

    /// Removes the bits of a place, whose earlier owner may have been killed, from all slots.
    /// O(slots).
    pub(crate) fn clear_filter(&self, place: TrackerPlace) {
        let bits = FIRST_PLACE << place.number();
        for index in 0..self.shards() {
            for number in 0..WORDS {
                let word = self.filter_word(index, number << SLOTS_IN_WORD_LOG);
                let word = self.mapping.word(word);
                if word.load(Ordering::Relaxed) & bits != 0 {
                    word.fetch_and(!bits, Ordering::SeqCst);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::messages::seat::Seat;
    use crate::segment::shard_set::ShardSet;
    use crate::store_file::opening::Options;

    fn store() -> (tempfile::TempDir, Segment) {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let options = Options {
            capacity: Some(8 << 20),
            ..Options::default()
        };
        let segment = Segment::create(&path, &options).expect("a store");
        (directory, segment)
    }

    #[test]
    fn filter_matches_a_naive_set_of_slots() {
        let (_directory, segment) = store();
        let mut random = fastrand::Rng::with_seed(5);
        let seats: Vec<Seat> = (0..control::TRACKER_COUNT)
            .map(|_| segment.take_seat().expect("a seat"))
            .collect();
        let places: Vec<TrackerPlace> = seats
            .iter()
            .map(|seat| {
                segment
                    .begin_tracking(seat)
                    .expect("room")
                    .expect("a place")
            })
            .collect();
        let hashes: Vec<u64> = (0..40).map(|_| random.u64(..)).collect();
        let mut model = BTreeSet::new();
        for _ in 0..4000 {
            let (place, number) = (random.usize(..places.len()), random.usize(..hashes.len()));
            let (hash, index) = (hashes[number], number % segment.shards());
            if random.bool() {
                assert!(!segment.track_key(places[place], index, hash));
                model.insert((number, place));
            } else {
                segment.untrack_keys(places[place], segment.tracked_slot(index, hash));
                model.remove(&(number, place));
            }
            let number = random.usize(..hashes.len());
            let expected = (0..places.len()).any(|place| model.contains(&(number, place)));
            let found = segment.is_key_tracked(number % segment.shards(), hashes[number]);
            assert_eq!(found, expected);
        }
        let (hash, index) = (hashes[0], 0);
        segment.track_key(places[3], index, hash);
        for (place, seat) in seats.iter().enumerate().filter(|(place, _)| *place != 3) {
            segment.untrack_keys(places[place], segment.tracked_slot(index, hash));
            segment.end_tracking(seat);
        }
        assert!(segment.is_key_tracked(index, hash));
        assert!(!segment.is_key_tracked(index, !hash));
        segment.track_all_keys(places[3], true);
        assert!(segment.is_key_tracked(index, !hash));
        segment.end_tracking(&seats[3]);
        assert!(!segment.is_key_tracked(index, hash));
        // The next owner of the place tracks nothing yet.
        assert!(!segment.is_tracked());
        let places: Vec<TrackerPlace> = seats[..4]
            .iter()
            .map(|seat| {
                segment
                    .begin_tracking(seat)
                    .expect("room")
                    .expect("a place")
            })
            .collect();
        assert_eq!(places[3].number(), 3);
        assert!(!segment.is_key_tracked(index, hash));
        assert!(!segment.is_key_tracked(index, !hash));
    }

    #[test]
    fn locked_shard_is_reported() {
        let (_directory, segment) = store();
        let seat = segment.take_seat().expect("a seat");
        let place = segment
            .begin_tracking(&seat)
            .expect("room")
            .expect("a place");
        let written = segment.write(ShardSet::one(0), |_| {
            assert!(segment.track_key(place, 0, 7));
            assert!(segment.track_key(place, 0, 7), "even if the bit is set");
            Ok::<_, crate::Error>(())
        });
        written.expect("no error");
        assert!(!segment.track_key(place, 0, 7));
    }
}
