//! Memory that was freed in a shard goes back to the heap, for all shards to use: after commits, a little each, and by who is
//! short of memory, all of it.

use std::time::Duration;

use crate::error::{Error, Fault};
use crate::handle::Ran;
use crate::heap::pages::{PageUse, all_free, bitmap_words};
use crate::heap::pool::Pool;
use crate::heap::step;
use crate::locking::shard_locks::{self, Unlock};
use crate::mapped::classes;
use crate::mapped::layout::{descriptor, shard};
use crate::mapped::shard_set::ShardSet;
use crate::probes::fault;
use crate::segment::marks::Marks;
use crate::segment::{Segment, membership};
use crate::writing::transaction::Transaction;

/// Runs returned to the heap after one transaction for each of its shards (W9),
const BURIED_AT_ONCE: usize = 4;
/// and for each run that it was granted: what is freed must not wait for longer than it takes to get as much again.
const BURIED_FOR_GRANTED: usize = 2;
/// And by whoever has come for just that.
const GIVEN_BACK_AT_ONCE: usize = 64;

/// How long a transaction that is over waits for the heap's lock.
const BURIAL_PATIENCE: Duration = Duration::from_millis(1);

/// What a writer that is short of memory has given back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GivenBack {
    /// Something.
    pub(crate) any: bool,
    /// As much as it needed.
    pub(crate) enough: bool,
}

impl Transaction<'_> {
    /// Buries what a shard keeps for its next blocks: free pages, and the last slabs of their classes where they have no
    /// blocks. Returns how many runs.
    fn bury_kept(&mut self, index: usize) -> Result<u64, Error> {
        let (segment, pool) = (self.segment, Pool::from(index));
        let (mapping, layout) = (&segment.mapping, *segment.mapping.layout());
        let words = mapping.pool_words(pool)?;
        let mut buried = 0;
        while mapping.load(words + shard::FREE_LIST) != 0 {
            let page = self.take_free_page(pool)?;
            self.bury(pool, page, 1)?;
            buried += 1;
        }
        let several = (0..classes::COUNT).filter(|&class| classes::SLAB_PAGES[class] > 1);
        for class in several {
            let list = words + shard::CLASSES + class as u64 * 8;
            let Some(page) = mapping.load(list).checked_sub(1) else {
                continue;
            };
            let kind = PageUse::Slab(class).pack_tagged(mapping.tag(pool));
            if !mapping.page_reserved(page)
                || mapping.load(layout.descriptor(page) + descriptor::KIND) != kind
            {
                return Err(Error::Damaged(Fault {
                    at: list,
                    what: "a slab with a free block",
                }));
            }
            let (at, free) = (layout.descriptor(page), all_free(class));
            let is_empty = (0..bitmap_words(class))
                .zip(free)
                .all(|(word, free)| mapping.load(at + descriptor::BITMAP + word * 8) == free);
            if is_empty {
                self.unlink(index, list, page)?;
                self.bury(pool, page, u64::from(classes::SLAB_PAGES[class]))?;
                buried += 1;
            }
        }
        Ok(buried)
    }
}

impl Segment {
    /// Returns a few runs of each shard's graveyard to the heap, more where more were granted. The shards' locks are
    /// held. What cannot be done now is done after a later transaction.
    #[cold]
    pub(crate) fn drain_graveyards(&self, shards: ShardSet, granted: usize) {
        let mut more = granted * BURIED_FOR_GRANTED;
        for index in shards.iter().filter(|&index| self.has_buried(index)) {
            let most = BURIED_AT_ONCE + more;
            let returned = self.return_buried(index, most);
            more = more.min(most - returned);
        }
    }

    #[inline(always)]
    fn has_buried(&self, index: usize) -> bool {
        let base = self.mapping.layout().shard(index);
        self.mapping.load(base + shard::GRAVEYARD) | self.mapping.load(base + shard::RETURNING) != 0
    }

    /// Gives some of the memory that was freed in a shard back to the heap, for
    /// all shards to use; otherwise later writers to the shard do that, a
    /// little each. Holds the shard's lock for a bounded time. Returns whether
    /// there is more to give back.
    pub fn give_back(&self, index: usize) -> Result<bool, Error> {
        self.give_back_within(index, BURIAL_PATIENCE)
    }

    fn give_back_within(&self, index: usize, patience: Duration) -> Result<bool, Error> {
        if !self.has_buried(index) {
            return Ok(false);
        }
        membership::join(self)?;
        let shards = ShardSet::one(index);
        shard_locks::lock(self, shards, Marks::Ignored)?;
        let _unlock = Unlock {
            segment: self,
            shards,
        };
        for _ in 0..GIVEN_BACK_AT_ONCE {
            if !step::run_within(self, patience, |heap| heap.bury_one(index))? {
                break;
            }
            fault::step();
        }
        Ok(self.has_buried(index))
    }

    /// Gives all memory that was freed back to the heap, for a writer that is
    /// short of memory and holds no lock. Returns whether there was any.
    pub(crate) fn give_back_all(&self) -> Result<bool, Error> {
        let mut any = false;
        for index in 0..self.shards() {
            any |= self.has_buried(index);
            while self.give_back_within(index, self.patience())? {}
        }
        Ok(any)
    }

    /// Gives memory that was freed back to the heap until there is enough, for a writer that is short of it and holds no
    /// lock: what waits to be given back must not add up while more is taken from the system.
    pub(crate) fn give_back_until(
        &self,
        enough: impl Fn() -> Result<bool, Error>,
    ) -> Result<GivenBack, Error> {
        let mut given = GivenBack::default();
        for index in 0..self.shards() {
            // Where somebody works in the shard, that one gives back as well.
            while self.has_buried(index) && !self.is_locked(index) {
                let more = match self.give_back(index) {
                    Err(Error::Busy { .. }) => break,
                    more => more?,
                };
                given.any = true;
                if enough()? {
                    given.enough = true;
                    return Ok(given);
                }
                if !more {
                    break;
                }
            }
        }
        Ok(given)
    }

    /// Gives what all shards keep for their next blocks back to the heap, for a writer that finds no run that is long enough
    /// and holds no lock: a few pages here and there are in the way of every long run. Returns whether there was any.
    pub(crate) fn give_back_kept(&self) -> Result<bool, Error> {
        let mut any = false;
        for index in 0..self.shards() {
            let mut buried = 0;
            let ran = self.run_once(
                ShardSet::one(index),
                Marks::Ignored,
                false,
                &mut |transaction| {
                    buried = transaction.bury_kept(index)?;
                    Ok(())
                },
            );
            match ran {
                Ok(Ran::Whole(..)) => any |= buried > 0,
                // Who works in the shard for long keeps it.
                Ok(Ran::Short(_)) | Err(Error::Busy { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if any {
            self.give_back_all()?;
        }
        Ok(any)
    }

    /// Returns up to so many runs of a graveyard. Returns how many.
    fn return_buried(&self, index: usize, most: usize) -> usize {
        for returned in 0..most {
            // Others wait for the shard: what holds the heap up (a stopped
            // process) must not hold them up.
            let step = step::run_within(self, BURIAL_PATIENCE, |heap| heap.bury_one(index));
            if !matches!(step, Ok(true)) {
                return returned;
            }
            fault::step();
        }
        most
    }
}
