//! Empties a shard in constant time (W8, M8): all of its memory is abandoned in one step, and later
//! freed without reading the contents. See `flushed_runs.rs`.

use std::time::Duration;

use crate::error::Error;
use crate::heap::pages::{PageUse, Run, next_age};
use crate::heap::step;
use crate::mapped::classes;
use crate::mapped::layout::{descriptor, shard};
use crate::transactions::Transaction;

impl Transaction<'_> {
    /// Abandons all blocks of a shard, including arenas, for
    /// [`Segment::free_remains`](crate::Segment::free_remains) to free later. `objects` is the
    /// caller's count of the abandoned objects.
    ///
    /// The caller must ensure that nothing refers to any of these blocks after the commit. Returns
    /// false, without abandoning anything, if memory was already granted, moved or freed in this
    /// transaction, if a block of the shard is being filled or read in place, or if abandoned runs
    /// of too many different ages remain.
    pub fn leave_behind(&mut self, index: usize, objects: u64) -> Result<bool, Error> {
        let segment = self.segment;
        let mapping = &segment.mapping;
        let base = mapping.layout().shard(index);
        let (age, place) = (mapping.age(index), mapping.load(base + shard::LEFT_PLACE));
        let next_age = next_age(age);
        let busy = mapping.load(base + shard::STAGING) != 0
            || !self.frees.is_empty()
            || self
                .rare
                .as_ref()
                .is_some_and(|rare| !rare.granted.is_empty() || !rare.moved.is_empty());
        // The new age must differ from the ages of all abandoned runs that remain.
        let too_many = place != 0 && mapping.load(base + shard::LEFT_SINCE) == next_age;
        if busy || too_many || self.has_pinned(index)? {
            return Ok(false);
        }
        // As long as this transaction holds the shard's lock, no other process can start a freeing
        // step.
        let finished = step::run(segment, |heap| heap.finish_return(index));
        self.after_heap_step(finished)?;
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

    /// Frees part of the memory that flushes of a shard abandoned. Returns whether any abandoned
    /// memory remains.
    pub(crate) fn free_some_flushed(
        &mut self,
        index: usize,
        patience: Duration,
    ) -> Result<bool, Error> {
        let segment = self.segment;
        let step = step::run_within(segment, patience, |heap| heap.free_flushed(index));
        let step = self.after_heap_step(step)?;
        for &page in &step.arenas {
            self.bury_flushed_arena(index, page)?;
        }
        Ok(step.more)
    }

    /// Adds an abandoned arena to the graveyard, the queue of memory to be freed. The heap's log is
    /// empty and no return to the heap is unfinished, because this transaction has just run a heap
    /// step for the shard.
    fn bury_flushed_arena(&mut self, index: usize, page: u64) -> Result<(), Error> {
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
