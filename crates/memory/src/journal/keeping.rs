//! Keeps the promise of the store's durability mode after a commit (J4).
//!
//! Each process that changes the store has a thread that syncs the journal, so that a change becomes
//! durable in time although any other process dies. The threads share the work: a thread does nothing
//! if another one has synced within the last second.

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::journal::{deferral, waiting, writer};
use crate::mapped::futex;
use crate::mapped::layout::control;
use crate::mapped::platform::coarse_milliseconds;
use crate::processes::patience;
use crate::redo::{failure, lag};
use crate::segment::Segment;

/// The value of `control::JOURNALED` with which every call waits until its changes are durable.
pub(crate) const ALWAYS: u64 = 2;
/// The number of milliseconds after the last sync has begun for which its process counts as alive.
const FORGOTTEN: u64 = 3000;
/// The number of parts of the ring. Records are written to files when a part is full.
const PARTS: u64 = 16;

/// Refuses a change that would have to wait until it is durable, if this thread may not wait for the
/// disk.
#[inline(always)]
pub(crate) fn before_change(segment: &Segment) -> Result<(), Error> {
    match segment.mapping.load_control::<{ control::JOURNALED }>() {
        ALWAYS => before_durable_change(segment),
        _ => Ok(()),
    }
}

#[cold]
fn before_durable_change(segment: &Segment) -> Result<(), Error> {
    match patience::is_without_sync() && !deferral::defers(segment) {
        true => Err(Error::MustSync),
        false => Ok(()),
    }
}

/// Makes sure that a record becomes durable in time. The caller must hold no lock. `start` and `end`
/// are the positions at which the record starts and ends.
///
/// # Errors
/// With `always`, fails like [`waiting::until_committed_is_durable`], unless the thread defers the wait
/// ([`deferral`]). The changes are committed, but not durable.
#[inline(always)]
pub(crate) fn after_commit(segment: &Segment, (start, end): (u64, u64)) -> Result<(), Error> {
    // A thread that is about to end clears its sign, then acquires the ring's lock, as this thread did
    // to append its record. So either this thread sees that it has ended, or it sees the record.
    //
    // A forked child has another identity, and does not have its parent's thread.
    let me = u64::from(segment.process.owner().bits());
    if segment.syncer.load(Ordering::Relaxed) != me {
        start_syncer(segment, me, start);
    }
    // Wake a thread each time that a further part of the ring has been filled, so that a thread that
    // appends records seldom has to write them to files itself.
    if start ^ end >= segment.mapping.redo_size() / PARTS {
        wake_syncer(segment);
    }
    match segment.mapping.load_control::<{ control::JOURNALED }>() {
        ALWAYS if deferral::note(segment, end) => Ok(()),
        ALWAYS => waiting::until_committed_is_durable(segment, end),
        _ => Ok(()),
    }
}

impl Segment {
    /// Starts this process's thread that syncs the journal, if there are changes that no process makes
    /// durable, because all processes that made changes have died. Does nothing if a process has begun
    /// a sync within the last seconds.
    pub fn keep_journal(&self) {
        let mapping = &self.mapping;
        if !mapping.is_journaled() || !self.writable() || failure::has_failed(mapping) {
            return;
        }
        let head = mapping.word(control::REDO_HEAD).load(Ordering::Acquire);
        let (last, now) = (mapping.load(control::REDO_SYNCER), coarse_milliseconds());
        // A later time is from another boot.
        let is_recent = last <= now && now - last < FORGOTTEN;
        if is_recent || head == mapping.load(control::REDO_DURABLE) {
            return;
        }
        let me = u64::from(self.process.owner().bits());
        if self.syncer.load(Ordering::Relaxed) != me {
            start_syncer(self, me, u64::MAX);
        }
    }
}

/// Wakes the thread of a process to write records to files.
#[cold]
fn wake_syncer(segment: &Segment) {
    let filled = segment.mapping.half(control::REDO_FILLED);
    filled.fetch_add(1, Ordering::Release);
    futex::wake_one(filled);
}

/// Starts this process's thread that syncs the journal, for a change that starts at a position.
#[cold]
fn start_syncer(segment: &Segment, me: u64, start: u64) {
    // No thread may have noted the time for long.
    lag::note_first(&segment.mapping, start);
    if !segment.disk().is_shared() {
        return;
    }
    let seen = segment.syncer.load(Ordering::Acquire);
    let claimed = seen != me
        && (segment.syncer)
            .compare_exchange(seen, me, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
    if claimed && (segment.start_syncer)(segment).is_err() {
        // This process may have no further thread, so this thread syncs the journal. A failed write
        // is recorded in the store, and the next change reports it.
        let _ = writer::write_out(segment, true);
        segment.syncer.store(0, Ordering::Release);
    }
}
