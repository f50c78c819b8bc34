//! Turn-taking for upkeep of the store (M8).
//!
//! One word says when the next step of upkeep is due. A writer compares it with the clock reading
//! that its write needs anyway, and takes the turn by a compare-and-swap that moves the word ahead.
//! Meanwhile no other process does a step. If the process dies during its step, the next step still
//! comes due. The engine defines what a step does.

use std::sync::atomic::Ordering;

use crate::mapped::layout::control;
use crate::segment::Segment;

/// Time in milliseconds after which another process may take over a turn that was not ended.
const LEASE: u64 = 1000;

/// The right to do one step of upkeep.
#[derive(Debug)]
pub struct Turn {
    /// The value of the shared word while this turn lasts.
    mine: u64,
}

impl Segment {
    /// Returns true if a step of upkeep is due, by the clock reading of this process's last write.
    /// Costs two loads and a comparison.
    #[inline(always)]
    pub fn upkeep_is_due(&self) -> bool {
        self.upkeep_is_due_at(self.last_written())
    }

    /// Returns true if a step of upkeep is due at the time `now`, in milliseconds since boot.
    #[inline(always)]
    pub fn upkeep_is_due_at(&self, now: u64) -> bool {
        is_due(self.mapping.load(control::UPKEEP), now)
    }

    /// Takes the turn to do the step that is due at the time `now`. Returns `None` if no step is
    /// due or another process has the turn.
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

    /// Ends a turn and schedules the next step for the time `next`, less than a second ahead.
    pub fn end_upkeep(&self, turn: Turn, next: u64) {
        let word = self.mapping.word(control::UPKEEP);
        // On failure, the turn lasted too long and another process has taken it.
        let _ = word.compare_exchange(turn.mine, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns where upkeep continues its search for expired keys, in the engine's encoding. The
    /// engine must accept any number.
    pub fn upkeep_place(&self) -> u64 {
        self.mapping.load(control::UPKEEP_PLACE)
    }

    /// Sets where upkeep continues its search for expired keys. See
    /// [`upkeep_place`](Self::upkeep_place).
    pub fn set_upkeep_place(&self, place: u64) {
        self.mapping.store(control::UPKEEP_PLACE, place);
    }
}

/// A due time further ahead than any turn lasts comes from another boot, so a single comparison is
/// enough.
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
