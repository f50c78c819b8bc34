//! Words of the file that have a special meaning, such as locks.

use std::sync::atomic::{AtomicU32, Ordering};

/// A lock in the segment: its lock word, and the number of times that it has been acquired. All
/// threads of a process acquire a lock as the same owner, so only the count shows a waiter that the
/// lock has changed hands.
#[repr(C)]
pub(crate) struct Lock {
    word: AtomicU32,
    turns: AtomicU32,
}

impl Lock {
    /// Returns the futex word on which waiters sleep.
    #[inline(always)]
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Returns the number of times that the lock has been acquired. The count wraps around.
    #[inline(always)]
    pub(crate) fn turns(&self) -> u32 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Counts an acquisition of the lock. Only the lock's owner may call this, so no other thread
    /// writes the count.
    #[inline(always)]
    pub(crate) fn count(&self) {
        self.turns
            .store(self.turns().wrapping_add(1), Ordering::Relaxed);
    }
}

/// Returns the number of words that hold `bytes` bytes. `bytes` must be smaller than the file.
#[inline(always)]
pub(crate) fn words_of(bytes: u64) -> u64 {
    bytes.wrapping_add(7) / 8
}

/// Returns the trailing bytes that do not fill a whole word, padded with zeros. There must be at
/// least one such byte.
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
