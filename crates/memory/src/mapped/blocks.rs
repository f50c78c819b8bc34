//! Copies words, mostly in blocks of 64 bytes.
//!
//! Under the Rust memory model, a word that another process may be writing can only be read with
//! atomic loads of at most eight bytes, and compilers do not merge those into wider loads. Inline
//! assembly is exempt from this rule and takes half the time. Neither a block nor a pair of words
//! is read atomically. No caller relies on atomicity: readers use the bytes only after checking
//! that the shard has not changed (R1), and writers write only bytes that a lock protects or that
//! no reader can see yet.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::probes::work;

/// The number of words in a block.
const BLOCK: usize = 8;
/// Copies shorter than this number of words are made word by word.
const WORTH_IT: usize = 2 * BLOCK;

/// Copies words out of a mapping, from lower to higher addresses.
///
/// # Safety
/// `source` must be aligned and mapped for `count` words, and `target` must be valid for writes of
/// `count * 8` bytes.
#[inline(always)]
pub(super) unsafe fn copy_out(source: *const u64, target: *mut u64, count: usize) {
    // SAFETY: the caller guarantees that both ranges are valid; source words are read atomically
    // because other processes may be writing them.
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
/// `source` must be valid for reads of `count * 8` bytes, and `target` must be aligned, mapped and
/// writable for `count` words.
#[inline(always)]
pub(super) unsafe fn copy_in(source: *const u64, target: *mut u64, count: usize) {
    // SAFETY: the caller guarantees that both ranges are valid; target words are written atomically
    // because other processes may be reading them.
    unsafe {
        copy(source, target, count, |index| {
            let word = source.add(index).read_unaligned();
            AtomicU64::from_ptr(target.add(index)).store(word, Ordering::Relaxed);
        });
    }
}

/// Copies words between mappings, from lower to higher addresses. The two ranges must not overlap.
///
/// # Safety
/// `source` and `target` must be aligned and mapped for `count` words, and `target` must be
/// writable.
#[inline(always)]
pub(super) unsafe fn copy_across(source: *const u64, target: *mut u64, count: usize) {
    // SAFETY: the caller guarantees that both ranges are valid; all accesses are atomic because
    // other processes may access the same words.
    unsafe {
        copy(source, target, count, |index| {
            let word = AtomicU64::from_ptr(source.add(index).cast_mut()).load(Ordering::Relaxed);
            AtomicU64::from_ptr(target.add(index)).store(word, Ordering::Relaxed);
        });
    }
}

/// Copies whole blocks, then calls `each` with the index of every remaining word.
///
/// # Safety
/// `source` must be valid for reads of `count` words, and `target` for writes of `count` words.
#[inline(always)]
unsafe fn copy(source: *const u64, target: *mut u64, count: usize, mut each: impl FnMut(usize)) {
    work::touched(count as u64);
    let mut index = 0;
    if count >= WORTH_IT {
        // SAFETY: the caller guarantees that both ranges are valid for `count` words.
        index = unsafe { copy_blocks(source.cast(), target.cast(), count / BLOCK) } * BLOCK;
    }
    // Unrolled by hand, because the compiler does not unroll loops over atomics.
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

/// Copies one or more blocks and returns the number of blocks copied.
///
/// # Safety
/// `source` must be valid for reads of `blocks` blocks, and `target` for writes of `blocks` blocks.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn copy_blocks(source: *const u8, target: *mut u8, blocks: usize) -> usize {
    // SAFETY: the assembly accesses only memory that the caller declares valid, and every x86-64
    // processor has these instructions.
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

    /// The initial value of the bytes around the target, which the copy must not change.
    const STAYS: u8 = 0xa5;

    #[test]
    fn every_length_is_copied_without_touching_adjacent_bytes() {
        for count in (0..70).chain([511, 4096]) {
            let source: Vec<u64> = (1..=count as u64).map(|word| word * 0x0101_0203).collect();
            let bytes: Vec<u8> = source.iter().flat_map(|word| word.to_ne_bytes()).collect();
            // `copy_out` runs twice: with a word-aligned target and with a target that is one byte
            // off.
            for (shift, copy) in [
                (0, copy_in as unsafe fn(*const u64, *mut u64, usize)),
                (0, copy_across),
                (1, copy_out),
            ] {
                let mut target = vec![u64::from_ne_bytes([STAYS; 8]); count + 2];
                // SAFETY: the source contains `count` words, and the target at least one word more.
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
