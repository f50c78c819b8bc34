//! Modification counters (M2): whether keys changed since somebody looked.
//!
//! One array a shard. A change of a key adds to two counters, picked by its hash: another key shares both with it once in
//! some millions. Counting costs every change stores into memory that may not be in the cache, so it goes on only
//! while somebody has watched a key lately. That is told by time and not by
//! who watches, as watchers may die: an hour after the last one began, whoever
//! writes next ends it. Each beginning has a number, the epoch; what was noted
//! in one epoch says nothing in another.

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::mapped::layout::{control, shard};
use crate::mapped::platform;
use crate::segment::{Segment, membership};

/// How long changes are counted after somebody began to watch a key, in
/// milliseconds.
const COUNTED_FOR: u64 = 60 * 60 * 1000;
/// A newer time is not noted in that many milliseconds.
const NOTED_EVERY: u64 = 1000;
const A_KEY: usize = shard::CHANGES_A_KEY as usize;

/// The counters of a key at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changes([u32; A_KEY]);

impl Changes {
    /// Whether the key was not changed since `before`: each change adds to all counters.
    pub fn are_none_since(&self, before: Changes) -> bool {
        self.0.iter().zip(before.0).any(|(now, then)| *now == then)
    }
}

/// The counters that a hash picks, by bits of it that do not pick the shard.
#[inline(always)]
pub(crate) fn counters(hash: u64) -> [u64; A_KEY] {
    [hash >> 20, hash >> 33].map(|bits| bits % shard::CHANGE_COUNT)
}

impl Segment {
    /// Whether changes are counted. Only under a lock of some shard does the
    /// answer hold for that shard.
    #[inline(always)]
    pub fn counts_changes(&self) -> bool {
        self.mapping.load(control::WATCHED) != 0
    }

    /// The number of times that the counting began; `None` where changes are
    /// not counted. As [`counts_changes`](Self::counts_changes).
    pub fn change_epoch(&self) -> Option<u64> {
        self.counts_changes()
            .then(|| self.mapping.load(control::WATCH_EPOCH))
    }

    /// Has changes counted from now on, for an hour at least. Called without
    /// any lock held. A change is sure to be counted where the shard's lock
    /// was taken after this returned.
    pub fn count_changes(&self) -> Result<(), Error> {
        membership::join(self)?;
        let watched = self.mapping.word(control::WATCHED);
        let now = platform::coarse_milliseconds().max(1);
        let since = watched.load(Ordering::Acquire);
        if since == 0 {
            for index in 0..self.shards() {
                let start = self.mapping.layout().shard(index) + shard::CHANGES;
                membership::back_range(self, start, 4 * shard::CHANGE_COUNT)
                    .map_err(|_| Error::OutOfMemory)?;
            }
            self.mapping
                .word(control::WATCH_EPOCH)
                .fetch_add(1, Ordering::AcqRel);
        }
        // Where this fails, somebody else was faster.
        if since == 0 || now.saturating_sub(since) >= NOTED_EVERY {
            let _ = watched.compare_exchange(since, now, Ordering::AcqRel, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The modification counters of a hash in a shard, which must be locked or
    /// unchanged since before [`change_epoch`](Self::change_epoch) was asked; 0
    /// where changes are not counted.
    pub fn changes(&self, index: usize, hash: u64) -> Changes {
        if !self.counts_changes() {
            return Changes([0; A_KEY]);
        }
        let count = |counter| {
            let word = self.mapping.half(place(self, index, counter));
            word.load(Ordering::Relaxed)
        };
        Changes(counters(hash).map(count))
    }
}

/// Ends the counting where nobody has watched a key for long.
pub(crate) fn end_counting(segment: &Segment, now: u64) {
    end_counting_after(segment, now, COUNTED_FOR);
}

/// [`end_counting`] with a time of its own, in milliseconds.
fn end_counting_after(segment: &Segment, now: u64, time: u64) {
    let watched = segment.mapping.word(control::WATCHED);
    let since = watched.load(Ordering::Relaxed);
    // A time to come is from before the machine's last start.
    if since != 0 && now.saturating_sub(since) >= time {
        let _ = watched.compare_exchange(since, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Where a counter of a shard lies.
pub(crate) fn place(segment: &Segment, index: usize, counter: u64) -> u64 {
    let base = segment.mapping.layout().shard(index) + shard::CHANGES;
    base + 4 * counter
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::shard_set::ShardSet;
    use crate::store_file::opening::Options;

    /// What differs from it in the bits that pick one counter, or the other.
    const HASH: u64 = 5000 << 20;
    const ONE: u64 = HASH ^ 1 << 20;
    const OTHER: u64 = HASH ^ 1 << 44;

    #[test]
    fn changes_are_counted_while_somebody_watched_lately() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let segment = Segment::create(&path, &Options::default()).expect("a new store");
        let change = |hash| {
            segment
                .write(ShardSet::one(0), |transaction| {
                    transaction.count_change(0, hash);
                    Ok::<_, Error>(())
                })
                .expect("no lock is held");
        };
        let nothing = segment.changes(0, HASH);
        change(HASH);
        assert_eq!(
            (segment.change_epoch(), segment.changes(0, HASH)),
            (None, nothing)
        );
        segment.count_changes().expect("room");
        segment.count_changes().expect("room");
        assert_eq!(segment.change_epoch(), Some(1));
        let before = segment.changes(0, HASH);
        (0..3).for_each(|_| change(ONE));
        assert_ne!(segment.changes(0, HASH), before, "one counter is shared");
        assert!(segment.changes(0, HASH).are_none_since(before));
        change(HASH);
        let after = segment.changes(0, HASH);
        assert!(!after.are_none_since(before));
        assert!(
            segment.changes(1, HASH).are_none_since(nothing),
            "of another shard"
        );
        (0..3).for_each(|_| change(OTHER));
        assert!(segment.changes(0, HASH).are_none_since(after));
        let now = platform::coarse_milliseconds();
        end_counting_after(&segment, now, now + 1);
        assert_eq!(segment.change_epoch(), Some(1));
        end_counting_after(&segment, now + 1, 0);
        change(HASH);
        assert_eq!(segment.change_epoch(), None);
        segment.count_changes().expect("room");
        assert_eq!(segment.change_epoch(), Some(2));
        assert!(segment.changes(0, HASH).are_none_since(after));
    }
}
