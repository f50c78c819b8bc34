//! The state that a transaction records for its commit: counted changes (M2), and the number of
//! keys in a shard.

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::probes::fault;
use crate::segment::settings::{CACHE_COUNTS, Setting};
use crate::segment::{change_counters, hints};
use crate::transactions::Transaction;
use crate::transactions::rare_state::Preparation;

impl Transaction<'_> {
    /// Counts a change to the key with this hash, if changes are being counted. The counter is
    /// incremented at commit, so that a transaction that is rolled back and retried does not see
    /// its own change.
    pub fn count_change(&mut self, index: usize, hash: u64) {
        if !self.segment.counts_changes() {
            return;
        }
        debug_assert!(self.shards().contains(index));
        let changes = &mut self.rare().changes;
        for counter in change_counters::counters(hash) {
            changes.push((index as u8, counter as u16));
        }
    }

    /// Increments the modification counters just before the commit. The increments are not logged,
    /// because an excess count is harmless.
    pub(crate) fn note_changes(&mut self) {
        let segment = self.segment;
        for (index, counter) in self.rare().changes.drain(..) {
            let place = change_counters::place(segment, index.into(), counter.into());
            let counter = segment.mapping.half(place);
            let count = counter.load(Ordering::Relaxed);
            counter.store(count.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Increments a setting that tells processes that their cached data is stale: immediately, and
    /// again after the commit.
    ///
    /// Until the undo logs are empty, a reader may still find the old state (R9) and cache it under
    /// the first count. If this process dies before the second increment, recovery performs it.
    pub fn count_up(&mut self, setting: Setting) -> Result<(), Error> {
        debug_assert!(CACHE_COUNTS.contains(&setting));
        self.segment.count_up(setting)?;
        fault::step();
        self.rare().counted.push(setting);
        Ok(())
    }

    /// Performs the second increments of [`count_up`](Self::count_up). The logs must be empty and
    /// the shards' counters odd, so that recovery notices a death before the increments.
    #[cold]
    pub(crate) fn count_after_commit(&mut self) {
        let segment = self.segment;
        for setting in self.rare().counted.drain(..) {
            // This cannot fail, because the store is writable.
            let _ = segment.count_up(setting);
            fault::step();
        }
    }

    /// Reports the current number of keys in a shard, so that its hint table grows accordingly. The
    /// table grows after the commit, without the lock, by a bounded amount each time.
    pub fn expect_keys(&mut self, index: usize, keys: u64) {
        if hints::bits_for(keys) > hints::bits(self.segment, index) {
            self.rare()
                .preparations
                .push(Preparation::Hints(index, keys));
        }
    }
}
