//! The lock word (W1, W2): slot, generation and a waiters bit in 32 bits, taken
//! with one compare-and-swap and waited for with a futex.
//!
//! ```text
//!  31        30 .. 13        12 .. 0
//! +---------+---------------+----------+
//! | waiters | generation    | slot + 1 |     all zero: free
//! +---------+---------------+----------+
//! ```
//!
//! The algorithm is generic over the word and over its surroundings, so that
//! the loom models run this very code.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::mapped::words::Lock;

const SLOT_BITS: u32 = 13;
const GENERATION_BITS: u32 = 18;
const WAITERS: u32 = 1 << 31;
/// Nobody holds the lock.
pub(crate) const FREE: u32 = 0;

/// Who holds a lock: an entry of the process table in one of its generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u32);

impl Owner {
    pub(crate) fn new(slot: u64, generation: u64) -> Owner {
        let generation = generation as u32 & ((1 << GENERATION_BITS) - 1);
        Owner((slot as u32 + 1) | (generation << SLOT_BITS))
    }

    /// The owner in a lock word that is not free.
    pub(crate) fn of(word: u32) -> Owner {
        Owner(word & !WAITERS)
    }

    /// The entry of the process table; beyond its end if the word is damaged.
    pub(crate) fn slot(self) -> u64 {
        u64::from(self.0 & ((1 << SLOT_BITS) - 1)).wrapping_sub(1)
    }

    /// Whether this is a holder from the given generation of its slot.
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

/// A 32-bit atomic: the real one, or loom's.
pub(crate) trait Word {
    /// Load, acquire: who sees an owner in the word sees the claim of its slot.
    fn get(&self) -> u32;
    /// Compare-and-swap, acquire and release on success.
    fn replace(&self, old: u32, new: u32) -> bool;
    /// Swap, release.
    fn exchange(&self, new: u32) -> u32;
    /// Counts that the lock was taken. Called with the lock held.
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

/// What a waiter does next about a word that somebody holds.
pub(crate) enum Next<Refusal> {
    /// Look again.
    Spin,
    /// Announce the wait and sleep, woken by the release or by time.
    Sleep,
    /// The owner of that very word was just found dead: take over.
    TakeOver,
    /// Give up.
    GiveUp(Refusal),
}

/// Time, sleep and liveness, as a waiter sees them.
pub(crate) trait Surroundings<W> {
    /// Why the wait was given up.
    type Refusal;
    /// Decides about a held word.
    fn next(&mut self, seen: u32) -> Next<Self::Refusal>;
    /// Sleeps while the word holds `value`, for a bounded time.
    fn sleep(&mut self, word: &W, value: u32);
    /// Wakes one sleeper.
    fn wake(&mut self, word: &W);
}

/// Takes the lock if it is free.
#[inline(always)]
pub(crate) fn try_acquire<W: Word>(word: &W, me: Owner) -> bool {
    let is_taken = word.get() == FREE && word.replace(FREE, me.0);
    if is_taken {
        word.count_turn();
    }
    is_taken
}

/// Waits for the lock. The caller must then check whether a transaction was
/// left behind (W3), whichever way it was had.
pub(crate) fn acquire<W: Word, S: Surroundings<W>>(
    word: &W,
    me: Owner,
    around: &mut S,
) -> Result<(), S::Refusal> {
    // Once we have slept others may sleep too, so the bit stays with us.
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
                // The wake that ended our last sleep was meant for somebody
                // who stays: pass it on, or leave the bit for the holder.
                if mine != me.0 && !leave_bit(word) {
                    around.wake(word);
                }
                return Err(refusal);
            }
        }
    }
}

/// Sets the waiters bit for others, unless the lock is free.
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

/// Frees the lock. Returns whether somebody waits and must be woken.
#[inline(always)]
pub(crate) fn release<W: Word>(word: &W) -> bool {
    word.exchange(FREE) & WAITERS != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens while somebody sleeps, and whom the one who gives up wakes.
    struct Script {
        /// Stored into the word during the one sleep.
        meanwhile: u32,
        /// Stored into the word as the wait is given up.
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

    /// The wake that ended a sleep was for one sleeper of several: whoever
    /// gives up then must pass it on.
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
        // Somebody took the released lock, who knows of no sleepers: it learns.
        assert_eq!(give_up(thief.bits(), None), (thief.bits() | WAITERS, 0));
        // And has released it meanwhile, without a wake: the next one gets it.
        assert_eq!(give_up(thief.bits(), Some(FREE)), (FREE, 1));
        // The holder still has it, and will wake somebody: nothing to do.
        let marked = holder.bits() | WAITERS;
        assert_eq!(give_up(marked, None), (marked, 0));
        // It has released it, and its wake was ours or is still to come.
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
