//! The writers' half of a copy: a page of the heap is saved before it changes (C1).
//!
//! While a copy is made, a table has a word for each page that the heap had at the copy's moment:
//!
//! ```text
//!  0        as it was at the moment, where it lies
//!  1        the copier has it, or needs nothing of it
//!  other    saved: where in the file its old content is
//! ```
//!
//! Both sides change such a word from 0 by a compare-and-swap, so that one of them is first. A writer that finds 0 copies
//! the page into one of the stock, publishes that, and only then changes the page. The copier copies the page first and
//! then claims the word: where it cannot, the page may have changed under its hands, and it takes the saved one.
//!
//! Whether a copy is on is looked at under a lock, a shard's or the heap's: a copy begins under all of them, and what it
//! had taken is given back when each has been free once. So it is one look for a transaction, and what it finds is true
//! until its end (C2).
//!
//! All stores into the heap pass [`Mapping::save_for_copy`]: those that are logged and those into fresh memory, which may
//! have been in use at the moment (`Transaction`), those that undo (`Log::roll_back`), and the list of a dying arena
//! (`Heap::finish_return`). Debug builds look at every store into the heap whether it did. Exempt is what the copier
//! does not read as of the moment: all that does not lie in the heap. Of that it copies the shards' roots and the map of
//! reserved extents under all locks; it reads no counters, locks, logs, descriptors, hints, rings and process table.
//! Staged blocks are filled without a lock; their pages are saved before (`staged.rs`).

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::mapped::layout::{EXTENT_PAGES, PAGE, control};
use crate::mapped::mapping::Mapping;
use crate::probes::fault;

/// No copy is made.
pub(crate) const NONE: u64 = 0;
/// Changes save pages.
pub(crate) const ON: u64 = 1;
/// The stock ran out: pages changed that were not saved.
pub(crate) const LOST: u64 = 2;
/// In the table: the copier has the page, or needs nothing of it.
pub(crate) const DONE: u64 = 1;

/// The table of a copy, in the heap: a word for each page, the masks of pages that were free at the moment, and the
/// extents of the stock.
#[derive(Clone, Copy)]
pub(crate) struct CopyTable<'m> {
    mapping: &'m Mapping,
    at: u64,
    /// Extents that it has pages of.
    pub(crate) extents: u64,
}

impl<'m> CopyTable<'m> {
    /// Bytes of a table for so many extents.
    pub(crate) fn bytes(extents: u64) -> u64 {
        extents * EXTENT_PAGES * 8 + extents.div_ceil(4) * 8 + Self::stock_most(extents) * 8
    }

    /// Extents that a stock can have at most: as many as there are to be saved.
    pub(crate) fn stock_most(extents: u64) -> u64 {
        extents + 1
    }

    /// The table that the control page names, where it lies in the heap (S3).
    pub(crate) fn of(mapping: &'m Mapping) -> Option<CopyTable<'m>> {
        let at = mapping.load(control::COPY_TABLE);
        let extents = mapping.load(control::COPY_EXTENTS);
        let fits = extents <= mapping.layout().extents && at.is_multiple_of(PAGE);
        (fits && mapping.check(at, Self::bytes(extents)).is_ok()).then_some(CopyTable {
            mapping,
            at,
            extents,
        })
    }

    pub(crate) fn entry(&self, page: u64) -> &'m AtomicU64 {
        assert!(page < self.extents * EXTENT_PAGES);
        self.mapping.word(self.at + page * 8)
    }

    /// Where the mask of an extent's free pages at the moment lies: the word, and the bits to shift it by.
    fn mask(&self, extent: u64) -> (u64, u64) {
        let masks = self.at + self.extents * EXTENT_PAGES * 8;
        (masks + extent / 4 * 8, extent % 4 * 16)
    }

    /// The pages of an extent that were free at the moment, a bit each.
    pub(crate) fn free_pages(&self, extent: u64) -> u64 {
        let (at, shift) = self.mask(extent);
        self.mapping.load(at) >> shift & 0xffff
    }

    /// Notes the masks of four extents, from one on that is a multiple of four.
    pub(crate) fn set_masks(&self, extent: u64, masks: u64) {
        let (at, _) = self.mask(extent);
        self.mapping.word(at).store(masks, Ordering::Relaxed);
    }

    /// The word that says where an extent of the stock lies.
    pub(crate) fn stock(&self, index: u64) -> &'m AtomicU64 {
        assert!(index < Self::stock_most(self.extents));
        let (masks, _) = self.mask(self.extents.next_multiple_of(4));
        self.mapping.word(masks + index * 8)
    }

    /// A page out of the stock, if there is one left.
    fn take(&self) -> Option<u64> {
        let taken = self.mapping.word(control::COPY_TAKEN);
        let index = taken.fetch_add(1, Ordering::Relaxed);
        let stocked = self.mapping.word(control::COPY_STOCKED);
        let extent = index / EXTENT_PAGES;
        if index >= stocked.load(Ordering::Acquire) || extent >= Self::stock_most(self.extents) {
            return None;
        }
        let extent = self.stock(extent).load(Ordering::Relaxed);
        let at = extent.wrapping_add(index % EXTENT_PAGES * PAGE);
        (at.is_multiple_of(PAGE) && self.mapping.check(at, PAGE).is_ok()).then_some(at)
    }

    /// Whether the copy has no need of a page as it is now.
    fn is_kept(&self, page: u64) -> bool {
        page >= self.extents * EXTENT_PAGES
            || self.entry(page).load(Ordering::Acquire) != 0
            || self.free_pages(page / EXTENT_PAGES) >> (page % EXTENT_PAGES) & 1 == 1
    }

    /// Saves a page; false where the stock has run out.
    fn save(&self, page: u64) -> bool {
        if self.is_kept(page) {
            return true;
        }
        let Some(place) = self.take() else {
            return false;
        };
        fault::step();
        let from = self.mapping.layout().page(page);
        self.mapping.copy_page_to(self.mapping, from, place);
        fault::step();
        // Where the copier was faster, the page in the stock is not needed.
        let entry = self.entry(page);
        let _ = entry.compare_exchange(0, place, Ordering::AcqRel, Ordering::Acquire);
        // Who sees what this thread changes next sees the word (C1).
        fence(Ordering::Release);
        fault::step();
        true
    }
}

impl Mapping {
    /// Whether changes have to save pages first. Holds as long as the lock that was held when it was asked (C2).
    #[inline(always)]
    pub(crate) fn copy_is_on(&self) -> bool {
        self.load_control::<{ control::COPY_STATE }>() != NONE
    }

    /// To be called before anything in a range of the heap is changed, with the lock held that it is changed under;
    /// ranges elsewhere are of no interest. Never fails and never waits: where the stock has run out, the copy is lost.
    #[cold]
    #[inline(never)]
    pub(crate) fn save_for_copy(&self, at: u64, length: u64) {
        let Some(table) = self.saving() else {
            return;
        };
        if !self.pages_of(at, length).all(|page| table.save(page)) {
            self.lose_copy();
        }
    }

    /// The table of a copy that nothing was lost of.
    fn saving(&self) -> Option<CopyTable<'_>> {
        match self.word(control::COPY_STATE).load(Ordering::Acquire) {
            ON => CopyTable::of(self),
            LOST => {
                // Who sees what this thread changes next sees that the copy is lost.
                fence(Ordering::Release);
                None
            }
            _ => None,
        }
    }

    fn pages_of(&self, at: u64, length: u64) -> std::ops::Range<u64> {
        match at.checked_sub(self.layout().heap) {
            Some(start) if length > 0 => start / PAGE..start.saturating_add(length).div_ceil(PAGE),
            _ => 0..0,
        }
    }

    #[cold]
    pub(crate) fn lose_copy(&self) {
        let state = self.word(control::COPY_STATE);
        let _ = state.compare_exchange(ON, LOST, Ordering::AcqRel, Ordering::Acquire);
        fence(Ordering::Release);
        fault::step();
    }

    /// Whether no copy needs what lies in a range: looked at in debug builds before each store into the heap.
    pub(crate) fn is_kept(&self, at: u64, length: u64) -> bool {
        if at < self.layout().heap || self.load(control::COPY_STATE) != ON {
            return true;
        }
        let kept = |table: CopyTable<'_>| self.pages_of(at, length).all(|page| table.is_kept(page));
        // Others may have lost it since.
        self.saving().is_none_or(kept) || self.load(control::COPY_STATE) != ON
    }
}
