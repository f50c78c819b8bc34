//! The heap's global half (H1, H2): which extents are backed by memory, and
//! which runs of pages are granted to which shard.
//!
//! All of it changes under the heap's lock and in the heap's own undo log. A
//! step of the heap commits when its log is emptied, independent of the shard's
//! transaction that asked for it: before a grant the shard's log notes it, so
//! that rolling the shard back returns the run; a run that goes back is first
//! named in the shard's `RETURNING` word, so that whoever has the heap's lock
//! next for this shard finishes the return.

use std::sync::atomic::{Ordering, compiler_fence};
use std::time::Duration;

use crate::allocator::ahead;
use crate::allocator::page_use::PageUse;
use crate::allocator::remains::AGES;
use crate::error::{Error, Fault};
use crate::mapped::layout::{
    EXTENT, EXTENT_PAGES, HEAP_LOG_RESERVED, Layout, PAGE, arena, control, descriptor, shard,
};
use crate::probes::fault;
use crate::processes::lock;
use crate::segment::waiting::{Waiter, Which};
use crate::segment::{Segment, durability, membership};
use crate::writing::log::Log;
use crate::writing::removal;

/// The owner of the runs of arenas, in place of a shard: which arena it is
/// stands in the use of the run's first page, so that the arena changes hands
/// without them.
pub(crate) const IN_ARENA: usize = 0xfe;
/// The owner of the runs that a copy of the store has taken, in place of a shard.
pub(crate) const OF_COPY: usize = 0xfd;

/// The owner and length of a granted run, as in its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The shard, [`IN_ARENA`] or [`OF_COPY`].
    pub(crate) shard: usize,
    /// The shard's age when it was granted; see `remains.rs`.
    pub(crate) age: u64,
    pub(crate) pages: u64,
}

impl Run {
    pub(crate) fn pack(self) -> u64 {
        (self.shard as u64 + 1) | self.age << 8 | self.pages << 32
    }

    pub(crate) fn unpack(word: u64) -> Option<Run> {
        let shard = (word & 0xff) as usize;
        (shard != 0).then(|| Run {
            shard: shard - 1,
            age: word >> 8 & (AGES - 1),
            pages: word >> 32,
        })
    }
}

/// Write access to the heap's tables, with the heap's lock held.
pub(crate) struct Heap<'a> {
    segment: &'a Segment,
}

impl Segment {
    fn heap_log(&self) -> Log<'_> {
        Log {
            mapping: &self.mapping,
            tail: control::HEAP_LOG_TAIL,
            area: self.mapping.layout().heap_log,
            limit: HEAP_LOG_RESERVED,
        }
    }

    /// Runs one step of the heap under its lock. What it changed stays if it
    /// returns `Ok`, and is undone otherwise.
    pub(crate) fn with_heap<R>(
        &self,
        step: impl FnOnce(&Heap<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.with_heap_within(self.patience(), step)
    }

    /// [`with_heap`](Self::with_heap) with a patience of its own.
    pub(crate) fn with_heap_within<R>(
        &self,
        patience: Duration,
        step: impl FnOnce(&Heap<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let word = self.mapping.lock(control::HEAP_LOCK);
        let mut waiter = Waiter::new(self, Which::Heap, patience);
        let me = self.process.owner();
        if !lock::try_acquire(word, me) {
            lock::acquire(word, me, &mut waiter).map_err(|refusal| waiter.explain(refusal))?;
        }
        let guard = HeapGuard { segment: self };
        fault::step();
        // W3: whoever died in a step of the heap left its log.
        self.roll_back_heap()?;
        let result = step(&Heap { segment: self })?;
        self.heap_log().clear();
        fault::step();
        drop(guard);
        Ok(result)
    }

    fn roll_back_heap(&self) -> Result<(), Error> {
        let layout = *self.mapping.layout();
        let log = self.heap_log();
        if log.is_empty() {
            return Ok(());
        }
        log.roll_back(
            0,
            |at, words| {
                let end = at.saturating_add(words.saturating_mul(8));
                let counts = at >= control::HEAP_HIGH && end <= control::HEAP_RESERVED + 8;
                let tables = at >= layout.reserved_map && end <= layout.heap;
                let copy = at >= control::COPY_OWNER && end <= control::COPY_PAGES + 8;
                at % 8 == 0 && (counts || tables || copy || Heap::is_of_remains(&layout, at, end))
            },
            |_| Ok(()),
        )
    }

    /// Backs more extents with memory, at least so many pages in one run, and what is kept for removals on top of them (H6).
    /// Called without any lock held: the system call may take long (H2, W9).
    pub(crate) fn reserve(&self, pages: u64) -> Result<(), Error> {
        self.reserve_run(pages)?;
        if removal::is_removing() {
            return Ok(());
        }
        let kept = removal::reserved_extents(self.mapping.layout());
        let wanted = kept.saturating_add(pages.div_ceil(EXTENT_PAGES));
        while !self.has_free_extents(wanted) {
            let free = self.free_extents();
            self.reserve_run(EXTENT_PAGES)?;
            if self.free_extents() <= free {
                // Others were faster.
                break;
            }
        }
        Ok(())
    }

    fn reserve_run(&self, pages: u64) -> Result<(), Error> {
        let layout = self.mapping.layout();
        let needed = pages.div_ceil(EXTENT_PAGES);
        let high = self.mapping.load(control::HEAP_HIGH).min(layout.extents);
        let Some((first, end)) = self.with_heap(|heap| Ok(heap.backable_run(needed)))? else {
            return match self.recall()? {
                true => Ok(()),
                false => Err(Error::OutOfMemory),
            };
        };
        // What lies beyond all that was ever reserved, a little ahead of need.
        if end > high {
            let start = first.max(high);
            let ahead = (high / 8).clamp(2, ahead::EXTENTS_AT_ONCE);
            let wanted = (end - start).max(ahead).min(layout.extents - start);
            let count = if self.back_with_memory(start, wanted) {
                wanted
            } else if self.back_with_memory(start, end - start) {
                end - start
            } else {
                return Err(Error::OutOfMemory);
            };
            self.with_heap(|heap| heap.add_if_missing(start, count))?;
        }
        // What was given back, inside of it.
        for extent in first..end.min(high) {
            if self.with_heap(|heap| Ok(heap.is_backed(extent)))? {
                continue;
            }
            if !self.back_with_memory(extent, 1) {
                return Err(Error::OutOfMemory);
            }
            self.with_heap(|heap| heap.add_if_missing(extent, 1))?;
        }
        Ok(())
    }

    /// Backs extents with memory and makes them free, unless another process is
    /// faster.
    pub(crate) fn back_extents(&self, first: u64, count: u64) -> Result<(), Error> {
        if !self.back_with_memory(first, count) {
            return Err(Error::OutOfMemory);
        }
        self.with_heap(|heap| heap.add_if_missing(first, count))
    }

    /// Allocates the extents and the parts of the tables that describe them.
    fn back_with_memory(&self, first: u64, count: u64) -> bool {
        let layout = self.mapping.layout();
        let bits = |map: u64| (map + first / 8, count / 8 + 2);
        let ranges = [
            bits(layout.reserved_map),
            bits(layout.some_free_map),
            bits(layout.all_free_map),
            bits(layout.retired_map),
            (layout.page_masks + first * 2, count * 2),
            (
                layout.descriptor(first * EXTENT_PAGES),
                count * EXTENT_PAGES * descriptor::STRIDE,
            ),
            (layout.heap + first * EXTENT, count * EXTENT),
        ];
        ranges
            .into_iter()
            .all(|(start, length)| membership::back_range(self, start, length).is_ok())
    }
}

struct HeapGuard<'a> {
    segment: &'a Segment,
}

impl Drop for HeapGuard<'_> {
    fn drop(&mut self) {
        if fault::abandoned() {
            return;
        }
        // An error on the way: undo; a damaged log stays for `check` to find.
        let _ = self.segment.roll_back_heap();
        self.segment.unlock_heap();
    }
}

impl Heap<'_> {
    pub(crate) fn segment(&self) -> &Segment {
        self.segment
    }

    pub(crate) fn layout(&self) -> &Layout {
        self.segment.mapping.layout()
    }

    /// A bit of a map with a bit for each extent.
    pub(crate) fn bit(&self, map: u64, extent: u64) -> bool {
        self.load(map + extent / 64 * 8) >> (extent % 64) & 1 == 1
    }

    pub(crate) fn set(&self, at: u64, value: u64) -> Result<(), Error> {
        self.save(at, 1)?;
        self.segment.mapping.store(at, value);
        fault::step();
        Ok(())
    }

    fn save(&self, at: u64, words: u64) -> Result<(), Error> {
        let log = self.segment.heap_log();
        if log.is_empty() {
            durability::begin_writing(self.segment)?;
        }
        log.save(at, words).map_err(|_| Error::OutOfMemory)
    }

    pub(crate) fn load(&self, at: u64) -> u64 {
        self.segment.mapping.load(at)
    }

    /// Sets or clears bits `first..first + count` of a bit map.
    pub(crate) fn set_bits(&self, map: u64, first: u64, count: u64, on: bool) -> Result<(), Error> {
        let end = first + count;
        let mut bit = first;
        while bit < end {
            let stop = (bit | 63).min(end - 1);
            let mask = (u64::MAX << (bit % 64)) & (u64::MAX >> (63 - stop % 64));
            let at = map + bit / 64 * 8;
            let old = self.load(at);
            let new = if on { old | mask } else { old & !mask };
            if new != old {
                self.set(at, new)?;
            }
            bit = stop + 1;
        }
        Ok(())
    }

    pub(crate) fn page_mask(&self, extent: u64) -> u64 {
        let at = self.segment.mapping.layout().page_masks + extent / 4 * 8;
        self.load(at) >> (extent % 4 * 16) & 0xffff
    }

    /// Changes an extent's mask of free pages, and the two maps that follow
    /// from it.
    pub(crate) fn set_page_mask(&self, extent: u64, mask: u64) -> Result<(), Error> {
        let layout = *self.segment.mapping.layout();
        let at = layout.page_masks + extent / 4 * 8;
        let shift = extent % 4 * 16;
        self.set(at, self.load(at) & !(0xffff << shift) | mask << shift)?;
        self.set_bits(layout.some_free_map, extent, 1, mask != 0)?;
        self.set_bits(layout.all_free_map, extent, 1, mask == 0xffff)
    }

    pub(crate) fn add_free_pages(&self, change: i64) -> Result<(), Error> {
        let free = self.load(control::HEAP_FREE_PAGES);
        self.set(control::HEAP_FREE_PAGES, free.wrapping_add_signed(change))
    }

    /// Marks whole extents as free or used, in the masks and both maps; one log
    /// entry for all masks.
    pub(crate) fn set_extents(&self, first: u64, count: u64, free: bool) -> Result<(), Error> {
        let layout = *self.segment.mapping.layout();
        let end = first + count;
        let at = |extent: u64| layout.page_masks + extent / 4 * 8;
        self.save(at(first), (end - 1) / 4 - first / 4 + 1)?;
        for extent in first..end {
            let bits = 0xffff << (extent % 4 * 16);
            let old = self.load(at(extent));
            let new = if free { old | bits } else { old & !bits };
            self.segment.mapping.store(at(extent), new);
        }
        fault::step();
        self.set_bits(layout.some_free_map, first, count, free)?;
        self.set_bits(layout.all_free_map, first, count, free)
    }

    /// Marks extents as backed by memory, unless another process was faster:
    /// what that one reserved serves us as well, and what we populated is still
    /// there for the next.
    fn add_if_missing(&self, first: u64, count: u64) -> Result<(), Error> {
        let high = self.load(control::HEAP_HIGH);
        let missing = |extent| !self.is_backed(extent) && !self.is_retired(extent);
        if (first..first + count).all(missing) && first <= high {
            self.add_extents(first, count)?;
        }
        Ok(())
    }

    pub(crate) fn is_backed(&self, extent: u64) -> bool {
        self.bit(self.layout().reserved_map, extent)
    }

    fn add_extents(&self, first: u64, count: u64) -> Result<(), Error> {
        self.set_extents(first, count, true)?;
        let reserved = self.segment.mapping.layout().reserved_map;
        self.set_bits(reserved, first, count, true)?;
        self.add_free_pages((count * EXTENT_PAGES) as i64)?;
        let backed = self.load(control::HEAP_RESERVED);
        self.set(control::HEAP_RESERVED, backed.wrapping_add(count))?;
        let high = self.load(control::HEAP_HIGH);
        self.set(control::HEAP_HIGH, high.max(first + count))
    }

    /// Marks a run as free or used. It starts at an extent, or lies in one.
    pub(crate) fn mark(&self, page: u64, pages: u64, free: bool) -> Result<(), Error> {
        let (mut extent, start) = (page / EXTENT_PAGES, page % EXTENT_PAGES);
        let mut left = pages;
        if start == 0 && pages >= EXTENT_PAGES {
            let whole = pages / EXTENT_PAGES;
            self.set_extents(extent, whole, free)?;
            extent += whole;
            left = pages % EXTENT_PAGES;
        }
        if left > 0 {
            let old = self.page_mask(extent);
            let bits = (0xffff_u64 >> EXTENT_PAGES.saturating_sub(left)) << start;
            let expected = if free { 0 } else { bits };
            if bits > 0xffff || old & bits != expected {
                return Err(Error::Damaged(Fault {
                    at: self.segment.mapping.layout().page_masks + extent * 2,
                    what: "a mask of free pages that agrees with the runs",
                }));
            }
            self.set_page_mask(extent, old ^ bits)?;
        }
        self.add_free_pages(if free { pages as i64 } else { -(pages as i64) })
    }

    /// Grants a run of `pages` pages to a shard, as `runs` runs of equal
    /// length. `note` is told before anything changes. `None` where no free
    /// run is long enough.
    pub(crate) fn grant(
        &self,
        index: usize,
        pages: u64,
        runs: u64,
        mut note: impl FnMut(u64) -> Result<(), Error>,
    ) -> Result<Option<u64>, Error> {
        self.finish_return(index)?;
        let Some(page) = self.find(pages) else {
            return Ok(None);
        };
        let layout = *self.segment.mapping.layout();
        let each = pages / runs;
        for run in 0..runs {
            note(page + run * each)?;
        }
        self.mark(page, pages, false)?;
        let granted = Run {
            shard: index,
            age: self.segment.mapping.age(index),
            pages: each,
        };
        for run in 0..runs {
            self.set(layout.descriptor(page + run * each), granted.pack())?;
        }
        Ok(Some(page))
    }

    /// Takes a run back if it belongs to the shard; done already otherwise.
    pub(crate) fn take_back(&self, index: usize, page: u64) -> Result<(), Error> {
        self.take_back_from(index, None, page)
    }

    /// Takes a run back if it belongs to the shard, or to the arena at that
    /// page; done already otherwise.
    fn take_back_from(&self, index: usize, arena: Option<u64>, page: u64) -> Result<(), Error> {
        let layout = *self.segment.mapping.layout();
        if page >= layout.pages() {
            return Err(Error::Damaged(Fault {
                at: page,
                what: "the number of a page in the heap",
            }));
        }
        // Free since, and given back to the system.
        if !self.segment.mapping.page_reserved(page) {
            return Ok(());
        }
        let at = layout.descriptor(page);
        let mapping = &self.segment.mapping;
        let in_arena = arena.is_some() && mapping.arena_of_run(page) == arena;
        match Run::unpack(self.load(at)) {
            Some(run) if run.shard == index || in_arena => {
                if run.pages == 0 || !mapping.reserved(layout.page(page), run.pages * PAGE) {
                    return Err(Error::Damaged(Fault {
                        at,
                        what: "a run that ends in reserved memory",
                    }));
                }
                self.mark(page, run.pages, true)?;
                if in_arena {
                    // Whoever finds this return unfinished must not take the
                    // run of another arena for this one's.
                    self.set(at + descriptor::KIND, 0)?;
                }
                self.set(at, 0)
            }
            _ => Ok(()),
        }
    }

    /// Finishes a return to the heap that its owner did not live to finish.
    pub(crate) fn finish_return(&self, index: usize) -> Result<(), Error> {
        let mapping = &self.segment.mapping;
        let at = mapping.layout().shard(index) + shard::RETURNING;
        let returning = mapping.load(at);
        if returning == 0 {
            return Ok(());
        }
        durability::begin_writing(self.segment)?;
        let page = returning - 1;
        let graveyard = mapping.layout().shard(index) + shard::GRAVEYARD;
        let first = mapping.load(graveyard);
        let arena = self.dying_arena(first);
        let take_off = |list: u64, next: u64| {
            compiler_fence(Ordering::SeqCst);
            // The list of an arena lies in the heap.
            mapping.save_for_copy(list, 8);
            mapping.store(list, next);
            fault::step();
        };
        if first == returning && mapping.page_reserved(page) {
            let next = mapping.load(mapping.layout().descriptor(page) + descriptor::NEXT);
            take_off(graveyard, next);
        } else if let Some(runs) = arena.map(|page| mapping.layout().page(page) + arena::RUNS)
            && mapping.load(runs) == returning
            && mapping.page_reserved(page)
        {
            take_off(runs, mapping.siblings(page).0);
        }
        self.take_back_from(index, arena, page)?;
        // The heap's step must be final before the note of it goes.
        self.segment.heap_log().clear();
        fault::step();
        mapping.store(at, 0);
        fault::step();
        Ok(())
    }

    /// The arena at a page on its way to the heap, by the page's number plus 1.
    fn dying_arena(&self, link: u64) -> Option<u64> {
        let mapping = &self.segment.mapping;
        let page = link.checked_sub(1)?;
        let dying =
            mapping.page_reserved(page) && mapping.page_use(page) == Some(PageUse::BuriedArena);
        dying.then_some(page)
    }

    /// The run to be returned next, plus 1, by the first of the shard's
    /// graveyard: the runs of an arena go before its first page. Each is looked
    /// at, so that a damaged list that leads in circles ends.
    fn next_to_return(&self, index: usize, first: u64) -> Result<u64, Error> {
        let mapping = &self.segment.mapping;
        let damaged = |at, what| Err(Error::Damaged(Fault { at, what }));
        if let Some(page) = self.dying_arena(first) {
            let at = mapping.layout().page(page) + arena::RUNS;
            let run = mapping.load(at);
            if run != 0 {
                let sound =
                    mapping.page_reserved(run - 1) && mapping.arena_of_run(run - 1) == Some(page);
                return if sound {
                    Ok(run)
                } else {
                    damaged(at, "a run of the arena")
                };
            }
        }
        let page = first - 1;
        let owner = |page| {
            let at = mapping.layout().descriptor(page) + descriptor::RUN;
            Run::unpack(self.load(at)).map(|run| run.shard)
        };
        if mapping.page_reserved(page) && owner(page) == Some(index) {
            Ok(first)
        } else {
            let at = mapping.layout().shard(index) + shard::GRAVEYARD;
            damaged(at, "a run of the shard")
        }
    }

    /// Starts to return the first run of the shard's graveyard, and finishes
    /// it. Returns false where there is none.
    pub(crate) fn bury_one(&self, index: usize) -> Result<bool, Error> {
        self.finish_return(index)?;
        let mapping = &self.segment.mapping;
        let base = mapping.layout().shard(index);
        let first = mapping.load(base + shard::GRAVEYARD);
        if first == 0 {
            return Ok(false);
        }
        durability::begin_writing(self.segment)?;
        let run = self.next_to_return(index, first)?;
        mapping.store(base + shard::RETURNING, run);
        compiler_fence(Ordering::SeqCst);
        fault::step();
        self.finish_return(index)?;
        Ok(true)
    }
}
