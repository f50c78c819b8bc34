//! Records in the header that the store is being changed, and during which boot (D1).

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::mapped::layout::{PAGE, control, header};
use crate::probes::fault;
use crate::segment::Segment;

/// Records in the header that the store is being changed (D1). Must be called with a lock held,
/// before changing anything that a reader or a later writer can reach.
#[inline(always)]
pub(crate) fn begin_writing(segment: &Segment) -> Result<(), Error> {
    match segment
        .mapping
        .word(control::WRITING)
        .load(Ordering::Acquire)
    {
        0 => announce_writing(segment),
        _ => Ok(()),
    }
}

/// Records on disk that the store is being changed. This is the only time that a thread waits for
/// the disk with a lock held (W9). It happens once after each sync and writes one page.
#[cold]
fn announce_writing(segment: &Segment) -> Result<(), Error> {
    segment.mapping.store(header::UNSYNCED, segment.boot);
    fault::step();
    let written = segment.mapping.sync(0, PAGE);
    written.map_err(|source| Error::Io {
        doing: "recording on the disk a change of",
        path: segment.path().into(),
        source,
    })?;
    fault::step();
    let writing = segment.mapping.word(control::WRITING);
    writing.store(1, Ordering::Release);
    fault::step();
    Ok(())
}

impl Segment {
    /// Returns true if all changes to the store are on disk.
    pub fn is_synced(&self) -> bool {
        self.mapping.load(header::UNSYNCED) == 0
    }
}
