//! Modification counters (M2), which show whether keys have changed since a given moment.
//!
//! Each shard has an array of counters. A change to a key increments two of them, selected by the
//! key's hash. Two keys share both counters with a probability of one in several million.
//!
//! Counting adds stores to memory that may not be cached, so it is switched on only if a key was
//! watched recently. The decision is based on time, because a watching process may die: one hour
//! after the last WATCH, the next writer switches counting off. Each period of counting has a
//! number, the epoch. Counts from different epochs cannot be compared.

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::mapped::layout::{control, shard};
use crate::mapped::platform;
use crate::segment::{Segment, membership};

/// How long changes are counted after the last WATCH, in milliseconds.
const COUNTED_FOR: u64 = 60 * 60 * 1000;
/// The minimum interval between updates of the recorded time of the last WATCH, in milliseconds.
const NOTED_EVERY: u64 = 1000;
const A_KEY: usize = shard::CHANGES_A_KEY as usize;

/// The values of a key's counters at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changes([u32; A_KEY]);

impl Changes {
    /// Returns true if the key has not changed since `before`. Each change increments all counters
    /// of the key, so one unchanged counter proves that the key is unchanged.
    pub fn are_none_since(&self, before: Changes) -> bool {
        self.0.iter().zip(before.0).any(|(now, then)| *now == then)
    }
}

/// Returns the counters of a key with this hash, selected by bits that do not select the shard.
#[inline(always)]
pub(crate) fn counters(hash: u64) -> [u64; A_KEY] {
    [hash >> 20, hash >> 33].map(|bits| bits % shard::CHANGE_COUNT)
}

impl Segment {
    /// Returns true if changes are being counted. The result for a shard remains valid only as long
    /// as the shard is locked.
    #[inline(always)]
    pub fn counts_changes(&self) -> bool {
        self.mapping.load(control::WATCHED) != 0
    }

    /// Returns the number of the current counting epoch, or `None` if changes are not being
    /// counted. The result for a shard remains valid only as long as the shard is locked.
    pub fn change_epoch(&self) -> Option<u64> {
        self.counts_changes()
            .then(|| self.mapping.load(control::WATCH_EPOCH))
    }

    /// Starts counting changes, or keeps counting them, for at least an hour. The caller must hold
    /// no lock. Changes are guaranteed to be counted in every transaction that locks the shard
    /// after this call returns.
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
        // On failure, another process has already updated the word.
        if since == 0 || now.saturating_sub(since) >= NOTED_EVERY {
            let _ = watched.compare_exchange(since, now, Ordering::AcqRel, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns the modification counters for a hash in a shard, or zeros if changes are not
    /// counted. The shard must be locked, or unchanged since before the call to
    /// [`change_epoch`](Self::change_epoch).
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

/// Stops counting changes if no key has been watched for an hour.
pub(crate) fn end_counting(segment: &Segment, now: u64) {
    end_counting_after(segment, now, COUNTED_FOR);
}

/// Stops counting changes if no key has been watched for `time` milliseconds.
fn end_counting_after(segment: &Segment, now: u64, time: u64) {
    let watched = segment.mapping.word(control::WATCHED);
    let since = watched.load(Ordering::Relaxed);
    // A time in the future was stored before the machine was rebooted.
    if since != 0 && now.saturating_sub(since) >= time {
        let _ = watched.compare_exchange(since, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Returns the offset of a counter of a shard.
pub(crate) fn place(segment: &Segment, index: usize, counter: u64) -> u64 {
    let base = segment.mapping.layout().shard(index) + shard::CHANGES;
    base + 4 * counter
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::shard_set::ShardSet;
    use crate::store_file::opening::Options;

    /// `ONE` and `OTHER` each differ from `HASH` in the bits that select one of the key's two
    /// counters.
    const HASH: u64 = 5000 << 20;
    const ONE: u64 = HASH ^ 1 << 20;
    const OTHER: u64 = HASH ^ 1 << 44;

    #[test]
    fn changes_are_counted_while_a_key_was_watched_recently() {
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
