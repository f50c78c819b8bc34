//! Chooses the process that performs the next step of the store's upkeep (M8).
//!
//! One word contains the time at which the next step is due. A writer compares that time with the
//! clock reading that its write needs anyway, and claims the step with a compare-and-swap that
//! advances the word. Until the step ends, no other process performs one. If the process dies
//! during its step, the next step still becomes due. The engine defines what a step does.

use std::sync::atomic::Ordering;

use crate::mapped::layout::control;
use crate::segment::Segment;

/// The time after which another process may claim a step that was not completed, in milliseconds.
const LEASE: u64 = 1000;

/// The exclusive right to perform one upkeep step.
#[derive(Debug)]
pub struct Turn {
    /// The value of the shared word as long as this process holds the right.
    mine: u64,
}

impl Segment {
    /// Returns true if an upkeep step is due, by the clock reading of this process's last write.
    /// Costs two loads and a comparison.
    #[inline(always)]
    pub fn upkeep_is_due(&self) -> bool {
        self.upkeep_is_due_at(self.last_written())
    }

    /// Returns true if an upkeep step is due at the time `now`, in milliseconds since boot.
    #[inline(always)]
    pub fn upkeep_is_due_at(&self, now: u64) -> bool {
        is_due(self.mapping.load(control::UPKEEP), now)
    }

    /// Claims the upkeep step that is due at the time `now`. Returns `None` if no step is due or
    /// another process has claimed it.
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

    /// Completes a claimed step and schedules the next step for the time `next`, which must be less
    /// than a second ahead.
    pub fn end_upkeep(&self, turn: Turn, next: u64) {
        let word = self.mapping.word(control::UPKEEP);
        // On failure, the step took too long and another process has claimed the next step.
        let _ = word.compare_exchange(turn.mine, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns where upkeep resumes its search for expired keys, in the engine's encoding. The
    /// engine must accept any number.
    pub fn upkeep_place(&self) -> u64 {
        self.mapping.load(control::UPKEEP_PLACE)
    }

    /// Sets where upkeep resumes its search for expired keys. See
    /// [`upkeep_place`](Self::upkeep_place).
    pub fn set_upkeep_place(&self, place: u64) {
        self.mapping.store(control::UPKEEP_PLACE, place);
    }
}

/// Returns true if the step is due. A single comparison is enough, because a due time more than a
/// lease ahead was stored during another boot.
#[inline(always)]
fn is_due(due: u64, now: u64) -> bool {
    due.wrapping_sub(now).wrapping_sub(1) >= LEASE
}

#[cfg(test)]
mod tests {
    use super::{LEASE, is_due};

    #[test]
    fn a_step_is_due_at_its_time_and_after_a_reboot() {
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
