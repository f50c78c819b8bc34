//! The lock word (W1, W2): slot, generation and a waiters bit in 32 bits. A compare-and-swap
//! acquires the lock, and waiters sleep on a futex.
//!
//! ```text
//!  31        30 .. 13        12 .. 0
//! +---------+---------------+----------+
//! | waiters | generation    | slot + 1 |     all zero: free
//! +---------+---------------+----------+
//! ```
//!
//! The algorithm is generic over the word type and its surroundings, so that the loom models run
//! exactly this code.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::mapped::words::Lock;

const SLOT_BITS: u32 = 13;
const GENERATION_BITS: u32 = 18;
const WAITERS: u32 = 1 << 31;
/// The value of a lock word that no process holds.
pub(crate) const FREE: u32 = 0;

/// The owner of a lock: a slot (a process table entry) and the slot's generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u32);

impl Owner {
    pub(crate) fn new(slot: u64, generation: u64) -> Owner {
        let generation = generation as u32 & ((1 << GENERATION_BITS) - 1);
        Owner((slot as u32 + 1) | (generation << SLOT_BITS))
    }

    /// Returns the owner recorded in a lock word, which must not be free.
    pub(crate) fn of(word: u32) -> Owner {
        Owner(word & !WAITERS)
    }

    /// Returns the owner's index in the process table, which is out of range if the lock word is
    /// damaged.
    pub(crate) fn slot(self) -> u64 {
        u64::from(self.0 & ((1 << SLOT_BITS) - 1)).wrapping_sub(1)
    }

    /// Returns the lowest bits of the slot's generation.
    pub(crate) fn generation(self) -> u64 {
        u64::from(self.0 >> SLOT_BITS)
    }

    /// Returns whether this owner belongs to the given generation of its slot.
    pub(crate) fn is_of_generation(self, generation: u64) -> bool {
        self == Owner::new(self.slot(), generation)
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    pub(crate) fn from_bits(bits: u32) -> Owner {
        Owner(bits)
    }
}

/// A 32-bit atomic word, either the standard library's or loom's.
pub(crate) trait Word {
    /// Loads the word with acquire ordering. A thread that sees an owner then also sees the owner's
    /// claim of its slot.
    fn get(&self) -> u32;
    /// Compares and swaps the word, with acquire and release ordering on success. Returns whether
    /// the swap happened.
    fn replace(&self, old: u32, new: u32) -> bool;
    /// Swaps the word with release ordering and returns its old value.
    fn exchange(&self, new: u32) -> u32;
    /// Counts one acquisition of the lock. Only the owner of the lock may call this.
    fn count_turn(&self) {}
}

impl Word for AtomicU32 {
    #[inline(always)]
    fn get(&self) -> u32 {
        self.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn replace(&self, old: u32, new: u32) -> bool {
        self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    #[inline(always)]
    fn exchange(&self, new: u32) -> u32 {
        self.swap(new, Ordering::Release)
    }
}

impl Word for Lock {
    #[inline(always)]
    fn get(&self) -> u32 {
        self.word().get()
    }

    #[inline(always)]
    fn replace(&self, old: u32, new: u32) -> bool {
        self.word().replace(old, new)
    }

    #[inline(always)]
    fn exchange(&self, new: u32) -> u32 {
        self.word().exchange(new)
    }

    #[inline(always)]
    fn count_turn(&self) {
        self.count();
    }
}

/// A waiter's next step after it finds the lock held.
pub(crate) enum Next<Refusal> {
    /// Load the word again.
    Spin,
    /// Set the waiters bit and sleep until the lock is released or a time limit is reached.
    Sleep,
    /// Seize the lock, because the owner recorded in the word is known to be dead.
    TakeOver,
    /// Stop waiting.
    GiveUp(Refusal),
}

/// The clock, the sleep function and the liveness check that a waiter uses.
pub(crate) trait Surroundings<W> {
    /// The type of the reason for giving up a wait.
    type Refusal;
    /// Decides the next step of a waiter that sees the lock word `seen`, which is not free.
    fn next(&mut self, seen: u32) -> Next<Self::Refusal>;
    /// Sleeps for a bounded time, as long as the word contains `value`.
    fn sleep(&mut self, word: &W, value: u32);
    /// Wakes one sleeping waiter.
    fn wake(&mut self, word: &W);
}

/// Acquires the lock if it is free. Returns whether the lock was acquired.
#[inline(always)]
pub(crate) fn try_acquire<W: Word>(word: &W, me: Owner) -> bool {
    let is_taken = word.get() == FREE && word.replace(FREE, me.0);
    if is_taken {
        word.count_turn();
    }
    is_taken
}

/// Waits until the lock is acquired or the wait is given up. After an acquisition, the caller must
/// check whether the last owner left an unfinished transaction (W3).
pub(crate) fn acquire<W: Word, S: Surroundings<W>>(
    word: &W,
    me: Owner,
    around: &mut S,
) -> Result<(), S::Refusal> {
    // After a sleep, other waiters may still be asleep, so acquire the lock with the waiters bit
    // set.
    let mut mine = me.0;
    loop {
        let seen = word.get();
        if seen == FREE {
            if word.replace(FREE, mine) {
                word.count_turn();
                return Ok(());
            }
            continue;
        }
        match around.next(seen) {
            Next::Spin => std::hint::spin_loop(),
            Next::Sleep => {
                let marked = seen | WAITERS;
                if seen == marked || word.replace(seen, marked) {
                    mine = me.0 | WAITERS;
                    around.sleep(word, marked);
                }
            }
            Next::TakeOver => {
                if word.replace(seen, me.0 | WAITERS) {
                    word.count_turn();
                    return Ok(());
                }
            }
            Next::GiveUp(refusal) => {
                // The wake that ended this thread's last sleep must not be lost. If the lock is
                // held, set the waiters bit, so that the owner wakes another waiter. If the lock is
                // free, wake a waiter now.
                if mine != me.0 && !leave_bit(word) {
                    around.wake(word);
                }
                return Err(refusal);
            }
        }
    }
}

/// Sets the waiters bit for the remaining waiters. Returns false if the lock is free, because the
/// bit cannot be set then.
fn leave_bit<W: Word>(word: &W) -> bool {
    loop {
        let seen = word.get();
        if seen == FREE {
            return false;
        }
        if seen & WAITERS != 0 || word.replace(seen, seen | WAITERS) {
            return true;
        }
    }
}

/// Releases the lock. Returns whether the waiters bit was set, in which case the caller must wake a
/// waiter.
#[inline(always)]
pub(crate) fn release<W: Word>(word: &W) -> bool {
    word.exchange(FREE) & WAITERS != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scripted wait: the values stored into the word during the wait, and the number of wakes
    /// that were passed on.
    struct Script {
        /// The value stored into the word during the waiter's only sleep.
        meanwhile: u32,
        /// The value stored into the word when the wait times out.
        at_last: Option<u32>,
        slept: bool,
        woken: u32,
    }

    impl Surroundings<AtomicU32> for (&AtomicU32, Script) {
        type Refusal = ();

        fn next(&mut self, _seen: u32) -> Next<()> {
            if !self.1.slept {
                return Next::Sleep;
            }
            if let Some(value) = self.1.at_last {
                self.0.store(value, Ordering::Relaxed);
            }
            Next::GiveUp(())
        }

        fn sleep(&mut self, word: &AtomicU32, value: u32) {
            assert_eq!(word.load(Ordering::Relaxed), value);
            self.1.slept = true;
            word.store(self.1.meanwhile, Ordering::Relaxed);
        }

        fn wake(&mut self, _word: &AtomicU32) {
            self.1.woken += 1;
        }
    }

    /// A release wakes only one of several sleeping waiters. A waiter that times out after that
    /// wake must pass it on.
    #[test]
    fn a_waiter_that_gives_up_passes_the_wake_on() {
        let [me, holder, thief] = [1, 2, 3].map(|slot| Owner::new(slot, 1));
        let give_up = |meanwhile: u32, at_last: Option<u32>| {
            let word = AtomicU32::new(holder.bits());
            let script = Script {
                meanwhile,
                at_last,
                slept: false,
                woken: 0,
            };
            let mut around = (&word, script);
            assert_eq!(acquire(&word, me, &mut around), Err(()));
            let woken = around.1.woken;
            (word.load(Ordering::Relaxed), woken)
        };
        // Another process has acquired the released lock without the waiters bit, so the waiter
        // sets the bit.
        assert_eq!(give_up(thief.bits(), None), (thief.bits() | WAITERS, 0));
        // The other process has released the lock without waking anyone, so the waiter wakes the
        // next waiter.
        assert_eq!(give_up(thief.bits(), Some(FREE)), (FREE, 1));
        // The owner still holds the lock, and the waiters bit is set, so the owner will wake a
        // waiter.
        let marked = holder.bits() | WAITERS;
        assert_eq!(give_up(marked, None), (marked, 0));
        // The owner has released the lock. Its wake may be the one that this waiter received, so
        // the waiter wakes another.
        assert_eq!(give_up(marked, Some(FREE)), (FREE, 1));
    }

    #[test]
    fn a_word_names_slot_and_generation() {
        for slot in [0, 1, 17, 4095] {
            for generation in [0, 1, 5, (1 << GENERATION_BITS) - 1] {
                let owner = Owner::new(slot, generation);
                assert_ne!(owner.bits(), FREE);
                assert_eq!(owner.slot(), slot);
                assert!(owner.is_of_generation(generation));
                assert!(!owner.is_of_generation(generation + 1));
                assert_eq!(Owner::of(owner.bits() | WAITERS), owner);
            }
        }
    }
}
