//! Heap offsets that are checked once and then read many times (S3).

use std::sync::atomic::Ordering;

use crate::error::Fault;
use crate::mapped::layout::EXTENT;
use crate::mapped::mapping::{Mapping, unreserved};
use crate::probes::work;

/// A heap offset that has been checked: it is aligned and lies in an extent backed by memory. Reads
/// up to the end of that extent skip the lookup in the map of reserved extents.
#[derive(Clone, Copy)]
pub(crate) struct CheckedPlace<'m> {
    mapping: &'m Mapping,
    at: u64,
    /// The number of bytes from `at` to the end of the extent.
    valid: u64,
}

impl<'m> CheckedPlace<'m> {
    /// Prefetches the next cache line, so that it arrives while the caller examines the first line.
    #[inline(always)]
    pub(crate) fn prefetch_next_line(self) {
        if self.valid > 64 {
            self.mapping.prefetch(self.at + 64);
        }
    }

    /// Returns the word `behind` bytes after this place; `behind` must be a multiple of 8.
    #[inline(always)]
    pub(crate) fn word(self, behind: u64) -> Result<u64, Fault> {
        debug_assert!(behind.is_multiple_of(8));
        if behind >= self.valid {
            let at = self.at.wrapping_add(behind & !7);
            self.mapping.check(at, 8)?;
            return Ok(self.mapping.load(at));
        }
        // SAFETY: both offsets are multiples of 8, and the word is in the extent that was checked.
        Ok(unsafe { self.mapping.word_unchecked(self.at + (behind & !7)) }.load(Ordering::Relaxed))
    }

    /// Returns true if the bytes starting `behind` bytes after this place equal `bytes`.
    #[inline(always)]
    pub(crate) fn equals(self, behind: u64, bytes: &[u8]) -> Result<bool, Fault> {
        debug_assert!(behind.is_multiple_of(8));
        let length = bytes.len() as u64;
        // The sums cannot overflow: slice lengths are below 2^63, and lengths from a header are
        // below 2^40.
        if behind.saturating_add(length) > self.valid {
            self.mapping.check(self.at.wrapping_add(behind), length)?;
        }
        Ok(self.mapping.equals(self.at + behind, bytes))
    }
}

impl Mapping {
    /// Checks a heap offset that was read from the store, and returns it as a place for further
    /// reads.
    #[inline(always)]
    pub(crate) fn place_at(&self, at: u64) -> Result<CheckedPlace<'_>, Fault> {
        work::touched(work::LINE);
        let start = at.wrapping_sub(self.layout().heap);
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

    /// Returns a place with no directly readable bytes, because this mapping reads through an
    /// overlay.
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
}
