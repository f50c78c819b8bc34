//! Saves heap pages before they change while the store is being copied (C1).
//!
//! A copy shows the store as it was at one moment. During a copy, a table contains a word for each
//! page that the heap had at that moment:
//!
//! ```text
//!  0        unchanged since that moment
//!  1        the copier has it, or does not need it
//!  other    saved: where in the file its old content is
//! ```
//!
//! Writers and the copier change such a word from 0 by compare-and-swap, so exactly one of them
//! succeeds. A writer that finds 0 copies the page into a page of the stock (pages reserved for
//! this purpose), publishes the saved page in the table, and only then changes the original page.
//! The copier copies the page first and then claims the word. If the claim fails, the page may have
//! changed during the copy, and the copier uses the saved page.
//!
//! A writer checks whether a copy is in progress while it holds a lock, either a shard's or the
//! heap's. A copy begins under all locks, and its memory is returned only after each lock has been
//! free once. One check per transaction is therefore enough: the result holds until the transaction
//! ends (C2).
//!
//! All stores into the heap call [`Mapping::save_for_copy`]: logged stores, stores into fresh
//! memory that may have been allocated at that moment (`Transaction`), stores that undo a change
//! (`Log::roll_back`), and the list of an arena that is being freed (`Heap::finish_return`). Debug
//! builds check this at every store into the heap. Everything outside the heap is exempt: the
//! copier copies the shards' roots and the map of reserved extents under all locks, and does not
//! read counters, locks, logs, descriptors, hints, rings or the process table. Staged blocks are
//! filled without a lock, but their pages are saved beforehand (`staged.rs`).

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::mapped::layout::{EXTENT_PAGES, PAGE, control};
use crate::mapped::mapping::Mapping;
use crate::probes::fault;

/// No copy is being made.
pub(crate) const NONE: u64 = 0;
/// A copy is being made, and writers save pages before changing them.
pub(crate) const ON: u64 = 1;
/// The copy is lost: the stock of spare pages ran out, and pages changed without being saved.
pub(crate) const LOST: u64 = 2;
/// The table entry of a page that the copier has copied or does not need.
pub(crate) const DONE: u64 = 1;

/// The table of a copy, in the heap. Contains a word for each page, the masks of pages that were
/// free when the copy began, and the extents of the stock (the pages into which writers save old
/// content).
#[derive(Clone, Copy)]
pub(crate) struct CopyTable<'m> {
    mapping: &'m Mapping,
    at: u64,
    /// The number of extents whose pages the table covers.
    pub(crate) extents: u64,
}

impl<'m> CopyTable<'m> {
    /// Returns the size in bytes of a table for `extents` extents.
    pub(crate) fn bytes(extents: u64) -> u64 {
        extents * EXTENT_PAGES * 8 + extents.div_ceil(4) * 8 + Self::stock_most(extents) * 8
    }

    /// Returns the maximum number of extents in a stock, which is enough to save every page.
    pub(crate) fn stock_most(extents: u64) -> u64 {
        extents + 1
    }

    /// Returns the table whose location is in the control page, if that location is in the heap
    /// (S3).
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

    /// Locates the mask of an extent's free pages. Returns the offset of the word that contains the
    /// mask, and the position of the mask in that word, in bits.
    fn mask(&self, extent: u64) -> (u64, u64) {
        let masks = self.at + self.extents * EXTENT_PAGES * 8;
        (masks + extent / 4 * 8, extent % 4 * 16)
    }

    /// Returns the mask of an extent's pages that were free when the copy began.
    pub(crate) fn free_pages(&self, extent: u64) -> u64 {
        let (at, shift) = self.mask(extent);
        self.mapping.load(at) >> shift & 0xffff
    }

    /// Stores the masks of four extents, starting at `extent`, which must be a multiple of four.
    pub(crate) fn set_masks(&self, extent: u64, masks: u64) {
        let (at, _) = self.mask(extent);
        self.mapping.word(at).store(masks, Ordering::Relaxed);
    }

    /// Returns the table word that contains the location of an extent of the stock.
    pub(crate) fn stock(&self, index: u64) -> &'m AtomicU64 {
        assert!(index < Self::stock_most(self.extents));
        let (masks, _) = self.mask(self.extents.next_multiple_of(4));
        self.mapping.word(masks + index * 8)
    }

    /// Removes a page from the stock, or returns `None` if the stock is empty.
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

    /// Returns true if the copy does not need the page's current content.
    fn is_kept(&self, page: u64) -> bool {
        page >= self.extents * EXTENT_PAGES
            || self.entry(page).load(Ordering::Acquire) != 0
            || self.free_pages(page / EXTENT_PAGES) >> (page % EXTENT_PAGES) & 1 == 1
    }

    /// Saves a page. Returns false if the stock is empty.
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
        // On failure, the copier claimed the page first and does not need the saved page.
        let entry = self.entry(page);
        let _ = entry.compare_exchange(0, place, Ordering::AcqRel, Ordering::Acquire);
        // Pairs with the copier's reads: a copier that sees this thread's next change also sees the
        // new table entry (C1).
        fence(Ordering::Release);
        fault::step();
        true
    }
}

impl Mapping {
    /// Returns true if pages must be saved before they change. The answer remains valid as long as
    /// the caller holds its lock (C2).
    #[inline(always)]
    pub(crate) fn copy_is_on(&self) -> bool {
        self.load_control::<{ control::COPY_STATE }>() != NONE
    }

    /// Saves the pages of a range for the copy in progress. The caller must hold the lock that
    /// protects the range and must call this before changing anything in it.
    ///
    /// Ranges outside the heap are ignored. Never fails and never waits: if the stock is empty, the
    /// copy is lost.
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

    /// Returns the table of the copy in progress, unless that copy is lost.
    fn saving(&self) -> Option<CopyTable<'_>> {
        match self.word(control::COPY_STATE).load(Ordering::Acquire) {
            ON => CopyTable::of(self),
            LOST => {
                // A copier that sees this thread's next change also sees that the copy is lost.
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

    /// Returns true if no copy needs the current content of a range. In debug builds, every store
    /// into the heap asserts this.
    pub(crate) fn is_kept(&self, at: u64, length: u64) -> bool {
        if at < self.layout().heap || self.load(control::COPY_STATE) != ON {
            return true;
        }
        let kept = |table: CopyTable<'_>| self.pages_of(at, length).all(|page| table.is_kept(page));
        // Another process may have marked the copy as lost in the meantime.
        self.saving().is_none_or(kept) || self.load(control::COPY_STATE) != ON
    }
}
