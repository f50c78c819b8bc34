//! Every store into the mapped file through an offset: words, copies, sums (S1).
//!
//! In debug builds each looks whether a copy of the store still needs what it overwrites (C1).

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
        debug_assert!(self.is_kept(at, 8), "{at:#x} is in a copy and not saved");
        self.word(at).store(value, Ordering::Relaxed);
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
            self.writable()
                && at & 7 == 0
                && at + words_of(bytes.len() as u64) * 8 <= self.layout().file_length
        );
        // SAFETY: the target is aligned, inside the mapping and writable
        // (asserted), written by atomic words; the source is a slice.
        unsafe {
            let target = self.start().add(at as usize).cast::<u64>();
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
        assert!(self.writable() && at + length <= self.layout().file_length);
        // SAFETY: the target is inside the mapping and writable (asserted). It is no Rust reference's: the kernel writes
        // to it as another process might.
        unsafe {
            let target = self.start().add(at as usize);
            platform::receive(socket, target, length as usize, more)
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
        let room = self.layout().file_length;
        assert!(
            self.writable()
                && (from | to) & 7 == 0
                && words <= room / 8
                && from <= room - words * 8
                && to <= room - words * 8
        );
        // SAFETY: both offsets are multiples of 8, and both ranges lie inside
        // the mapping (asserted).
        unsafe {
            let source = self.start().add(from as usize).cast::<u64>();
            let target = self.start().add(to as usize).cast::<u64>();
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

    /// Copies whole words of the file to another place in it.
    ///
    /// # Safety
    /// `target` is aligned and inside the mapping, with so many words from there on.
    #[inline(always)]
    pub(super) unsafe fn copy_words_out(&self, from: u64, words: u64, target: *mut u64) {
        let room = self.layout().file_length;
        assert!(from & 7 == 0 && words <= room / 8 && from <= room - words * 8);
        // SAFETY: the source is aligned and inside the mapping (asserted), the target is (the caller's duty).
        unsafe {
            let source = self.start().add(from as usize).cast::<u64>();
            blocks::copy_across(source, target, words as usize);
        }
    }
}
