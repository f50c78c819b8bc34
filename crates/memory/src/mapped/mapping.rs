//! The mapped file: relaxed atomic access to its words, with a bounds check on every access (S1,
//! S3).
//!
//! `reads.rs` and `stores.rs` add copies and comparisons. These modules return no reference into
//! the file except to atomic words.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::Fault;
use crate::mapped::layout::{EXTENT, EXTENT_PAGES, Layout, PAGE, redo};
use crate::mapped::map::Map;
use crate::mapped::overlay::{Overlay, outside};
use crate::mapped::words::Lock;
use crate::probes::race::Race;

/// The mapped file and its layout.
pub(crate) struct Mapping {
    map: Map,
    layout: Layout,
    writable: bool,
    /// The number of heap bytes that are read directly: all of them, or 0 if reads consult an
    /// overlay.
    pub(super) heap_size: u64,
    /// The number of file bytes that are read directly: all of them, or 0 if reads consult an
    /// overlay.
    pub(super) direct: u64,
    /// The number of shards whose words are read directly: all of them, or 0 if reads consult an
    /// overlay.
    pub(super) direct_shards: usize,
    /// The offset of the file's last word.
    last_word: u64,
    /// The old values of words that unfinished changes have modified, if reads through this mapping
    /// consult an overlay (R9).
    pub(super) overlay: Option<Overlay>,
    /// The test hook that is called during this handle's reads.
    race: Race,
}

impl Mapping {
    /// Wraps a map, whose length must match the layout.
    pub(crate) fn new(map: Map, layout: Layout, writable: bool) -> Mapping {
        assert_eq!(map.length(), layout.file_length);
        Mapping {
            map,
            layout,
            writable,
            heap_size: layout.extents * EXTENT,
            direct: layout.file_length,
            direct_shards: layout.shards,
            last_word: layout.file_length - 8,
            overlay: None,
            race: Race::default(),
        }
    }

    /// Returns a mapping of the same file that reads through `overlay`.
    ///
    /// A read at an offset fails its bounds check and then consults the overlay, so mappings
    /// without an overlay need no extra instruction. Counters and logs, which are addressed as
    /// [words](Self::word), are read from the file.
    ///
    /// # Safety
    /// The result must not outlive `self`.
    pub(super) unsafe fn under(&self, overlay: Overlay) -> Mapping {
        Mapping {
            // SAFETY: the caller guarantees that the result does not outlive `self`.
            map: unsafe { self.map.borrowed() },
            layout: self.layout,
            writable: false,
            heap_size: 0,
            direct: 0,
            direct_shards: 0,
            last_word: self.last_word,
            overlay: Some(overlay),
            race: self.race.clone(),
        }
    }

    #[inline(always)]
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    #[inline(always)]
    pub(crate) fn race(&self) -> &Race {
        &self.race
    }

    #[inline(always)]
    pub(crate) fn writable(&self) -> bool {
        self.writable
    }

    /// Returns the address at which the file is mapped.
    #[inline(always)]
    pub(super) fn start(&self) -> *mut u8 {
        self.map.start()
    }

    /// Backs a range with memory, after extending the range to page boundaries.
    pub(crate) fn populate(&self, start: u64, length: u64) -> std::io::Result<()> {
        let first = start / PAGE * PAGE;
        let end = (start + length).next_multiple_of(PAGE);
        self.map.populate(first, end - first)
    }

    /// Frees the file blocks of a page-aligned range, which then reads as zeros. Needs no
    /// permission on the path, because it uses the mapping.
    pub(crate) fn punch(&self, start: u64, length: u64) -> std::io::Result<()> {
        self.map.punch(start, length)
    }

    /// Returns the address and the length of the mapped file.
    pub(crate) fn addresses(&self) -> (usize, usize) {
        (self.map.start() as usize, self.map.length() as usize)
    }

    /// Writes the changes in a page-aligned range to disk.
    pub(crate) fn sync(&self, start: u64, length: u64) -> std::io::Result<()> {
        self.map.sync(start, length)?;
        crate::probes::fault::synced(start, length);
        Ok(())
    }

    /// Returns true if the mapped file is known to have been unlinked.
    pub(crate) fn is_unlinked(&self) -> bool {
        self.map.is_unlinked()
    }

    /// Returns the word at an offset computed from layout constants.
    #[inline(always)]
    pub(crate) fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at & 7 == 0 && at <= self.last_word);
        // SAFETY: the word is aligned and inside the mapping (asserted).
        unsafe { self.word_unchecked(at) }
    }

    /// Returns the word at an offset without checking it.
    ///
    /// # Safety
    /// - `at` must be a multiple of 8.
    /// - `at + 8` must be at most the length of the mapping.
    #[inline(always)]
    pub(super) unsafe fn word_unchecked(&self, at: u64) -> &AtomicU64 {
        debug_assert!(at & 7 == 0 && at <= self.layout.file_length - 8);
        // SAFETY: the caller guarantees that the word is aligned and inside the mapping, which
        // lives as long as `self`. All processes access the file only through atomic words and half
        // words.
        unsafe { AtomicU64::from_ptr(self.map.start().add(at as usize).cast()) }
    }

    /// Returns the half word at an offset computed from layout constants.
    #[inline(always)]
    pub(crate) fn half(&self, at: u64) -> &AtomicU32 {
        assert!(at & 3 == 0 && at <= self.layout.file_length - 8);
        // SAFETY: the half word is aligned and inside the mapping (asserted), which lives as long
        // as `self`; all access to it is atomic.
        unsafe { AtomicU32::from_ptr(self.map.start().add(at as usize).cast()) }
    }

    /// Returns the lock at an offset.
    ///
    /// # Panics
    /// Panics if the offset is not aligned or is outside the file.
    pub(crate) fn lock(&self, at: u64) -> &Lock {
        assert!(at & 7 == 0 && at <= self.layout.file_length - 8);
        // SAFETY: the offset is aligned and inside the mapping (asserted); a lock consists of two
        // atomic half words in one word.
        unsafe { &*self.map.start().add(at as usize).cast::<Lock>() }
    }

    #[inline(always)]
    pub(crate) fn load(&self, at: u64) -> u64 {
        if at & 7 != 0 || at >= self.direct {
            return self.load_under_overlay(at);
        }
        // SAFETY: the word is aligned (checked above) and, because the file's length is a multiple
        // of 8, inside the mapping.
        unsafe { self.word_unchecked(at) }.load(Ordering::Relaxed)
    }

    #[cold]
    #[inline(never)]
    fn load_under_overlay(&self, at: u64) -> u64 {
        let (overlay, file) = self.under_overlay(at, 8);
        overlay.load(file, at)
    }

    /// Returns the overlay and the file, for a range that is not read directly.
    ///
    /// # Panics
    /// Panics if this mapping has no overlay, which means that the offset is wrong.
    pub(super) fn under_overlay(&self, at: u64, length: u64) -> (&Overlay, &Map) {
        match &self.overlay {
            Some(overlay) => (overlay, &self.map),
            None => outside(at, length),
        }
    }

    /// Returns a word in the control page. The bounds check happens at compile time, because some
    /// control words are read often.
    #[inline(always)]
    pub(crate) fn load_control<const AT: u64>(&self) -> u64 {
        const { assert!(AT.is_multiple_of(8) && AT >= PAGE && AT < 2 * PAGE) };
        // SAFETY: the word is aligned and in the file's second page (asserted), which every layout
        // contains.
        unsafe { self.word_unchecked(AT) }.load(Ordering::Relaxed)
    }

    /// Returns the words of the journal's ring, which is `size` bytes long.
    ///
    /// # Panics
    /// Panics if `size` exceeds the ring's capacity.
    #[inline(always)]
    pub(crate) fn redo_words(&self, size: u64) -> &[AtomicU64] {
        assert!(size <= self.layout.redo_capacity);
        let start = self.layout.redo + redo::DATA;
        // SAFETY: every layout contains the ring, and the length of the mapping matches the layout.
        // The words are aligned and live as long as the mapping; all access to them is atomic.
        unsafe {
            let first = self.map.start().add(start as usize).cast();
            std::slice::from_raw_parts(first, (size / 8) as usize)
        }
    }

    /// Prefetches the cache line at an offset, which need not be valid.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: u64) {
        prefetch_line(self.map.start().wrapping_add(at as usize));
    }

    /// Returns true if a range of the heap is backed by memory (S3). If it is not, and the tmpfs is
    /// full, even a read raises SIGBUS.
    #[inline(always)]
    pub(crate) fn reserved(&self, at: u64, length: u64) -> bool {
        let start = at.wrapping_sub(self.layout.heap);
        if start >= self.heap_size {
            return false;
        }
        if length <= EXTENT && start % EXTENT + length <= EXTENT {
            return self.extent_reserved(start / EXTENT);
        }
        self.many_reserved(start, length)
    }

    #[cold]
    fn many_reserved(&self, start: u64, length: u64) -> bool {
        length <= self.heap_size - start
            && self.extents_reserved(start / EXTENT, (start + length.max(1) - 1) / EXTENT)
    }

    /// Returns true if an extent of the heap is backed by memory.
    #[inline(always)]
    pub(super) fn extent_reserved(&self, extent: u64) -> bool {
        debug_assert!(extent < self.layout.extents);
        let at = self.layout.reserved_map + extent / 64 * 8;
        // SAFETY: the map contains a bit for each of the heap's extents and starts at a page
        // boundary.
        let word = unsafe { self.word_unchecked(at) }.load(Ordering::Relaxed);
        word >> (extent % 64) & 1 == 1
    }

    #[cold]
    fn extents_reserved(&self, first: u64, last: u64) -> bool {
        let mut extent = first;
        while extent <= last {
            // The bits of this word that belong to the range.
            let end = (extent | 63).min(last);
            let mask = (u64::MAX << (extent % 64)) & (u64::MAX >> (63 - end % 64));
            let word = self.load(self.layout.reserved_map + extent / 64 * 8);
            if word & mask != mask {
                return false;
            }
            extent = end + 1;
        }
        true
    }

    /// Checks that a heap range whose offset was read from the store is aligned and backed by
    /// memory.
    #[inline(always)]
    pub(crate) fn check(&self, at: u64, length: u64) -> Result<(), Fault> {
        if at & 7 == 0 && self.reserved(at, length) {
            Ok(())
        } else {
            self.check_further(at, length)
        }
    }

    /// Accepts an empty range anywhere in the heap, including the end of the last reserved extent.
    /// If this mapping reads through an overlay, performs the full check.
    #[cold]
    fn check_further(&self, at: u64, length: u64) -> Result<(), Fault> {
        let (heap, size) = (self.layout.heap, self.layout.extents * EXTENT);
        let start = at.wrapping_sub(heap);
        let is_reserved = || {
            self.overlay.is_some()
                && start < size
                && length <= size - start
                && self.extents_reserved(start / EXTENT, (start + length.max(1) - 1) / EXTENT)
        };
        let is_empty = || length == 0 && (heap..=heap + size).contains(&at);
        if at & 7 == 0 && (is_reserved() || is_empty()) {
            Ok(())
        } else {
            Err(unreserved(at))
        }
    }

    /// Returns the page that contains a heap offset.
    #[inline(always)]
    pub(crate) fn page_of(&self, at: u64) -> u64 {
        (at - self.layout.heap) / PAGE
    }

    /// Returns true if the page lies in a reserved extent.
    pub(crate) fn page_reserved(&self, page: u64) -> bool {
        page < self.layout.pages() && self.extent_reserved(page / EXTENT_PAGES)
    }

    /// Returns the address of a range. The range must belong to a block that does not change while
    /// it is read in place (R7), or that only the caller uses.
    pub(crate) fn address(&self, at: u64, length: u64) -> *mut u8 {
        assert!(at <= self.layout.file_length && length <= self.layout.file_length - at);
        self.map.start().wrapping_add(at as usize)
    }
}

#[cold]
pub(super) fn unreserved(at: u64) -> Fault {
    Fault {
        at,
        what: "an aligned offset in a reserved extent",
    }
}

/// Prefetches the cache line of a value in this process's memory.
#[inline(always)]
pub fn prefetch<T>(wanted: &T) {
    prefetch_line(std::ptr::from_ref(wanted).cast());
}

/// Prefetches the cache line of a word in the store that is about to be written.
#[inline(always)]
pub(crate) fn prefetch_to_write(wanted: &AtomicU64) {
    let at = wanted.as_ptr();
    // SAFETY: a prefetch changes nothing. Processors without the instruction ignore it.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags))
    };
    // SAFETY: a prefetch changes nothing.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) at, options(nostack, preserves_flags))
    };
}

#[inline(always)]
fn prefetch_line(at: *const u8) {
    // SAFETY: a prefetch changes nothing and never faults, even at an invalid address.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast())
    };
    // SAFETY: a prefetch changes nothing and never faults, even at an invalid address.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, readonly))
    };
}
