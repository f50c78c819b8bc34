//! Adds runs to arenas and removes them (H4), and determines which undo log records changes to an
//! arena.

use std::sync::atomic::{Ordering, compiler_fence};

use crate::error::{Error, Fault};
use crate::heap::pages::{IN_ARENA, PageUse, Run};
use crate::heap::pool::Pool;
use crate::mapped::layout::{PAGE, arena, descriptor, shard};
use crate::probes::fault;
use crate::transactions::Transaction;

/// The half of a siblings word that contains the next run.
const LOW: u64 = 0xffff_ffff;

impl Transaction<'_> {
    /// Returns the shard whose log records changes to a pool. For an arena that this transaction
    /// moved, this is the arena's original shard, because undo order is defined only within one
    /// log.
    #[inline(always)]
    pub(crate) fn home(&self, pool: Pool) -> usize {
        if !pool.is_arena() || !self.has_moved() {
            pool.shard()
        } else {
            self.home_of_arena(pool)
        }
    }

    #[cold]
    fn home_of_arena(&self, pool: Pool) -> usize {
        let page = self.segment.mapping.page_of(pool.arena());
        let moved = self.rare.as_ref().and_then(|rare| rare.moved.arena(page));
        moved.map_or(pool.shard(), |moved| moved.from)
    }

    /// Returns the arena's pool in the shard to which the arena now belongs, because a free may
    /// have been queued before the arena moved. Returns any other pool unchanged.
    #[inline(always)]
    pub(crate) fn where_it_is(&self, pool: Pool) -> Result<Pool, Error> {
        if !pool.is_arena() || !self.has_moved() {
            return Ok(pool);
        }
        let mapping = &self.segment.mapping;
        self.view.check(pool.arena(), PAGE)?;
        let descriptor = mapping.layout().descriptor(mapping.page_of(pool.arena()));
        let run = Run::unpack(mapping.load(descriptor + descriptor::RUN));
        match run.filter(|run| self.is_locked(run.shard)) {
            Some(run) => Ok(Pool::new(run.shard, pool.arena())),
            None => Err(Error::Damaged(Fault {
                at: pool.arena(),
                what: "an arena of a locked shard",
            })),
        }
    }

    fn is_locked(&self, shard: usize) -> bool {
        shard < self.segment.shards() && self.shards().contains(shard)
    }

    /// Transfers newly granted runs from the shard to the arena.
    pub(crate) fn join_arena(
        &mut self,
        pool: Pool,
        first: u64,
        pages: u64,
        runs: u64,
    ) -> Result<(), Error> {
        let index = self.home(pool);
        let mapping = &self.segment.mapping;
        let list = pool.arena() + arena::RUNS;
        let run = Run {
            shard: IN_ARENA,
            age: 0,
            pages: pages / runs,
        };
        let kind = PageUse::Free.pack_tagged(mapping.tag(pool));
        for page in (first..first + pages).step_by(run.pages as usize) {
            let head = mapping.load(list);
            if head != 0 {
                let next = self.neighbour(head)? + descriptor::SIBLINGS;
                let siblings = mapping.load(next) & LOW | (page + 1) << 32;
                self.set(index, next, siblings)?;
            }
            let at = mapping.layout().descriptor(page);
            self.save(index, at, descriptor::STRIDE / 8)?;
            mapping.store(at + descriptor::KIND, kind);
            mapping.store(at + descriptor::SIBLINGS, head);
            compiler_fence(Ordering::SeqCst);
            mapping.store(at + descriptor::RUN, run.pack());
            fault::step();
            self.set(index, list, page + 1)?;
        }
        let words = pool.arena();
        self.add_at(index, words + shard::PAGES, pages as i64)?;
        self.add(pool.shard(), shard::USED_BYTES, (pages * PAGE) as i64)
    }

    /// Transfers a run from the arena to its shard.
    pub(crate) fn leave_arena(&mut self, pool: Pool, page: u64, pages: u64) -> Result<(), Error> {
        let index = self.home(pool);
        let mapping = &self.segment.mapping;
        let list = pool.arena() + arena::RUNS;
        let (next, previous) = mapping.siblings(page);
        let damaged = |at| {
            Err(Error::Damaged(Fault {
                at,
                what: "an arena's list of runs with consistent links",
            }))
        };
        if previous == 0 {
            if mapping.load(list) != page + 1 {
                return damaged(list);
            }
            self.set(index, list, next)?;
        } else {
            let at = self.neighbour(previous)? + descriptor::SIBLINGS;
            let siblings = mapping.load(at);
            if siblings & LOW != page + 1 {
                return damaged(at);
            }
            self.set(index, at, siblings & !LOW | next)?;
        }
        if next != 0 {
            let at = self.neighbour(next)? + descriptor::SIBLINGS;
            let siblings = mapping.load(at);
            if siblings >> 32 != page + 1 {
                return damaged(at);
            }
            self.set(index, at, siblings & LOW | previous << 32)?;
        }
        let run = Run {
            shard: index,
            age: mapping.age(index),
            pages,
        };
        let at = mapping.layout().descriptor(page) + descriptor::RUN;
        self.set(index, at, run.pack())?;
        self.add_at(index, pool.arena() + shard::PAGES, -(pages as i64))?;
        let bytes = (pages * PAGE) as i64;
        self.add(pool.shard(), shard::USED_BYTES, -bytes)
    }
}
