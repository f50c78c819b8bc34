//! Copies of words, most of them by blocks of 64 bytes.
//!
//! The memory model lets a word that somebody else may be writing be read only by atomic loads of eight bytes, which no
//! compiler joins to wider ones. Instructions that are written down are the machine's own and read what is there: they
//! take half the time. A block is not one atomic read, nor are two words; nobody relies on that, as bytes that were read
//! count only after the shard was found unchanged (R1), and what is written is behind a lock or not yet seen by anybody.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::probes::work;

/// Words of a block.
const BLOCK: usize = 8;
/// Fewer words are copied one by one.
const WORTH_IT: usize = 2 * BLOCK;

/// Copies words out of a mapping, from lower to higher addresses.
///
/// # Safety
/// So many words lie at `source`, aligned and mapped, and as many bytes as they have may be written at `target`.
#[inline(always)]
pub(super) unsafe fn copy_out(source: *const u64, target: *mut u64, count: usize) {
    // SAFETY: the caller's promise; words are read as others may be writing them.
    unsafe {
        copy(source, target, count, |index| {
            let word = AtomicU64::from_ptr(source.add(index).cast_mut()).load(Ordering::Relaxed);
            target.add(index).write_unaligned(word);
        });
    }
}

/// Copies words into a mapping, from lower to higher addresses.
///
/// # Safety
/// As many bytes as so many words have may be read at `source`, and so many words lie at `target`, aligned and mapped to
/// be written.
#[inline(always)]
pub(super) unsafe fn copy_in(source: *const u64, target: *mut u64, count: usize) {
    // SAFETY: the caller's promise; words are written as others may be reading them.
    unsafe {
        copy(source, target, count, |index| {
            let word = source.add(index).read_unaligned();
            AtomicU64::from_ptr(target.add(index)).store(word, Ordering::Relaxed);
        });
    }
}

/// Copies words of mappings, from lower to higher addresses. The two ranges do not overlap.
///
/// # Safety
/// So many words lie at `source` and at `target`, aligned and mapped, these to be written.
#[inline(always)]
pub(super) unsafe fn copy_across(source: *const u64, target: *mut u64, count: usize) {
    // SAFETY: the caller's promise; words are read and written as others may be doing the same.
    unsafe {
        copy(source, target, count, |index| {
            let word = AtomicU64::from_ptr(source.add(index).cast_mut()).load(Ordering::Relaxed);
            AtomicU64::from_ptr(target.add(index)).store(word, Ordering::Relaxed);
        });
    }
}

/// Copies blocks as long as there are some, and what is left by `each` word, which is given its place.
///
/// # Safety
/// `source` may be read and `target` written for so many words.
#[inline(always)]
unsafe fn copy(source: *const u64, target: *mut u64, count: usize, mut each: impl FnMut(usize)) {
    work::touched(count as u64);
    let mut index = 0;
    if count >= WORTH_IT {
        // SAFETY: the caller's promise.
        index = unsafe { copy_blocks(source.cast(), target.cast(), count / BLOCK) } * BLOCK;
    }
    // Four to a turn of the loop: the compiler unrolls no loop over atomics.
    while index + 4 <= count {
        each(index);
        each(index + 1);
        each(index + 2);
        each(index + 3);
        index += 4;
    }
    while index < count {
        each(index);
        index += 1;
    }
}

/// Copies blocks, at least one. Returns how many of them it did.
///
/// # Safety
/// `source` may be read and `target` written for so many blocks.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn copy_blocks(source: *const u8, target: *mut u8, blocks: usize) -> usize {
    // SAFETY: it reads and writes what the caller says it may, and no other memory. Every processor of this architecture
    // has these instructions.
    unsafe {
        std::arch::asm!(
            "2:",
            "movups {a}, [{source}]",
            "movups {b}, [{source} + 16]",
            "movups {c}, [{source} + 32]",
            "movups {d}, [{source} + 48]",
            "add {source}, 64",
            "movups [{target}], {a}",
            "movups [{target} + 16], {b}",
            "movups [{target} + 32], {c}",
            "movups [{target} + 48], {d}",
            "add {target}, 64",
            "dec {left}",
            "jnz 2b",
            source = inout(reg) source => _,
            target = inout(reg) target => _,
            left = inout(reg) blocks => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        );
    }
    blocks
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn copy_blocks(_: *const u8, _: *mut u8, _: usize) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A byte that is to stay as it is.
    const STAYS: u8 = 0xa5;

    #[test]
    fn every_length_is_copied_and_nothing_beside_it() {
        for count in (0..70).chain([511, 4096]) {
            let source: Vec<u64> = (1..=count as u64).map(|word| word * 0x0101_0203).collect();
            let bytes: Vec<u8> = source.iter().flat_map(|word| word.to_ne_bytes()).collect();
            // Aligned by the word, and a byte behind that.
            for (shift, copy) in [
                (0, copy_in as unsafe fn(*const u64, *mut u64, usize)),
                (0, copy_across),
                (1, copy_out),
            ] {
                let mut target = vec![u64::from_ne_bytes([STAYS; 8]); count + 2];
                // SAFETY: there are so many words at the source, and one more at the target.
                unsafe {
                    let target = target.as_mut_ptr().cast::<u8>().add(shift).cast();
                    copy(source.as_ptr(), target, count);
                }
                let target: Vec<u8> = target.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let (before, rest) = target.split_at(shift);
                let (copied, behind) = rest.split_at(count * 8);
                assert_eq!(copied, bytes, "{count} words");
                assert!(before.iter().chain(behind).all(|byte| *byte == STAYS));
            }
        }
    }
}
