//! Runs a body as a transaction, retries it if it runs out of memory, and does its deferred work
//! after the commit.

use std::time::Duration;

use crate::error::Error;
use crate::heap::backing;
use crate::journal::keeping;
use crate::locking::log_retirement;
use crate::mapped::layout::{PAGE, shard};
use crate::probes::{fault, work};
use crate::segment::marks::Marks;
use crate::segment::shard_set::ShardSet;
use crate::segment::{Segment, hints, place};
use crate::transactions::Transaction;
use crate::transactions::rare_state::Preparation;
use crate::writing::memory_return;
use crate::writing::reservation::{self, Runs, make_room};
use crate::writing::run::{self, Outcome};

impl Segment {
    /// Changes shards in one transaction, which takes effect completely or not at all, whatever
    /// happens to this process. If `body` returns an error, the transaction is rolled back. `body`
    /// may run several times, if memory must be reserved between runs (H2).
    ///
    /// # Errors
    /// Returns [`Error::Marked`] if one of the shards must first be cleaned up and reported with
    /// [`looked_after`](Self::looked_after). Also returns any error from `body`.
    #[inline]
    pub fn write<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        body: impl FnMut(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.write_where(shards, Marks::Respected, body)
    }

    /// Changes shards like [`write`](Self::write), but can ignore the shards' marks. For callers
    /// that clean up marked shards.
    #[inline(always)]
    pub fn write_where<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        marks: Marks,
        mut body: impl FnMut(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        place::prepare_to_write(self)?;
        keeping::before_change(self)?;
        let mut runs = Runs::default();
        work::transaction();
        if fault::reruns() {
            run::in_vain(self, shards, marks, &mut body)?;
        }
        loop {
            let outcome = run::once(self, shards, marks, runs.in_parts, &mut body)?;
            match outcome {
                Outcome::Committed {
                    value,
                    rare,
                    record,
                } => {
                    if let Some(rare) = rare {
                        make_ready(self, &rare.preparations);
                        if rare.saved.is_some() {
                            log_retirement::shrink_after(self, shards);
                        }
                    }
                    if record.1 != 0 {
                        keeping::after_commit(self, record)?;
                    }
                    return Ok(value);
                }
                Outcome::Short(used) => make_room(self, &used, &mut runs)?,
            }
        }
    }

    /// Backs a bounded amount of memory if no run of `bytes` bytes is free. Repeated calls
    /// eventually make such a run free. The caller must hold no lock. Returns false if nothing
    /// needed to be done.
    ///
    /// # Errors
    /// Returns [`Error::OutOfMemory`] if there is no place for such a run.
    pub fn prepare(&self, bytes: u64) -> Result<bool, Error> {
        place::prepare_to_write(self)?;
        backing::prepare_run(self, bytes.div_ceil(PAGE))
    }

    /// Returns all freed memory, and the pages that shards retain for their next blocks, to the
    /// heap. Returns true if a run of `bytes` bytes is then free. The caller must hold no lock.
    ///
    /// # Errors
    /// Returns [`Error::Busy`] if a lock cannot be acquired.
    pub fn gather_run(&self, bytes: u64) -> Result<bool, Error> {
        let pages = bytes.div_ceil(PAGE);
        memory_return::all(self)?;
        Ok(backing::has_run(self, pages)?
            || reservation::give_back_kept(self)? && backing::has_run(self, pages)?)
    }

    /// Returns true if a shard still has memory that a flush abandoned.
    #[inline]
    pub fn has_remains(&self, index: usize) -> bool {
        let base = self.mapping.layout().shard(index);
        self.mapping.load(base + shard::LEFT_PLACE) != 0
    }

    /// Frees part of the memory that a flush abandoned in a shard. Holds the shard's lock for a
    /// bounded time, and waits at most `patience` for the heap's lock. Returns true if more memory
    /// remains to be freed.
    pub fn free_remains(&self, index: usize, patience: Duration) -> Result<bool, Error> {
        if !self.has_remains(index) {
            return Ok(false);
        }
        self.write_where(ShardSet::one(index), Marks::Ignored, |transaction| {
            transaction.free_some_flushed(index, patience)
        })
    }
}

/// Makes the preparations one by one, ignoring failures.
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
