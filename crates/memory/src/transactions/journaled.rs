//! Appends the changes of a transaction to the journal's ring (J1, J2).

use std::cell::Cell;

use crate::error::Error;
use crate::mapped::thread_cached::ThreadCached;
use crate::redo::changes::Changes;
use crate::redo::failure;
use crate::redo::record::{HEADER, Kind, State};
use crate::redo::ring::{self, Full, Heading, Refused};
use crate::transactions::Transaction;
use crate::transactions::rare_state::Shortage;

thread_local! {
    /// The buffer for a transaction's changed ranges.
    static CHANGES: Cell<Changes> = const { Cell::new(Changes::new()) };
    /// The position after the last record that this thread appended.
    static LAST_END: Cell<u64> = const { Cell::new(0) };
}

/// Returns the journal position after the last record that this thread appended since the last call.
/// Returns 0 if there is none.
pub(crate) fn take_last_end() -> u64 {
    LAST_END.try_with(Cell::take).unwrap_or_default()
}

impl Transaction<'_> {
    /// Appends a record of all changes, if the store has a journal. Must be the last step before the
    /// commit. On failure, the transaction must be rolled back.
    ///
    /// # Errors
    /// Fails if the journal has failed (J5) or if its ring is full.
    #[inline(always)]
    pub(crate) fn append_record(&mut self) -> Result<(), Error> {
        match self.careful && self.is_open() && self.segment.mapping.is_journaled() {
            true => self.append_slowly(),
            false => Ok(()),
        }
    }

    #[cold]
    #[inline(never)]
    fn append_slowly(&mut self) -> Result<(), Error> {
        let segment = self.segment;
        if let Some(error) = failure::failure(segment) {
            return Err(error);
        }
        let mut changes = CHANGES.take_cached();
        changes.clear();
        for &(at, words) in &self.fills {
            changes.add(at, words);
        }
        for index in self.shards().iter() {
            changes.add_log(&segment.mapping.shard_log(index));
        }
        let words = changes.finish();
        let (record, number) = self.record_and_number();
        let heading = Heading {
            kind: Kind::Transaction,
            record,
            number,
            shards: self.shards().bits(),
            may_use_spare: self.in_parts,
            state: State::Open,
        };
        let appended = ring::append(segment, &heading, words, |writer| changes.write(writer));
        if changes.is_small() {
            CHANGES.put_back(changes);
        }
        match appended {
            Ok(position) => {
                self.appended = position + 1;
                let _ = LAST_END.try_with(|end| end.set(position + (HEADER + words) * 8));
                self.fills.clear();
                Ok(())
            }
            Err(Refused::Full(Full { needed })) => {
                self.shortage = Some(Shortage::Journal(needed));
                Err(Error::OutOfMemory)
            }
            Err(Refused::Failed(error)) => Err(error),
        }
    }

    /// Returns the result of a heap step. If the step found no space in the journal's ring, the
    /// transaction must run again once there is space.
    pub(crate) fn after_heap_step<R>(&mut self, result: Result<R, Error>) -> Result<R, Error> {
        match result {
            Err(Error::JournalFull) => {
                self.shortage = Some(Shortage::Journal(0));
                Err(Error::OutOfMemory)
            }
            result => result,
        }
    }

    /// Declares that the appended record counts, after the commit.
    #[inline(always)]
    pub(crate) fn settle_record(&mut self) {
        if self.appended != 0 {
            ring::settle(&self.segment.mapping, self.appended - 1, State::Counts);
            self.appended = 0;
        }
    }
}
