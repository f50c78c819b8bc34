//! Marked shards: shards in which dead processes left items that must be cleaned up before the
//! shard is read or changed (L5).
//!
//! A mark remains as long as the shard contains such items, including items of living processes. A
//! process that has just cleaned up the shard may therefore briefly ignore the mark: until the
//! coarse clock advances, which takes a few milliseconds.

use std::sync::atomic::Ordering;

use crate::mapped::layout::shard;
use crate::mapped::platform;
use crate::segment::{Segment, counter};

/// Whether a caller respects the mark of a shard, which means that the shard must be cleaned up
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// A marked shard causes [`Error::Marked`](crate::Error::Marked).
    Respected,
    /// The mark is ignored, because the caller is cleaning up the shard.
    Ignored,
}

impl Segment {
    /// Returns true if a shard must be cleaned up before it is read or changed.
    pub fn is_marked(&self, index: usize) -> bool {
        let at = self.mapping.layout().shard(index) + shard::COUNTER;
        self.mapping.load(at) & counter::MARK != 0
    }

    /// Records that this process cleaned up a marked shard, starting when the coarse clock showed
    /// `began`.
    ///
    /// All threads of the process may then ignore the mark for as long as the cleanup took. Without
    /// this extension, a process whose cleanup takes longer than a clock tick would repeat the
    /// cleanup forever.
    pub fn looked_after(&self, index: usize, began: u64) {
        let now = platform::coarse_milliseconds();
        let until = now.saturating_add(now.saturating_sub(began));
        self.looked_after[index].store(until, Ordering::Relaxed);
    }
}

/// Returns true if this process cleaned up a shard so recently that its threads may ignore the
/// shard's mark.
pub(crate) fn was_looked_after(segment: &Segment, index: usize) -> bool {
    platform::coarse_milliseconds() <= segment.looked_after[index].load(Ordering::Relaxed)
}

/// Updates the mark bit in a locked shard's counter to match the shard's mark word.
pub(crate) fn renew(segment: &Segment, index: usize) {
    let base = segment.mapping.layout().shard(index);
    let marked = segment.mapping.load(base + shard::MARK) != 0;
    counter::set_mark(segment.mapping.word(base + shard::COUNTER), marked);
}
