//! Waiting for messages (M4): a seat is a word in the waiter's process table entry, which wakers
//! check.
//!
//! ```text
//!  31 .. 2              1          0
//! +--------------------+----------+----------+
//! | counts the wakes   | descriptor| threads |
//! +--------------------+----------+----------+
//! ```
//!
//! A waiter sets its bit, checks once more for the event it waits for, and sleeps. A waker makes
//! its change, then checks the word, and makes a system call only if a bit is set. Because a waker
//! can die between its change and its check, no waiter sleeps for longer than
//! [`LONGEST_SLEEP`](super::waiters) without checking again.

use std::sync::atomic::{AtomicU32, Ordering, fence};

/// The bit that is set while a thread sleeps on the word.
pub(crate) const THREADS: u32 = 1;
/// The bit that is set while an event loop waits for the seat's descriptor.
pub(crate) const DESCRIPTOR: u32 = 2;
pub(crate) const BITS: u32 = THREADS | DESCRIPTOR;
const ONE_WAKE: u32 = 4;

/// The operations on a seat's word.
pub(crate) trait Bits {
    /// Loads the word with relaxed ordering.
    fn seen(&self) -> u32;
    /// Sets bits and returns the word's previous value.
    fn set(&self, bits: u32) -> u32;
    /// Replaces `old` with `new`. If the word has another value, returns that value.
    fn replace(&self, old: u32, new: u32) -> Result<(), u32>;
    /// The fence between a thread's own change and its check for the other thread's change.
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

/// Announces that a thread is about to sleep. The thread must then check once more for the event it
/// waits for, and sleep only as long as the word contains the returned value.
pub(crate) fn lie_down<W: Bits>(word: &W) -> u32 {
    let value = word.set(THREADS) | THREADS;
    W::fence();
    value
}

/// Clears and returns the bits of the waiters, all of whom the caller must wake. Call it after the
/// change that the waiters await, and after a fence.
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

/// The name by which other processes identify a seat, packed into one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeatName(u64);

impl SeatName {
    /// A name that no process has. Its slot does not exist, so a process with this name is never
    /// alive.
    pub const NOBODY: SeatName = SeatName(u64::MAX);

    pub(super) fn new(slot_index: u64, seat: u64, generation: u64) -> SeatName {
        SeatName(slot_index | seat << 16 | (generation & 0xffff_ffff) << 32)
    }

    /// Returns the name as a number that can be stored.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Returns the name that a stored number represents.
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

/// A seat (a waiter's futex word) of this process, to be released with
/// [`Segment::leave_seat`](crate::Segment::leave_seat). A forked child's copy of a `Seat` does not
/// belong to the child.
#[derive(Debug)]
pub struct Seat {
    pub(super) name: SeatName,
}

impl Seat {
    /// Returns the name by which other processes identify the seat.
    pub fn name(&self) -> SeatName {
        self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seat_name_round_trips_through_one_word() {
        let name = SeatName::new(4095, 511, 0x1_2345_6789);
        assert_eq!((name.slot(), name.seat()), (4095, 511));
        assert_eq!(name.generation(), 0x2345_6789);
        assert_eq!(SeatName::from_bits(name.bits()), name);
    }
}
