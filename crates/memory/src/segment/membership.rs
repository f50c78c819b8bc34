//! This process's membership in the store: its process table entry, and its access to the file (L1
//! to L4).

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::mapped::platform;
use crate::processes::lock::Owner;
use crate::processes::process::PathState;
use crate::segment::Segment;

/// Ensures that this process has a process table entry (L3).
#[inline]
pub(crate) fn join(segment: &Segment) -> Result<(), Error> {
    if segment.process.claimed() {
        return Ok(());
    }
    if !segment.writable() {
        return Err(Error::ReadOnly);
    }
    let claimed = segment.process.claim(&segment.mapping, |index| {
        (segment.recover_slot)(segment, index)
    });
    if let Err(Error::Removed { .. }) = claimed {
        segment.removed.store(true, Ordering::Relaxed);
    }
    claimed
}

/// Checks whether the mapped file is still at its path, and records if it is not.
#[cold]
pub(crate) fn check_place(segment: &Segment) {
    if segment.process.place(&segment.mapping) == PathState::Gone {
        segment.removed.store(true, Ordering::Relaxed);
    }
}

/// Returns true if the process that owns a lock or a task is alive.
pub(crate) fn owner_lives(segment: &Segment, owner: Owner) -> bool {
    segment.process.alive(&segment.mapping, owner)
}

/// Allocates a range of the file through the mapping. If the kernel is too old for that, reopens
/// the path, checks the inode, and allocates through the file (H2).
pub(crate) fn back_range(segment: &Segment, start: u64, length: u64) -> std::io::Result<()> {
    match segment.mapping.populate(start, length) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            let file = segment.process.reopen()?;
            let file = file.ok_or(std::io::ErrorKind::NotFound)?;
            platform::allocate(&file, start, length)
        }
        result => result,
    }
}

impl Segment {
    /// Returns true if an earlier check found that the mapped file is no longer at its path.
    /// Performs no check itself.
    #[inline(always)]
    pub fn is_lost(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }

    /// Checks the path and returns true if the mapped file is known to be gone. Returns false in a
    /// process that cannot check because it dropped its privileges.
    pub fn removed(&self) -> bool {
        check_place(self);
        self.removed.load(Ordering::Relaxed)
    }

    /// Tries to back a process table entry with memory for the next process that joins (H6).
    /// Returns true if a backed entry is available. Usually costs one load. The caller must hold no
    /// lock.
    pub fn keep_spare_slots(&self) -> bool {
        self.process.keep_spare_slots(&self.mapping)
    }

    /// Releases this process's table entry as if the process had been killed. For tests of
    /// recovery.
    pub fn abandon(&self) {
        self.process.abandon(&self.mapping);
    }
}
