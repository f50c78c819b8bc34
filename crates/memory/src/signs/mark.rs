//! Marked shards: what dead processes may have left in them is looked after
//! before anything else (L5).
//!
//! A mark stays for as long as there is something to look after, and that may
//! belong to who lives. So who has looked is let in for a moment: as long as the
//! coarse clock stands still, which is some milliseconds.

use std::sync::atomic::Ordering;

use crate::handle::Segment;
use crate::mapped::counter;
use crate::mapped::layout::shard;
use crate::mapped::platform;
use crate::mapped::shard_set::ShardSet;
use crate::views::through_log::LookBack;
use crate::views::view::{Notes, View};

impl Segment {
    /// Whether somebody has to look after a shard before it is read or changed.
    pub fn is_marked(&self, index: usize) -> bool {
        let at = self.mapping.layout().shard(index) + shard::COUNTER;
        self.mapping.load(at) & counter::MARK != 0
    }

    /// The same, where a change of the shard that is not finished may have taken its mark away: a read through the log is
    /// kept out by the mark that was there before (R9). One that is recovered or finished meanwhile has none.
    #[cold]
    pub fn needs_look(&self, index: usize) -> bool {
        let at = self.mapping.layout().shard(index) + shard::COUNTER;
        let noted = counter::note(self.mapping.word(at));
        let was_marked = |back: LookBack<'_>| {
            let view = View::new(&back.before, Notes::Back(&back));
            view.mark(index) != 0
        };
        noted & counter::MARK != 0
            || noted & counter::ODD != 0
                && LookBack::new(self, ShardSet::one(index), &[noted]).is_some_and(was_marked)
    }

    /// This process began to look after a shard when the coarse clock showed `began`, and has done so. For as long again
    /// the mark keeps none of its threads from anything: one for which a look takes more than a tick of that clock
    /// would look for ever.
    pub fn looked_after(&self, index: usize, began: u64) {
        let now = platform::coarse_milliseconds();
        let until = now.saturating_add(now.saturating_sub(began));
        self.looked_after[index].store(until, Ordering::Relaxed);
    }

    pub(crate) fn was_looked_after(&self, index: usize) -> bool {
        platform::coarse_milliseconds() <= self.looked_after[index].load(Ordering::Relaxed)
    }

    /// Makes the mark in a locked shard's counter what the shard's word says.
    pub(crate) fn renew_mark(&self, index: usize) {
        let base = self.mapping.layout().shard(index);
        let marked = self.mapping.load(base + shard::MARK) != 0;
        counter::set_mark(self.mapping.word(base + shard::COUNTER), marked);
    }
}
