//! The tenant of a process table entry (the process that claimed it), packed into one word.
//!
//! Nearly every process holds its entry with a lock on the entry's first byte (L1). To acquire the
//! lock, the process opens the store's path, which may be forbidden after it has dropped its
//! privileges. A process that joins after that point, such as a forked child, holds its entry *by
//! number*. Only this word then records the tenant, whose death is proved in one of two ways:
//!
//! - Its number no longer belongs to a living process. This proof works only within the same pid
//!   namespace, and needs no access to the file.
//! - No process holds the lock of its pid namespace (`slot::NAMESPACES`). That lock belongs to the
//!   open file description of the store's mapping. The kernel releases it when the last process
//!   that inherited this mapping ends, so no process that could write remains.
//!
//! A tenant counts as alive unless one of these proofs succeeds (L2). If a dead tenant's number has
//! been assigned to a new process, the tenant counts as alive until that process ends.

use std::fs::File;

use crate::mapped::layout::slot;
use crate::mapped::platform;

/// The contents of the word `slot::TENANT`: process number, by-number bit and pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tenant {
    /// The process number within its pid namespace.
    pub(crate) pid: u32,
    /// The tenant's pid namespace, or 0 if unknown.
    pub(crate) namespace: u32,
    /// Whether the tenant holds the entry by number, without a lock on the entry's byte.
    pub(crate) by_number: bool,
}

const BY_NUMBER: u64 = 1 << 31;

impl Tenant {
    pub(crate) fn pack(self) -> u64 {
        let by_number = if self.by_number { BY_NUMBER } else { 0 };
        u64::from(self.pid) | by_number | u64::from(self.namespace) << 32
    }

    /// Unpacks a tenant word. Returns `None` if the word is 0, which means that the entry has no
    /// tenant.
    pub(crate) fn unpack(word: u64) -> Option<Tenant> {
        (word != 0).then_some(Tenant {
            pid: word as u32 & !(BY_NUMBER as u32),
            namespace: (word >> 32) as u32,
            by_number: word & BY_NUMBER != 0,
        })
    }
}

/// Whether a tenant is alive, as far as this process can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// The tenant is alive.
    Alive,
    /// The tenant is known to be dead.
    Dead,
    /// The tenant's state cannot be determined, so it counts as alive.
    Unknown,
}

/// Uses a tenant's process number to check whether the tenant is alive. If the number belongs to
/// another pid namespace and the file could be opened, checks the lock of that namespace instead.
pub(crate) fn life_by_number(tenant: Tenant, file: Option<&File>) -> Life {
    if tenant.namespace != 0 && tenant.namespace == platform::pid_namespace() {
        return match platform::process_has_ended(tenant.pid) {
            true => Life::Dead,
            false => Life::Alive,
        };
    }
    let lock = slot::NAMESPACES + u64::from(tenant.namespace);
    match file.map(|file| life_by_lock(file, lock)) {
        Some(Life::Dead) => Life::Dead,
        _ => Life::Unknown,
    }
}

/// Checks whether a process is alive by querying a byte lock that the process holds as long as it
/// lives.
pub(crate) fn life_by_lock(file: &File, at: u64) -> Life {
    match platform::byte_is_locked(file, at) {
        Ok(true) => Life::Alive,
        Ok(false) => Life::Dead,
        Err(_) => Life::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_nonzero_word_unpacks_to_a_tenant() {
        assert_eq!(Tenant::unpack(0), None);
        for word in [1, BY_NUMBER, u64::MAX, 0xf000_0001_8000_0007] {
            let tenant = Tenant::unpack(word).expect("somebody");
            assert_eq!(tenant.pack(), word);
        }
        let child = Tenant {
            pid: 7,
            namespace: 0xf000_0001,
            by_number: true,
        };
        assert_eq!(child.pack(), 0xf000_0001_8000_0007);
    }
}
