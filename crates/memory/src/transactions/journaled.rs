//! Appends the changes of a transaction to the journal's ring (J1, J2).

use crate::error::Error;
use crate::redo::failure;
use crate::redo::pending::PendingRecord;
use crate::redo::record::{HEADER, Kind, State};
use crate::redo::restore;
use crate::redo::ring::{self, Full, Heading, Refused};
use crate::transactions::Transaction;
use crate::transactions::rare_state::Shortage;

impl Transaction<'_> {
    /// Appends a record of all changes, if the store has a journal. Must be the last step before the
    /// commit. On failure, the transaction must be rolled back.
    ///
    /// # Errors
    /// Fails if the journal has failed (J5) or if its ring is full.
    #[inline(always)]
    pub(crate) fn append_record(&mut self) -> Result<(), Error> {
        match self.journaled && self.is_open() {
            true => self.append_slowly(),
            false => Ok(()),
        }
    }

    #[inline(never)]
    fn append_slowly(&mut self) -> Result<(), Error> {
        let segment = self.segment;
        if !segment.mapping.is_journaled() {
            // The journal has ended since this transaction began.
            return Ok(());
        }
        if failure::has_failed(&segment.mapping)
            && let Some(error) = failure::failure(segment)
        {
            return Err(error);
        }
        let mut redo = self.redo.take().unwrap_or_else(PendingRecord::take);
        let changes = &mut redo.changes;
        let unchanged_words = restore::needs_unchanged_words(&segment.mapping);
        for index in self.shards().iter() {
            let shard = self.words(index);
            changes.add_shard(&segment.mapping, shard, index, unchanged_words);
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
        let result = match appended {
            Ok(position) => {
                redo.appended = position + 1;
                redo.place = (position, position + (HEADER + words) * 8);
                redo.changes.clear();
                Ok(())
            }
            Err(Refused::Full(Full { needed })) => {
                self.shortage = Some(Shortage::Journal(needed));
                Err(Error::OutOfMemory)
            }
            Err(Refused::Failed(error)) => Err(error),
        };
        self.redo = Some(redo);
        result
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
    #[inline]
    pub(crate) fn settle_record(&mut self) {
        if let Some(redo) = &mut self.redo
            && redo.appended != 0
        {
            ring::settle(&self.segment.mapping, redo.appended - 1, State::Counts);
            redo.appended = 0;
        }
    }

    /// Returns the positions at which the last record that was appended starts and ends. An end of 0
    /// means that there is none.
    #[inline(always)]
    pub(crate) fn place_of_record(&self) -> (u64, u64) {
        self.redo.as_ref().map_or((0, 0), |redo| redo.place)
    }
}
