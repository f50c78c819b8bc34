//! Access to the mapped file: word-sized relaxed atomics, copies and
//! comparisons, all bounds-checked (S1, S3). No reference into the file leaves
//! this module.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::Fault;
use crate::mapped::blocks;
use crate::mapped::layout::{EXTENT, EXTENT_PAGES, Layout, PAGE};
use crate::mapped::overlay::Overlay;
use crate::mapped::platform::{self, Map};
use crate::mapped::words::{Lock, last_word, words_of};
use crate::probes::race::Race;
use crate::probes::work;

/// The mapped file and where things lie in it.
pub(crate) struct Mapping {
    map: Map,
    layout: Layout,
    writable: bool,
    /// Bytes of the heap that are read directly: all of them, or none where an overlay lies over the file.
    heap_size: u64,
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

/// A place in the heap that was checked once: aligned, in an extent backed by
/// memory. Up to the end of that extent, reads need no further look at the map.
#[derive(Clone, Copy)]
pub(crate) struct CheckedPlace<'m> {
    mapping: &'m Mapping,
    at: u64,
    /// Bytes from `at` to the end of the extent.
    valid: u64,
}

impl<'m> CheckedPlace<'m> {
    /// Asks for the next cache line, so that it is on its way while the first
    /// one is looked at.
    #[inline(always)]
    pub(crate) fn prefetch_next_line(self) {
        if self.valid > 64 {
            self.mapping.prefetch(self.at + 64);
        }
    }

    /// The word so many bytes behind the place, a multiple of 8.
    #[inline(always)]
    pub(crate) fn word(self, behind: u64) -> Result<u64, Fault> {
        debug_assert!(behind.is_multiple_of(8));
        if behind >= self.valid {
            let at = self.at.wrapping_add(behind & !7);
            self.mapping.check(at, 8)?;
            return Ok(self.mapping.load(at));
        }
        // SAFETY: both offsets are multiples of 8, and the word lies in the
        // extent that was checked.
        Ok(unsafe { self.mapping.word_unchecked(self.at + (behind & !7)) }.load(Ordering::Relaxed))
    }

    /// Whether the bytes behind the place are the given ones.
    #[inline(always)]
    pub(crate) fn equals(self, behind: u64, bytes: &[u8]) -> Result<bool, Fault> {
        debug_assert!(behind.is_multiple_of(8));
        let length = bytes.len() as u64;
        // Sums cannot overflow: lengths of slices are below 2^63, and what
        // stands in a header is below 2^40.
        if behind.saturating_add(length) > self.valid {
            self.mapping.check(self.at.wrapping_add(behind), length)?;
        }
        Ok(self.mapping.equals(self.at + behind, bytes))
    }
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
    unsafe fn word_unchecked(&self, at: u64) -> &AtomicU64 {
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

    #[inline(always)]
    pub(crate) fn store(&self, at: u64, value: u64) {
        debug_assert!(self.is_kept(at, 8), "{at:#x} is in a copy and not saved");
        self.word(at).store(value, Ordering::Relaxed);
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
    fn extent_reserved(&self, extent: u64) -> bool {
        debug_assert!(extent < self.layout.extents);
        let at = self.layout.reserved_map + extent / 64 * 8;
        // SAFETY: the map has a bit for each of the heap's extents, and starts
        // at a page.
        let word = unsafe { self.word_unchecked(at) }.load(Ordering::Relaxed);
        word >> (extent % 64) & 1 == 1
    }

    /// Checks a heap offset that was read from the store, for reads behind it.
    #[inline(always)]
    pub(crate) fn place_at(&self, at: u64) -> Result<CheckedPlace<'_>, Fault> {
        work::touched(work::LINE);
        let start = at.wrapping_sub(self.layout.heap);
        if at & 7 == 0 && start < self.heap_size && self.extent_reserved(start / EXTENT) {
            Ok(CheckedPlace {
                mapping: self,
                at,
                valid: EXTENT - start % EXTENT,
            })
        } else {
            self.place_under_overlay(at)
        }
    }

    /// Where an overlay lies over the file: a place of which nothing is valid to be read directly.
    #[cold]
    fn place_under_overlay(&self, at: u64) -> Result<CheckedPlace<'_>, Fault> {
        self.overlay.as_ref().ok_or_else(|| unreserved(at))?;
        self.check(at, 8)?;
        Ok(CheckedPlace {
            mapping: self,
            at,
            valid: 0,
        })
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

    /// Copies out of a range that was checked; appends to `out`.
    #[inline(always)]
    pub(crate) fn append_to(&self, at: u64, length: usize, out: &mut Vec<u8>) {
        let whole = length.next_multiple_of(8);
        if at & 7 != 0 || at + whole as u64 > self.direct {
            return self.append_under_overlay(at, 0, length, out);
        }
        let before = out.len();
        out.reserve(whole);
        // SAFETY: `reserve` made room for `whole` more bytes; the source is
        // aligned and inside the mapping (looked at), read by atomic words; the
        // bytes up to `before + length` are then initialised.
        unsafe {
            let source = self.map.start().add(at as usize).cast::<u64>();
            let target = out.as_mut_ptr().add(before).cast::<u64>();
            blocks::copy_out(source, target, whole / 8);
            out.set_len(before + length);
        }
    }

    /// As [`append_to`](Self::append_to), from `skip` bytes, less than 8, behind the start of the range that was
    /// checked.
    #[inline(always)]
    pub(crate) fn append_from(&self, at: u64, skip: usize, length: usize, out: &mut Vec<u8>) {
        assert!(skip < 8);
        if skip == 0 || length == 0 {
            return self.append_to(at, length, out);
        }
        let words = (skip + length).div_ceil(8);
        if at & 7 != 0 || at + words as u64 * 8 > self.direct {
            return self.append_under_overlay(at, skip, length, out);
        }
        let before = out.len();
        out.reserve(length.saturating_add(8));
        // SAFETY: the source is aligned and inside the mapping (looked at), read
        // by atomic words. What is written are 8 bytes, and then whole words up
        // to `words * 8 - skip` bytes, which is less than `length + 8`, for
        // which `reserve` made room; the bytes up to `before + length` are then
        // initialised.
        unsafe {
            let source = self.map.start().add(at as usize).cast::<u64>();
            let target = out.as_mut_ptr().add(before);
            let first = AtomicU64::from_ptr(source).load(Ordering::Relaxed);
            target.cast::<u64>().write_unaligned(first >> (skip * 8));
            let (source, target) = (source.add(1), target.add(8 - skip).cast::<u64>());
            blocks::copy_out(source, target, words - 1);
            out.set_len(before + length);
        }
    }

    /// Copies out of a range that was checked, into all of `out`, which may hold nothing yet.
    #[inline(always)]
    pub(crate) fn copy_into(&self, at: u64, out: &mut [MaybeUninit<u8>]) {
        let whole = out.len() / 8;
        if at & 7 != 0 || at + out.len().next_multiple_of(8) as u64 > self.direct {
            return self.copy_under_overlay(at, out);
        }
        // SAFETY: the source is aligned and inside the mapping (looked at) and
        // read by atomic words; the target is a slice of our own.
        unsafe {
            let source = self.map.start().add(at as usize).cast::<u64>();
            let target = out.as_mut_ptr().cast::<u64>();
            blocks::copy_out(source, target, whole);
            if !out.len().is_multiple_of(8) {
                let word = AtomicU64::from_ptr(source.add(whole)).load(Ordering::Relaxed);
                for (out, byte) in out[whole * 8..].iter_mut().zip(word.to_le_bytes()) {
                    out.write(byte);
                }
            }
        }
    }

    /// Copies into a range that was checked; the last word is padded with
    /// zeros.
    #[inline]
    pub(crate) fn copy_from(&self, at: u64, bytes: &[u8]) {
        debug_assert!(
            self.is_kept(at, bytes.len() as u64),
            "{at:#x} is in a copy and not saved"
        );
        self.fill_staged(at, bytes);
    }

    /// As [`copy_from`](Self::copy_from), into a staged block: what is in no copy of the store, or was saved when the
    /// block was staged.
    #[inline]
    pub(crate) fn fill_staged(&self, at: u64, bytes: &[u8]) {
        let whole = bytes.len() / 8;
        assert!(
            self.writable
                && at & 7 == 0
                && at + words_of(bytes.len() as u64) * 8 <= self.layout.file_length
        );
        // SAFETY: the target is aligned, inside the mapping and writable
        // (asserted), written by atomic words; the source is a slice.
        unsafe {
            let target = self.map.start().add(at as usize).cast::<u64>();
            let source = bytes.as_ptr().cast::<u64>();
            blocks::copy_in(source, target, whole);
            if !bytes.len().is_multiple_of(8) {
                AtomicU64::from_ptr(target.add(whole)).store(last_word(bytes), Ordering::Relaxed);
            }
        }
    }

    /// Receives from a socket into a staged block, and what is more into `more`; see
    /// [`fill_staged`](Self::fill_staged).
    pub(crate) fn receive_staged(
        &self,
        at: u64,
        length: u64,
        socket: BorrowedFd<'_>,
        more: &mut Vec<u8>,
    ) -> io::Result<usize> {
        assert!(self.writable && at + length <= self.layout.file_length);
        // SAFETY: the target is inside the mapping and writable (asserted). It is no Rust reference's: the kernel writes
        // to it as another process might.
        unsafe {
            let target = self.map.start().add(at as usize);
            platform::receive(socket, target, length as usize, more)
        }
    }

    /// Copies a page to where it lies in another mapping of the same layout, which is this process' own.
    #[inline]
    pub(crate) fn copy_page_to(&self, other: &Mapping, from: u64, to: u64) {
        let last = self.layout.file_length - PAGE;
        assert!(
            other.writable
                && other.layout == self.layout
                && (from | to) & 7 == 0
                && from <= last
                && to <= last
        );
        // SAFETY: both offsets are multiples of 8, and each page lies inside its mapping: both are as long as their
        // layout says (asserted in `new`), and the layouts are the same.
        unsafe {
            let source = self.map.start().add(from as usize).cast::<u64>();
            let target = other.map.start().add(to as usize).cast::<u64>();
            blocks::copy_across(source, target, PAGE as usize / 8);
        }
    }

    /// Copies whole words inside the file, from lower to higher addresses. The two ranges do not overlap.
    #[inline(always)]
    pub(crate) fn copy_within(&self, from: u64, to: u64, words: u64) {
        debug_assert!(from.abs_diff(to) >= words.saturating_mul(8));
        debug_assert!(
            self.is_kept(to, words.saturating_mul(8)),
            "{to:#x} is in a copy and not saved"
        );
        let room = self.layout.file_length;
        assert!(
            self.writable
                && (from | to) & 7 == 0
                && words <= room / 8
                && from <= room - words * 8
                && to <= room - words * 8
        );
        // SAFETY: both offsets are multiples of 8, and both ranges lie inside
        // the mapping (asserted).
        unsafe {
            let source = self.map.start().add(from as usize).cast::<u64>();
            let target = self.map.start().add(to as usize).cast::<u64>();
            blocks::copy_across(source, target, words as usize);
        }
    }

    /// Adds a number to each of some words of a range that was checked.
    #[inline(always)]
    pub(crate) fn add_to_words(&self, at: u64, words: u64, change: u64) {
        debug_assert!(
            self.is_kept(at, words.saturating_mul(8)),
            "{at:#x} is in a copy and not saved"
        );
        let room = self.layout.file_length;
        assert!(self.writable && at & 7 == 0 && words <= room / 8 && at <= room - words * 8);
        // SAFETY: the range is aligned, inside the mapping and writable (asserted).
        unsafe {
            let first = self.map.start().add(at as usize).cast::<u64>();
            work::touched(words);
            for index in 0..words as usize {
                let word = AtomicU64::from_ptr(first.add(index));
                let sum = word.load(Ordering::Relaxed).wrapping_add(change);
                word.store(sum, Ordering::Relaxed);
            }
        }
    }

    /// Copies whole words of the file to another place in it.
    ///
    /// # Safety
    /// `target` is aligned and inside the mapping, with so many words from there on.
    #[inline(always)]
    pub(super) unsafe fn copy_words_out(&self, from: u64, words: u64, target: *mut u64) {
        let room = self.layout.file_length;
        assert!(from & 7 == 0 && words <= room / 8 && from <= room - words * 8);
        // SAFETY: the source is aligned and inside the mapping (asserted), the target is (the caller's duty).
        unsafe {
            let source = self.map.start().add(from as usize).cast::<u64>();
            blocks::copy_across(source, target, words as usize);
        }
    }

    /// Whether the bytes of a range that was checked equal `bytes`.
    #[inline(always)]
    pub(crate) fn equals(&self, at: u64, bytes: &[u8]) -> bool {
        let whole = bytes.len() / 8;
        if at & 7 != 0 || at + words_of(bytes.len() as u64) * 8 > self.direct {
            return self.equals_under_overlay(at, bytes);
        }
        // SAFETY: the range in the file is aligned and inside the mapping
        // (looked at) and read by atomic words; `bytes` is a slice.
        unsafe {
            let left = self.map.start().add(at as usize).cast::<u64>();
            let right = bytes.as_ptr().cast::<u64>();
            for index in 0..whole {
                let word = AtomicU64::from_ptr(left.add(index)).load(Ordering::Relaxed);
                if word != right.add(index).read_unaligned() {
                    return false;
                }
            }
            if !bytes.len().is_multiple_of(8) {
                let mask = (1 << (bytes.len() % 8 * 8)) - 1;
                let word = AtomicU64::from_ptr(left.add(whole)).load(Ordering::Relaxed);
                if word & mask != last_word(bytes) {
                    return false;
                }
            }
        }
        true
    }
}

#[cold]
fn unreserved(at: u64) -> Fault {
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
