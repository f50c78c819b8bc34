//! Savepoints: undoing the last part of a transaction.
//!
//! Each shard's log is a stack, so what was done since it had a certain length
//! is undone as the whole would be: newest first, step by step. Who dies on the
//! way leaves a shorter log, which undoes the rest.

use smallvec::SmallVec;

use crate::error::Error;
use crate::mapped::layout::shard;
use crate::writing::transaction::Transaction;

/// A state of a transaction that it can go back to; see
/// [`Transaction::savepoint`].
#[derive(Clone, Debug, Default)]
pub struct LogSavepoint {
    /// How long the log of each locked shard was, in the order of the shards.
    tails: SmallVec<[u64; 8]>,
    frees: usize,
    granted: usize,
    moved: usize,
    changes: usize,
}

impl Transaction<'_> {
    /// Remembers the transaction's state. O(locked shards).
    pub fn savepoint(&self) -> LogSavepoint {
        let mut savepoint = LogSavepoint::default();
        self.save_to(&mut savepoint);
        savepoint
    }

    /// [`savepoint`](Self::savepoint) in its place, for one that is made before each command: it is long.
    pub fn save_to(&self, savepoint: &mut LogSavepoint) {
        self.forget_saved();
        let mapping = &self.segment.mapping;
        savepoint.tails.clear();
        for index in self.shards().iter() {
            let tail = mapping.load(mapping.layout().shard(index) + shard::LOG_TAIL);
            savepoint.tails.push(tail);
        }
        let rest = self.rest.as_ref();
        savepoint.frees = self.frees.len();
        savepoint.granted = rest.map_or(0, |rest| rest.granted.len());
        savepoint.moved = rest.map_or(0, |rest| rest.moved.len());
        savepoint.changes = rest.map_or(0, |rest| rest.changes.len());
    }

    /// What was saved before now counts no more.
    fn forget_saved(&self) {
        if let Some(saved) = self.rest.as_ref().and_then(|rest| rest.saved.as_ref()) {
            saved.forget();
        }
    }

    /// Undoes all that was done since a savepoint of this transaction, frees,
    /// grants, moves and counted changes included; the savepoints made since are void. O(what
    /// is undone).
    ///
    /// # Errors
    /// Where memory cannot be given back because the heap is locked for longer
    /// than the patience. Then the transaction must not be committed.
    pub fn roll_back_to(&mut self, savepoint: &LogSavepoint) -> Result<(), Error> {
        self.forget_saved();
        for (index, &tail) in self.shards().iter().zip(&savepoint.tails) {
            self.segment.roll_back_shard_to(index, tail)?;
            self.segment.renew_mark(index);
        }
        self.frees.truncate(savepoint.frees);
        if let Some(rest) = &mut self.rest {
            rest.granted.truncate(savepoint.granted);
            rest.moved.truncate(savepoint.moved);
            rest.changes.truncate(savepoint.changes);
        }
        Ok(())
    }
}
