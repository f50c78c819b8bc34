//! The way in for reading and writing.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::mapped::futex;
use crate::mapped::shard_set::ShardSet;
use crate::mapped::shard_words::ShardWords;
use crate::probes::{fault, work};
use crate::processes::lock;
use crate::segment::marks::Marks;
use crate::segment::waiting::{Waiter, Which};
use crate::segment::{Segment, place};
use crate::undo::log::Log;
use crate::writing::recovery::is_settled;
use crate::writing::room::{Runs, Used};
use crate::writing::transaction::{Rest, Transaction};

/// How long locks are held at most while another one is waited for, by who wants all of them for a moment.
const HELD_WHILE_WAITING: Duration = Duration::from_micros(200);
/// How long locks are held at most while another one is waited for, by a call that wants several of them: the moment
/// it starts with, and the longest it grows to. Other calls wait for as long, and an interrupt of this one.
const MOMENTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_millis(500);
impl Segment {
    pub(crate) fn shard_log(&self, index: usize) -> Log<'_> {
        self.mapping.shard_log(index)
    }

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
                        self.shrink_behind(shards);
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

    /// Takes the locks in order (W7) and settles each shard (W3). Returns the
    /// words of the shard, where it is only one.
    #[inline(always)]
    pub(crate) fn lock_shards(
        &self,
        shards: ShardSet,
        marks: Marks,
    ) -> Result<Option<ShardWords<'_>>, Error> {
        let Some(index) = shards.single() else {
            self.lock_several(shards, marks)?;
            return Ok(None);
        };
        let shard = self.mapping.shard_words(index);
        if !lock::try_acquire(shard.lock(), self.process.owner()) {
            self.wait_for_shard(index)?;
        }
        fault::step();
        if !is_settled(shard) {
            self.settle_slowly(index, marks)
                .inspect_err(|_| self.unlock(shard))?;
        }
        Ok(Some(shard))
    }

    fn lock_several(&self, shards: ShardSet, marks: Marks) -> Result<(), Error> {
        let me = self.process.owner();
        // How long a lock is waited for while others are held.
        let mut moment = *MOMENTS.start();
        'again: loop {
            let mut held = ShardSet::EMPTY;
            for index in shards.iter() {
                let word = self.mapping.shard_words(index).lock();
                if !lock::try_acquire(word, me) {
                    // Wait a moment in order; if the lock is held for longer, wait for it without holding any other: if
                    // it makes no progress, that wait fails. Where all make progress and this call none, as on a
                    // machine with too much to do, the moments grow until one is long enough.
                    let patience = self.patience().min(moment);
                    let mut waiter = Waiter::new(self, Which::Shard(index), patience);
                    if lock::acquire(word, me, &mut waiter).is_err() {
                        self.unlock_shards(held);
                        self.wait_for_shard(index)?;
                        self.unlock_shards(ShardSet::one(index));
                        moment = (moment * 2).min(*MOMENTS.end());
                        continue 'again;
                    }
                }
                held.insert(index);
                fault::step();
                self.settle(index, marks)
                    .inspect_err(|_| self.unlock_shards(held))?;
            }
            return Ok(());
        }
    }

    /// Takes the locks of all shards without holding some of them for long while it waits for another one: for who
    /// wants a moment at which nobody writes, while all go on.
    pub(crate) fn lock_all_for_a_moment(&self, marks: Marks) -> Result<Unlock<'_>, Error> {
        let me = self.process.owner();
        let (shards, start) = (ShardSet::first(self.shards()), Instant::now());
        'again: while start.elapsed() < self.patience() {
            let mut held = Unlock {
                segment: self,
                shards: ShardSet::EMPTY,
            };
            let since = Instant::now();
            for index in shards.iter() {
                let word = self.mapping.shard_words(index).lock();
                while !lock::try_acquire(word, me) {
                    if since.elapsed() >= HELD_WHILE_WAITING {
                        drop(held);
                        self.wait_for_shard(index)?;
                        self.unlock_shards(ShardSet::one(index));
                        continue 'again;
                    }
                    std::hint::spin_loop();
                }
                held.shards.insert(index);
                fault::step();
                self.settle(index, marks)?;
            }
            return Ok(held);
        }
        // Some are never free together: then as all others take them.
        self.lock_shards(shards, marks)?;
        Ok(Unlock {
            segment: self,
            shards,
        })
    }

    #[cold]
    fn wait_for_shard(&self, index: usize) -> Result<(), Error> {
        let word = self.mapping.shard_words(index).lock();
        let mut waiter = Waiter::new(self, Which::Shard(index), self.patience()).free_of_locks();
        lock::acquire(word, self.process.owner(), &mut waiter)
            .map_err(|refusal| waiter.explain(refusal))?;
        waiter
            .finish()
            .inspect_err(|_| self.unlock_shards(ShardSet::one(index)))
    }

    pub(crate) fn unlock_shards(&self, shards: ShardSet) {
        for index in shards.iter() {
            self.unlock(self.mapping.shard_words(index));
        }
    }

    #[inline(always)]
    pub(crate) fn unlock(&self, shard: ShardWords<'_>) {
        if lock::release(shard.lock()) {
            futex::wake_one(shard.lock().word());
        }
        fault::step();
    }
}

/// What a run of a body came to.
pub(crate) enum Ran<R> {
    /// What it returned, and what few transactions have: it is committed.
    Whole(R, Option<Box<Rest>>),
    /// What it had used when it ran short: it is rolled back.
    Short(Used),
}

/// Unlocks shards when it is dropped.
#[must_use]
pub(crate) struct Unlock<'a> {
    pub(crate) segment: &'a Segment,
    pub(crate) shards: ShardSet,
}

impl Drop for Unlock<'_> {
    fn drop(&mut self) {
        if !fault::abandoned() {
            self.segment.unlock_shards(self.shards);
        }
    }
}
