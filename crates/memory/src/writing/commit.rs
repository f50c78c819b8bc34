//! The commit of a transaction: as a whole, or of a removal in parts (H6).
//!
//! A removal whose log cannot grow is carried out in parts: its body says where one ends
//! ([`Transaction::end_of_part`]), and each part is committed by itself while the locks are kept.

use std::sync::atomic::{Ordering, compiler_fence};

use crate::error::Error;
use crate::heap::removal;
use crate::mapped::layout::{shard, slot};
use crate::probes::fault;
use crate::transactions::Transaction;
use crate::transactions::rare_state::Shortage;
use crate::writing::give_back;

/// Bytes of the undo log after which a part ends: what one more item needs has room in the rest of what every log has.
const PART: u64 = shard::LOG_RESERVED_MIN / 4;
/// Bytes of the undo log for each block that is to be freed.
const LOG_OF_A_FREE: u64 = 192;

/// Makes the changes of a transaction final: frees, then one store decides (W5). Where the
/// frees find the log too short, everything is rolled back and the shortage
/// returned.
#[inline(always)]
pub(crate) fn commit(transaction: &mut Transaction<'_>) -> Result<Option<Shortage>, Error> {
    if let Err(error) = transaction.apply_frees() {
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

/// Returns some of what was freed to the heap, as the commit is done.
#[cold]
fn drain_graveyards(transaction: &Transaction<'_>) {
    let granted = transaction
        .rare
        .as_ref()
        .map_or(0, |rare| rare.granted.len());
    give_back::drain_graveyards(transaction.segment, transaction.shards(), granted);
}

impl Transaction<'_> {
    /// Whether it is a [removal](crate::removing) that found no room as a whole, and is carried out in parts: what takes more
    /// memory for a while, such as making something anew without what goes, is to be left.
    #[inline(always)]
    pub fn is_in_parts(&self) -> bool {
        self.in_parts
    }

    /// Says that what was removed so far may be committed by itself. Does so where this is a [removal](crate::removing) that found
    /// no room for its whole log, and this part of it has come to some length. Everything between two calls is all or
    /// nothing, as a transaction is.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where what is to be freed finds no room in the log: the part is undone.
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

    /// Makes what was done so far final, and goes on with a new number and empty logs. The locks are kept and the counters
    /// stay odd: a death between two parts leaves nothing to undo.
    fn commit_part(&mut self) -> Result<(), Error> {
        self.apply_frees()?;
        if self.rare.is_some() {
            self.note_changes();
        }
        if !self.is_open() {
            return Ok(());
        }
        let (words, number) = self.numbered();
        compiler_fence(Ordering::SeqCst);
        words.store::<{ slot::COMMITTED }>(number);
        compiler_fence(Ordering::SeqCst);
        fault::step();
        self.forget_logs();
        // Before the first entry of the next part names it (W6).
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
        give_back::drain_graveyards(self.segment, self.shards(), granted);
        Ok(())
    }
}
