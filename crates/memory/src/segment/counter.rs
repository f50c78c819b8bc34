//! The version counter of a shard (W5, R1): odd while a transaction changes the
//! shard, raised once more when it is done.
//!
//! ```text
//!  63 .. 2               1       0
//! +---------------------+-------+------+
//! | counts the changes  | mark  | odd  |
//! +---------------------+-------+------+
//! ```
//!
//! The mark is part of the word that everybody looks at anyway, so that a shard
//! without one costs nobody an instruction (L5).
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

/// The shard is being changed.
pub(crate) const ODD: u64 = 1;
/// Somebody has to look after the shard before it is read or changed.
pub(crate) const MARK: u64 = 2;
/// From an odd counter to the next even one; the mark stays.
const TO_EVEN: u64 = 3;
/// From a counter to the next one that is as odd, and has the same mark.
const TO_NEXT: u64 = 4;

/// Whether a shard with this counter may be read at once: nobody changes it, and
/// it has no mark.
#[inline(always)]
pub(crate) fn is_plain(noted: u64) -> bool {
    noted & (ODD | MARK) == 0
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
    counter.put(value.wrapping_add(TO_EVEN), Ordering::Release);
}

/// Makes whoever reads begin anew, in the midst of a change: what was logged for it so far begins or ends to be undone.
pub(crate) fn raise<V: Version>(counter: &V) {
    V::fence(Ordering::Release);
    let value = counter.get(Ordering::Relaxed);
    counter.put(value.wrapping_add(TO_NEXT), Ordering::Relaxed);
    V::fence(Ordering::Release);
}

/// Sets or removes the mark of a shard that is locked, and odd where that
/// changes anything.
pub(crate) fn set_mark<V: Version>(counter: &V, marked: bool) {
    let value = counter.get(Ordering::Relaxed);
    let mark = if marked { MARK } else { 0 };
    counter.put(value & !MARK | mark, Ordering::Relaxed);
}
