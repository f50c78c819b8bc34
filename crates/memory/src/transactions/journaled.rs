//! Appends the changes of a transaction to the journal's ring (J1, J2).

use std::cell::Cell;

use crate::error::Error;
use crate::heap::pages::Run;
use crate::mapped::layout::descriptor;
use crate::mapped::thread_cached::ThreadCached;
use crate::redo::changes::Changes;
use crate::redo::record::{Kind, State};
use crate::redo::ring::{self, Full, Heading, Refused};
use crate::transactions::Transaction;
use crate::transactions::rare_state::Shortage;

thread_local! {
    /// The buffer for a transaction's changed ranges.
    static CHANGES: Cell<Changes> = const { Cell::new(Changes::new()) };
}

impl Transaction<'_> {
    /// Appends a record of all changes, if the store has a journal. Must be the last step before the
    /// commit. On failure, the transaction must be rolled back.
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
        CHANGES.put_back(changes);
        match appended {
            Ok(position) => {
                self.appended = position + 1;
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

    /// Declares that the appended record counts, after the commit.
    #[inline(always)]
    pub(crate) fn settle_record(&mut self) {
        if self.appended != 0 {
            ring::settle(&self.segment.mapping, self.appended - 1, State::Counts);
            self.appended = 0;
        }
    }

    /// Updates the filled ranges for a rollback to a savepoint, before it is made. `fills` and
    /// `granted` are the numbers of filled ranges and of granted runs at the savepoint, and `tails`
    /// are the lengths of the logs.
    ///
    /// Words that are about to get their old contents back are noted as filled, because a checkpoint
    /// may have copied their current contents. Words in runs that were granted since the savepoint
    /// are not noted, because the runs return to the heap, and another process may use them.
    pub(crate) fn note_undone(&mut self, fills: usize, granted: usize, tails: &[u64]) {
        self.fills.truncate(fills);
        let mapping = &self.segment.mapping;
        if !self.careful || !mapping.is_journaled() {
            return;
        }
        let layout = *mapping.layout();
        let runs: Vec<(u64, u64)> = self.rare.as_ref().map_or_else(Vec::new, |rare| {
            let pages = |&page: &u64| {
                let run = Run::unpack(mapping.load(layout.descriptor(page) + descriptor::RUN));
                (page, page + run.map_or(1, |run| run.pages))
            };
            rare.granted[granted..].iter().map(pages).collect()
        });
        let returns = |at: u64| {
            let page = match at.checked_sub(layout.descriptors) {
                Some(inside) if at < layout.heap => inside / descriptor::STRIDE,
                _ if at >= layout.heap => mapping.page_of(at),
                _ => return false,
            };
            runs.iter()
                .any(|&(first, end)| (first..end).contains(&page))
        };
        let fills = &mut self.fills;
        for (index, &tail) in self.shards.iter().zip(tails) {
            mapping.shard_log(index).for_each_saved(tail, |at, words| {
                if !returns(at) {
                    fills.push((at, words));
                }
            });
        }
    }
}
