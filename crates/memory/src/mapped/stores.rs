//! Stores into the mapped file (S1): single words, copies, and additions to words.
//!
//! In debug builds, each store asserts that no copy of the store still needs the bytes it
//! overwrites (C1).

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::mapped::mapping::Mapping;
use crate::mapped::words::{last_word, words_of};
use crate::mapped::{blocks, platform};
use crate::probes::work;

impl Mapping {
    #[inline(always)]
    pub(crate) fn store(&self, at: u64, value: u64) {
        debug_assert!(
            self.is_kept(at, 8),
            "{at:#x} is being copied and was not saved"
        );
        self.word(at).store(value, Ordering::Relaxed);
    }

    /// Copies `bytes` into an already checked range, padding the last word with zeros.
    #[inline]
    pub(crate) fn copy_from(&self, at: u64, bytes: &[u8]) {
        debug_assert!(
            self.is_kept(at, bytes.len() as u64),
            "{at:#x} is being copied and was not saved"
        );
        self.fill_staged(at, bytes);
    }

    /// Copies `bytes` into a staged block, like [`copy_from`](Self::copy_from). Staged blocks need
    /// no copy-on-write check: either their pages are not part of a copy, or they were saved when
    /// the block was staged.
    #[inline]
    pub(crate) fn fill_staged(&self, at: u64, bytes: &[u8]) {
        let whole = bytes.len() / 8;
        assert!(
            self.writable()
                && at & 7 == 0
                && at + words_of(bytes.len() as u64) * 8 <= self.layout().file_length
        );
        // SAFETY: the target is aligned, inside the mapping and writable (asserted), and is written
        // with atomic words; the source is a slice.
        unsafe {
            let target = self.start().add(at as usize).cast::<u64>();
            let source = bytes.as_ptr().cast::<u64>();
            blocks::copy_in(source, target, whole);
            if !bytes.len().is_multiple_of(8) {
                AtomicU64::from_ptr(target.add(whole)).store(last_word(bytes), Ordering::Relaxed);
            }
        }
    }

    /// Receives up to `length` bytes from a socket into a staged block, and any further bytes into
    /// `more`. See [`fill_staged`](Self::fill_staged).
    pub(crate) fn receive_staged(
        &self,
        at: u64,
        length: u64,
        socket: BorrowedFd<'_>,
        more: &mut Vec<u8>,
    ) -> io::Result<usize> {
        assert!(self.writable() && at + length <= self.layout().file_length);
        // SAFETY: the target is inside the mapping and writable (asserted), and no Rust reference
        // covers it. The kernel writes to it as another process would.
        unsafe {
            let target = self.start().add(at as usize);
            platform::receive(socket, target, length as usize, more)
        }
    }

    /// Copies whole words within the file, from lower to higher addresses. The two ranges must not
    /// overlap.
    #[inline(always)]
    pub(crate) fn copy_within(&self, from: u64, to: u64, words: u64) {
        debug_assert!(from.abs_diff(to) >= words.saturating_mul(8));
        debug_assert!(
            self.is_kept(to, words.saturating_mul(8)),
            "{to:#x} is being copied and was not saved"
        );
        let room = self.layout().file_length;
        assert!(
            self.writable()
                && (from | to) & 7 == 0
                && words <= room / 8
                && from <= room - words * 8
                && to <= room - words * 8
        );
        // SAFETY: both offsets are multiples of 8, and both ranges are inside the mapping
        // (asserted).
        unsafe {
            let source = self.start().add(from as usize).cast::<u64>();
            let target = self.start().add(to as usize).cast::<u64>();
            blocks::copy_across(source, target, words as usize);
        }
    }

    /// Adds `change` to each of `words` consecutive words in an already checked range.
    #[inline(always)]
    pub(crate) fn add_to_words(&self, at: u64, words: u64, change: u64) {
        debug_assert!(
            self.is_kept(at, words.saturating_mul(8)),
            "{at:#x} is being copied and was not saved"
        );
        let room = self.layout().file_length;
        assert!(self.writable() && at & 7 == 0 && words <= room / 8 && at <= room - words * 8);
        // SAFETY: the range is aligned, inside the mapping and writable (asserted).
        unsafe {
            let first = self.start().add(at as usize).cast::<u64>();
            work::touched(words);
            for index in 0..words as usize {
                let word = AtomicU64::from_ptr(first.add(index));
                let sum = word.load(Ordering::Relaxed).wrapping_add(change);
                word.store(sum, Ordering::Relaxed);
            }
        }
    }

    /// Copies whole words from an offset to an address elsewhere in the mapping.
    ///
    /// # Safety
    /// `target` must be aligned, and the mapping must contain `words` words starting there.
    #[inline(always)]
    pub(super) unsafe fn copy_words_out(&self, from: u64, words: u64, target: *mut u64) {
        let room = self.layout().file_length;
        assert!(from & 7 == 0 && words <= room / 8 && from <= room - words * 8);
        // SAFETY: the source is aligned and inside the mapping (asserted); the caller guarantees
        // the same for the target.
        unsafe {
            let source = self.start().add(from as usize).cast::<u64>();
            blocks::copy_across(source, target, words as usize);
        }
    }
}
