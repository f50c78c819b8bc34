//! Transactions over one or more shards, which lock shards, log changes and publish them (W1 to
//! W6).

use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use smallvec::SmallVec;

use crate::error::Error;
use crate::heap::pool::Pool;
use crate::locking::{recovery, shard_locks};
use crate::mapped::layout::{Offset, shard, slot};
use crate::mapped::shard_words::{RecordWords, ShardWords};
use crate::mapped::words::words_of;
use crate::probes::fault;
use crate::redo::pending::PendingRecord;
use crate::segment::marks::{self, Marks};
use crate::segment::shard_set::ShardSet;
use crate::segment::{Segment, counter, durability};
use crate::transactions::rare_state::{RareState, Shortage};
use crate::undo::log::{Full, Log, in_order};
use crate::undo::log_memory;
use crate::views::view::{Notes, View};

/// A logged set of changes to shards that the transaction has locked. Created by
/// [`Segment::write`]. A transaction that is dropped without a commit is rolled back.
pub struct Transaction<'a> {
    pub(crate) segment: &'a Segment,
    pub(crate) view: View<'a>,
    pub(super) shards: ShardSet,
    locked: Locked<'a>,
    /// Whether the log headers have been written and the version counters are odd.
    open: bool,
    pub(crate) shortage: Option<Shortage>,
    /// The blocks that the transaction frees as its last step (W4).
    pub(crate) frees: SmallVec<[(Pool, Offset); 4]>,
    /// Whether this transaction has shortened a block in place.
    cut: bool,
    /// Whether changes need extra checks, because a copy of the store is being made, or a run or arena
    /// was moved.
    pub(crate) careful: bool,
    /// Whether the store has a journal.
    pub(crate) journaled: bool,
    /// The parts of the transaction's redo record, if the store has a journal.
    pub(crate) redo: Option<Box<PendingRecord>>,
    /// Whether the transaction is a removal that is committed in parts. See `removal.rs`.
    pub(crate) in_parts: bool,
    /// Whether a part has been committed. The transaction must then not run again.
    pub(crate) parted: bool,
    /// Rarely used state, boxed so that a typical transaction carries one pointer.
    pub(crate) rare: Option<Box<RareState>>,
}

/// The record and the locks of a transaction.
#[derive(Clone, Copy)]
pub(crate) struct Locked<'a> {
    record: u64,
    words: RecordWords<'a>,
    number: u64,
    /// The words of the shard, if exactly one shard is locked.
    single: Option<ShardWords<'a>>,
}

impl<'a> Transaction<'a> {
    /// Locks the shards and recovers them from dead owners (W3). The caller must pass the result to
    /// [`new`](Self::new). Locking is a separate step, so that the transaction is built in its
    /// final location.
    #[inline(always)]
    pub(crate) fn lock(
        segment: &'a Segment,
        shards: ShardSet,
        marks: Marks,
    ) -> Result<Locked<'a>, Error> {
        let record = segment.process.take_record();
        let words = segment.mapping.record_words(segment.process.slot(), record);
        let number = words.load::<{ slot::NUMBER }>().wrapping_add(1);
        // The record must list its shards before the first lock is acquired (W6).
        words.store::<{ slot::SHARDS }>(shards.bits());
        words.store::<{ slot::NUMBER }>(number);
        compiler_fence(Ordering::SeqCst);
        fault::step();
        match shard_locks::lock(segment, shards, marks) {
            Ok(single) => Ok(Locked {
                record,
                words,
                number,
                single,
            }),
            Err(error) => {
                segment.process.put_record(record);
                Err(error)
            }
        }
    }

    /// Begins a transaction that [`lock`](Self::lock) has prepared.
    #[inline(always)]
    pub(crate) fn new(
        segment: &'a Segment,
        shards: ShardSet,
        locked: Locked<'a>,
    ) -> Transaction<'a> {
        Transaction {
            segment,
            view: View::new(&segment.mapping, Notes::Locked),
            shards,
            locked,
            open: false,
            shortage: None,
            frees: SmallVec::new(),
            cut: false,
            careful: segment.mapping.copy_is_on(),
            journaled: segment.mapping.is_journaled(),
            redo: None,
            in_parts: false,
            parted: false,
            rare: None,
        }
    }

    /// Returns the rarely used state, creating it if needed.
    #[cold]
    pub(crate) fn rare(&mut self) -> &mut RareState {
        self.rare.get_or_insert_default()
    }

    /// Returns true if a run or an arena was moved to another shard.
    #[inline(always)]
    pub(crate) fn has_moved(&self) -> bool {
        matches!(&self.rare, Some(rare) if !rare.moved.is_empty())
    }

    /// Calls `each` with the words of each locked shard, in ascending order. Avoids the loop if
    /// only one shard is locked, as on the hot paths.
    #[inline(always)]
    fn for_each(&self, mut each: impl FnMut(ShardWords<'a>)) {
        let mapping = &self.segment.mapping;
        match self.locked.single {
            Some(shard) => each(shard),
            None => self
                .shards
                .iter()
                .for_each(|index| each(mapping.shard_words(index))),
        }
    }

    /// Returns the words of a locked shard.
    #[inline(always)]
    pub(super) fn words(&self, index: usize) -> ShardWords<'a> {
        debug_assert!(self.shards.contains(index), "shard {index} is not locked");
        match self.locked.single {
            Some(shard) => shard,
            None => self.segment.mapping.shard_words(index),
        }
    }

    /// Locks the shards and begins a transaction.
    pub(crate) fn begin(segment: &'a Segment, shards: ShardSet) -> Result<Self, Error> {
        let locked = Transaction::lock(segment, shards, Marks::Ignored)?;
        Ok(Transaction::new(segment, shards, locked))
    }

    /// Returns a view of the locked shards that includes the transaction's changes.
    #[inline(always)]
    pub fn view(&self) -> &View<'a> {
        &self.view
    }

    /// Returns the store's secret key for hashing the keys of the key space.
    pub fn hash_key(&self) -> [u64; 2] {
        self.segment.hash_key()
    }

    /// Returns the shards that this transaction has locked.
    pub fn shards(&self) -> ShardSet {
        self.shards
    }

    /// Returns true if the transaction ran out of memory or log space. It will then be rolled back
    /// and, if more can be reserved, run again.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.shortage.is_some()
    }

    /// Writes the log headers and makes all version counters odd. Must precede the first change
    /// (W5).
    #[inline(never)]
    fn open(&mut self) -> Result<(), Error> {
        durability::begin_writing(self.segment)?;
        let owner = (self.segment.process.slot() << 8) | self.locked.record;
        self.for_each(|shard| {
            shard.store::<{ shard::LOG_OWNER }>(owner);
            shard.store::<{ shard::LOG_NUMBER }>(self.locked.number);
        });
        in_order();
        fault::step();
        self.for_each(|shard| {
            counter::make_odd(shard.word::<{ shard::COUNTER }>());
            fault::step();
        });
        counter::start_of_changes::<AtomicU64>();
        self.open = true;
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn open_first(&mut self) -> Result<(), Error> {
        match self.open {
            true => Ok(()),
            false => self.open(),
        }
    }

    /// Returns true if the log headers have been written and the version counters are odd.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the words of the transaction's record, and the transaction's number.
    pub(crate) fn numbered(&self) -> (RecordWords<'a>, u64) {
        (self.locked.words, self.locked.number)
    }

    /// Returns the index of the transaction's record, and the transaction's number.
    pub(crate) fn record_and_number(&self) -> (u64, u64) {
        (self.locked.record, self.locked.number)
    }

    /// Discards all entries of all logs, which makes the changes permanent.
    #[inline(always)]
    pub(crate) fn forget_logs(&self) {
        self.for_each(|shard| {
            shard.forget_log();
            fault::step();
        });
    }

    /// Assigns another number to the transaction and updates its log headers. The logs must be
    /// empty.
    pub(crate) fn renumber(&mut self, number: u64) {
        self.locked.number = number;
        self.for_each(|shard| {
            shard.store::<{ shard::LOG_NUMBER }>(number);
            fault::step();
        });
        // Make readers that read through the logs restart: unless the counter changes, a log must
        // not become empty and grow again (R9). This is the last step, because readers check the
        // number after the counter.
        in_order();
        self.for_each(|shard| counter::raise(shard.word::<{ shard::COUNTER }>()));
        in_order();
    }

    /// Returns the log of a shard, ready for entries.
    pub(crate) fn log(&mut self, index: usize) -> Result<Log<'a>, Error> {
        self.open_first()?;
        Ok(self.segment.mapping.shard_log(index))
    }

    #[cold]
    pub(crate) fn log_full(&mut self, index: usize, full: Full) -> Error {
        self.shortage = Some(Shortage::Log(index, full.needed));
        Error::OutOfMemory
    }

    /// Saves words before they change. The offset must have been computed from layout constants or
    /// checked.
    #[inline(always)]
    pub(crate) fn save(&mut self, index: usize, at: u64, words: u64) -> Result<(), Error> {
        let index = if self.careful {
            self.look_closer(index, at, words)
        } else {
            index
        };
        self.open_first()?;
        if self.words(index).save(&self.segment.mapping, at, words) {
            return Ok(());
        }
        self.save_once(index, at, words)
    }

    /// Saves the words of a range that are not yet in a long log.
    #[cold]
    #[inline(never)]
    fn save_once(&mut self, index: usize, at: u64, words: u64) -> Result<(), Error> {
        let log = self.log(index)?;
        let segment = self.segment;
        if self.rare().saved.is_none() {
            log_memory::note_long(segment, index);
        }
        let saved = self.rare().saved.get_or_insert_default();
        let result = saved.save(&segment.mapping, &log, at, words);
        result.map_err(|full| self.log_full(index, full))
    }

    /// Handles a change during a copy of the store or after a move: saves the pages for the copy,
    /// and returns the shard whose log must record the change.
    #[cold]
    #[inline(never)]
    fn look_closer(&mut self, index: usize, at: u64, words: u64) -> usize {
        self.segment.mapping.save_for_copy(at, words * 8);
        match self.has_moved() {
            false => index,
            true => {
                let mapping = &self.segment.mapping;
                self.rare().moved.log_of(mapping, at).unwrap_or(index)
            }
        }
    }

    /// Prepares for a range to be filled: saves its pages if the store is being copied, and notes it
    /// for the journal.
    #[inline(always)]
    pub(crate) fn keep(&mut self, at: u64, length: u64) {
        if self.careful | self.journaled {
            self.keep_slowly(at, length);
        }
    }

    #[cold]
    #[inline(never)]
    fn keep_slowly(&mut self, at: u64, length: u64) {
        self.segment.mapping.save_for_copy(at, length);
        self.note_fill(at, length);
    }

    /// Notes for the journal that a range was filled without an entry in a log.
    pub(crate) fn note_fill(&mut self, at: u64, length: u64) {
        if self.journaled {
            let redo = self.redo.get_or_insert_with(PendingRecord::take);
            redo.changes.add(at, words_of(length));
        }
    }

    /// Saves and changes a word. The offset must have been computed from layout constants or
    /// checked.
    #[inline(always)]
    pub(crate) fn set(&mut self, index: usize, at: u64, value: u64) -> Result<(), Error> {
        self.save(index, at, 1)?;
        self.segment.mapping.store(at, value);
        fault::step();
        Ok(())
    }

    /// Changes one word of a block in the shard.
    #[inline(always)]
    pub fn store(&mut self, index: usize, at: Offset, value: u64) -> Result<(), Error> {
        self.view.check(at, 8)?;
        self.set(index, at, value)
    }

    /// Changes bytes of a block in the shard. The last word is padded with zeros.
    #[inline]
    pub fn write(&mut self, index: usize, at: Offset, bytes: &[u8]) -> Result<(), Error> {
        self.view.check(at, bytes.len() as u64)?;
        self.save(index, at, words_of(bytes.len() as u64))?;
        self.segment.mapping.copy_from(at, bytes);
        fault::step();
        Ok(())
    }

    /// Adds a number to each word of a range in a block of the shard.
    #[inline]
    pub fn add_to_words(
        &mut self,
        index: usize,
        at: Offset,
        words: u64,
        change: u64,
    ) -> Result<(), Error> {
        self.view.check(at, words.saturating_mul(8))?;
        self.save(index, at, words)?;
        self.segment.mapping.add_to_words(at, words, change);
        fault::step();
        Ok(())
    }

    /// Saves a range of a block before [`fill`](Self::fill) or a similar function changes it.
    #[inline]
    pub fn preserve(&mut self, index: usize, at: Offset, length: u64) -> Result<(), Error> {
        self.view.check(at, length)?;
        self.save(index, at, words_of(length))
    }

    /// Fills memory that no reader and no later writer can reach (W4): a block that this
    /// transaction allocated, the unused end of a block, or a [preserved](Self::preserve) range.
    /// The last word is padded with zeros.
    #[inline]
    pub fn fill(&mut self, at: Offset, bytes: &[u8]) -> Result<(), Error> {
        self.view.check(at, bytes.len() as u64)?;
        self.keep(at, bytes.len() as u64);
        self.segment.mapping.copy_from(at, bytes);
        fault::step();
        Ok(())
    }

    /// Records that the used part of a block was shortened in place. A rollback restores the bytes
    /// after the new end, so later fills of those bytes must save them first.
    #[inline(always)]
    pub fn note_cut(&mut self) {
        self.cut = true;
    }

    /// Fills an unused part of an allocated block, like [`fill`](Self::fill). Logs the old content
    /// if this transaction has shortened a block (W4).
    #[inline]
    pub fn fill_slack(&mut self, index: usize, at: Offset, bytes: &[u8]) -> Result<(), Error> {
        if self.cut {
            self.preserve(index, at, bytes.len() as u64)?;
        }
        self.fill(at, bytes)
    }

    /// Fills one unused word of an allocated block. See [`fill_slack`](Self::fill_slack).
    #[inline]
    pub fn fill_slack_word(&mut self, index: usize, at: Offset, value: u64) -> Result<(), Error> {
        if self.cut {
            self.preserve(index, at, 8)?;
        }
        self.fill_word(at, value)
    }

    /// Fills one word. See [`fill`](Self::fill).
    #[inline(always)]
    pub fn fill_word(&mut self, at: Offset, value: u64) -> Result<(), Error> {
        self.view.check(at, 8)?;
        self.keep(at, 8);
        self.segment.mapping.store(at, value);
        fault::step();
        Ok(())
    }

    /// Fills memory with words copied from elsewhere in the locked shards. See
    /// [`fill`](Self::fill).
    pub fn fill_from(&mut self, at: Offset, from: Offset, length: u64) -> Result<(), Error> {
        self.view.check(at, length)?;
        self.view.check(from, length)?;
        let words = length.div_ceil(8);
        self.keep(at, length);
        self.segment.mapping.copy_within(from, at, words);
        fault::step();
        Ok(())
    }

    /// Fills memory with zeros. See [`fill`](Self::fill).
    pub fn fill_zero(&mut self, at: Offset, length: u64) -> Result<(), Error> {
        self.view.check(at, length)?;
        self.keep(at, length);
        for word in 0..length.div_ceil(8) {
            self.segment.mapping.store(at + word * 8, 0);
        }
        fault::step();
        Ok(())
    }

    /// Changes a word of a shard's roots.
    ///
    /// # Panics
    /// Panics if `word` is not less than [`ROOT_WORDS`](crate::ROOT_WORDS).
    #[inline(always)]
    pub fn set_root(&mut self, index: usize, word: usize, value: u64) -> Result<(), Error> {
        assert!((word as u64) < shard::ROOT_WORDS);
        let at = self.segment.mapping.layout().shard(index) + shard::ROOTS;
        self.set(index, at + word as u64 * 8, value)
    }

    /// Sets the mark word of a shard, whose bits the caller defines. As long as the word is not 0,
    /// [`Segment::read`] and [`Segment::write`] reject the shard until it is cleaned up.
    pub fn set_mark(&mut self, index: usize, bits: u64) -> Result<(), Error> {
        let at = self.segment.mapping.layout().shard(index) + shard::MARK;
        self.set(index, at, bits)?;
        marks::renew(self.segment, index);
        fault::step();
        Ok(())
    }

    /// Makes the changes permanent with a single store, after the frees (W5). Returns true if a
    /// shard has memory to return to the heap.
    #[inline(always)]
    pub(crate) fn publish(&mut self) -> bool {
        if !self.open {
            return false;
        }
        let Locked { words, number, .. } = self.locked;
        in_order();
        words.store::<{ slot::COMMITTED }>(number);
        in_order();
        fault::step();
        if self.redo.is_some() {
            self.settle_record();
        }
        self.forget_logs();
        if self.rare.is_some() {
            self.count_after_commit();
        }
        let mut buried = 0;
        self.for_each(|shard| {
            counter::make_even(shard.word::<{ shard::COUNTER }>());
            fault::step();
            buried |= shard.load::<{ shard::GRAVEYARD }>() | shard.load::<{ shard::RETURNING }>();
        });
        self.open = false;
        buried != 0
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if fault::abandoned() {
            return;
        }
        if self.open {
            for index in self.shards.iter() {
                // If the rollback fails because a stopped process holds the heap's lock, the
                // remaining log entries are left to the next process that locks the shard (W3).
                if recovery::roll_back(self.segment, index).is_ok() {
                    marks::renew(self.segment, index);
                    recovery::make_even(self.segment, index);
                }
            }
        }
        self.for_each(shard_locks::unlock);
        self.segment.process.put_record(self.locked.record);
        if let Some(redo) = self.redo.take() {
            redo.put_back();
        }
    }
}
