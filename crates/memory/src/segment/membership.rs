//! This process' membership in the store: its entry in the process table, and its right to the file (L1 to L4).

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::mapped::platform;
use crate::processes::lock::Owner;
use crate::processes::process::PathState;
use crate::segment::Segment;

/// Makes sure that this process has a slot of its own (L3).
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

/// Looks whether the path still names the mapped file.
#[cold]
pub(crate) fn check_place(segment: &Segment) {
    if segment.process.place(&segment.mapping) == PathState::Gone {
        segment.removed.store(true, Ordering::Relaxed);
    }
}

/// Whether the owner of a lock, or of a task, lives.
pub(crate) fn owner_lives(segment: &Segment, owner: Owner) -> bool {
    segment.process.alive(&segment.mapping, owner)
}

/// Allocates a range of the file, through the mapping or, where the kernel
/// is too old for that, through the path after a check of the inode (H2).
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
    /// Whether a look at the path has found that it names the mapped file no longer. Makes no look itself.
    #[inline(always)]
    pub fn is_lost(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }

    /// Whether the path is known to name the mapped file no longer. A process
    /// that may not look, as it has dropped its privileges, goes on.
    pub fn removed(&self) -> bool {
        check_place(self);
        self.removed.load(Ordering::Relaxed)
    }

    /// Has memory ready for the entry of the next process that joins, as much as can be had (H6). Returns whether there is
    /// some. One look at a word, mostly; no lock may be held.
    pub fn keep_spare_slots(&self) -> bool {
        self.process.keep_spare_slots(&self.mapping)
    }

    /// Lets go of this process' slot as if the process had been killed; for
    /// tests of recovery.
    pub fn abandon(&self) {
        self.process.abandon(&self.mapping);
    }
}
