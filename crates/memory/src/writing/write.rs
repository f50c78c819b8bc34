//! Writing: a body is run as a transaction, again where it ran short, and what it leaves to be done is done after its
//! commit.

use std::time::Duration;

use crate::error::Error;
use crate::heap::backing;
use crate::locking::log_retirement;
use crate::mapped::layout::{PAGE, shard};
use crate::probes::{fault, work};
use crate::segment::marks::Marks;
use crate::segment::shard_set::ShardSet;
use crate::segment::{Segment, hints, place};
use crate::transactions::Transaction;
use crate::transactions::rare_state::Preparation;
use crate::writing::give_back;
use crate::writing::reservation::{self, Runs, make_room};
use crate::writing::run::{self, Outcome};

impl Segment {
    /// Changes shards as one transaction: all or nothing, whatever happens to
    /// this process. An error from `body` rolls back. `body` may run several
    /// times where memory had to be reserved in between (H2).
    ///
    /// # Errors
    /// [`Error::Marked`] where somebody has to look after one of the shards
    /// first, and say so with [`looked_after`](Self::looked_after). Those of
    /// `body`.
    #[inline]
    pub fn write<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        body: impl FnMut(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.write_where(shards, Marks::Respected, body)
    }

    /// [`write`](Self::write) that can do without its respect for marks: for who
    /// looks after the shards.
    #[inline(always)]
    pub fn write_where<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        marks: Marks,
        mut body: impl FnMut(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        place::prepare_to_write(self)?;
        let mut runs = Runs::default();
        work::transaction();
        if fault::reruns() {
            run::in_vain(self, shards, marks, &mut body)?;
        }
        loop {
            match run::once(self, shards, marks, runs.in_parts, &mut body)? {
                Outcome::Committed(value, None) => return Ok(value),
                Outcome::Committed(value, Some(rare)) => {
                    make_ready(self, &rare.preparations);
                    if rare.saved.is_some() {
                        log_retirement::shrink_after(self, shards);
                    }
                    return Ok(value);
                }
                Outcome::Short(used) => make_room(self, &used, &mut runs)?,
            }
        }
    }

    /// Backs some memory, where no run of so many bytes is free: after some of
    /// these steps one is. Called without any lock held. Returns whether there was
    /// anything to do.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where there is no place for such a run.
    pub fn prepare(&self, bytes: u64) -> Result<bool, Error> {
        place::prepare_to_write(self)?;
        backing::prepare_run(self, bytes.div_ceil(PAGE))
    }

    /// Gives all that was freed, and what shards keep for their next blocks, back to the heap. Returns whether a run of so
    /// many bytes is free then. No lock may be held.
    ///
    /// # Errors
    /// A lock that cannot be had.
    pub fn gather_run(&self, bytes: u64) -> Result<bool, Error> {
        let pages = bytes.div_ceil(PAGE);
        give_back::all(self)?;
        Ok(backing::has_run(self, pages)?
            || reservation::give_back_kept(self)? && backing::has_run(self, pages)?)
    }

    /// Whether a shard has left something behind that is not freed yet.
    #[inline]
    pub fn has_remains(&self, index: usize) -> bool {
        let base = self.mapping.layout().shard(index);
        self.mapping.load(base + shard::LEFT_PLACE) != 0
    }

    /// Frees some of what a shard has left behind. Holds its lock for a bounded
    /// time; waits for the heap's for this long at most. Returns whether there is
    /// more.
    pub fn free_remains(&self, index: usize, patience: Duration) -> Result<bool, Error> {
        if !self.has_remains(index) {
            return Ok(false);
        }
        self.write_where(ShardSet::one(index), Marks::Ignored, |transaction| {
            transaction.free_some_flushed(index, patience)
        })
    }
}

/// Does a step for each. What cannot be done is no error.
#[cold]
fn make_ready(segment: &Segment, preparations: &[Preparation]) {
    for &preparation in preparations {
        match preparation {
            Preparation::Hints(index, keys) => hints::try_to_grow(segment, index, keys),
            Preparation::Run(pages) => {
                let _ = backing::prepare_run(segment, pages);
            }
        }
    }
}
