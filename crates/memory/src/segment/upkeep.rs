//! Whose turn it is to keep the store (M8).
//!
//! One word says when the next step of upkeep is due. Whoever writes compares
//! it with the clock that its write has read anyway, and takes the turn by a
//! compare-and-swap that moves the word ahead: nobody else does a step
//! meanwhile, and if it dies at it, the next one is due all the same. What a
//! step does is the engine's to know.

use std::sync::atomic::Ordering;

use crate::mapped::layout::control;
use crate::segment::Segment;

/// Milliseconds after which a turn that was not ended is another's.
const LEASE: u64 = 1000;

/// The right to do one step of upkeep.
#[derive(Debug)]
pub struct Turn {
    /// What the word holds while the turn lasts.
    mine: u64,
}

impl Segment {
    /// Whether a step of upkeep is due, by the clock that this process' last
    /// write has read. Two loads and a comparison.
    #[inline(always)]
    pub fn upkeep_is_due(&self) -> bool {
        self.upkeep_is_due_at(self.last_written())
    }

    /// Whether a step of upkeep is due at this time, milliseconds since boot.
    #[inline(always)]
    pub fn upkeep_is_due_at(&self, now: u64) -> bool {
        is_due(self.mapping.load(control::UPKEEP), now)
    }

    /// Takes the turn to do the step that is due at this time. None where
    /// another one has it, or it is not due.
    pub fn take_upkeep(&self, now: u64) -> Option<Turn> {
        let word = self.mapping.word(control::UPKEEP);
        let due = word.load(Ordering::Relaxed);
        if !self.writable() || !is_due(due, now) {
            return None;
        }
        let mine = now + LEASE;
        word.compare_exchange(due, mine, Ordering::Relaxed, Ordering::Relaxed)
            .ok()
            .map(|_| Turn { mine })
    }

    /// Ends a turn: the next step is due at this time, less than a second
    /// ahead.
    pub fn end_upkeep(&self, turn: Turn, next: u64) {
        let word = self.mapping.word(control::UPKEEP);
        // A turn that lasted too long is another's by now.
        let _ = word.compare_exchange(turn.mine, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Where upkeep goes on, for which any number will do.
    pub fn upkeep_place(&self) -> u64 {
        self.mapping.load(control::UPKEEP_PLACE)
    }

    /// Changes what [`upkeep_place`](Self::upkeep_place) reads.
    pub fn set_upkeep_place(&self, place: u64) {
        self.mapping.store(control::UPKEEP_PLACE, place);
    }
}

/// One comparison: a time further ahead than any turn lasts is of another boot.
#[inline(always)]
fn is_due(due: u64, now: u64) -> bool {
    due.wrapping_sub(now).wrapping_sub(1) >= LEASE
}

#[cfg(test)]
mod tests {
    use super::{LEASE, is_due};

    #[test]
    fn a_step_is_due_at_its_time_and_after_another_boot() {
        for (due, expected) in [
            (0, true),
            (4999, true),
            (5000, true),
            (5001, false),
            (5000 + LEASE, false),
            (5001 + LEASE, true),
            (u64::MAX, true),
        ] {
            assert_eq!(is_due(due, 5000), expected, "{due}");
        }
    }
}
