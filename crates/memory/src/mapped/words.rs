//! Words of the file with a meaning of their own: a lock, the last word of some bytes.

use std::sync::atomic::{AtomicU32, Ordering};

/// A lock in the segment: its word, and how often it was taken. The threads of a process take a lock under the same
/// owner, so only the count tells a waiter that the lock has changed hands.
#[repr(C)]
pub(crate) struct Lock {
    word: AtomicU32,
    turns: AtomicU32,
}

impl Lock {
    /// The word, to sleep on and to look at.
    #[inline(always)]
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// How often the lock was taken; it wraps.
    #[inline(always)]
    pub(crate) fn turns(&self) -> u32 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Counts that the lock was taken. It is held, so no other thread stores the count.
    #[inline(always)]
    pub(crate) fn count(&self) {
        self.turns
            .store(self.turns().wrapping_add(1), Ordering::Relaxed);
    }
}

/// Words that so many bytes take, which are fewer than the file has.
#[inline(always)]
pub(crate) fn words_of(bytes: u64) -> u64 {
    bytes.wrapping_add(7) / 8
}

/// The last word of some bytes: those that are left over behind whole words, of which there are some, padded with zeros.
#[inline(always)]
pub fn last_word(bytes: &[u8]) -> u64 {
    let left = bytes.len() % 8;
    match bytes.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last) >> (64 - left * 8),
        None => {
            let mut word = 0;
            for &byte in bytes.iter().rev() {
                word = word << 8 | u64::from(byte);
            }
            word
        }
    }
}
