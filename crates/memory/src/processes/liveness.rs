//! Liveness (L2, W2): asks the kernel whether a lock's owner is alive, and caches the answers
//! within this process.

use std::fs;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::error::{Error, Holder};
use crate::mapped::layout::{SLOTS, control, slot};
use crate::mapped::mapping::Mapping;
use crate::processes::lock::Owner;
use crate::processes::process::{Process, is_refused};
use crate::processes::tenant::{Life, Tenant, life_by_lock, life_by_number};

/// How long a waiter waits before it first checks whether the lock's owner is alive.
pub(crate) const FIRST_PROBE: Duration = Duration::from_millis(10);
/// The interval between later liveness checks of the lock's owner.
pub(crate) const NEXT_PROBE: Duration = Duration::from_millis(100);
/// How long an owner that was found alive is assumed to be alive, in milliseconds.
const ALIVE_FOR: u64 = 10;

impl Process {
    /// Returns whether the owner's process table slot has been claimed again, which proves that the
    /// owner is dead. A slot that is out of range, as in a damaged lock word, counts as claimed
    /// again. The check only reads memory and makes no system call.
    pub(crate) fn superseded(&self, mapping: &Mapping, owner: Owner) -> bool {
        let index = owner.slot();
        if index >= SLOTS.min(mapping.load(control::SLOTS_USED)) {
            return true;
        }
        let generation = mapping.layout().slot(index) + slot::GENERATION;
        !owner.is_of_generation(mapping.word(generation).load(Ordering::Acquire))
    }

    /// Returns whether the owner of a lock is alive. An owner whose state is unknown counts as
    /// alive (L2).
    pub(crate) fn alive(&self, mapping: &Mapping, owner: Owner) -> bool {
        self.life(mapping, owner) != Life::Dead
    }

    fn life(&self, mapping: &Mapping, owner: Owner) -> Life {
        if self.superseded(mapping, owner) {
            return Life::Dead;
        }
        let at = mapping.layout().slot(owner.slot());
        // A new process may already have claimed the slot. In that case the old owner is dead, and
        // reporting the new process's liveness is a safe answer.
        let tenant = Tenant::unpack(mapping.word(at + slot::TENANT).load(Ordering::Acquire));
        match (self.look(), tenant) {
            (Ok(Some(file)), Some(tenant)) if tenant.by_number => {
                life_by_number(tenant, Some(&file))
            }
            (Ok(Some(file)), _) => life_by_lock(&file, at),
            (Err(error), Some(tenant)) if is_refused(&error) => life_by_number(tenant, None),
            _ => Life::Unknown,
        }
    }

    /// Returns an [`Error::Busy`] with the process ID and the state of the lock's owner.
    pub(crate) fn describe(&self, mapping: &Mapping, owner: Owner) -> Error {
        let index = owner.slot();
        let pid = match index < SLOTS.min(mapping.load(control::SLOTS_USED)) {
            true => mapping.load(mapping.layout().slot(index) + slot::PID) as u32,
            false => 0,
        };
        let holder = match self.life(mapping, owner) {
            Life::Dead => Holder::Dead,
            Life::Unknown => Holder::Unknown,
            Life::Alive => match process_state(pid) {
                Some('T' | 't') => Holder::Stopped,
                _ => Holder::Active,
            },
        };
        Error::Busy { holder, pid }
    }
}

/// Returns whether a process is stopped by a signal or by a debugger.
pub(crate) fn is_stopped(pid: u32) -> bool {
    matches!(process_state(pid), Some('T' | 't'))
}

/// Returns the state letter from `/proc/PID/stat`. The letter follows the command name, which may
/// itself contain spaces.
fn process_state(pid: u32) -> Option<char> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(") ")?;
    fields.chars().next()
}

/// How long a lock has been observed in one state, across all waits of this process. Short waits
/// that time out and are retried therefore still detect a dead owner.
#[derive(Default)]
pub(crate) struct Suspicion {
    word: AtomicU32,
    turns: AtomicU32,
    since: AtomicU64,
    probed: AtomicU64,
}

impl Suspicion {
    /// Returns how long this process has observed the lock unchanged, in milliseconds.
    pub(crate) fn observe(&self, word: u32, turns: u32, now: u64) -> u64 {
        let same = self.word.load(Ordering::Relaxed) == word
            && self.turns.load(Ordering::Relaxed) == turns;
        if !same {
            self.word.store(word, Ordering::Relaxed);
            self.turns.store(turns, Ordering::Relaxed);
            self.since.store(now, Ordering::Relaxed);
            self.probed.store(0, Ordering::Relaxed);
        }
        now.saturating_sub(self.since.load(Ordering::Relaxed))
    }

    /// Returns whether a liveness check of the owner is due. Only one thread receives `true` for
    /// each check.
    pub(crate) fn probe_is_due(&self, unchanged_for: u64, now: u64) -> bool {
        let probed = self.probed.load(Ordering::Relaxed);
        let due = if probed == 0 {
            unchanged_for >= FIRST_PROBE.as_millis() as u64
        } else {
            now.saturating_sub(probed) >= NEXT_PROBE.as_millis() as u64
        };
        due && self
            .probed
            .compare_exchange(probed, now.max(1), Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

/// A cache of owners that were recently found alive. Each word contains an owner in its upper 40
/// bits and a time in its lower 24 bits.
pub(crate) struct FoundAlive([AtomicU64; 64]);

impl Default for FoundAlive {
    fn default() -> FoundAlive {
        FoundAlive([const { AtomicU64::new(0) }; 64])
    }
}

impl FoundAlive {
    const TIME: u64 = 0xff_ffff;

    /// Returns the cache word for an owner, given by slot and generation, and the owner's bits as
    /// stored in that word.
    fn word(&self, slot_index: u64, generation: u64) -> (&AtomicU64, u64) {
        let owner = slot_index | generation << 12;
        (&self.0[(slot_index % 64) as usize], owner << 24)
    }

    /// Returns whether the owner was found alive within the last `ALIVE_FOR` milliseconds.
    #[inline]
    pub(crate) fn has(&self, slot_index: u64, generation: u64, now: u64) -> bool {
        let (word, owner) = self.word(slot_index, generation);
        let seen = word.load(Ordering::Relaxed);
        let age = (now & Self::TIME).wrapping_sub(seen & Self::TIME) & Self::TIME;
        seen & !Self::TIME == owner && age < ALIVE_FOR
    }

    /// Clears the cache.
    pub(crate) fn clear(&self) {
        self.0
            .iter()
            .for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Records that an owner was found alive.
    pub(crate) fn note(&self, slot_index: u64, generation: u64, now: u64) {
        let (word, owner) = self.word(slot_index, generation);
        word.store(owner | now & Self::TIME, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_found_alive_counts_as_alive_for_ten_milliseconds() {
        let found = FoundAlive::default();
        assert!(!found.has(3, 7, 100));
        found.note(3, 7, 100);
        assert!(found.has(3, 7, 100 + ALIVE_FOR - 1));
        assert!(!found.has(3, 7, 100 + ALIVE_FOR));
        assert!(!found.has(3, 8, 100));
        // The stored time wraps at 24 bits.
        found.note(3, 7, FoundAlive::TIME);
        assert!(found.has(3, 7, FoundAlive::TIME + 1));
    }
}
