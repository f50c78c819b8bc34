//! Observes a recovery: reports its progress, and ends it when the program is interrupted.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::journal::folder_lock::{self, Recovering};
use crate::processes::patience::{self, WaitHook};

/// The minimum interval between two reports.
const INTERVAL: Duration = Duration::from_millis(50);

/// The work that a process is doing, or waiting for, before it can use a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryStage {
    /// Another process is recovering the store.
    Waiting,
    /// The process reads the checkpoint.
    Checkpoint,
    /// The process repeats the changes since the checkpoint.
    Journal,
}

/// How far a recovery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// The work that is being done.
    pub stage: RecoveryStage,
    /// The number of bytes of the journal that have been read.
    pub done: u64,
    /// The number of bytes to read, or 0 if it is unknown.
    pub total: u64,
}

/// The observer of a recovery, or of the wait for the recovery by another process.
#[derive(Clone, Copy, Default)]
pub struct RecoveryWatch<'a> {
    /// Releases the locks of a language runtime during the work, and says when to end it.
    pub hook: Option<&'a dyn WaitHook>,
    /// Receives the progress.
    pub report: Option<&'a dyn Fn(RecoveryProgress)>,
}

impl RecoveryWatch<'_> {
    /// Sleeps until the next attempt to lock a folder, and reports the progress of the process that
    /// holds the lock.
    ///
    /// # Errors
    /// Fails with [`Error::Interrupted`] if the wait must end.
    pub(crate) fn wait(&self, recovering: Option<Recovering>) -> Result<(), Error> {
        if let Some(report) = self.report {
            report(RecoveryProgress {
                stage: RecoveryStage::Waiting,
                done: recovering.map_or(0, |found| found.done),
                total: recovering.map_or(0, |found| found.total),
            });
        }
        folder_lock::sleep(self.hook)
    }

    /// Runs a step of the work, without the locks of the language runtime.
    ///
    /// # Errors
    /// Fails with [`Error::Interrupted`] if the work must end.
    pub(crate) fn run<R>(&self, step: impl FnOnce() -> R) -> Result<R, Error> {
        let Some(hook) = self.hook else {
            return Ok(step());
        };
        let (mut step, mut result) = (Some(step), None);
        hook.blocked(&mut || {
            if let Some(step) = step.take() {
                result = Some(step());
            }
        });
        if patience::is_interrupted(hook) {
            return Err(Error::Interrupted);
        }
        result.ok_or(Error::Interrupted)
    }
}

/// Counts the bytes that a recovery has read, and reports them.
pub(crate) struct Meter<'a> {
    pub(crate) watch: &'a RecoveryWatch<'a>,
    /// Shows the progress to processes that wait for this one.
    publish: &'a dyn Fn(RecoveryProgress),
    done: u64,
    total: u64,
    last: Option<Instant>,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(watch: &'a RecoveryWatch<'a>, total: u64) -> Meter<'a> {
        Meter::publishing(watch, total, &|_| ())
    }

    pub(crate) fn publishing(
        watch: &'a RecoveryWatch<'a>,
        total: u64,
        publish: &'a dyn Fn(RecoveryProgress),
    ) -> Meter<'a> {
        Meter {
            watch,
            publish,
            done: 0,
            total,
            last: None,
        }
    }

    /// Adds bytes that were read, and reports the progress from time to time.
    pub(crate) fn add(&mut self, stage: RecoveryStage, bytes: u64) {
        self.done += bytes;
        let is_due = self.last.is_none_or(|last| last.elapsed() >= INTERVAL);
        if !is_due {
            return;
        }
        self.last = Some(Instant::now());
        let progress = RecoveryProgress {
            stage,
            done: self.done,
            // Records that span two pieces are read twice.
            total: self.total.max(self.done),
        };
        (self.publish)(progress);
        if let Some(report) = self.watch.report {
            report(progress);
        }
    }
}
