//! This process's membership in the store: its entry in the process table, and its access to the
//! file (L1 to L4).

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

/// Checks whether the path still names the mapped file and records the result if it does not.
#[cold]
pub(crate) fn check_place(segment: &Segment) {
    if segment.process.place(&segment.mapping) == PathState::Gone {
        segment.removed.store(true, Ordering::Relaxed);
    }
}

/// Returns true if the owner of a lock or of a task is alive.
pub(crate) fn owner_lives(segment: &Segment, owner: Owner) -> bool {
    segment.process.alive(&segment.mapping, owner)
}

/// Allocates a range of the file through the mapping. Where the kernel is too old for that, reopens
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
    /// Returns true if an earlier check found that the path no longer names the mapped file.
    /// Performs no check itself.
    #[inline(always)]
    pub fn is_lost(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }

    /// Checks the path and returns true if it is known not to name the mapped file anymore. A
    /// process that cannot check, because it dropped its privileges, continues.
    pub fn removed(&self) -> bool {
        check_place(self);
        self.removed.load(Ordering::Relaxed)
    }

    /// Backs the process table entry of the next process to join with memory, if possible (H6).
    /// Returns true if a backed entry is available. Usually costs one load. The caller must hold no
    /// lock.
    pub fn keep_spare_slots(&self) -> bool {
        self.process.keep_spare_slots(&self.mapping)
    }

    /// Gives up this process's entry as if the process had been killed, for tests of recovery.
    pub fn abandon(&self) {
        self.process.abandon(&self.mapping);
    }
}
