//! Liveness (L2, W2): asking the kernel whether an owner is alive, and what this process knows from earlier answers.

use std::fs;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::error::{Error, Holder};
use crate::mapped::layout::{SLOTS, control, slot};
use crate::mapped::mapping::Mapping;
use crate::processes::lock::Owner;
use crate::processes::process::{Process, is_refused};
use crate::processes::tenant::{Life, Tenant, life_by_lock, life_by_number};

/// A waiter first asks whether the owner lives after this long.
pub(crate) const FIRST_PROBE: Duration = Duration::from_millis(10);
/// And then each time after this long.
pub(crate) const NEXT_PROBE: Duration = Duration::from_millis(100);
/// An owner found alive counts as alive for this long, in milliseconds.
const ALIVE_FOR: u64 = 10;

impl Process {
    /// Whether the owner's slot has been claimed anew since, which it can only
    /// be after its death. Asks no one: a look at one word.
    pub(crate) fn superseded(&self, mapping: &Mapping, owner: Owner) -> bool {
        let index = owner.slot();
        if index >= SLOTS.min(mapping.load(control::SLOTS_USED)) {
            return true;
        }
        let generation = mapping.layout().slot(index) + slot::GENERATION;
        !owner.is_of_generation(mapping.word(generation).load(Ordering::Acquire))
    }

    /// Whether the owner of a lock lives. Where that cannot be found out, it
    /// does (L2).
    pub(crate) fn alive(&self, mapping: &Mapping, owner: Owner) -> bool {
        self.life(mapping, owner) != Life::Dead
    }

    fn life(&self, mapping: &Mapping, owner: Owner) -> Life {
        if self.superseded(mapping, owner) {
            return Life::Dead;
        }
        let at = mapping.layout().slot(owner.slot());
        // The tenant of this generation, or of a later one: then this one is dead.
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

    /// What a holder is doing, for an error message.
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

/// The state letter in /proc/PID/stat, behind the command name, which may itself
/// hold spaces.
fn process_state(pid: u32) -> Option<char> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(") ")?;
    fields.chars().next()
}

/// Since when a lock has been seen in one state, over all waits of this
/// process: short waits that give up and come back still find out that the
/// owner is dead.
#[derive(Default)]
pub(crate) struct Suspicion {
    word: AtomicU32,
    turns: AtomicU32,
    since: AtomicU64,
    probed: AtomicU64,
}

impl Suspicion {
    /// Milliseconds for which the lock has been seen unchanged.
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

    /// Whether it is time to ask for the owner's life, once for all threads.
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

/// Which owners of entries were found alive a moment ago: one word each, with
/// the owner above and the time below.
pub(crate) struct FoundAlive([AtomicU64; 64]);

impl Default for FoundAlive {
    fn default() -> FoundAlive {
        FoundAlive([const { AtomicU64::new(0) }; 64])
    }
}

impl FoundAlive {
    const TIME: u64 = 0xff_ffff;

    /// The word for the owner of an entry in one of its generations, and the owner as it stands in that word.
    fn word(&self, slot_index: u64, generation: u64) -> (&AtomicU64, u64) {
        let owner = slot_index | generation << 12;
        (&self.0[(slot_index % 64) as usize], owner << 24)
    }

    /// Whether an owner was found alive a moment ago.
    #[inline]
    pub(crate) fn has(&self, slot_index: u64, generation: u64, now: u64) -> bool {
        let (word, owner) = self.word(slot_index, generation);
        let seen = word.load(Ordering::Relaxed);
        let age = (now & Self::TIME).wrapping_sub(seen & Self::TIME) & Self::TIME;
        seen & !Self::TIME == owner && age < ALIVE_FOR
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        self.0
            .iter()
            .for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Notes that an owner was found alive.
    pub(crate) fn note(&self, slot_index: u64, generation: u64, now: u64) {
        let (word, owner) = self.word(slot_index, generation);
        word.store(owner | now & Self::TIME, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_found_alive_is_believed_for_a_moment() {
        let found = FoundAlive::default();
        assert!(!found.has(3, 7, 100));
        found.note(3, 7, 100);
        assert!(found.has(3, 7, 100 + ALIVE_FOR - 1));
        assert!(!found.has(3, 7, 100 + ALIVE_FOR));
        assert!(!found.has(3, 8, 100));
        // The stored time is cut off.
        found.note(3, 7, FoundAlive::TIME);
        assert!(found.has(3, 7, FoundAlive::TIME + 1));
    }
}
