//! Marked shards: what dead processes may have left in them is looked after
//! before anything else (L5).
//!
//! A mark stays for as long as there is something to look after, and that may
//! belong to who lives. So who has looked is let in for a moment: as long as the
//! coarse clock stands still, which is some milliseconds.

use std::sync::atomic::Ordering;

use crate::mapped::layout::shard;
use crate::mapped::platform;
use crate::segment::{Segment, counter};

/// What the mark of a shard means to who comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// Somebody has to look after the shard first: [`Error::Marked`](crate::Error::Marked).
    Respected,
    /// Nothing, as for who does look after it.
    Ignored,
}

impl Segment {
    /// Whether somebody has to look after a shard before it is read or changed.
    pub fn is_marked(&self, index: usize) -> bool {
        let at = self.mapping.layout().shard(index) + shard::COUNTER;
        self.mapping.load(at) & counter::MARK != 0
    }

    /// This process began to look after a shard when the coarse clock showed `began`, and has done so. For as long again
    /// the mark keeps none of its threads from anything: one for which a look takes more than a tick of that clock
    /// would look for ever.
    pub fn looked_after(&self, index: usize, began: u64) {
        let now = platform::coarse_milliseconds();
        let until = now.saturating_add(now.saturating_sub(began));
        self.looked_after[index].store(until, Ordering::Relaxed);
    }
}

/// Whether this process has looked after a shard a moment ago, so that its mark keeps no thread from anything.
pub(crate) fn was_looked_after(segment: &Segment, index: usize) -> bool {
    platform::coarse_milliseconds() <= segment.looked_after[index].load(Ordering::Relaxed)
}

/// Makes the mark in a locked shard's counter what the shard's word says.
pub(crate) fn renew(segment: &Segment, index: usize) {
    let base = segment.mapping.layout().shard(index);
    let marked = segment.mapping.load(base + shard::MARK) != 0;
    counter::set_mark(segment.mapping.word(base + shard::COUNTER), marked);
}
