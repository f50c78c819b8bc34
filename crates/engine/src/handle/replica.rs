//! Replicas: stores whose keys are a copy of another server's, their source.
//!
//! One setting of the store says that it is a replica. From then on, every change to a key fails,
//! in every process, except through a handle that applies the source's changes
//! ([`Store::apply_source`]). As in Redis, expired keys of a replica look missing, but only the source
//! removes them, and only the source evicts keys.

use std::sync::atomic::Ordering;

use undercroft_memory::{RoleLock, Setting};

use crate::error::Error;
use crate::handle::store::Store;

/// The bit of the setting that says that the store is a replica. The other bits are the time until which
/// changes are accepted although the store requires replicas, in Unix milliseconds, or 0 if it requires
/// none. Most stores have the value 0, which costs each transaction one load.
const REPLICA: u64 = 1;

impl Store {
    /// Returns whether the store is a replica, whose keys only its source may change.
    #[inline(always)]
    pub fn is_replica(&self) -> bool {
        self.segment.setting(Setting::Replica) & REPLICA != 0
    }

    /// Makes the store a replica, or ends this. Changes that have already begun may still commit.
    ///
    /// # Errors
    /// Fails if the store is mapped read-only, or if its journal cannot be written.
    pub fn set_replica(&self, is_replica: bool) -> Result<(), Error> {
        let role = u64::from(is_replica);
        let change = |old: u64| old & !REPLICA | role;
        Ok(self.segment.change_setting(Setting::Replica, change)?)
    }

    /// Returns the time until which changes are accepted although the store requires replicas, in Unix
    /// milliseconds, or `None` if it requires none.
    pub fn replicas_suffice_until(&self) -> Option<u64> {
        let time = self.segment.setting(Setting::Replica) >> 1;
        (time != 0).then_some(time)
    }

    /// Makes the store require replicas (`min-replicas-to-write`): every process refuses changes after
    /// this time, in Unix milliseconds, with [`Error::FewReplicas`]. The process that counts the replicas
    /// renews the time. `None` ends the requirement. Changes that have already begun may still commit.
    ///
    /// # Errors
    /// Fails if the store is mapped read-only, or if its journal cannot be written.
    pub fn require_replicas_after(&self, time: Option<u64>) -> Result<(), Error> {
        let time = time.map_or(0, |time| time.max(1) << 1);
        let change = |old: u64| old & REPLICA | time;
        Ok(self.segment.change_setting(Setting::Replica, change)?)
    }

    /// Makes changes through this handle succeed without enough replicas, because the caller counts the
    /// replicas itself before it runs a command.
    pub fn count_replicas_itself(&self, counts: bool) {
        self.counts_replicas.store(counts, Ordering::Relaxed);
    }

    /// Makes this handle the one that applies the changes of a replica's source. It may change keys,
    /// has no memory limit, and sees expired keys as if they still existed: the source decides when
    /// they are gone.
    pub fn apply_source(&self) {
        self.applies_source.store(true, Ordering::Relaxed);
    }

    /// Returns whether this handle [applies the changes of a source](Self::apply_source).
    #[inline(always)]
    pub fn applies_source(&self) -> bool {
        self.applies_source.load(Ordering::Relaxed)
    }

    /// Takes the lock of the process that follows the source, without waiting. Returns `None` if
    /// another process has it. The lock ends with the process.
    ///
    /// # Errors
    /// Fails if the store's file cannot be opened.
    pub fn lock_following(&self) -> Result<Option<RoleLock>, Error> {
        Ok(self.segment.lock_following()?)
    }

    /// Takes the lock of the process that sends changes to replicas, without waiting. Returns `None`
    /// if another process has it. The lock ends with the process.
    ///
    /// # Errors
    /// Fails if the store's file cannot be opened.
    pub fn lock_sending(&self) -> Result<Option<RoleLock>, Error> {
        Ok(self.segment.lock_sending()?)
    }

    /// Returns whether a process sends changes to replicas ([`lock_sending`](Self::lock_sending)). It
    /// decides how many replicas the store requires.
    ///
    /// # Errors
    /// Fails if the store's file cannot be opened.
    pub fn has_sender(&self) -> Result<bool, Error> {
        Ok(self.segment.has_sender()?)
    }

    /// Returns whether changes to keys through this handle are refused, because the store is a
    /// replica, or has too few replicas.
    #[inline(always)]
    pub fn refuses_changes(&self) -> bool {
        match self.segment.setting(Setting::Replica) {
            0 => false,
            word => self.refuses_by(word),
        }
    }

    #[cold]
    fn refuses_by(&self, word: u64) -> bool {
        if self.applies_source() {
            return false;
        }
        let lacks_replicas = || {
            let until = word >> 1;
            let counts = self.counts_replicas.load(Ordering::Relaxed);
            until != 0 && !counts && until < self.now()
        };
        word & REPLICA != 0 || lacks_replicas()
    }

    /// Returns the error of changes that [are refused](Self::refuses_changes).
    pub fn refusal(&self) -> Error {
        match self.is_replica() {
            true => Error::Replica,
            false => Error::FewReplicas,
        }
    }

    /// Returns whether expired keys stay in the store, because only a source removes them, or because
    /// changes are refused.
    pub(crate) fn refuses_expiry(&self) -> bool {
        self.is_replica() || self.refuses_changes()
    }

    /// Returns whether a deadline has passed, in Unix milliseconds. For the changes of a source, no
    /// deadline ever passes.
    #[inline]
    pub fn has_passed(&self, deadline: u64) -> bool {
        deadline <= self.now() && !self.applies_source()
    }
}
