//! What a transaction records for its commit: counted changes (M2), and the number of keys in a
//! shard.

use std::sync::atomic::Ordering;

use crate::segment::{change_counters, hints};
use crate::transactions::Transaction;
use crate::transactions::rare_state::Preparation;

impl Transaction<'_> {
    /// Counts a change of the key with this hash, if changes are being counted. The counter is
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
    /// because counting too many is harmless.
    pub(crate) fn note_changes(&mut self) {
        let segment = self.segment;
        for (index, counter) in self.rare().changes.drain(..) {
            let place = change_counters::place(segment, index.into(), counter.into());
            let counter = segment.mapping.half(place);
            let count = counter.load(Ordering::Relaxed);
            counter.store(count.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Reports the current number of keys in a shard, so that its hint table grows with them. The
    /// table grows after the commit, outside the lock, by a bounded amount each time.
    pub fn expect_keys(&mut self, index: usize, keys: u64) {
        if hints::bits_for(keys) > hints::bits(self.segment, index) {
            self.rare()
                .preparations
                .push(Preparation::Hints(index, keys));
        }
    }
}
