//! What a transaction notes for its commit: counted changes (M2), and how many keys a shard has.

use std::sync::atomic::Ordering;

use crate::segment::{change_counters, hints};
use crate::transactions::Transaction;
use crate::transactions::rare_state::Preparation;

impl Transaction<'_> {
    /// Counts a change of what has this hash, where changes are counted, with
    /// the commit: a transaction that is undone and tried again must not find
    /// its own.
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

    /// Counts the changes, just before the commit. Not logged: one more than
    /// there were does no harm.
    pub(crate) fn note_changes(&mut self) {
        let segment = self.segment;
        for (index, counter) in self.rare().changes.drain(..) {
            let place = change_counters::place(segment, index.into(), counter.into());
            let counter = segment.mapping.half(place);
            let count = counter.load(Ordering::Relaxed);
            counter.store(count.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Says how many keys a shard has, now and then, so that its hint table
    /// grows with them: after the commit, outside the lock, a bounded part each
    /// time.
    pub fn expect_keys(&mut self, index: usize, keys: u64) {
        if hints::bits_for(keys) > hints::bits(self.segment, index) {
            self.rare()
                .preparations
                .push(Preparation::Hints(index, keys));
        }
    }
}
