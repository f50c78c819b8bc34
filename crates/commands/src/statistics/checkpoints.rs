//! Counts the checkpoints and snapshots that this process has written on request, for INFO.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

/// The results of the checkpoints and snapshots that clients of this process have requested. A checkpoint that
/// begins because the journal has grown is not counted, because any process can write it.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    completed: AtomicU64,
    failed_in_a_row: AtomicU64,
    /// How long the last checkpoint took, in seconds, or -1 if none was written.
    seconds: AtomicI64,
    has_failed: AtomicBool,
    /// Whether a thread of this process is writing a snapshot to a file.
    is_saving: AtomicBool,
    /// The time when the last snapshot was written to a file, in Unix seconds, or 0.
    last_file: AtomicI64,
}

impl Default for Checkpoints {
    fn default() -> Checkpoints {
        Checkpoints {
            completed: AtomicU64::new(0),
            failed_in_a_row: AtomicU64::new(0),
            seconds: AtomicI64::new(-1),
            has_failed: AtomicBool::new(false),
            is_saving: AtomicBool::new(false),
            last_file: AtomicI64::new(0),
        }
    }
}

impl Checkpoints {
    /// Records a checkpoint that began at `start` and has ended. Returns whether it is complete.
    pub(crate) fn note(&self, start: Instant, is_complete: bool) -> bool {
        self.has_failed.store(!is_complete, Ordering::Relaxed);
        if is_complete {
            self.completed.fetch_add(1, Ordering::Relaxed);
            self.failed_in_a_row.store(0, Ordering::Relaxed);
        } else {
            self.failed_in_a_row.fetch_add(1, Ordering::Relaxed);
        }
        let seconds = start.elapsed().as_secs() as i64;
        self.seconds.store(seconds, Ordering::Relaxed);
        is_complete
    }

    /// Begins a snapshot. Returns `false` if one is being written already.
    pub(crate) fn begin_file(&self) -> bool {
        !self.is_saving.swap(true, Ordering::Relaxed)
    }

    /// Ends a snapshot. `saved` is the time in Unix seconds when it was complete, or `None` if it
    /// failed.
    pub(crate) fn end_file(&self, saved: Option<i64>) {
        if let Some(saved) = saved {
            self.last_file.store(saved, Ordering::Relaxed);
        }
        self.is_saving.store(false, Ordering::Relaxed);
    }

    /// Returns whether a snapshot is being written.
    pub(crate) fn is_saving(&self) -> bool {
        self.is_saving.load(Ordering::Relaxed)
    }

    /// Returns the time of the last snapshot in Unix seconds, if there was one.
    pub(crate) fn last_file(&self) -> Option<i64> {
        let saved = self.last_file.load(Ordering::Relaxed);
        (saved != 0).then_some(saved)
    }

    /// Returns the number of complete checkpoints.
    pub(crate) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Relaxed)
    }

    /// Returns the number of checkpoints that have failed since the last complete one.
    pub(crate) fn failed_in_a_row(&self) -> u64 {
        self.failed_in_a_row.load(Ordering::Relaxed)
    }

    /// Returns how long the last checkpoint took, in seconds, or -1 if there was none.
    pub(crate) fn seconds(&self) -> i64 {
        self.seconds.load(Ordering::Relaxed)
    }

    /// Returns Redis' word for the result of the last checkpoint.
    pub(crate) fn status(&self) -> &'static str {
        match self.has_failed.load(Ordering::Relaxed) {
            true => "err",
            false => "ok",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_checkpoint_clears_a_failure() {
        let checkpoints = Checkpoints::default();
        assert_eq!((checkpoints.status(), checkpoints.seconds()), ("ok", -1));
        for _ in 0..2 {
            assert!(!checkpoints.note(Instant::now(), false));
        }
        assert_eq!(checkpoints.status(), "err");
        assert_eq!(checkpoints.failed_in_a_row(), 2);
        assert!(checkpoints.note(Instant::now(), true));
        assert_eq!(checkpoints.status(), "ok");
        assert_eq!(
            (checkpoints.completed(), checkpoints.failed_in_a_row()),
            (1, 0)
        );
        assert_eq!(checkpoints.seconds(), 0);
    }
}
