//! Savepoints: undoing the last part of a transaction.
//!
//! Each shard's log is a stack, so what was done since it had a certain length
//! is undone as the whole would be: newest first, step by step. Who dies on the
//! way leaves a shorter log, which undoes the rest.
//!
//! Words that the log held before a savepoint are not logged again. What they
//! held then is kept in this process' memory (`saved_words.rs`), and is put back first.

use smallvec::SmallVec;

use crate::error::Error;
use crate::locking::recovery;
use crate::mapped::layout::shard;
use crate::probes::fault;
use crate::segment::marks;
use crate::transactions::Transaction;
use crate::undo::saved_words::Saved;

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
    /// How many words were kept for savepoints.
    kept: usize,
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
        self.begin_epoch();
        let mapping = &self.segment.mapping;
        savepoint.tails.clear();
        for index in self.shards().iter() {
            let tail = mapping.load(mapping.layout().shard(index) + shard::LOG_TAIL);
            savepoint.tails.push(tail);
        }
        let rare = self.rare.as_ref();
        savepoint.frees = self.frees.len();
        savepoint.granted = rare.map_or(0, |rare| rare.granted.len());
        savepoint.moved = rare.map_or(0, |rare| rare.moved.len());
        savepoint.changes = rare.map_or(0, |rare| rare.changes.len());
        let saved = rare.and_then(|rare| rare.saved.as_ref());
        savepoint.kept = saved.map_or(0, Saved::kept);
    }

    /// [`save_to`](Self::save_to) by which all savepoints that were made before are void: for who goes on to the next of many
    /// commands, and back over the last one only. What was kept for them is forgotten.
    pub fn renew(&mut self, savepoint: &mut LogSavepoint) {
        if let Some(saved) = self.saved() {
            saved.forget_kept();
        }
        self.save_to(savepoint);
    }

    fn saved(&mut self) -> Option<&mut Saved> {
        self.rare.as_mut().and_then(|rare| rare.saved.as_mut())
    }

    /// What words hold now counts, as a savepoint was made or gone back to.
    fn begin_epoch(&self) {
        if let Some(saved) = self.rare.as_ref().and_then(|rare| rare.saved.as_ref()) {
            saved.begin_epoch();
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

    /// Puts back what words of the log held at a savepoint, newest first. The log has what they held at first, so who dies
    /// meanwhile is rolled back as ever.
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
