//! Savepoints, which make it possible to undo the last part of a transaction.
//!
//! Each shard's log is a stack. Changes made since the log had a certain length are undone in the
//! same way as a complete transaction: newest first, step by step. A process that dies during the
//! rollback leaves a shorter log, which undoes the remaining changes.
//!
//! Words that were already in the log at a savepoint are not logged again. Their values at the
//! savepoint are stored in this process's memory (`saved_words.rs`) and are restored first.

use smallvec::SmallVec;

use crate::error::Error;
use crate::locking::recovery;
use crate::mapped::layout::shard;
use crate::probes::fault;
use crate::segment::marks;
use crate::transactions::Transaction;
use crate::undo::saved_words::Saved;

/// A state to which a transaction can be rolled back. See [`Transaction::savepoint`].
#[derive(Clone, Debug, Default)]
pub struct LogSavepoint {
    /// The length of each locked shard's log, in shard order.
    tails: SmallVec<[u64; 8]>,
    frees: usize,
    fills: usize,
    granted: usize,
    moved: usize,
    changes: usize,
    /// The number of words whose values were stored for earlier savepoints.
    kept: usize,
}

impl Transaction<'_> {
    /// Returns a savepoint of the transaction's current state. O(locked shards).
    pub fn savepoint(&self) -> LogSavepoint {
        let mut savepoint = LogSavepoint::default();
        self.save_to(&mut savepoint);
        savepoint
    }

    /// Stores the current state in an existing savepoint. Avoids moving a large value in callers
    /// that create a savepoint before each command.
    pub fn save_to(&self, savepoint: &mut LogSavepoint) {
        self.begin_epoch();
        let mapping = &self.segment.mapping;
        savepoint.tails.clear();
        for index in self.shards().iter() {
            let tail = mapping.load(mapping.layout().shard(index) + shard::LOG_TAIL);
            savepoint.tails.push(tail);
        }
        let rare = self.rare.as_ref();
        savepoint.frees = self.frees.len();
        let redo = self.redo.as_ref();
        savepoint.fills = redo.map_or(0, |redo| redo.changes.ranges());
        savepoint.granted = rare.map_or(0, |rare| rare.granted.len());
        savepoint.moved = rare.map_or(0, |rare| rare.moved.len());
        savepoint.changes = rare.map_or(0, |rare| rare.changes.len());
        let saved = rare.and_then(|rare| rare.saved.as_ref());
        savepoint.kept = saved.map_or(0, Saved::kept);
    }

    /// Stores the current state in `savepoint`, like [`save_to`](Self::save_to), and invalidates
    /// all earlier savepoints.
    ///
    /// For callers that run many commands and only ever roll back the last one. Values stored for
    /// earlier savepoints are discarded.
    pub fn renew(&mut self, savepoint: &mut LogSavepoint) {
        if let Some(saved) = self.saved() {
            saved.forget_kept();
        }
        self.save_to(savepoint);
    }

    fn saved(&mut self) -> Option<&mut Saved> {
        self.rare.as_mut().and_then(|rare| rare.saved.as_mut())
    }

    /// Begins an epoch of the saved words, after a savepoint or a rollback to a savepoint. If a
    /// word changes after this call, its current value is stored.
    fn begin_epoch(&self) {
        if let Some(saved) = self.rare.as_ref().and_then(|rare| rare.saved.as_ref()) {
            saved.begin_epoch();
        }
    }

    /// Undoes everything done since a savepoint of this transaction, including frees, grants, moves
    /// and counted changes. Later savepoints become invalid. O(undone changes).
    ///
    /// # Errors
    /// Fails if memory cannot be returned because the heap stays locked for longer than the
    /// timeout. The transaction must then not be committed.
    pub fn roll_back_to(&mut self, savepoint: &LogSavepoint) -> Result<(), Error> {
        // Memory that was filled since the savepoint may belong to another shard soon.
        if let Some(redo) = &mut self.redo {
            redo.changes.truncate(savepoint.fills);
        }
        self.put_back_kept(savepoint.kept);
        let segment = self.segment;
        for (index, &tail) in self.shards().iter().zip(&savepoint.tails) {
            if let Some(saved) = self.saved() {
                let log = segment.mapping.shard_log(index);
                log.for_each_saved(tail, |at, words| saved.forget_logged(at, words));
            }
            recovery::roll_back_to(segment, index, tail)?;
            marks::renew(self.segment, index);
        }
        self.frees.truncate(savepoint.frees);
        if let Some(rare) = &mut self.rare {
            rare.granted.truncate(savepoint.granted);
            rare.moved.truncate(savepoint.moved);
            rare.changes.truncate(savepoint.changes);
        }
        self.begin_epoch();
        Ok(())
    }

    /// Restores the values that logged words had at a savepoint, newest first. The log still
    /// contains the words' original values, so recovery works even if the process dies during this
    /// call.
    fn put_back_kept(&mut self, since: usize) {
        let mapping = &self.segment.mapping;
        let kept = self.saved().map(|saved| saved.take_kept(since));
        for (at, old) in kept.into_iter().flatten().rev() {
            mapping.save_for_copy(at, 8);
            mapping.store(at, old);
            fault::step();
        }
    }
}
