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

use smallvec::SmallVec;

use crate::allocator::heap::{Heap, Run};
use crate::allocator::page_use::{PageUse, bitmap_words};
use crate::error::{Error, Fault};
use crate::mapped::classes;
use crate::mapped::layout::{EXTENT_PAGES, Layout, PAGE, control, descriptor, shard};
use crate::mapped::mapping::Mapping;
use crate::mapped::shard_set::ShardSet;
use crate::segment::Segment;
use crate::segment::marks::Marks;
use crate::writing::transaction::Transaction;

/// Ages count up to here and begin anew.
pub(crate) const AGES: u64 = 1 << 24;
/// Extents looked at in one step of the heap (W9): some 100 us.
const EXTENTS_AT_ONCE: u64 = 64;
/// A step ends when it has filled so much of the heap's log,
const LOG_BYTES: u64 = 40 << 10;
/// and before a run of several extents, whose entry is long, unless this is all.
const LOG_BYTES_BEFORE_LONG: u64 = 4 << 10;
/// And with so many arenas.
const ARENAS_AT_ONCE: usize = 32;

/// Arenas that were left behind, by their first pages.
type Arenas = SmallVec<[u64; ARENAS_AT_ONCE]>;

/// What a step of freeing came to.
struct Step {
    /// Whether anything is left.
    more: bool,
    /// Arenas that it came to, which go by the graveyard.
    arenas: Arenas,
}

/// How far a step of freeing has come.
struct Progress {
    /// The extent to go on with.
    extent: u64,
    /// Bytes in the blocks that were freed.
    bytes: u64,
    /// Pages freed that are not counted as free yet.
    pages: u64,
    arenas: Arenas,
    /// The extent of the first of them.
    first_arena: Option<u64>,
}

impl Mapping {
    /// The age of a shard's own runs.
    pub(crate) fn age(&self, index: usize) -> u64 {
        self.load(self.layout().shard(index) + shard::AGE) % AGES
    }

    /// Bytes in the blocks of a run that a shard has left behind.
    pub(crate) fn bytes_left(&self, page: u64, run: Run) -> u64 {
        match self.page_use(page) {
            Some(PageUse::Slab(class)) => {
                let bitmap = self.layout().descriptor(page) + descriptor::BITMAP;
                let free: u32 = (0..bitmap_words(class))
                    .map(|word| self.load(bitmap + word * 8).count_ones())
                    .sum();
                let used = classes::blocks(class).saturating_sub(free);
                u64::from(used) * u64::from(classes::SIZES[class])
            }
            Some(PageUse::Large) => run.pages.saturating_mul(PAGE),
            Some(PageUse::Arena) => self
                .load(self.layout().page(page) + shard::PAGES)
                .saturating_mul(PAGE),
            _ => 0,
        }
    }

    /// Whether the round of freeing what a shard has left behind is still to come
    /// to an extent.
    pub(crate) fn is_to_be_searched(&self, index: usize, extent: u64) -> bool {
        let base = self.layout().shard(index);
        let until = self.load(base + shard::LEFT_UNTIL);
        match self.load(base + shard::LEFT_PLACE).checked_sub(1) {
            None => false,
            Some(place) if place < until => (place..until).contains(&extent),
            Some(place) => extent >= place || extent < until,
        }
    }
}

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
        let next_age = (age + 1) % AGES;
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
        segment.with_heap(|heap| heap.finish_return(index))?;
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
        let step = segment.with_heap_within(patience, |heap| heap.free_remains(index))?;
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

impl Heap<'_> {
    /// Whether words are among those that say what a shard has left behind.
    pub(crate) fn is_of_remains(layout: &Layout, at: u64, end: u64) -> bool {
        let Some(behind) = at.checked_sub(layout.shard_start) else {
            return false;
        };
        let start = at - behind % layout.shard_stride;
        end <= layout.heap_log && at >= start + shard::LEFT_BYTES && end <= start + shard::LEFT_END
    }

    fn free_remains(&self, index: usize) -> Result<Step, Error> {
        self.finish_return(index)?;
        let layout = *self.layout();
        let base = layout.shard(index);
        let Some(place) = self.load(base + shard::LEFT_PLACE).checked_sub(1) else {
            return Ok(Step {
                more: false,
                arenas: Arenas::new(),
            });
        };
        let until = self.load(base + shard::LEFT_UNTIL);
        let high = self.load(control::HEAP_HIGH).min(layout.extents);
        let is_last_part = place < until;
        let end = if is_last_part { until.min(high) } else { high };
        let mut progress = Progress {
            extent: place,
            bytes: 0,
            pages: 0,
            arenas: Arenas::new(),
            first_arena: None,
        };
        for _ in 0..EXTENTS_AT_ONCE {
            let extent = progress.extent;
            let tail = self.load(control::HEAP_LOG_TAIL);
            if extent >= end || tail > LOG_BYTES || progress.arenas.len() == ARENAS_AT_ONCE {
                break;
            }
            let in_use = self.load(layout.reserved_map + extent / 64 * 8)
                & !self.load(layout.all_free_map + extent / 64 * 8);
            match (in_use >> (extent % 64)).trailing_zeros() {
                64 => progress.extent = (extent | 63) + 1,
                0 if self.free_remains_in(index, &mut progress)? => {}
                0 => break,
                none => progress.extent += u64::from(none),
            }
        }
        self.add_free_pages(progress.pages as i64)?;
        let next = match progress {
            // It is found again should this process die before it is buried.
            Progress {
                first_arena: Some(extent),
                ..
            } => Some(extent),
            Progress { extent, .. } if extent < end => Some(extent),
            _ if is_last_part || until == 0 => None,
            _ => Some(0),
        };
        let left = self.load(base + shard::LEFT_BYTES);
        match next {
            Some(extent) => {
                let left = left.saturating_sub(progress.bytes);
                self.set(base + shard::LEFT_BYTES, left)?;
                self.set(base + shard::LEFT_PLACE, extent + 1)?;
            }
            None => {
                for field in [shard::LEFT_BYTES, shard::LEFT_OBJECTS, shard::LEFT_PLACE] {
                    self.set(base + field, 0)?;
                }
            }
        }
        Ok(Step {
            more: next.is_some(),
            arenas: progress.arenas,
        })
    }

    /// Frees the runs that start in an extent and were left behind by a shard,
    /// but for arenas, which it notes. Returns false where it stopped before a
    /// long run that is another step's.
    fn free_remains_in(&self, index: usize, progress: &mut Progress) -> Result<bool, Error> {
        let mapping = &self.segment().mapping;
        let layout = *self.layout();
        let age = mapping.age(index);
        let extent = progress.extent;
        let first = extent * EXTENT_PAGES;
        let (mut page, mut freed) = (first, 0);
        while page < first + EXTENT_PAGES && progress.arenas.len() < ARENAS_AT_ONCE {
            let at = layout.descriptor(page);
            let Some(run) = Run::unpack(self.load(at + descriptor::RUN)) else {
                page += 1;
                continue;
            };
            let kind = mapping.page_use(page);
            let buried = matches!(kind, Some(PageUse::Buried | PageUse::BuriedArena));
            if run.shard != index || run.age == age || buried {
                page += run.pages.max(1);
                continue;
            }
            let start = page - first;
            let in_extent = start + run.pages <= EXTENT_PAGES;
            if run.pages == 0
                || start > 0 && !in_extent
                || !mapping.reserved(layout.page(page), run.pages * PAGE)
            {
                return Err(Error::Damaged(Fault {
                    at,
                    what: "a run that ends in reserved memory",
                }));
            }
            if kind == Some(PageUse::Arena) {
                progress.arenas.push(page);
                progress.first_arena = progress.first_arena.or(Some(extent));
                page += run.pages;
                continue;
            }
            if in_extent {
                freed |= (0xffff_u64 >> (EXTENT_PAGES - run.pages)) << start;
            } else if self.load(control::HEAP_LOG_TAIL) > LOG_BYTES_BEFORE_LONG {
                return Ok(false);
            } else {
                self.mark(page, run.pages, true)?;
            }
            progress.bytes += mapping.bytes_left(page, run);
            self.set(at + descriptor::RUN, 0)?;
            page += run.pages;
        }
        if freed != 0 {
            let mask = self.page_mask(extent);
            if mask & freed != 0 {
                return Err(Error::Damaged(Fault {
                    at: layout.page_masks + extent * 2,
                    what: "a mask of free pages that agrees with the runs",
                }));
            }
            self.set_page_mask(extent, mask | freed)?;
            progress.pages += u64::from(freed.count_ones());
        }
        progress.extent = (page / EXTENT_PAGES).max(extent + 1);
        Ok(true)
    }
}
