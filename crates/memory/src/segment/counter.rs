//! The version counter of a shard (W5, R1), which is odd while a transaction changes the shard and
//! even otherwise.
//!
//! ```text
//!  63 .. 2               1       0
//! +---------------------+-------+------+
//! | counts the changes  | mark  | odd  |
//! +---------------------+-------+------+
//! ```
//!
//! The mark bit means that the shard must be cleaned up first. Every reader and writer loads this
//! word anyway, so checking the mark costs no extra instruction (L5).
//!
//! The functions are generic over the word type, so that the loom models run exactly this code.

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

/// The bit that is set while the shard is being changed.
pub(crate) const ODD: u64 = 1;
/// The bit that is set if the shard must be cleaned up before it is read or changed.
pub(crate) const MARK: u64 = 2;
/// Advances an odd counter to the next even value with the same mark bit.
const TO_EVEN: u64 = 3;
/// Advances a counter to the next value with the same parity and mark bit.
const TO_NEXT: u64 = 4;

/// Returns true if a shard with this counter value may be read directly: it is not being changed
/// and its mark bit is not set.
#[inline(always)]
pub(crate) fn is_plain(noted: u64) -> bool {
    noted & (ODD | MARK) == 0
}

/// Loads the counter at the start of a read. Everything that the reader loads afterward is at
/// least as new as this value.
#[inline(always)]
pub(crate) fn note<V: Version>(counter: &V) -> u64 {
    counter.get(Ordering::Acquire)
}

/// Orders a reader's reads before its final loads of the counters.
#[inline(always)]
pub(crate) fn end_of_reading<V: Version>() {
    V::fence(Ordering::Acquire);
}

/// Returns true if the counter still has the noted value. If so, and if [`end_of_reading`] was
/// called first, nothing read since is torn.
#[inline(always)]
pub(crate) fn unchanged<V: Version>(counter: &V, noted: u64) -> bool {
    counter.get(Ordering::Relaxed) == noted
}

/// Makes the counter odd. The owner of the lock must call this before changing the shard.
#[inline(always)]
pub(crate) fn make_odd<V: Version>(counter: &V) {
    let value = counter.get(Ordering::Relaxed);
    counter.put(value.wrapping_add(1), Ordering::Relaxed);
}

/// Orders the odd counters before the first change. A reader that sees a change then also sees an
/// odd counter.
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

/// Makes readers restart while a change is still unfinished. Called before and after a rollback.
pub(crate) fn raise<V: Version>(counter: &V) {
    V::fence(Ordering::Release);
    let value = counter.get(Ordering::Relaxed);
    counter.put(value.wrapping_add(TO_NEXT), Ordering::Relaxed);
    V::fence(Ordering::Release);
}

/// Sets or clears the mark bit of a shard, which means that the shard must be cleaned up first. The
/// shard must be locked, and its counter must be odd if the bit changes.
pub(crate) fn set_mark<V: Version>(counter: &V, marked: bool) {
    let value = counter.get(Ordering::Relaxed);
    let mark = if marked { MARK } else { 0 };
    counter.put(value & !MARK | mark, Ordering::Relaxed);
}
