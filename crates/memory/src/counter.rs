//! The version counter of a shard (W5, R1): odd while a transaction changes the
//! shard, raised once more when it is done.
//!
//! Generic over the word, so that the loom models run this very code.

use std::sync::atomic::{AtomicU64, Ordering};

/// A 64-bit atomic and its fences: the real ones, or loom's.
pub(crate) trait Version {
    /// Load.
    fn get(&self, order: Ordering) -> u64;
    /// Store.
    fn put(&self, value: u64, order: Ordering);
    /// Fence.
    fn fence(order: Ordering);
}

impl Version for AtomicU64 {
    #[inline(always)]
    fn get(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    #[inline(always)]
    fn put(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }

    #[inline(always)]
    fn fence(order: Ordering) {
        std::sync::atomic::fence(order);
    }
}

/// A reader's first look: what it reads next is at least as new.
#[inline(always)]
pub(crate) fn note<V: Version>(counter: &V) -> u64 {
    counter.get(Ordering::Acquire)
}

/// Comes between what a reader read and its last looks at the counters.
#[inline(always)]
pub(crate) fn end_of_reading<V: Version>() {
    V::fence(Ordering::Acquire);
}

/// Whether the counter still has the value noted, after
/// [`end_of_reading`]: then nothing that was read in between is torn.
#[inline(always)]
pub(crate) fn unchanged<V: Version>(counter: &V, noted: u64) -> bool {
    counter.get(Ordering::Relaxed) == noted
}

/// The holder of the lock is about to change the shard.
#[inline(always)]
pub(crate) fn make_odd<V: Version>(counter: &V) {
    let value = counter.get(Ordering::Relaxed);
    counter.put(value.wrapping_add(1), Ordering::Relaxed);
}

/// Comes between the odd counters and the first change: no reader sees a change
/// without seeing them.
#[inline(always)]
pub(crate) fn start_of_changes<V: Version>() {
    V::fence(Ordering::Release);
}

/// The shard is whole again, as readers see it.
#[inline(always)]
pub(crate) fn make_even<V: Version>(counter: &V) {
    let value = counter.get(Ordering::Relaxed);
    counter.put(value.wrapping_add(1), Ordering::Release);
}
