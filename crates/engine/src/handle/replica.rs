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

impl Store {
    /// Returns whether the store is a replica, whose keys only its source may change.
    #[inline(always)]
    pub fn is_replica(&self) -> bool {
        self.segment.setting(Setting::Replica) != 0
    }

    /// Makes the store a replica, or ends this. Changes that have already begun may still commit.
    ///
    /// # Errors
    /// Fails if the store is mapped read-only, or if its journal cannot be written.
    pub fn set_replica(&self, is_replica: bool) -> Result<(), Error> {
        Ok(self
            .segment
            .set_setting(Setting::Replica, is_replica.into())?)
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

    /// Returns whether changes to keys through this handle are refused, because the store is a
    /// replica.
    #[inline(always)]
    pub fn refuses_changes(&self) -> bool {
        self.is_replica() && !self.applies_source()
    }

    /// Returns whether a deadline has passed, in Unix milliseconds. For the changes of a source, no
    /// deadline ever passes.
    #[inline]
    pub fn has_passed(&self, deadline: u64) -> bool {
        deadline <= self.now() && !self.applies_source()
    }
}
