//! What a shard leaves behind (W8, M8): all the memory of its own at once, to
//! be freed later without a look at what is in it.
//!
//! Each run of a shard bears the shard's *age*. A shard that is emptied grows
//! older: its lists and counts begin anew, and what it had is told from what it
//! gets by the age of the runs alone. Upkeep goes through the extents, some at
//! a time, and frees whatever bears another age: a page in some nanoseconds,
//! whatever lies in it. Where more is left meanwhile it goes on from where it
//! is, and round to there again, so that however often a shard is emptied no
//! extent waits for longer than one round.
//!
//! Age and lists change in the shard's transaction. Runs are freed in steps of
//! the heap, under the shard's lock as well; how far that has come, and how many
//! bytes are left, changes in the heap's log with them. Whoever changes these
//! words by the shard's log has seen the heap's log empty under the same lock.

use std::time::Duration;

use crate::error::Error;
use crate::heap::pages::{PageUse, Run, next_age};
use crate::heap::step;
use crate::mapped::classes;
use crate::mapped::layout::{descriptor, shard};
use crate::mapped::shard_set::ShardSet;
use crate::segment::Segment;
use crate::segment::marks::Marks;
use crate::writing::transaction::Transaction;

impl Transaction<'_> {
    /// Leaves all blocks of a shard behind, arenas included, to be freed by
    /// [`Segment::free_remains`]: `objects` of them, as its user counts. The
    /// caller sees to it that nothing refers to any of them after the commit.
    /// False where that cannot be done now: this transaction has done something
    /// else before, somebody fills or reads a block of the shard in place, or there
    /// are runs of too many ages.
    pub fn leave_behind(&mut self, index: usize, objects: u64) -> Result<bool, Error> {
        let segment = self.segment;
        let mapping = &segment.mapping;
        let base = mapping.layout().shard(index);
        let (age, place) = (mapping.age(index), mapping.load(base + shard::LEFT_PLACE));
        let next_age = next_age(age);
        let busy = mapping.load(base + shard::STAGING) != 0
            || !self.frees.is_empty()
            || self
                .rest
                .as_ref()
                .is_some_and(|rest| !rest.granted.is_empty() || !rest.moved.is_empty());
        // A run must not be of the age of others that were left long ago.
        let too_many = place != 0 && mapping.load(base + shard::LEFT_SINCE) == next_age;
        if busy || too_many || self.has_pinned(index)? {
            return Ok(false);
        }
        // Under the shard's lock nobody begins another step of freeing.
        step::run(segment, |heap| heap.finish_return(index))?;
        if place == 0 {
            self.set(index, base + shard::LEFT_SINCE, age)?;
        }
        let place = place.saturating_sub(1);
        let used = mapping.load(base + shard::USED_BYTES);
        self.save(index, base + shard::CLASSES, classes::COUNT as u64)?;
        for class in 0..classes::COUNT as u64 {
            mapping.store(base + shard::CLASSES + class * 8, 0);
        }
        crate::probes::fault::step();
        for (field, value) in [
            (shard::FREE_LIST, 0),
            (shard::FREE_COUNT, 0),
            (shard::PAGES, 0),
            (shard::USED_BYTES, 0),
            (shard::AGE, next_age),
            (shard::LEFT_PLACE, place + 1),
            (shard::LEFT_UNTIL, place),
        ] {
            self.set(index, base + field, value)?;
        }
        self.add(index, shard::LEFT_BYTES, used as i64)?;
        self.add(index, shard::LEFT_OBJECTS, objects as i64)?;
        Ok(true)
    }

    /// Frees some of what a shard has left behind. Returns whether there is more.
    fn free_remains(&mut self, index: usize, patience: Duration) -> Result<bool, Error> {
        let segment = self.segment;
        let step = step::run_within(segment, patience, |heap| heap.free_flushed(index))?;
        for &page in &step.arenas {
            self.bury_left_arena(index, page)?;
        }
        Ok(step.more)
    }

    /// Puts an arena that was left behind on the graveyard. The heap's log is
    /// empty, and no return to the heap is unfinished: this transaction has just
    /// done a step of the heap for the shard.
    fn bury_left_arena(&mut self, index: usize, page: u64) -> Result<(), Error> {
        let mapping = &self.segment.mapping;
        let layout = *mapping.layout();
        let at = layout.descriptor(page);
        let bytes = Run::unpack(mapping.load(at + descriptor::RUN))
            .map_or(0, |run| mapping.bytes_left(page, run));
        self.add(index, shard::LEFT_BYTES, -(bytes as i64))?;
        self.set(index, at + descriptor::KIND, PageUse::BuriedArena.pack())?;
        self.link(index, layout.shard(index) + shard::GRAVEYARD, page)
    }
}

impl Segment {
    /// Whether a shard has left something behind that is not freed yet.
    #[inline]
    pub fn has_remains(&self, index: usize) -> bool {
        let base = self.mapping.layout().shard(index);
        self.mapping.load(base + shard::LEFT_PLACE) != 0
    }

    /// Frees some of what a shard has left behind. Holds its lock for a bounded
    /// time; waits for the heap's for this long at most. Returns whether there is
    /// more.
    pub fn free_remains(&self, index: usize, patience: Duration) -> Result<bool, Error> {
        if !self.has_remains(index) {
            return Ok(false);
        }
        self.write_where(ShardSet::one(index), Marks::Ignored, |transaction| {
            transaction.free_remains(index, patience)
        })
    }
}
