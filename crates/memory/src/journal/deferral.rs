//! Defers a thread's waits for durability, so that several changes wait once (J4).
//!
//! In the mode `always`, each change waits until it is durable. A thread that makes many changes
//! before it reports any of them, such as a server's thread or a pipeline, defers these waits: each
//! change notes its journal position, and the caller waits for the last position.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::error::Error;
use crate::journal::waiting;
use crate::mapped::layout::control;
use crate::processes::patience;
use crate::redo::failure;
use crate::segment::{Segment, place};

/// A deferral of a thread.
#[derive(Clone, Copy, Default)]
struct Deferred {
    /// The address of the segment whose waits are deferred, or 0. It is only compared.
    segment: usize,
    /// The position after the thread's last change, or 0.
    position: u64,
}

thread_local! {
    static DEFERRED: Cell<Deferred> = const { Cell::new(Deferred { segment: 0, position: 0 }) };
}

fn address(segment: &Segment) -> usize {
    std::ptr::from_ref(segment) as usize
}

/// Notes a position for which a change would have to wait. Returns false if this thread does not
/// defer the segment's waits.
pub(crate) fn note(segment: &Segment, position: u64) -> bool {
    DEFERRED.with(|cell| {
        let deferred = cell.get();
        if deferred.segment != address(segment) {
            return false;
        }
        cell.set(Deferred {
            position: deferred.position.max(position),
            ..deferred
        });
        true
    })
}

/// Returns whether this thread defers the segment's waits.
pub(crate) fn defers(segment: &Segment) -> bool {
    DEFERRED.get().segment == address(segment)
}

/// Restores the outer deferral when the inner one ends, even by a panic.
struct Outer(Deferred);

impl Drop for Outer {
    fn drop(&mut self) {
        DEFERRED.with(|cell| {
            let inner = cell.replace(self.0);
            if inner.segment == self.0.segment {
                let position = inner.position.max(self.0.position);
                cell.set(Deferred { position, ..self.0 });
            }
        });
    }
}

impl Segment {
    /// Runs `body` without waiting until its changes are durable. Returns the journal position for
    /// which the caller must wait before it reports any of the changes as made, or 0 if no change
    /// must be waited for. A deferral around this one also receives the position.
    ///
    /// A thread that may [not wait for the disk](crate::limit_patience_without_sync) defers nothing,
    /// so its changes are refused.
    pub fn deferring<R>(&self, body: impl FnOnce() -> R) -> (R, u64) {
        if patience::is_without_sync() {
            return (body(), 0);
        }
        let inner = Deferred {
            segment: address(self),
            position: 0,
        };
        let _outer = Outer(DEFERRED.replace(inner));
        let result = body();
        (result, DEFERRED.get().position)
    }

    /// Adds a position to the deferral of this thread, as if the thread had made the change before
    /// it. Returns false if the thread does not defer.
    pub fn defer_until(&self, position: u64) -> bool {
        note(self, position)
    }

    /// Waits until changes are durable that were made in a [deferral](Self::deferring), which
    /// returned `position`.
    ///
    /// # Errors
    /// Fails with [`Error::Journal`] if the changes may not be durable.
    pub fn end_deferral(&self, position: u64) -> Result<(), Error> {
        match position == 0 || note(self, position) {
            true => Ok(()),
            false => waiting::until_committed_is_durable(self, position),
        }
    }

    /// Waits until the journal is durable up to a position, at most for `patience`. If no process
    /// is writing the journal, this thread does (J4). Returns immediately if the journal has been
    /// ended.
    ///
    /// # Errors
    /// Fails if the journal cannot be written, if the wait is interrupted, or if the journal is not
    /// durable up to the position in time.
    pub fn wait_until_durable(&self, position: u64, patience: Duration) -> Result<(), Error> {
        if self.is_durable(position) {
            return Ok(());
        }
        place::prepare_to_write(self)?;
        waiting::until_durable_within(self, position, patience)
    }

    /// Returns whether no change before a position can be lost, because it is durable or because
    /// the journal has been ended.
    #[inline]
    pub fn is_durable(&self, position: u64) -> bool {
        let durable = self.mapping.word(control::REDO_DURABLE);
        // After a failure, the positions of a new epoch say nothing about the changes before it. The
        // failure is recorded before the epoch begins.
        let is_reached = durable.load(Ordering::Acquire) >= position;
        is_reached && failure::failure(self).is_none() || !self.mapping.is_journaled()
    }

    /// Returns the journal position after the last change of any process, or 0 if the store has no
    /// journal.
    pub fn journal_head(&self) -> u64 {
        match self.mapping.is_journaled() {
            true => self
                .mapping
                .word(control::REDO_HEAD)
                .load(Ordering::Acquire),
            false => 0,
        }
    }
}
