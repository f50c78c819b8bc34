//! Waits until records are durable, or until the ring has space.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::journal::writer::{self, Progress, WriterGuard};
use crate::mapped::futex;
use crate::mapped::layout::{control, redo};
use crate::processes::lock::Owner;
use crate::processes::patience;
use crate::redo::failure;
use crate::segment::{Segment, membership};

/// The maximum length of one sleep (M4).
const SLEEP: Duration = Duration::from_millis(10);

/// The minimum timeout of a wait for changes that are already made.
const COMMITTED_PATIENCE: Duration = Duration::from_secs(5);

/// Waits until all records up to a position are durable. If no process is writing records, this
/// thread does (J4). The caller must hold no lock.
///
/// # Errors
/// Fails if a file cannot be written, if the wait is interrupted, or if a process that is stopped
/// delays the journal for longer than the timeout.
pub(crate) fn until_durable(segment: &Segment, position: u64) -> Result<(), Error> {
    until_durable_within(segment, position, segment.patience())
}

/// Waits like [`until_durable`], for changes that were already made. Neither a limit on the patience
/// of this thread nor a signal ends the wait early, and no error invites the caller to make the
/// changes again.
///
/// # Errors
/// Fails with [`Error::Journal`] if the changes may not be durable.
pub(crate) fn until_committed_is_durable(segment: &Segment, position: u64) -> Result<(), Error> {
    let _deferred = patience::defer_signals();
    let waited = patience::unlimited_patience(|| {
        let patience = segment.patience().max(COMMITTED_PATIENCE);
        until_durable_within(segment, position, patience)
    });
    waited.map_err(|error| match error {
        Error::Busy { .. } | Error::Interrupted => {
            let text = format!("the change was made, but is not durable yet: {error}");
            Error::Journal {
                folder: failure::folder_of(segment),
                source: io::Error::new(io::ErrorKind::TimedOut, text),
            }
        }
        error => error,
    })
}

/// Waits like [`until_durable`], at most for `patience`.
pub(crate) fn until_durable_within(
    segment: &Segment,
    position: u64,
    patience: Duration,
) -> Result<(), Error> {
    let durable = segment.mapping.word(control::REDO_DURABLE);
    wait(segment, true, patience, || {
        durable.load(Ordering::Acquire) >= position || !segment.mapping.is_journaled()
    })?;
    // After a failure, the positions of a new epoch say nothing about the changes before it.
    failure::failure(segment).map_or(Ok(()), Err)
}

/// Waits like [`until_durable`], for a checkpoint, whose epoch counts only once it is complete.
pub(crate) fn until_position(segment: &Segment, position: u64) -> Result<(), Error> {
    let durable = segment.mapping.word(control::REDO_DURABLE);
    wait(segment, true, segment.patience(), || {
        durable.load(Ordering::Acquire) >= position
    })
}

/// Makes space in the ring for a record of `needed` bytes. The caller must hold no lock.
pub(crate) fn until_space(segment: &Segment, needed: u64) -> Result<(), Error> {
    let mapping = &segment.mapping;
    if mapping.redo_size() / 2 < needed {
        return grow(segment, needed);
    }
    wait(segment, false, segment.patience(), || {
        let head = mapping.load(control::REDO_HEAD);
        let written = mapping.word(control::REDO_WRITTEN).load(Ordering::Acquire);
        // Another thread may have written records that were appended since `head` was loaded.
        head.saturating_sub(written) <= mapping.redo_size() / 4
    })
}

fn wait(
    segment: &Segment,
    sync: bool,
    patience: Duration,
    is_done: impl Fn() -> bool,
) -> Result<(), Error> {
    let syncs = segment.mapping.half(control::REDO_SYNCS);
    let start = Instant::now();
    loop {
        let seen = syncs.load(Ordering::Acquire);
        if is_done() {
            return Ok(());
        }
        let progress = write_out(segment, sync)?;
        if is_done() {
            return Ok(());
        }
        let Progress::Waits(owner) = progress else {
            if start.elapsed() >= patience {
                return Err(Error::JournalFull);
            }
            continue;
        };
        if start.elapsed() >= patience {
            let owner = Owner::from_bits(owner);
            return Err(segment.process.describe(&segment.mapping, owner));
        }
        match segment.hook() {
            Some(hook) => {
                hook.blocked(&mut || {
                    futex::wait(syncs, seen, SLEEP.min(patience));
                });
                if patience::is_interrupted(hook) {
                    return Err(Error::Interrupted);
                }
            }
            None => {
                futex::wait(syncs, seen, SLEEP.min(patience));
            }
        }
    }
}

/// Writes records, and releases the runtime's locks in the meantime if it waits for the disk.
fn write_out(segment: &Segment, sync: bool) -> Result<Progress, Error> {
    let Some(hook) = segment.hook().filter(|_| sync) else {
        return writer::write_out(segment, sync);
    };
    let mut progress = None;
    hook.blocked(&mut || progress = Some(writer::write_out(segment, sync)));
    // A hook that does not call the function makes no progress possible.
    progress.unwrap_or_else(|| writer::write_out(segment, sync))
}

/// Becomes the writer, after waiting for the current one.
pub(crate) fn until_writer(segment: &Segment) -> Result<WriterGuard<'_>, Error> {
    let syncs = segment.mapping.half(control::REDO_SYNCS);
    let start = Instant::now();
    loop {
        let seen = syncs.load(Ordering::Acquire);
        match writer::become_writer(segment) {
            Ok(guard) => return Ok(guard),
            Err(owner) if start.elapsed() >= segment.patience() => {
                let owner = Owner::from_bits(owner);
                return Err(segment.process.describe(&segment.mapping, owner));
            }
            Err(_) => {
                futex::wait(syncs, seen, SLEEP);
            }
        }
    }
}

/// Enlarges the ring, so that a record of `needed` bytes fills at most half of it.
fn grow(segment: &Segment, needed: u64) -> Result<(), Error> {
    let mapping = &segment.mapping;
    let layout = mapping.layout();
    let wanted = needed.saturating_mul(2).next_power_of_two();
    if wanted > layout.redo_capacity {
        return Err(Error::OutOfMemory);
    }
    back(segment, wanted)?;
    let start = Instant::now();
    loop {
        wait(segment, false, segment.patience(), || {
            mapping.load(control::REDO_HEAD) == mapping.load(control::REDO_WRITTEN)
        })?;
        if let Ok(_writer) = writer::become_writer(segment) {
            let _guard = crate::redo::ring::take_lock(segment)?;
            let is_empty = mapping.load(control::REDO_HEAD) == mapping.load(control::REDO_WRITTEN);
            if mapping.redo_size() >= wanted {
                return Ok(());
            }
            if is_empty {
                mapping.store(control::REDO_SIZE, wanted);
                return Ok(());
            }
        }
        if start.elapsed() >= segment.patience() {
            return Err(Error::JournalFull);
        }
    }
}

/// Backs the ring's page and the first `size` bytes of its records with memory.
pub(crate) fn back(segment: &Segment, size: u64) -> Result<(), Error> {
    let start = segment.mapping.layout().redo;
    membership::back_range(segment, start, redo::DATA + size).map_err(|_| Error::OutOfMemory)
}
