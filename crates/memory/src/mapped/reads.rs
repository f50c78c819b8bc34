//! Copies ranges out of the mapped file and compares them with bytes. The caller must have checked
//! each range.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::mapped::blocks;
use crate::mapped::layout::PAGE;
use crate::mapped::mapping::Mapping;
use crate::mapped::words::{last_word, words_of};

impl Mapping {
    /// Appends an already checked range to `out`.
    #[inline(always)]
    pub(crate) fn append_to(&self, at: u64, length: usize, out: &mut Vec<u8>) {
        let whole = length.next_multiple_of(8);
        if at & 7 != 0 || at + whole as u64 > self.direct {
            return self.append_under_overlay(at, 0, length, out);
        }
        let before = out.len();
        out.reserve(whole);
        // SAFETY: `reserve` made room for `whole` more bytes; the source is aligned and inside the
        // mapping (checked above) and is read with atomic words. The bytes up to `before + length`
        // are then initialized.
        unsafe {
            let source = self.start().add(at as usize).cast::<u64>();
            let target = out.as_mut_ptr().add(before).cast::<u64>();
            blocks::copy_out(source, target, whole / 8);
            out.set_len(before + length);
        }
    }

    /// Like [`append_to`](Self::append_to), but starts `skip` bytes (fewer than 8) after the start
    /// of the checked range.
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
        // SAFETY: the source is aligned and inside the mapping (checked above) and is read with
        // atomic words. The writes cover 8 bytes, then whole words up to `words * 8 - skip` bytes,
        // which is less than the `length + 8` bytes that `reserve` made room for. The bytes up to
        // `before + length` are then initialized.
        unsafe {
            let source = self.start().add(at as usize).cast::<u64>();
            let target = out.as_mut_ptr().add(before);
            let first = AtomicU64::from_ptr(source).load(Ordering::Relaxed);
            target.cast::<u64>().write_unaligned(first >> (skip * 8));
            let (source, target) = (source.add(1), target.add(8 - skip).cast::<u64>());
            blocks::copy_out(source, target, words - 1);
            out.set_len(before + length);
        }
    }

    /// Fills `out`, which may be uninitialized, from an already checked range.
    #[inline(always)]
    pub(crate) fn copy_into(&self, at: u64, out: &mut [MaybeUninit<u8>]) {
        let whole = out.len() / 8;
        if at & 7 != 0 || at + out.len().next_multiple_of(8) as u64 > self.direct {
            return self.copy_under_overlay(at, out);
        }
        // SAFETY: the source is aligned and inside the mapping (checked above) and is read with
        // atomic words; the target is an exclusively borrowed slice.
        unsafe {
            let source = self.start().add(at as usize).cast::<u64>();
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

    /// Returns true if an already checked range equals `bytes`.
    #[inline(always)]
    pub(crate) fn equals(&self, at: u64, bytes: &[u8]) -> bool {
        let whole = bytes.len() / 8;
        if at & 7 != 0 || at + words_of(bytes.len() as u64) * 8 > self.direct {
            return self.equals_under_overlay(at, bytes);
        }
        // SAFETY: the range in the file is aligned and inside the mapping (checked above) and is
        // read with atomic words; `bytes` is a slice.
        unsafe {
            let left = self.start().add(at as usize).cast::<u64>();
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

    /// Copies a page into `other`, a private mapping that has the same layout.
    #[inline]
    pub(crate) fn copy_page_to(&self, other: &Mapping, from: u64, to: u64) {
        let last = self.layout().file_length - PAGE;
        assert!(
            other.writable()
                && other.layout() == self.layout()
                && (from | to) & 7 == 0
                && from <= last
                && to <= last
        );
        // SAFETY: both offsets are multiples of 8, and each page lies inside its mapping, because
        // `new` asserts that a mapping's length matches its layout, and the two layouts are equal.
        unsafe {
            let source = self.start().add(from as usize).cast::<u64>();
            let target = other.start().add(to as usize).cast::<u64>();
            blocks::copy_across(source, target, PAGE as usize / 8);
        }
    }

    #[cold]
    #[inline(never)]
    fn append_under_overlay(&self, at: u64, skip: usize, length: usize, out: &mut Vec<u8>) {
        let (overlay, file) = self.under_overlay(at, length as u64);
        overlay.append(file, at, skip, length, out);
    }

    #[cold]
    #[inline(never)]
    fn copy_under_overlay(&self, at: u64, out: &mut [MaybeUninit<u8>]) {
        let (overlay, file) = self.under_overlay(at, out.len() as u64);
        overlay.copy(file, at, out);
    }

    #[cold]
    #[inline(never)]
    fn equals_under_overlay(&self, at: u64, expected: &[u8]) -> bool {
        let (overlay, file) = self.under_overlay(at, expected.len() as u64);
        overlay.equals(file, at, expected)
    }
}
