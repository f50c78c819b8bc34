//! The version counter of a shard (W5, R1): odd while a transaction changes the shard, and even
//! again when the transaction is done.
//!
//! ```text
//!  63 .. 2               1       0
//! +---------------------+-------+------+
//! | counts the changes  | mark  | odd  |
//! +---------------------+-------+------+
//! ```
//!
//! The mark is part of a word that every reader and writer checks anyway, so a shard without a mark
//! costs no extra instruction (L5).
//!
//! The functions are generic over the word, so that the loom models run this very code.

use std::sync::atomic::{AtomicU64, Ordering};

/// A 64-bit atomic and its fences, either the real ones or loom's.
pub(crate) trait Version {
    /// Loads the value.
    fn get(&self, order: Ordering) -> u64;
    /// Stores a value.
    fn put(&self, value: u64, order: Ordering);
    /// Issues a fence.
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

/// Bit that is set while the shard is being changed.
pub(crate) const ODD: u64 = 1;
/// Bit that is set while the shard must be cleaned up before it is read or changed.
pub(crate) const MARK: u64 = 2;
/// Added to an odd counter, yields the next even one with the same mark.
const TO_EVEN: u64 = 3;
/// Added to a counter, yields the next one with the same parity and mark.
const TO_NEXT: u64 = 4;

/// Returns true if a shard with this counter may be read directly: it is not being changed and has
/// no mark.
#[inline(always)]
pub(crate) fn is_plain(noted: u64) -> bool {
    noted & (ODD | MARK) == 0
}

/// Reads the counter before a read. What the reader reads next is at least as new as this value.
#[inline(always)]
pub(crate) fn note<V: Version>(counter: &V) -> u64 {
    counter.get(Ordering::Acquire)
}

/// Orders a reader's reads before its final loads of the counters.
#[inline(always)]
pub(crate) fn end_of_reading<V: Version>() {
    V::fence(Ordering::Acquire);
}

/// Returns true if the counter still has the noted value. Called after [`end_of_reading`], true
/// means that nothing read in between is torn.
#[inline(always)]
pub(crate) fn unchanged<V: Version>(counter: &V, noted: u64) -> bool {
    counter.get(Ordering::Relaxed) == noted
}

/// Makes the counter odd. The holder of the lock calls this before it changes the shard.
#[inline(always)]
pub(crate) fn make_odd<V: Version>(counter: &V) {
    let value = counter.get(Ordering::Relaxed);
    counter.put(value.wrapping_add(1), Ordering::Relaxed);
}

/// Orders the odd counters before the first change, so that a reader that sees a change also sees
/// an odd counter.
#[inline(always)]
pub(crate) fn start_of_changes<V: Version>() {
    V::fence(Ordering::Release);
}

/// Makes the counter even and publishes the changes to readers.
#[inline(always)]
pub(crate) fn make_even<V: Version>(counter: &V) {
    let value = counter.get(Ordering::Relaxed);
    counter.put(value.wrapping_add(TO_EVEN), Ordering::Release);
}

/// Makes readers start over in the middle of a change. Called before and after the logged changes
/// are undone.
pub(crate) fn raise<V: Version>(counter: &V) {
    V::fence(Ordering::Release);
    let value = counter.get(Ordering::Relaxed);
    counter.put(value.wrapping_add(TO_NEXT), Ordering::Relaxed);
    V::fence(Ordering::Release);
}

/// Sets or removes the mark of a shard. The shard must be locked, and its counter must be odd if
/// the mark changes.
pub(crate) fn set_mark<V: Version>(counter: &V, marked: bool) {
    let value = counter.get(Ordering::Relaxed);
    let mark = if marked { MARK } else { 0 };
    counter.put(value & !MARK | mark, Ordering::Relaxed);
}
