//! The lock of the process that follows the source of a replica. The kernel holds it, so it ends with
//! the process, and another process can take it at once.

use std::fs::File;

use crate::error::Error;
use crate::mapped::layout::slot;
use crate::mapped::platform;
use crate::segment::Segment;

/// The lock of the process that follows a replica's source. Dropping it releases it.
#[derive(Debug)]
pub struct FollowingLock {
    _file: File,
}

impl Segment {
    /// Takes the lock of the process that follows a source, without waiting. Returns `None` if
    /// another process, or another part of this process, has it.
    ///
    /// # Errors
    /// Fails if the store's file cannot be opened.
    pub fn lock_following(&self) -> Result<Option<FollowingLock>, Error> {
        let fail = |source| Error::Io {
            doing: "locking",
            path: self.path().into(),
            source,
        };
        // The lock belongs to this open file description.
        let file = platform::open(self.path(), true).map_err(fail)?;
        let is_taken = platform::try_lock_byte(&file, slot::FOLLOWER).map_err(fail)?;
        Ok(is_taken.then_some(FollowingLock { _file: file }))
    }
}
