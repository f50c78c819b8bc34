//! Who holds an entry of the process table, in one word.
//!
//! Nearly every process holds its entry by a lock on the entry's first byte
//! (L1). For that it opens the store's path, which it may no longer do once it
//! has dropped its privileges: a process that joins after that, as a forked
//! child does, holds its entry *by number*. This word then is all that says so,
//! and it is proved dead in one of two ways:
//!
//! - Its number is no living process' any more. That counts only for who has
//!   the same pid namespace, and works without any right to the file.
//! - No process has the lock of that namespace (`slot::NAMESPACES`). It is on
//!   the description that the store's mapping keeps open, and goes with the last
//!   process that inherited this mapping: nobody is left who could write.
//!
//! Where neither proves it, it counts as alive (L2). So does a process
//! that was given a dead one's number, until it ends, too.

use std::fs::File;

use crate::mapped::layout::slot;
use crate::mapped::platform;

/// What the word `slot::TENANT` says: number of the process, a bit, namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tenant {
    /// The process' number in its pid namespace.
    pub(crate) pid: u32,
    /// Its pid namespace, 0 where that is not known.
    pub(crate) namespace: u32,
    /// Whether it holds the entry by number, without a lock on its byte.
    pub(crate) by_number: bool,
}

const BY_NUMBER: u64 = 1 << 31;

impl Tenant {
    pub(crate) fn pack(self) -> u64 {
        let by_number = if self.by_number { BY_NUMBER } else { 0 };
        u64::from(self.pid) | by_number | u64::from(self.namespace) << 32
    }

    /// None where nobody has ever held the entry.
    pub(crate) fn unpack(word: u64) -> Option<Tenant> {
        (word != 0).then_some(Tenant {
            pid: word as u32 & !(BY_NUMBER as u32),
            namespace: (word >> 32) as u32,
            by_number: word & BY_NUMBER != 0,
        })
    }
}

/// What is known of a tenant's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It lives.
    Alive,
    /// It is dead, and was proved to be.
    Dead,
    /// It cannot be asked, so it counts as alive.
    Unknown,
}

/// What is known of a tenant by its number and, where the file could be
/// opened, by the lock of its namespace.
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

/// What is known of a process by the lock on a byte that it holds as long as it lives.
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
    fn every_word_is_somebody_or_nobody() {
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
