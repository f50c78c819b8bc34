//! The way in for reading and writing.

use crate::error::Error;
use crate::locking::log_retirement;
use crate::mapped::shard_set::ShardSet;
use crate::probes::{fault, work};
use crate::segment::marks::Marks;
use crate::segment::{Segment, place};
use crate::writing::room::{Runs, Used};
use crate::writing::transaction::{Rest, Transaction};

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
            self.run_in_vain(shards, marks, &mut body)?;
        }
        loop {
            match self.run_once(shards, marks, runs.in_parts, &mut body)? {
                Ran::Whole(value, None) => return Ok(value),
                Ran::Whole(value, Some(rest)) => {
                    self.make_ready(&rest.ahead);
                    if rest.saved.is_some() {
                        log_retirement::shrink_after(self, shards);
                    }
                    return Ok(value);
                }
                Ran::Short(used) => self.make_room(&used, &mut runs)?,
            }
        }
    }

    /// Runs a body once, as a transaction, or [in parts](crate::removing). The transaction ends here, where it was built: it is too long to be handed on.
    #[inline(always)]
    pub(crate) fn run_once<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        marks: Marks,
        in_parts: bool,
        body: &mut impl FnMut(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<Ran<R>, E> {
        work::run();
        let locked = Transaction::lock(self, shards, marks)?;
        let mut transaction = Transaction::new(self, shards, locked);
        transaction.in_parts = in_parts;
        let result = body(&mut transaction);
        let shortage = match (result, transaction.shortage) {
            (Ok(value), None) => match transaction.commit()? {
                None => return Ok(Ran::Whole(value, transaction.rest.take())),
                Some(shortage) => shortage,
            },
            (Err(error), None) => return Err(error),
            (_, Some(shortage)) => shortage,
        };
        if transaction.parted {
            return Err(Error::OutOfMemory.into());
        }
        Ok(Ran::Short(transaction.used(shortage)))
    }

    /// Runs a body and rolls it back, to show whether it leaves anything to its next run.
    #[cold]
    fn run_in_vain<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        marks: Marks,
        body: &mut impl FnMut(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<(), E> {
        work::run();
        let locked = Transaction::lock(self, shards, marks)?;
        let _ = body(&mut Transaction::new(self, shards, locked));
        Ok(())
    }
}

/// What a run of a body came to.
pub(crate) enum Ran<R> {
    /// What it returned, and what few transactions have: it is committed.
    Whole(R, Option<Box<Rest>>),
    /// What it had used when it ran short: it is rolled back.
    Short(Used),
}
