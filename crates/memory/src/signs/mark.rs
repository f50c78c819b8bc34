//! Marked shards: what dead processes may have left in them is looked after
//! before anything else (L5).
//!
//! A mark stays for as long as there is something to look after, and that may
//! belong to who lives. So who has looked is let in for a moment: as long as the
//! coarse clock stands still, which is some milliseconds.

use std::sync::atomic::Ordering;

use crate::handle::Segment;
use crate::mapped::layout::shard;
use crate::mapped::platform;
use crate::views::counter;

impl Segment {
    /// Whether somebody has to look after a shard before it is read or changed.
    pub fn is_marked(&self, index: usize) -> bool {
        let at = self.mapping.layout().shard(index) + shard::COUNTER;
        self.mapping.load(at) & counter::MARK != 0
    }

    /// This process looked after a shard when the coarse clock showed `now`:
    /// while it does, the mark keeps none of its threads from anything.
    pub fn looked_after(&self, index: usize, now: u64) {
        self.looked_after[index].store(now, Ordering::Relaxed);
    }

    pub(crate) fn was_looked_after(&self, index: usize) -> bool {
        self.looked_after[index].load(Ordering::Relaxed) == platform::coarse_milliseconds()
    }

    /// Makes the mark in a locked shard's counter what the shard's word says.
    pub(crate) fn renew_mark(&self, index: usize) {
        let base = self.mapping.layout().shard(index);
        let marked = self.mapping.load(base + shard::MARK) != 0;
        counter::set_mark(self.mapping.word(base + shard::COUNTER), marked);
    }
}
