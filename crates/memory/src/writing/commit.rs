//! Commits a transaction, either in one step or, for a removal, in parts (H6).
//!
//! A removal whose log cannot grow runs in parts: its body declares where a part ends
//! ([`Transaction::end_of_part`]), and each part is committed separately while the locks stay held.

use std::sync::atomic::{Ordering, compiler_fence};

use crate::error::Error;
use crate::heap::removal;
use crate::journal::writer;
use crate::mapped::layout::{shard, slot};
use crate::probes::fault;
use crate::transactions::Transaction;
use crate::transactions::rare_state::Shortage;
use crate::writing::memory_return;

/// The number of undo log bytes after which a part ends. The remaining space in the shortest log is
/// enough for one more item.
const PART: u64 = shard::LOG_RESERVED_MIN / 4;
/// The estimated number of undo log bytes for each block to be freed.
const LOG_OF_A_FREE: u64 = 192;

/// Makes the changes of a transaction permanent: applies the frees, then publishes all changes with
/// a single store (W5). If the log is too short for the frees, returns the shortage, and the caller
/// must roll the transaction back.
#[inline(always)]
pub(crate) fn commit(transaction: &mut Transaction<'_>) -> Result<Option<Shortage>, Error> {
    if let Err(error) = transaction
        .apply_frees()
        .and_then(|()| transaction.append_record())
    {
        return match transaction.shortage {
            Some(shortage) => Ok(Some(shortage)),
            None => Err(error),
        };
    }
    if transaction.rare.is_some() {
        transaction.note_changes();
    }
    if transaction.publish() {
        drain_graveyards(transaction);
    }
    Ok(None)
}

/// Returns part of the freed memory to the heap, after the commit.
#[cold]
fn drain_graveyards(transaction: &Transaction<'_>) {
    let granted = transaction
        .rare
        .as_ref()
        .map_or(0, |rare| rare.granted.len());
    memory_return::drain_graveyards(transaction.segment, transaction.shards(), granted);
}

impl Transaction<'_> {
    /// Returns true for a [removal](crate::removing) that ran out of memory and is therefore
    /// committed in parts. The body should then avoid steps that temporarily need more memory, such
    /// as rebuilding a structure.
    #[inline(always)]
    pub fn is_in_parts(&self) -> bool {
        self.in_parts
    }

    /// Declares that the changes so far may be committed separately.
    ///
    /// Commits them if this is a [removal](crate::removing) that runs in parts because its log
    /// could not grow, and if the part is long enough. The changes between two calls are atomic,
    /// like a transaction.
    ///
    /// # Errors
    /// Returns [`Error::OutOfMemory`] if the log has no space for the frees. The part is then
    /// rolled back.
    #[inline]
    pub fn end_of_part(&mut self) -> Result<(), Error> {
        match self.in_parts {
            true => self.end_part(),
            false => Ok(()),
        }
    }

    #[cold]
    fn end_part(&mut self) -> Result<(), Error> {
        let mapping = &self.segment.mapping;
        let tail = |index| mapping.load(mapping.layout().shard(index) + shard::LOG_TAIL);
        let logged = self.shards().iter().map(tail).max().unwrap_or(0);
        if logged + self.frees.len() as u64 * LOG_OF_A_FREE < PART {
            return Ok(());
        }
        self.commit_part()
    }

    /// Appends the record of a part. If the journal's ring is full, first writes records to their files:
    /// a removal in parts cannot run again, and a full store has no other way to free memory (H6).
    fn append_part(&mut self) -> Result<(), Error> {
        let appended = self.append_record();
        if !matches!(self.shortage, Some(Shortage::Journal(_))) {
            return appended;
        }
        self.shortage = None;
        writer::write_out(self.segment, false)?;
        self.append_record()
    }

    /// Commits the changes so far and continues with a new number and empty logs. The locks stay
    /// held and the counters stay odd. If the process dies between two parts, nothing needs to be
    /// undone.
    fn commit_part(&mut self) -> Result<(), Error> {
        if self.rare.is_some() && self.is_open() {
            self.record_changed_key_again()?;
        }
        self.apply_frees()?;
        if self.rare.is_some() {
            self.note_changes();
        }
        if !self.is_open() {
            return Ok(());
        }
        self.append_part()?;
        let (words, number) = self.numbered();
        compiler_fence(Ordering::SeqCst);
        words.store::<{ slot::COMMITTED }>(number);
        compiler_fence(Ordering::SeqCst);
        fault::step();
        self.settle_record();
        self.forget_logs();
        // The record must contain the next number before any log entry of the next part refers to
        // that number (W6).
        let next = number.wrapping_add(1);
        words.store::<{ slot::NUMBER }>(next);
        compiler_fence(Ordering::SeqCst);
        fault::step();
        self.renumber(next);
        let granted = self.rare.as_mut().map_or(0, |rare| {
            rare.saved = None;
            rare.changes.clear();
            rare.moved = Default::default();
            std::mem::take(&mut rare.granted).len()
        });
        self.parted = true;
        removal::count_part();
        memory_return::drain_graveyards(self.segment, self.shards(), granted);
        Ok(())
    }
}
