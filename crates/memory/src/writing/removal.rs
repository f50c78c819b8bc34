//! The reserve for removals (H6): a full store can always let go of what is in it.
//!
//! Some pages of the heap, and the first bytes of every undo log, are backed by memory that only removals use. A thread
//! says that it removes by a guard. A removal whose log cannot grow is carried out in parts: its body says where one ends
//! ([`Transaction::end_of_part`]), and each part is committed by itself while the locks are kept.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::error::Error;
use crate::mapped::layout::{Layout, shard, slot};
use crate::probes::fault;
use crate::writing::room::Runs;
use crate::writing::transaction::Transaction;

/// The most extents that are kept for removals. Whole ones, as a removal may want a run of several pages.
const RESERVED_EXTENTS: u64 = 2;
/// At most such a part of the store is kept, and one extent at least.
const RESERVED_PART: u64 = 32;
/// Bytes of the undo log after which a part ends: what one more item needs has room in the rest of what every log has.
const PART: u64 = shard::LOG_RESERVED_MIN / 4;
/// Bytes of the undo log for each block that is to be freed.
const LOG_OF_A_FREE: u64 = 192;

thread_local! {
    /// What this thread is doing.
    static MODE: Cell<Mode> = const { Cell::new(Mode::Ordinary) };
    /// Parts that this thread has committed since it began to remove.
    static PARTS: Cell<u64> = const { Cell::new(0) };
}

/// Whether a thread may use the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Ordinary,
    Removing,
}

/// Ends what [`removing`] or `not_removing` began, when it is dropped.
#[must_use]
#[derive(Debug)]
pub struct Removing {
    before: Mode,
    /// It belongs to its thread.
    thread: PhantomData<*const ()>,
}

impl Removing {
    #[inline]
    fn begin(mode: Mode) -> Removing {
        Removing {
            before: MODE.replace(mode),
            thread: PhantomData,
        }
    }
}

impl Drop for Removing {
    #[inline]
    fn drop(&mut self) {
        MODE.set(self.before);
    }
}

/// Says that this thread removes data until the guard is dropped: its transactions may use the reserve (H6), and one that
/// runs out of log is carried out in parts.
#[inline]
pub fn removing() -> Removing {
    let guard = Removing::begin(Mode::Removing);
    if guard.before == Mode::Ordinary {
        PARTS.set(0);
    }
    guard
}

/// Says that this thread adds data until the guard is dropped, although it is [removing].
#[inline]
pub(crate) fn not_removing() -> Removing {
    Removing::begin(Mode::Ordinary)
}

/// Whether this thread removes data.
#[inline]
pub fn is_removing() -> bool {
    MODE.get() == Mode::Removing
}

/// Whether a removal of this thread was committed in part since it began: it must not run again.
#[inline]
pub fn has_removed_in_part() -> bool {
    is_removing() && PARTS.get() > 0
}

/// Has a transaction that found no room carried out in parts, where it is a removal and is not yet.
pub(crate) fn begin_parts(runs: &mut Runs) -> bool {
    let begin = is_removing() && !runs.in_parts;
    runs.in_parts |= begin;
    if begin {
        PARTS.set(0);
    }
    begin
}

/// Extents of a store that only removals break.
pub(crate) fn reserved_extents(layout: &Layout) -> u64 {
    (layout.extents / RESERVED_PART).clamp(1, RESERVED_EXTENTS)
}

impl Transaction<'_> {
    /// Whether it is a [removal](removing) that found no room as a whole, and is carried out in parts: what takes more
    /// memory for a while, such as making something anew without what goes, is to be left.
    #[inline(always)]
    pub fn is_in_parts(&self) -> bool {
        self.in_parts
    }

    /// Says that what was removed so far may be committed by itself. Does so where this is a [removal](removing) that found
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
        if self.rest.is_some() {
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
        let granted = self.rest.as_mut().map_or(0, |rest| {
            rest.saved = None;
            rest.changes.clear();
            rest.moved = Default::default();
            std::mem::take(&mut rest.granted).len()
        });
        self.parted = true;
        PARTS.set(PARTS.get() + 1);
        self.segment.drain_graveyards(self.shards(), granted);
        Ok(())
    }
}
