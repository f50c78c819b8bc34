//! Waiting for messages (M4): a seat is a word in the waiter's process entry
//! that whoever has something for the waiter looks at.
//!
//! ```text
//!  31 .. 2              1          0
//! +--------------------+----------+----------+
//! | counts the wakes   | descriptor| threads |
//! +--------------------+----------+----------+
//! ```
//!
//! A waiter sets its bit, looks once more for what it waits for, and sleeps; a
//! waker makes its change, then looks at the word, and pays for a system call
//! only where a bit is set. As a waker can die between the two, nobody sleeps
//! for longer than [`LONGEST_SLEEP`](super::waiters) without looking again.

use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Some thread sleeps on the word.
pub(crate) const THREADS: u32 = 1;
/// Somebody waits for the seat's descriptor.
pub(crate) const DESCRIPTOR: u32 = 2;
pub(crate) const BITS: u32 = THREADS | DESCRIPTOR;
const ONE_WAKE: u32 = 4;

/// A seat's word.
pub(crate) trait Bits {
    /// The word, without any order.
    fn seen(&self) -> u32;
    /// Sets bits. Returns what was there.
    fn set(&self, bits: u32) -> u32;
    /// Puts `new` where `old` is; otherwise returns what is there.
    fn replace(&self, old: u32, new: u32) -> Result<(), u32>;
    /// The fence between a change and the look at what the other side changed.
    fn fence();
}

impl Bits for AtomicU32 {
    #[inline(always)]
    fn seen(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn set(&self, bits: u32) -> u32 {
        self.fetch_or(bits, Ordering::SeqCst)
    }

    #[inline(always)]
    fn replace(&self, old: u32, new: u32) -> Result<(), u32> {
        self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
            .map(drop)
    }

    #[inline(always)]
    fn fence() {
        fence(Ordering::SeqCst);
    }
}

/// A thread is going to sleep. It must look once more for what it waits for, and
/// then sleep only as long as the word is what this returns.
pub(crate) fn lie_down<W: Bits>(word: &W) -> u32 {
    let value = word.set(THREADS) | THREADS;
    W::fence();
    value
}

/// Takes the bits of those who wait, behind a fence behind the change that they
/// wait for. Returns them: who they stand for is to be woken.
pub(crate) fn rouse<W: Bits>(word: &W) -> u32 {
    let mut seen = word.seen();
    while seen & BITS != 0 {
        match word.replace(seen, (seen & !BITS).wrapping_add(ONE_WAKE)) {
            Ok(()) => break,
            Err(now) => seen = now,
        }
    }
    seen & BITS
}

/// A seat of some process, as other processes know it: in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeatName(u64);

impl SeatName {
    /// That of nobody, in a slot that there is not: never alive.
    pub const NOBODY: SeatName = SeatName(u64::MAX);

    pub(super) fn new(slot_index: u64, seat: u64, generation: u64) -> SeatName {
        SeatName(slot_index | seat << 16 | (generation & 0xffff_ffff) << 32)
    }

    /// The name as it is stored.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The name that was stored.
    pub fn from_bits(bits: u64) -> SeatName {
        SeatName(bits)
    }

    pub(crate) fn slot(self) -> u64 {
        self.0 & 0xffff
    }

    pub(crate) fn seat(self) -> u64 {
        self.0 >> 16 & 0xffff
    }

    pub(crate) fn generation(self) -> u64 {
        self.0 >> 32
    }
}

/// A seat of this process. Given back by [`Segment::leave_seat`](crate::Segment::leave_seat); a forked
/// child's copy is none of the child's.
#[derive(Debug)]
pub struct Seat {
    pub(super) name: SeatName,
}

impl Seat {
    /// How other processes know it.
    pub fn name(&self) -> SeatName {
        self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word() {
        let name = SeatName::new(4095, 511, 0x1_2345_6789);
        assert_eq!((name.slot(), name.seat()), (4095, 511));
        assert_eq!(name.generation(), 0x2345_6789);
        assert_eq!(SeatName::from_bits(name.bits()), name);
    }
}
