//! Backs the heap's extents with memory (H2). Memory is reserved before a lock is acquired, so that
//! no transaction waits for it.

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::heap::step::{self, Heap};
use crate::heap::{removal, search, trim};
use crate::mapped::layout::{EXTENT, EXTENT_PAGES, PAGE, control, descriptor};
use crate::mapped::platform::coarse_milliseconds;
use crate::segment::{Segment, membership};

/// The number of extents that one step backs with memory, which takes the kernel about 100 us.
pub(crate) const EXTENTS_AT_ONCE: u64 = 4;

/// How long a store that ran out of memory counts as full for work that can wait, in milliseconds.
const FULL_FOR: u64 = 1000;

/// Backs more extents with memory: enough for a run of `pages` pages, and for the reserve that only
/// removals may use (H6). The caller must hold no lock, because the system call may take a long
/// time (H2, W9).
pub(crate) fn reserve(segment: &Segment, pages: u64) -> Result<(), Error> {
    reserve_run(segment, pages)?;
    if removal::is_removing() {
        return Ok(());
    }
    let kept = removal::reserved_extents(segment.mapping.layout());
    let wanted = kept.saturating_add(pages.div_ceil(EXTENT_PAGES));
    while !search::has_free_extents(segment, wanted) {
        let free = search::free_extents(segment);
        reserve_run(segment, EXTENT_PAGES)?;
        if search::free_extents(segment) <= free {
            // Other processes have already used up the new extents.
            break;
        }
    }
    Ok(())
}

/// Backs extents with memory until a run of `pages` pages is free.
fn reserve_run(segment: &Segment, pages: u64) -> Result<(), Error> {
    let layout = segment.mapping.layout();
    let needed = pages.div_ceil(EXTENT_PAGES);
    let high = segment.mapping.load(control::HEAP_HIGH).min(layout.extents);
    let Some((first, end)) = step::run(segment, |heap| Ok(heap.backable_run(needed)))? else {
        return match trim::recall(segment)? {
            true => Ok(()),
            false => Err(Error::OutOfMemory),
        };
    };
    // Back extents that were never reserved before, and a few more in advance.
    if end > high {
        let start = first.max(high);
        let ahead = (high / 8).clamp(2, EXTENTS_AT_ONCE);
        let wanted = (end - start).max(ahead).min(layout.extents - start);
        let count = if back_with_memory(segment, start, wanted) {
            wanted
        } else if back_with_memory(segment, start, end - start) {
            end - start
        } else {
            return Err(Error::OutOfMemory);
        };
        step::run(segment, |heap| heap.add_if_missing(start, count))?;
    }
    // Back the lower extents whose memory was returned to the system.
    for extent in first..end.min(high) {
        if step::run(segment, |heap| Ok(heap.is_backed(extent)))? {
            continue;
        }
        if !back_with_memory(segment, extent, 1) {
            return Err(Error::OutOfMemory);
        }
        step::run(segment, |heap| heap.add_if_missing(extent, 1))?;
    }
    Ok(())
}

/// Backs extents with memory and marks them free, unless another process did so first.
pub(crate) fn back_extents(segment: &Segment, first: u64, count: u64) -> Result<(), Error> {
    if !back_with_memory(segment, first, count) {
        return Err(Error::OutOfMemory);
    }
    step::run(segment, |heap| heap.add_if_missing(first, count))
}

/// Allocates memory for the extents and for the parts of the tables that describe them. Returns
/// whether all of it could be allocated.
fn back_with_memory(segment: &Segment, first: u64, count: u64) -> bool {
    let layout = segment.mapping.layout();
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
        .all(|(start, length)| membership::back_range(segment, start, length).is_ok())
}

/// Returns whether a run of `pages` pages is free.
pub(crate) fn has_run(segment: &Segment, pages: u64) -> Result<bool, Error> {
    step::run(segment, |heap| Ok(heap.find(pages).is_some()))
}

/// Backs a few extents with memory if no run of `pages` pages is free. Repeated calls eventually
/// make a run free. Returns false if nothing needed to be done.
pub(crate) fn prepare_run(segment: &Segment, pages: u64) -> Result<bool, Error> {
    let extents = pages.div_ceil(EXTENT_PAGES);
    let missing = step::run(segment, |heap| {
        if heap.find(pages).is_some() {
            return Ok(None);
        }
        // A long enough run may already be free even though the reserve for removals (H6) is still
        // incomplete.
        let wanted = match heap.find_free(extents) {
            Some(_) => removal::reserved_extents(heap.layout()),
            None => extents,
        };
        let missing = heap.missing_part(wanted, EXTENTS_AT_ONCE);
        missing.map(Some).ok_or(Error::OutOfMemory)
    })?;
    let Some((first, count)) = missing else {
        return Ok(false);
    };
    back_extents(segment, first, count)?;
    Ok(true)
}

/// Records that the store ran out of memory.
pub(crate) fn note_full(segment: &Segment) {
    segment
        .full_at
        .store(coarse_milliseconds(), Ordering::Relaxed);
}

/// Returns whether the store ran out of memory within the last second, in which case work that can
/// wait need not try again.
pub(crate) fn was_full(segment: &Segment) -> bool {
    let since = coarse_milliseconds().wrapping_sub(segment.full_at.load(Ordering::Relaxed));
    since < FULL_FOR
}

impl Segment {
    /// Returns the number of bytes in pages granted to shards, which is an upper bound for the
    /// number of bytes in allocated blocks.
    #[inline]
    pub fn granted_bytes(&self) -> u64 {
        let pages = self
            .mapping
            .load(control::HEAP_RESERVED)
            .wrapping_mul(EXTENT_PAGES);
        pages
            .saturating_sub(self.mapping.load(control::HEAP_FREE_PAGES))
            .wrapping_mul(PAGE)
    }
}

impl Heap<'_> {
    /// Marks extents as backed with memory, unless another process has marked any of them first. In
    /// that case, this process uses the other process's extents, and the memory populated here is
    /// left for the next call.
    fn add_if_missing(&self, first: u64, count: u64) -> Result<(), Error> {
        let high = self.load(control::HEAP_HIGH);
        let missing = |extent| !self.is_backed(extent) && !self.is_retired(extent);
        if (first..first + count).all(missing) && first <= high {
            self.add_extents(first, count)?;
        }
        Ok(())
    }

    fn add_extents(&self, first: u64, count: u64) -> Result<(), Error> {
        self.set_extents(first, count, true)?;
        let reserved = self.layout().reserved_map;
        self.set_bits(reserved, first, count, true)?;
        self.add_free_pages((count * EXTENT_PAGES) as i64)?;
        let backed = self.load(control::HEAP_RESERVED);
        self.set(control::HEAP_RESERVED, backed.wrapping_add(count))?;
        let high = self.load(control::HEAP_HIGH);
        self.set(control::HEAP_HIGH, high.max(first + count))
    }
}
