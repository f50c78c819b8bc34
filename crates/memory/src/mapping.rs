//! Access to the mapped file: word-sized relaxed atomics, copies and
//! comparisons, all bounds-checked (S1, S3). No reference into the file leaves
//! this module.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::Fault;
use crate::layout::{EXTENT, EXTENT_PAGES, Layout, PAGE};
use crate::platform::Map;

/// The mapped file and where things lie in it.
pub(crate) struct Mapping {
    map: Map,
    layout: Layout,
    writable: bool,
}

impl Mapping {
    /// The mapping must be exactly as long as the layout says.
    pub(crate) fn new(map: Map, layout: Layout, writable: bool) -> Mapping {
        assert_eq!(map.length(), layout.file_length);
        Mapping {
            map,
            layout,
            writable,
        }
    }

    #[inline(always)]
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    #[inline(always)]
    pub(crate) fn writable(&self) -> bool {
        self.writable
    }

    /// Backs a range with memory; widened to whole pages.
    pub(crate) fn populate(&self, start: u64, length: u64) -> std::io::Result<()> {
        let first = start / PAGE * PAGE;
        let end = (start + length).next_multiple_of(PAGE);
        self.map.populate(first, end - first)
    }

    /// The word at an offset that our own constants give.
    #[inline(always)]
    pub(crate) fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at & 7 == 0 && at <= self.layout.file_length - 8);
        // SAFETY: aligned and inside the mapping (asserted), which lives as
        // long as `self`; every access to the file, here and in other
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

    #[inline(always)]
    pub(crate) fn load(&self, at: u64) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn store(&self, at: u64, value: u64) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    /// Whether a range of the heap is backed by memory (S3): a hole in a full
    /// tmpfs is a SIGBUS even to read.
    #[inline(always)]
    pub(crate) fn reserved(&self, at: u64, length: u64) -> bool {
        let start = at.wrapping_sub(self.layout.heap);
        let size = self.layout.extents * EXTENT;
        if start >= size || length > size - start {
            return false;
        }
        let first = start / EXTENT;
        let last = (start + length.max(1) - 1) / EXTENT;
        self.extent_reserved(first) && (first == last || self.extents_reserved(first + 1, last))
    }

    #[inline(always)]
    fn extent_reserved(&self, extent: u64) -> bool {
        self.load(self.layout.reserved_map + extent / 64 * 8) >> (extent % 64) & 1 == 1
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
            Err(Fault {
                at,
                what: "an aligned offset in a reserved extent",
            })
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

    /// Copies out of a range that was checked; appends to `out`.
    #[inline]
    pub(crate) fn append_to(&self, at: u64, length: usize, out: &mut Vec<u8>) {
        let before = out.len();
        out.reserve(length.next_multiple_of(8));
        let whole = length.next_multiple_of(8);
        assert!(at & 7 == 0 && at + whole as u64 <= self.layout.file_length);
        // SAFETY: `reserve` made room for `whole` more bytes; the source is
        // aligned and inside the mapping (asserted), read by atomic words; the
        // bytes up to `before + length` are then initialised.
        unsafe {
            let source = self.map.start().add(at as usize).cast::<u64>();
            let target = out.as_mut_ptr().add(before).cast::<u64>();
            for index in 0..whole / 8 {
                let word = AtomicU64::from_ptr(source.add(index)).load(Ordering::Relaxed);
                target.add(index).write_unaligned(word);
            }
            out.set_len(before + length);
        }
    }

    /// Copies out of a range that was checked, into all of `out`.
    #[inline]
    pub(crate) fn copy_to(&self, at: u64, out: &mut [u8]) {
        let whole = out.len() / 8;
        assert!(
            at & 7 == 0 && at + out.len().next_multiple_of(8) as u64 <= self.layout.file_length
        );
        // SAFETY: the source is aligned and inside the mapping (asserted) and
        // read by atomic words; the target is a slice of our own.
        unsafe {
            let source = self.map.start().add(at as usize).cast::<u64>();
            let target = out.as_mut_ptr().cast::<u64>();
            for index in 0..whole {
                let word = AtomicU64::from_ptr(source.add(index)).load(Ordering::Relaxed);
                target.add(index).write_unaligned(word);
            }
            if !out.len().is_multiple_of(8) {
                let word = AtomicU64::from_ptr(source.add(whole)).load(Ordering::Relaxed);
                let left = out.len() % 8;
                out[whole * 8..].copy_from_slice(&word.to_le_bytes()[..left]);
            }
        }
    }

    /// Copies into a range that was checked; the last word is padded with
    /// zeros.
    #[inline]
    pub(crate) fn copy_from(&self, at: u64, bytes: &[u8]) {
        let whole = bytes.len() / 8;
        assert!(
            self.writable
                && at & 7 == 0
                && at + bytes.len().next_multiple_of(8) as u64 <= self.layout.file_length
        );
        // SAFETY: the target is aligned, inside the mapping and writable
        // (asserted), written by atomic words; the source is a slice.
        unsafe {
            let target = self.map.start().add(at as usize).cast::<u64>();
            let source = bytes.as_ptr().cast::<u64>();
            for index in 0..whole {
                let word = source.add(index).read_unaligned();
                AtomicU64::from_ptr(target.add(index)).store(word, Ordering::Relaxed);
            }
            if !bytes.len().is_multiple_of(8) {
                let mut last = [0; 8];
                last[..bytes.len() % 8].copy_from_slice(&bytes[whole * 8..]);
                AtomicU64::from_ptr(target.add(whole))
                    .store(u64::from_le_bytes(last), Ordering::Relaxed);
            }
        }
    }

    /// Copies whole words inside the file, from lower to higher addresses.
    pub(crate) fn copy_within(&self, from: u64, to: u64, words: u64) {
        for index in 0..words {
            self.store(to + index * 8, self.load(from + index * 8));
        }
    }

    /// Whether the bytes of a range that was checked equal `bytes`.
    #[inline]
    pub(crate) fn equals(&self, at: u64, bytes: &[u8]) -> bool {
        let whole = bytes.len() / 8;
        assert!(
            at & 7 == 0 && at + bytes.len().next_multiple_of(8) as u64 <= self.layout.file_length
        );
        // SAFETY: the range in the file is aligned and inside the mapping
        // (asserted) and read by atomic words; `bytes` is a slice.
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
                let mut last = [0; 8];
                last[..bytes.len() % 8].copy_from_slice(&bytes[whole * 8..]);
                let mask = (1 << (bytes.len() % 8 * 8)) - 1;
                let word = AtomicU64::from_ptr(left.add(whole)).load(Ordering::Relaxed);
                if word & mask != u64::from_le_bytes(last) {
                    return false;
                }
            }
        }
        true
    }
}
