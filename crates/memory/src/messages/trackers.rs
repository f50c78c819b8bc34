//! The list of processes that read the changed keys (M3). While the list is empty, writers record no
//! changed keys, and otherwise only those that one of the processes [tracks](super::tracked_keys).
//!
//! A process claims a place in the list with the name of its seat, and then sets the place's bit in
//! one word, which is all that writers load. The owner clears the bit before it gives up the place.
//! A place whose owner is dead is first taken over by the process that cleans up, so that only one
//! process at a time may clear its bit. If that process dies too, the next one continues.

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::mapped::layout::{control, shard, slot};
use crate::messages::seat::{Seat, SeatName};
use crate::segment::{Segment, membership};
use crate::transactions::changed_keys::at;

/// A place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackerPlace(u64);

impl TrackerPlace {
    /// Returns the number of the place, from 0 on.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

fn word(place: u64) -> u64 {
    control::TRACKERS + 8 * place
}

impl Segment {
    /// Returns whether any process reads the changed keys. The result for a shard remains valid only
    /// as long as the shard is locked. One load.
    #[inline(always)]
    pub fn is_tracked(&self) -> bool {
        self.mapping.load_control::<{ control::TRACKED }>() != 0
    }

    /// Adds a seat to the list of processes that read the changed keys, and returns its place, which
    /// tracks no keys yet. Returns `None` if the list is full.
    ///
    /// # Errors
    /// Fails if there is no memory for the rings and filters.
    pub fn begin_tracking(&self, seat: &Seat) -> Result<Option<TrackerPlace>, Error> {
        membership::join(self)?;
        for index in 0..self.shards() {
            let length = shard::LOG - shard::CHANGED;
            membership::back_range(self, at(self, index, 0), length)
                .map_err(|_| Error::OutOfMemory)?;
        }
        if let Some(place) = self.claim(seat.name()) {
            return Ok(Some(place));
        }
        self.forget_dead_trackers()?;
        Ok(self.claim(seat.name()))
    }

    fn claim(&self, name: SeatName) -> Option<TrackerPlace> {
        let place =
            (0..control::TRACKER_COUNT).find(|&place| self.replace(place, 0, name.bits()))?;
        self.clear_filter(TrackerPlace(place));
        let tracked = self.mapping.word(control::TRACKED);
        tracked.fetch_or(1 << place, Ordering::SeqCst);
        Some(TrackerPlace(place))
    }

    /// Removes a seat from the list of processes that read the changed keys.
    pub fn end_tracking(&self, seat: &Seat) {
        for place in 0..control::TRACKER_COUNT {
            if self.mapping.load(word(place)) == seat.name().bits() {
                self.give_up(place, seat.name());
            }
        }
    }

    /// Gives up a place that the named seat of this process owns.
    fn give_up(&self, place: u64, name: SeatName) {
        let tracked = self.mapping.word(control::TRACKED);
        let bits = 1 << place | 1 << (control::TRACKS_ALL + place);
        tracked.fetch_and(!bits, Ordering::SeqCst);
        self.replace(place, name.bits(), 0);
    }

    /// Returns a name under which this process owns places while it cleans up. No seat has it, so that
    /// no tracker of this process gives the places up.
    fn cleaner(&self) -> Result<SeatName, Error> {
        let here = self.seat_here(0)?;
        Ok(SeatName::new(
            here.slot(),
            slot::SEAT_COUNT,
            here.generation(),
        ))
    }

    fn replace(&self, place: u64, old: u64, new: u64) -> bool {
        let word = self.mapping.word(word(place));
        word.compare_exchange(old, new, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }

    /// Wakes the processes that read the changed keys. Call it after a commit. If none sleeps, the
    /// call costs a fence and three loads for each.
    #[inline(never)]
    pub fn wake_trackers(&self) {
        let mut left = self.mapping.load_control::<{ control::TRACKED }>();
        left &= (1 << control::TRACKER_COUNT) - 1;
        self.wake_seats(std::iter::from_fn(move || {
            let place = u64::from(left.trailing_zeros());
            if left == 0 {
                return None;
            }
            left &= left - 1;
            Some(SeatName::from_bits(self.mapping.load(word(place))))
        }));
    }

    /// Removes dead processes from the list of processes that read the changed keys. Returns the
    /// number of removed processes.
    ///
    /// # Errors
    /// Fails if the store is read-only.
    pub fn forget_dead_trackers(&self) -> Result<usize, Error> {
        let mut removed = 0;
        for place in 0..control::TRACKER_COUNT {
            let bits = self.mapping.load(word(place));
            if bits == 0 || self.seat_lives_now(SeatName::from_bits(bits)) {
                continue;
            }
            let here = self.cleaner()?;
            if self.replace(place, bits, here.bits()) {
                self.give_up(place, here);
                removed += 1;
            }
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store_file::opening::Options;

    #[test]
    fn places_are_claimed_and_given_up() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let segment = Segment::create(&path, &Options::default()).expect("a new store");
        let take = || segment.take_seat().expect("a seat");
        let seats: Vec<Seat> = (0..=control::TRACKER_COUNT).map(|_| take()).collect();
        let (last, others) = seats.split_last().expect("seats");
        for seat in others {
            assert!(segment.begin_tracking(seat).expect("room").is_some());
        }
        assert!(
            segment.begin_tracking(last).expect("room").is_none(),
            "the list is full"
        );
        segment.end_tracking(&others[3]);
        assert!(segment.begin_tracking(last).expect("room").is_some());
        for seat in &seats {
            segment.end_tracking(seat);
        }
        assert!(!segment.is_tracked());
    }

    #[test]
    fn dead_processes_lose_their_places_even_if_a_cleaner_dies() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let segment = Segment::create(&path, &Options::default()).expect("a new store");
        let dead = Segment::open(&path, true).expect("a store");
        let seat = dead.take_seat().expect("a seat");
        let place = dead.begin_tracking(&seat).expect("room").expect("a place");
        dead.track_all_keys(place, true);
        assert!(segment.is_tracked());
        assert_eq!(segment.forget_dead_trackers().expect("no lock"), 0);
        // A process that cleans up has taken the place over, and dies as well.
        let cleaner = dead.cleaner().expect("a slot");
        assert!(dead.replace(0, seat.name().bits(), cleaner.bits()));
        dead.abandon();
        segment.forget_who_lives();
        assert_eq!(segment.forget_dead_trackers().expect("no lock"), 1);
        assert!(!segment.is_tracked());
        assert_eq!(segment.mapping.load(word(0)), 0);
        assert_eq!(segment.mapping.load(control::TRACKED), 0);
    }
}
