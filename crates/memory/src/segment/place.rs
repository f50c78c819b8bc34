//! Checks before a write or a wait that this process has its process table entry, and that the
//! mapped file is still at its path.

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::mapped::platform;
use crate::segment::{Segment, change_counters, membership};

/// Ensures that this process has its process table entry and checks, at most once a second, that
/// the mapped file is still at its path.
#[inline(always)]
pub(crate) fn prepare_to_write(segment: &Segment) -> Result<(), Error> {
    if !segment.process.claimed() {
        membership::join(segment)?;
    }
    let now = platform::coarse_milliseconds();
    segment.written.store(now, Ordering::Relaxed);
    if now.wrapping_sub(segment.place_checked.load(Ordering::Relaxed)) >= 1000 {
        segment.place_checked.store(now, Ordering::Relaxed);
        membership::check_place(segment);
        change_counters::end_counting(segment, now);
    }
    if segment.removed.load(Ordering::Relaxed) {
        return Err(Error::Removed {
            path: segment.path().into(),
        });
    }
    Ok(())
}

impl Segment {
    /// Returns an error if the mapped file is no longer at its path, which is checked at most once
    /// a second. For threads that only wait (M7).
    pub fn in_place(&self) -> Result<(), Error> {
        let now = platform::coarse_milliseconds();
        if now.wrapping_sub(self.place_checked.load(Ordering::Relaxed)) >= 1000 {
            self.place_checked.store(now, Ordering::Relaxed);
            membership::check_place(self);
            if self.writable() {
                change_counters::end_counting(self, now);
            }
        }
        match self.removed.load(Ordering::Relaxed) {
            true => Err(Error::Removed {
                path: self.path().into(),
            }),
            false => Ok(()),
        }
    }

    /// Checks whether the mapped file is still at its path, if the last check was at least a second
    /// ago. For processes that only read. `now` is the time returned by
    /// [`coarse_milliseconds`](crate::coarse_milliseconds).
    #[inline]
    pub fn look_for_file(&self, now: u64) {
        if now.wrapping_sub(self.place_checked.load(Ordering::Relaxed)) >= 1000 {
            self.place_checked.store(now, Ordering::Relaxed);
            membership::check_place(self);
        }
    }
}
