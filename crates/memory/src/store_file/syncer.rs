//! The thread of a process that syncs the journal once a second and begins checkpoints (J4).

use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use crate::checkpoints::checkpoint;
use crate::error::Error;
use crate::journal::writer;
use crate::mapped::futex;
use crate::mapped::layout::control;
use crate::mapped::platform::{self, coarse_milliseconds};
use crate::redo::{lag, ring};
use crate::segment::settings::Setting;
use crate::segment::{Segment, place};

/// The interval between two syncs.
const INTERVAL: Duration = Duration::from_millis(990);
/// The number of intervals without a change after which the thread ends.
const IDLE_INTERVALS: u32 = 10;
/// The number of milliseconds for which the sync of another process counts as recent.
const RECENT: u64 = 800;
/// A checkpoint begins once the journal has grown by this many bytes beyond the last checkpoint, and
/// by a percentage of the last checkpoint's own size.
const GROWTH_MIN: u64 = 64 << 20;
/// The default percentage.
const GROWTH_PERCENT: u64 = 100;
/// The default rate of checkpoints that begin by themselves, in bytes a second.
const RATE: u64 = 256 << 20;

/// Starts the thread, which has its own handle of the store, so that the program may close its own.
pub(crate) fn start(segment: &Segment) -> io::Result<()> {
    let path: PathBuf = segment.path().into();
    let sign = Sign {
        word: Arc::clone(&segment.syncer),
        is_given_up: Cell::new(false),
    };
    let spawn = || {
        let thread = std::thread::Builder::new().name("undercroft-sync".into());
        thread.spawn(move || {
            // An error of the disk is recorded in the store. Any other error ends the thread, and
            // the next change starts another one.
            let _ = run(path, &sign);
        })
    };
    platform::with_signals_blocked(spawn).map(drop)
}

/// The word that says that the thread of a process is running. Cleared when the thread ends.
struct Sign {
    word: Arc<AtomicU64>,
    /// Whether another thread of the process has taken over, so that the word is that thread's.
    is_given_up: Cell<bool>,
}

impl Drop for Sign {
    fn drop(&mut self) {
        if !self.is_given_up.get() {
            self.word.store(0, Ordering::Release);
        }
    }
}

fn run(path: PathBuf, sign: &Sign) -> Result<(), Error> {
    let segment = Segment::open(&path, true)?;
    place::prepare_to_write(&segment)?;
    let me = sign.word.load(Ordering::Acquire);
    let filled = segment.mapping.half(control::REDO_FILLED);
    let mut idle = 0;
    while segment.mapping.is_journaled() && !segment.removed() {
        let now = lag::now();
        match needs_sync(&segment) {
            true => idle = 0,
            false => {
                lag::note(&segment.mapping, now);
                idle += 1;
            }
        }
        if idle == 0 && is_due(&segment) {
            // A failure is recorded in the store.
            let _ = writer::write_out(&segment, true);
            begin_due_checkpoint(&segment);
        }
        if idle > IDLE_INTERVALS {
            sign.word.store(0, Ordering::Release);
            sign.is_given_up.set(true);
            // A thread that appended a record before this sees the sign as it was, one that appends a
            // record later sees that this thread has ended.
            drop(ring::take_lock(&segment)?);
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            let again = || sign.word.compare_exchange(0, me, order.0, order.1);
            if !needs_sync(&segment) || again().is_err() {
                return Ok(());
            }
            sign.is_given_up.set(false);
            idle = 0;
            continue;
        }
        let next = Instant::now() + INTERVAL;
        loop {
            let seen = filled.load(Ordering::Acquire);
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            futex::wait(filled, seen, left);
            if filled.load(Ordering::Acquire) != seen {
                // A failure is recorded in the store.
                let _ = writer::write_out(&segment, false);
            }
        }
    }
    Ok(())
}

/// Returns whether no process has begun a sync recently, and records that this one does.
fn is_due(segment: &Segment) -> bool {
    let last = segment.mapping.word(control::REDO_SYNCER);
    let (seen, now) = (last.load(Ordering::Relaxed), coarse_milliseconds());
    // A later time is from another boot.
    let is_recent = seen <= now && now - seen < RECENT;
    !is_recent
        && last
            .compare_exchange(seen, now, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
}

fn needs_sync(segment: &Segment) -> bool {
    let mapping = &segment.mapping;
    let head = mapping.word(control::REDO_HEAD).load(Ordering::Acquire);
    head != mapping.load(control::REDO_DURABLE)
}

/// Begins a checkpoint if the journal has grown enough since the last one. A thread of its own writes
/// it, because it may take long.
fn begin_due_checkpoint(segment: &Segment) {
    let mapping = &segment.mapping;
    let grown = mapping
        .load(control::REDO_HEAD)
        .saturating_sub(mapping.load(control::CHECKPOINT_AT));
    let size = mapping.load(control::CHECKPOINT_BYTES);
    let is_due = has_grown(grown, size, segment.checkpoint_growth());
    let is_writing = checkpoint::is_writing(segment);
    let is_first = mapping.load(control::CHECKPOINT_TIME) == 0;
    if !(is_due || is_first && !is_writing) {
        return;
    }
    // On failure, the next interval tries again.
    let _ = segment.begin_checkpoint_at(segment.checkpoint_rate(), drop);
}

/// Returns whether a journal has grown so much that the next checkpoint is due. `size` is the size of
/// the last one.
fn has_grown(grown: u64, size: u64, percent: u64) -> bool {
    let wanted = (size / 100).saturating_mul(percent);
    percent != 0 && grown >= GROWTH_MIN.max(wanted)
}

impl Segment {
    /// Returns the rate of checkpoints that begin by themselves, in bytes a second. 0 means no limit.
    pub fn checkpoint_rate(&self) -> u64 {
        let stored = self.setting(Setting::CheckpointRate);
        stored.checked_sub(1).unwrap_or(RATE)
    }

    /// Returns by how many percent of the last checkpoint's size the journal grows before a checkpoint
    /// begins by itself. 0 means that none does.
    pub fn checkpoint_growth(&self) -> u64 {
        let stored = self.setting(Setting::CheckpointGrowth);
        stored.checked_sub(1).unwrap_or(GROWTH_PERCENT)
    }

    /// Begins a checkpoint on a thread of its own, which has its own handle of the store. Returns
    /// once the checkpoint has begun, so that no other one can begin. The thread calls `ended` with
    /// the result.
    ///
    /// # Errors
    /// Fails if the store has no journal, if a process is writing a checkpoint already, or if no
    /// thread can be started. `ended` is not called then.
    pub fn begin_checkpoint(
        &self,
        ended: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.begin_checkpoint_at(0, ended)
    }

    /// Begins a checkpoint like [`begin_checkpoint`](Self::begin_checkpoint), which writes at most
    /// `rate` bytes a second. 0 means no limit.
    fn begin_checkpoint_at(
        &self,
        rate: u64,
        ended: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let path: PathBuf = self.path().into();
        let (sender, receiver) = sync_channel(1);
        let fail = |source| Error::Io {
            doing: "starting a thread for a checkpoint of",
            path: self.path().into(),
            source,
        };
        let write = move || {
            let mut has_begun = false;
            let result = Segment::open(&path, true).and_then(|segment| {
                checkpoint::write_after(&segment, rate, || {
                    has_begun = true;
                    let _ = sender.send(Ok(()));
                })
            });
            match result {
                Err(error) if !has_begun => {
                    let _ = sender.send(Err(error));
                }
                result => ended(result),
            }
        };
        let spawn = || {
            let thread = std::thread::Builder::new().name("undercroft-checkpoint".into());
            thread.spawn(write)
        };
        platform::with_signals_blocked(spawn).map_err(fail)?;
        let ended_early = || fail(std::io::Error::other("the thread panicked"));
        receiver.recv().map_err(|_| ended_early())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoint_is_due_after_the_minimum_and_the_percentage() {
        let size = 1000 * GROWTH_MIN;
        assert!(!has_grown(GROWTH_MIN - 1, 0, 100));
        assert!(has_grown(GROWTH_MIN, 0, 100));
        assert!(!has_grown(size / 2 - 1, size, 50));
        assert!(has_grown(size / 2, size, 50));
        assert!(!has_grown(u64::MAX, size, 0));
    }
}
