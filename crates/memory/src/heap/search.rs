//! Searches for a free run of pages, or for a place where backing memory could create one. Nothing
//! in this file changes the heap.

use std::sync::atomic::Ordering;

use crate::heap::removal;
use crate::heap::step::Heap;
use crate::mapped::layout::{EXTENT_PAGES, control};
use crate::segment::Segment;

/// How many partly used extents are searched for a run before a free extent is broken up. The
/// search first tries the `LOWEST_TRIES` lowest extents, so that the end of the heap becomes free.
/// It then tries `NEXT_TRIES` extents from where the last search stopped, so that every extent is
/// eventually searched.
const LOWEST_TRIES: usize = 16;
const NEXT_TRIES: usize = 48;

/// The mask of an extent whose pages are all free.
const ALL_FREE: u64 = 0xffff;

/// Returns whether at least `count` extents are free and backed with memory. Without a lock, the
/// result is only a guess.
pub(crate) fn has_free_extents(segment: &Segment, count: u64) -> bool {
    let layout = segment.mapping.layout();
    let high = segment.mapping.load(control::HEAP_HIGH).min(layout.extents);
    let mut found = 0;
    (0..high.div_ceil(64)).rev().any(|word| {
        let free = segment.mapping.load(layout.all_free_map + word * 8);
        found += u64::from(free.count_ones());
        found >= count
    })
}

/// Returns the number of extents that are free and backed with memory.
pub(crate) fn free_extents(segment: &Segment) -> u64 {
    let layout = segment.mapping.layout();
    let high = segment.mapping.load(control::HEAP_HIGH).min(layout.extents);
    let words = 0..high.div_ceil(64);
    let free = |word: u64| {
        segment
            .mapping
            .load(layout.all_free_map + word * 8)
            .count_ones()
    };
    words.map(|word| u64::from(free(word))).sum()
}

impl Heap<'_> {
    /// Finds `wanted` adjacent extents, at least one of which is not backed while the rest are
    /// free. Returns the first extent and the end. A run without any backed extent is preferred,
    /// because the transaction that lacks memory may itself have used the extents that are now
    /// free. O(extents ever reserved).
    pub(crate) fn backable_run(&self, wanted: u64) -> Option<(u64, u64)> {
        self.lowest_run(wanted, false)
            .or_else(|| self.lowest_run(wanted, true))
    }

    /// Finds up to `most` unbacked extents in the lowest place where `wanted` adjacent extents
    /// could become free. Returns the first of these extents and their number.
    pub(crate) fn missing_part(&self, wanted: u64, most: u64) -> Option<(u64, u64)> {
        let (start, end) = self.lowest_run(wanted, true)?;
        let high = self.load(control::HEAP_HIGH).min(self.layout().extents);
        let missing = |extent: &u64| *extent >= high || !self.is_backed(*extent);
        let first = (start..end).find(missing)?;
        let count = (first..end.min(first + most)).take_while(missing).count();
        Some((first, count as u64))
    }

    /// Finds the lowest run of `wanted` extents that could become free. Each extent is unbacked and
    /// not retired or, if `may_be_free`, backed and free. At least one extent is unbacked.
    fn lowest_run(&self, wanted: u64, may_be_free: bool) -> Option<(u64, u64)> {
        let layout = *self.layout();
        let high = self.load(control::HEAP_HIGH).min(layout.extents);
        let (mut first, mut extent) = (0, 0);
        let mut last_missing = None;
        let (mut missing, mut usable) = (0, 0);
        while extent < high {
            if extent % 64 == 0 {
                let word = |map: u64| self.load(map + extent / 64 * 8);
                let backed = word(layout.reserved_map);
                missing = !(backed | word(layout.retired_map));
                usable = missing;
                if may_be_free {
                    usable |= backed & word(layout.all_free_map);
                }
                if usable == 0 {
                    extent += 64;
                    first = extent.min(high);
                    continue;
                }
            }
            if missing >> (extent % 64) & 1 == 1 {
                last_missing = Some(extent);
            } else if usable >> (extent % 64) & 1 == 0 {
                first = extent + 1;
            }
            let start = (extent + 1).saturating_sub(wanted).max(first);
            if extent + 1 - start == wanted && last_missing.is_some_and(|missing| missing >= start)
            {
                return Some((start, extent + 1));
            }
            extent += 1;
        }
        // Extend the run by one or more extents that were never reserved.
        let start = (high + 1).saturating_sub(wanted).max(first);
        let end = start.checked_add(wanted)?;
        (end > high && end <= layout.extents).then_some((start, end))
    }

    /// Returns the position of the first set bit of a map at or after `from`.
    fn next_bit(&self, map: u64, from: u64) -> Option<u64> {
        let end = self.load(control::HEAP_HIGH).min(self.layout().extents);
        let mut bit = from;
        while bit < end {
            let word = self.load(map + bit / 64 * 8) >> (bit % 64);
            if word != 0 {
                let found = bit + u64::from(word.trailing_zeros());
                return (found < end).then_some(found);
            }
            bit = (bit | 63) + 1;
        }
        None
    }

    /// Finds a free run of `pages` pages that this thread may use. Only removals may use the
    /// reserved extents (H6). Usually O(1); O(extents ever reserved) if no run is found.
    pub(crate) fn find(&self, pages: u64) -> Option<u64> {
        let kept = removal::reserved_extents(self.layout());
        let extents = pages.div_ceil(EXTENT_PAGES);
        let breaks = removal::is_removing() || self.has_free_extents(kept.saturating_add(extents));
        if pages >= EXTENT_PAGES {
            return if breaks {
                self.find_free(extents)
            } else {
                None
            };
        }
        let next = &self.segment().search_from;
        let (lowest, end) = self.find_within(pages, 0, LOWEST_TRIES, breaks);
        if lowest.is_some() {
            return lowest;
        }
        let from = next.load(Ordering::Relaxed).max(end);
        let (found, end) = self.find_within(pages, from, NEXT_TRIES, breaks);
        next.store(end, Ordering::Relaxed);
        let found = found.or_else(|| if breaks { self.find_free(1) } else { None });
        found.or_else(|| self.find_within(pages, 0, usize::MAX, breaks).0)
    }

    /// Returns whether at least `count` extents are free and backed with memory. Most free extents
    /// are at the end of the heap.
    pub(crate) fn has_free_extents(&self, count: u64) -> bool {
        has_free_extents(self.segment(), count)
    }

    /// Searches up to `tries` extents with free pages, starting at `from`, for a run of `pages`
    /// pages. Completely free extents are considered only if `breaks` is true. Also returns the
    /// extent at which to continue, which is 0 after the last extent.
    fn find_within(&self, pages: u64, from: u64, tries: usize, breaks: bool) -> (Option<u64>, u64) {
        let mut from = from;
        for _ in 0..tries {
            let Some(extent) = self.next_bit(self.layout().some_free_map, from) else {
                return (None, 0);
            };
            let mask = self.page_mask(extent);
            if let Some(page) = first_run(mask, pages)
                && (breaks || mask != ALL_FREE)
            {
                return (Some(extent * EXTENT_PAGES + page), extent);
            }
            from = extent + 1;
        }
        (None, from)
    }

    /// Returns the first page of `count` adjacent free extents.
    pub(crate) fn find_free(&self, count: u64) -> Option<u64> {
        let map = self.layout().all_free_map;
        let mut start = self.next_bit(map, 0)?;
        let mut length = 1;
        while length < count {
            match self.next_bit(map, start + length) {
                Some(next) if next == start + length => length += 1,
                Some(next) => (start, length) = (next, 1),
                None => return None,
            }
        }
        Some(start * EXTENT_PAGES)
    }
}

/// Returns the position of the first `length` adjacent set bits among the low 16 bits.
fn first_run(mask: u64, length: u64) -> Option<u64> {
    let mut starts = mask & 0xffff;
    for shift in 1..length {
        starts &= mask >> shift;
    }
    (starts != 0).then(|| u64::from(starts.trailing_zeros()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_bits_are_found() {
        assert_eq!(first_run(0, 1), None);
        assert_eq!(first_run(0b1000, 1), Some(3));
        assert_eq!(first_run(0b1011_0110, 2), Some(1));
        assert_eq!(first_run(0b1110_1100, 3), Some(5));
        assert_eq!(first_run(0b1110_1100, 4), None);
        assert_eq!(first_run(0xffff, 15), Some(0));
    }
}
