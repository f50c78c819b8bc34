//! The locks of the process that follows the source of a replica, and of the process that sends the
//! changes of a store to its replicas. The kernel holds them, so each ends with its process, and
//! another process can take it at once.

use std::fs::File;

use crate::error::Error;
use crate::mapped::layout::slot;
use crate::mapped::platform;
use crate::segment::Segment;

/// The lock of the one process that follows a source, or of the one that sends changes. Dropping it
/// releases it.
#[derive(Debug)]
pub struct RoleLock {
    _file: File,
}

impl Segment {
    /// Takes the lock of the process that follows a source, without waiting. Returns `None` if
    /// another process, or another part of this process, has it.
    ///
    /// # Errors
    /// Fails if the store's file cannot be opened.
    pub fn lock_following(&self) -> Result<Option<RoleLock>, Error> {
        self.lock_role(slot::FOLLOWER)
    }

    /// Takes the lock of the process that sends changes to replicas, like
    /// [`lock_following`](Self::lock_following).
    ///
    /// # Errors
    /// Fails if the store's file cannot be opened.
    pub fn lock_sending(&self) -> Result<Option<RoleLock>, Error> {
        self.lock_role(slot::SENDER)
    }

    /// Returns whether a process, or another part of this process, has the lock of
    /// [`lock_sending`](Self::lock_sending).
    ///
    /// # Errors
    /// Fails if the store's file cannot be opened.
    pub fn has_sender(&self) -> Result<bool, Error> {
        let fail = |source| Error::Io {
            doing: "looking for a lock",
            path: self.path().into(),
            source,
        };
        let file = platform::open(self.path(), true).map_err(fail)?;
        platform::byte_is_locked(&file, slot::SENDER).map_err(fail)
    }

    fn lock_role(&self, place: u64) -> Result<Option<RoleLock>, Error> {
        let fail = |source| Error::Io {
            doing: "locking",
            path: self.path().into(),
            source,
        };
        // The lock belongs to this open file description.
        let file = platform::open(self.path(), true).map_err(fail)?;
        let is_taken = platform::try_lock_byte(&file, place).map_err(fail)?;
        Ok(is_taken.then_some(RoleLock { _file: file }))
    }
}
