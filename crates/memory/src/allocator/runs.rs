//! Runs of pages in a shard or an arena. The heap grants them; transactions use them as large
//! blocks, move them to other shards, and bury them (queue them to be freed).

use crate::error::Error;
use crate::heap::pages::{PageUse, Run};
use crate::heap::pool::{BlockPlace, Pool};
use crate::heap::step;
use crate::mapped::layout::{Offset, PAGE, descriptor, shard};
use crate::transactions::Transaction;
use crate::transactions::moved_runs::MovedRun;
use crate::transactions::rare_state::Shortage;

impl Transaction<'_> {
    pub(crate) fn allocate_run(&mut self, pool: Pool, pages: u64) -> Result<Offset, Error> {
        // Check the arena first, because its offset may have been read from the store.
        self.segment.mapping.pool_words(pool)?;
        let page = self.grant(pool, pages, 1)?;
        self.use_run(pool, page, pages)
    }

    /// Turns a granted run into a block.
    pub(crate) fn use_run(&mut self, pool: Pool, page: u64, pages: u64) -> Result<Offset, Error> {
        let mapping = &self.segment.mapping;
        let pool_words = mapping.pool_words(pool)?;
        let index = self.home(pool);
        let kind = PageUse::Large.pack_tagged(mapping.tag(pool));
        let layout = *mapping.layout();
        self.set(index, layout.descriptor(page) + descriptor::KIND, kind)?;
        self.add_at(index, pool_words + shard::USED_BYTES, (pages * PAGE) as i64)?;
        Ok(layout.page(page))
    }

    pub(crate) fn grant(&mut self, pool: Pool, pages: u64, runs: u64) -> Result<u64, Error> {
        match self.try_grant(pool, pages, runs)? {
            Some(page) => Ok(page),
            None => Err(self.short_of(pages)),
        }
    }

    #[cold]
    pub(crate) fn short_of(&mut self, pages: u64) -> Error {
        self.shortage = Some(Shortage::Pages(pages));
        Error::OutOfMemory
    }

    #[cold]
    pub(crate) fn try_grant(
        &mut self,
        pool: Pool,
        pages: u64,
        runs: u64,
    ) -> Result<Option<u64>, Error> {
        let index = self.home(pool);
        let log = self.log(index)?;
        let mut full = None;
        let (segment, granted) = (self.segment, &mut self.rare().granted);
        let result = step::run(segment, |heap| {
            heap.grant(index, pages, runs, |page| {
                granted.push(page);
                log.save_grant(page).map_err(|error| {
                    full = Some(error);
                    Error::OutOfMemory
                })
            })
        });
        if let Some(full) = full {
            return Err(self.log_full(index, full));
        }
        let page = self.after_heap_step(result)?;
        if let Some(page) = page {
            self.rare().granted_pages += pages;
            self.add(pool.shard(), shard::PAGES, pages as i64)?;
            if pool.is_arena() {
                self.join_arena(pool, page, pages, runs)?;
            }
        }
        Ok(page)
    }

    /// Adds a run to the graveyard, the list of runs that are returned to the heap after the
    /// commit.
    pub(crate) fn bury(&mut self, pool: Pool, page: u64, pages: u64) -> Result<(), Error> {
        let index = self.home(pool);
        // The run of an interrupted return may still be at the front of the list. Remove it before
        // adding another run in front of it.
        self.finish_return(index)?;
        let layout = *self.segment.mapping.layout();
        let at = layout.descriptor(page);
        self.set(index, at + descriptor::KIND, PageUse::Buried.pack())?;
        if pool.is_arena() {
            self.leave_arena(pool, page, pages)?;
        }
        self.add(pool.shard(), shard::PAGES, -(pages as i64))?;
        self.link(index, layout.shard(index) + shard::GRAVEYARD, page)
    }

    /// Moves a large block to another shard of this transaction without copying it (H4). Returns
    /// false if the block is small, or was allocated or moved by this transaction; the caller must
    /// then copy it.
    pub fn transfer(&mut self, at: Offset, from: usize, to: usize) -> Result<bool, Error> {
        let BlockPlace::Large(page, pages) = self.segment.mapping.place(from.into(), at)? else {
            return Ok(false);
        };
        let rare = self.rare();
        if rare.moved.at(page).is_some() || rare.granted.contains(&page) {
            return Ok(false);
        }
        // Shard `to` may have owned this run before, and an interrupted return may still refer to
        // it. Complete that return first; otherwise, it would free the run once shard `to` owns it
        // again.
        self.finish_return(to)?;
        self.careful = true;
        self.rare().moved.add(MovedRun {
            page,
            pages,
            arena: false,
            from,
        });
        let age = self.segment.mapping.age(to);
        let run = Run {
            shard: to,
            age,
            pages,
        };
        let at = self.segment.mapping.layout().descriptor(page);
        self.set(from, at + descriptor::RUN, run.pack())?;
        for (index, sign) in [(from, -1), (to, 1)] {
            self.add(index, shard::PAGES, sign * pages as i64)?;
            self.add(index, shard::USED_BYTES, sign * (pages * PAGE) as i64)?;
        }
        Ok(true)
    }
}
