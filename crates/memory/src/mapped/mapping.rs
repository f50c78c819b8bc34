//! The mapped file: its words as relaxed atomics, and the bounds that every access is checked against (S1, S3).
//!
//! `reads.rs` and `stores.rs` add copies and comparisons. No reference into the file other than to atomic words leaves
//! these modules.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::Fault;
use crate::mapped::layout::{EXTENT, EXTENT_PAGES, Layout, PAGE};
use crate::mapped::map::Map;
use crate::mapped::overlay::{Overlay, outside};
use crate::mapped::words::Lock;
use crate::probes::race::Race;

/// The mapped file and where things lie in it.
pub(crate) struct Mapping {
    map: Map,
    layout: Layout,
    writable: bool,
    /// Bytes of the heap that are read directly: all of them, or none where an overlay lies over the file.
    pub(super) heap_size: u64,
    /// Bytes of the file that are read directly, as above.
    pub(super) direct: u64,
    /// Shards whose words are read directly, as above.
    pub(super) direct_shards: usize,
    /// Offset of the file's last word.
    last_word: u64,
    /// What the words held before changes that are not finished (R9), for those who read through it.
    pub(super) overlay: Option<Overlay>,
    /// What tests do in the midst of this handle's reads.
    race: Race,
}

impl Mapping {
    /// The mapping must be exactly as long as the layout says.
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

    /// The same file with an overlay over it. Whatever is read through an offset is looked up there first, for which it
    /// takes the paths of failed checks: reads of a mapping without one have no instruction more. Counters and logs, which
    /// are addressed as [words](Self::word), are as they are.
    ///
    /// # Safety
    /// The result does not outlive `self`.
    pub(super) unsafe fn under(&self, overlay: Overlay) -> Mapping {
        Mapping {
            // SAFETY: the caller's promise.
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

    /// Where the file is in this process' memory.
    #[inline(always)]
    pub(super) fn start(&self) -> *mut u8 {
        self.map.start()
    }

    /// Backs a range with memory; widened to whole pages.
    pub(crate) fn populate(&self, start: u64, length: u64) -> std::io::Result<()> {
        let first = start / PAGE * PAGE;
        let end = (start + length).next_multiple_of(PAGE);
        self.map.populate(first, end - first)
    }

    /// Frees the file's blocks behind a range of whole pages, which reads as
    /// zeros then. Through the mapping, so that it needs no right to the path.
    pub(crate) fn punch(&self, start: u64, length: u64) -> std::io::Result<()> {
        self.map.punch(start, length)
    }

    /// Where in this process' memory the file is, and its length.
    pub(crate) fn addresses(&self) -> (usize, usize) {
        (self.map.start() as usize, self.map.length() as usize)
    }

    /// Writes what was changed in a range of whole pages to the disk.
    pub(crate) fn sync(&self, start: u64, length: u64) -> std::io::Result<()> {
        self.map.sync(start, length)?;
        crate::probes::fault::synced(start, length);
        Ok(())
    }

    /// Whether the mapped file is known to have lost its name.
    pub(crate) fn is_unlinked(&self) -> bool {
        self.map.is_unlinked()
    }

    /// The word at an offset that our own constants give.
    #[inline(always)]
    pub(crate) fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at & 7 == 0 && at <= self.last_word);
        // SAFETY: aligned and inside the mapping (asserted).
        unsafe { self.word_unchecked(at) }
    }

    /// The word at an offset.
    ///
    /// # Safety
    /// - `at` is a multiple of 8.
    /// - `at + 8` is at most the length of the mapping.
    #[inline(always)]
    pub(super) unsafe fn word_unchecked(&self, at: u64) -> &AtomicU64 {
        debug_assert!(at & 7 == 0 && at <= self.layout.file_length - 8);
        // SAFETY: aligned and inside the mapping (the caller's duty), which
        // lives as long as `self`; every access to the file, here and in other
        // processes, is an atomic of this size or a half of it.
        unsafe { AtomicU64::from_ptr(self.map.start().add(at as usize).cast()) }
    }

    /// The half word at an offset that our own constants give.
    #[inline(always)]
    pub(crate) fn half(&self, at: u64) -> &AtomicU32 {
        assert!(at & 3 == 0 && at <= self.layout.file_length - 8);
        // SAFETY: as in `word`.
        unsafe { AtomicU32::from_ptr(self.map.start().add(at as usize).cast()) }
    }

    /// The lock at an offset.
    ///
    /// # Panics
    /// If it is not aligned or lies outside of the file.
    pub(crate) fn lock(&self, at: u64) -> &Lock {
        assert!(at & 7 == 0 && at <= self.layout.file_length - 8);
        // SAFETY: as in `word`; a lock is the two halves of one word, both atomic.
        unsafe { &*self.map.start().add(at as usize).cast::<Lock>() }
    }

    #[inline(always)]
    pub(crate) fn load(&self, at: u64) -> u64 {
        if at & 7 != 0 || at >= self.direct {
            return self.load_under_overlay(at);
        }
        // SAFETY: aligned and, as the file's length is a multiple of 8, inside the mapping (looked at just now).
        unsafe { self.word_unchecked(at) }.load(Ordering::Relaxed)
    }

    #[cold]
    #[inline(never)]
    fn load_under_overlay(&self, at: u64) -> u64 {
        let (overlay, file) = self.under_overlay(at, 8);
        overlay.load(file, at)
    }

    /// The overlay over the file, and the file, to read a range that is not read directly. A mapping without an overlay
    /// comes here where an offset of its own constants is wrong.
    pub(super) fn under_overlay(&self, at: u64, length: u64) -> (&Overlay, &Map) {
        match &self.overlay {
            Some(overlay) => (overlay, &self.map),
            None => outside(at, length),
        }
    }

    /// A word of the control page, for who looks at it time and again.
    #[inline(always)]
    pub(crate) fn load_control<const AT: u64>(&self) -> u64 {
        const { assert!(AT.is_multiple_of(8) && AT >= PAGE && AT < 2 * PAGE) };
        // SAFETY: aligned and in the file's second page (asserted), which is there in every layout.
        unsafe { self.word_unchecked(AT) }.load(Ordering::Relaxed)
    }

    /// Asks for the cache line at an offset, whatever lies there.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: u64) {
        prefetch_line(self.map.start().wrapping_add(at as usize));
    }

    /// Whether a range of the heap is backed by memory (S3): a hole in a full
    /// tmpfs is a SIGBUS even to read.
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

    /// Whether the extent, which is one of the heap's, is backed by memory.
    #[inline(always)]
    pub(super) fn extent_reserved(&self, extent: u64) -> bool {
        debug_assert!(extent < self.layout.extents);
        let at = self.layout.reserved_map + extent / 64 * 8;
        // SAFETY: the map has a bit for each of the heap's extents, and starts
        // at a page.
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

    /// Checks a heap offset that was read from the store.
    #[inline(always)]
    pub(crate) fn check(&self, at: u64, length: u64) -> Result<(), Fault> {
        if at & 7 == 0 && self.reserved(at, length) {
            Ok(())
        } else {
            self.check_further(at, length)
        }
    }

    /// No bytes at all lie nowhere: behind a block that ends with the last
    /// reserved extent, too. Under an overlay nothing was looked at yet.
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

    /// The page a heap offset lies in.
    #[inline(always)]
    pub(crate) fn page_of(&self, at: u64) -> u64 {
        (at - self.layout.heap) / PAGE
    }

    /// Whether the page lies in a reserved extent.
    pub(crate) fn page_reserved(&self, page: u64) -> bool {
        page < self.layout.pages() && self.extent_reserved(page / EXTENT_PAGES)
    }

    /// Where a range lies in this process' memory, for a block that is not changed while it is read there (R7), or that
    /// is nobody else's.
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

/// Asks for the cache line of something in this process' own memory.
#[inline(always)]
pub fn prefetch<T>(wanted: &T) {
    prefetch_line(std::ptr::from_ref(wanted).cast());
}

#[inline(always)]
fn prefetch_line(at: *const u8) {
    // SAFETY: a prefetch changes nothing and never faults, wherever it points.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast())
    };
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, readonly))
    };
}
