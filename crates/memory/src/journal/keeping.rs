//! Keeps the promise of the store's durability mode after a commit (J4).
//!
//! Each process that changes the store has a thread that syncs the journal, so that a change becomes
//! durable in time although any other process dies. The threads share the work: a thread does nothing
//! if another one has synced within the last second.

use std::sync::atomic::{Ordering, fence};

use crate::error::Error;
use crate::journal::{waiting, writer};
use crate::mapped::layout::control;
use crate::mapped::platform::coarse_milliseconds;
use crate::segment::Segment;

/// The value of `control::JOURNALED` with which every call waits until its changes are durable.
pub(crate) const ALWAYS: u64 = 2;
/// The number of milliseconds after which this process's thread counts as ended.
const SILENT: u32 = 3000;

/// Makes sure that the records before a position become durable in time. The caller must hold no
/// lock.
///
/// # Errors
/// With `always`, fails like [`waiting::until_durable`]. The changes are committed, but not durable.
#[cold]
pub(crate) fn after_commit(segment: &Segment, end: u64) -> Result<(), Error> {
    keep_syncer(segment);
    match segment.mapping.load(control::JOURNALED) {
        ALWAYS => waiting::until_durable(segment, end),
        _ => Ok(()),
    }
}

/// The sign of life of a process's thread: the process, and when the thread was last running.
pub(crate) fn beat(owner: u32, now: u64) -> u64 {
    u64::from(owner) << 32 | now & 0xffff_ffff
}

/// Starts this process's thread that syncs the journal, unless it is running.
fn keep_syncer(segment: &Segment) {
    // Pairs with the fence of a thread that is about to end: either this thread sees that it has
    // ended, or it sees this thread's record.
    fence(Ordering::SeqCst);
    let (me, now) = (segment.process.owner().bits(), coarse_milliseconds());
    let seen = segment.syncer.load(Ordering::Relaxed);
    // A forked child has another identity, and does not have its parent's thread.
    if seen >> 32 == u64::from(me) && (now as u32).wrapping_sub(seen as u32) < SILENT {
        return;
    }
    if !segment.disk().is_shared() {
        return;
    }
    let claimed =
        segment
            .syncer
            .compare_exchange(seen, beat(me, now), Ordering::AcqRel, Ordering::Relaxed);
    if claimed.is_ok() && (segment.start_syncer)(segment).is_err() {
        // This process may have no further thread, so this thread syncs the journal. A failed write
        // is recorded in the store, and the next change reports it.
        let _ = writer::write_out(segment, true);
        segment.syncer.store(0, Ordering::Release);
    }
}
