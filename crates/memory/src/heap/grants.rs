//! Grants runs to shards (H1) and reclaims them: freed runs through their shard's graveyard (its
//! queue of runs to be freed), and runs granted to a transaction that is rolled back.

use std::sync::atomic::{Ordering, compiler_fence};

use smallvec::SmallVec;

use crate::error::{Error, Fault};
use crate::heap::pages::{PageUse, Run};
use crate::heap::step::Heap;
use crate::mapped::layout::{PAGE, arena, descriptor, shard};
use crate::probes::fault;
use crate::segment::durability;

impl Heap<'_> {
    /// Grants a run of `pages` pages to a shard, divided into `runs` runs of equal length. Calls
    /// `note` with the run's first page before anything changes. Returns `None` if no free run is
    /// long enough.
    pub(crate) fn grant(
        &self,
        index: usize,
        pages: u64,
        runs: u64,
        mut note: impl FnMut(u64) -> Result<(), Error>,
    ) -> Result<Option<u64>, Error> {
        self.finish_return(index)?;
        let Some(page) = self.find(pages) else {
            return Ok(None);
        };
        let layout = *self.segment().mapping.layout();
        let each = pages / runs;
        for run in 0..runs {
            note(page + run * each)?;
        }
        self.mark(page, pages, false)?;
        let granted = Run {
            shard: index,
            age: self.segment().mapping.age(index),
            pages: each,
        };
        for run in 0..runs {
            self.set(layout.descriptor(page + run * each), granted.pack())?;
            self.note_grant(index, page + run * each);
        }
        Ok(Some(page))
    }

    /// Reclaims a run if it still belongs to the shard. Otherwise, the run has already been
    /// reclaimed.
    pub(crate) fn take_back(&self, index: usize, page: u64) -> Result<(), Error> {
        self.take_back_from(index, None, page)
    }

    /// Reclaims a run if it still belongs to the shard, or to the arena at that page. Otherwise,
    /// the run has already been reclaimed.
    fn take_back_from(&self, index: usize, arena: Option<u64>, page: u64) -> Result<(), Error> {
        let layout = *self.segment().mapping.layout();
        if page >= layout.pages() {
            return Err(Error::Damaged(Fault {
                at: page,
                what: "the number of a page in the heap",
            }));
        }
        // The run has already been freed and its memory returned to the system.
        if !self.segment().mapping.page_reserved(page) {
            return Ok(());
        }
        let at = layout.descriptor(page);
        let mapping = &self.segment().mapping;
        let in_arena = arena.is_some() && mapping.arena_of_run(page) == arena;
        match Run::unpack(self.load(at)) {
            Some(run) if run.shard == index || in_arena => {
                if run.pages == 0 || !mapping.reserved(layout.page(page), run.pages * PAGE) {
                    return Err(Error::Damaged(Fault {
                        at,
                        what: "a run that ends in reserved memory",
                    }));
                }
                self.mark(page, run.pages, true)?;
                if in_arena {
                    // A process that finds this return unfinished must not mistake another arena's
                    // run at this page for a run of this arena.
                    self.set(at + descriptor::KIND, 0)?;
                }
                self.set(at, 0)
            }
            _ => Ok(()),
        }
    }

    /// Completes a return to the heap that was interrupted when the returning process died.
    pub(crate) fn finish_return(&self, index: usize) -> Result<(), Error> {
        let mapping = &self.segment().mapping;
        let at = mapping.layout().shard(index) + shard::RETURNING;
        let returning = mapping.load(at);
        if returning == 0 {
            return Ok(());
        }
        durability::begin_writing(self.segment())?;
        let page = returning - 1;
        let graveyard = mapping.layout().shard(index) + shard::GRAVEYARD;
        let first = mapping.load(graveyard);
        let arena = self.dying_arena(first);
        let take_off = |list: u64, next: u64| {
            compiler_fence(Ordering::SeqCst);
            // An arena's list is in the heap, so save it first in case a copy is in progress.
            mapping.save_for_copy(list, 8);
            mapping.store(list, next);
            fault::step();
        };
        if first == returning && mapping.page_reserved(page) {
            let next = mapping.load(mapping.layout().descriptor(page) + descriptor::NEXT);
            take_off(graveyard, next);
        } else if let Some(runs) = arena.map(|page| mapping.layout().page(page) + arena::RUNS)
            && mapping.load(runs) == returning
            && mapping.page_reserved(page)
        {
            take_off(runs, mapping.siblings(page).0);
        }
        self.take_back_from(index, arena, page)?;
        // Commit the heap step before clearing the word that records the return. The journal has
        // the end of the return only, with both lists as they are now, also if an earlier process
        // changed them and died.
        let mut values: SmallVec<[(u64, u64); 3]> = SmallVec::new();
        values.push((at, 0));
        values.push((graveyard, mapping.load(graveyard)));
        if let Some(page) = arena {
            let runs = mapping.layout().page(page) + arena::RUNS;
            values.push((runs, mapping.load(runs)));
        }
        self.commit(&values)?;
        mapping.store(at, 0);
        fault::step();
        Ok(())
    }

    /// Returns the page of a buried arena, given its page number plus 1, or `None` if no buried
    /// arena is at that page.
    fn dying_arena(&self, link: u64) -> Option<u64> {
        let mapping = &self.segment().mapping;
        let page = link.checked_sub(1)?;
        let dying =
            mapping.page_reserved(page) && mapping.page_use(page) == Some(PageUse::BuriedArena);
        dying.then_some(page)
    }

    /// Returns the page number, plus 1, of the run to return next, given the first entry of the
    /// shard's graveyard. The runs of an arena are returned before its first page. Every entry is
    /// checked, so that the traversal of a damaged, circular list ends.
    fn next_to_return(&self, index: usize, first: u64) -> Result<u64, Error> {
        let mapping = &self.segment().mapping;
        let damaged = |at, what| Err(Error::Damaged(Fault { at, what }));
        if let Some(page) = self.dying_arena(first) {
            let at = mapping.layout().page(page) + arena::RUNS;
            let run = mapping.load(at);
            if run != 0 {
                let sound =
                    mapping.page_reserved(run - 1) && mapping.arena_of_run(run - 1) == Some(page);
                return if sound {
                    Ok(run)
                } else {
                    damaged(at, "a run of the arena")
                };
            }
        }
        let page = first - 1;
        let owner = |page| {
            let at = mapping.layout().descriptor(page) + descriptor::RUN;
            Run::unpack(self.load(at)).map(|run| run.shard)
        };
        if mapping.page_reserved(page) && owner(page) == Some(index) {
            Ok(first)
        } else {
            let at = mapping.layout().shard(index) + shard::GRAVEYARD;
            damaged(at, "a run of the shard")
        }
    }

    /// Returns the next run in the shard's graveyard (its queue of runs to be freed) to the heap.
    /// Returns false if the graveyard is empty.
    pub(crate) fn bury_one(&self, index: usize) -> Result<bool, Error> {
        self.finish_return(index)?;
        let mapping = &self.segment().mapping;
        let base = mapping.layout().shard(index);
        let first = mapping.load(base + shard::GRAVEYARD);
        if first == 0 {
            return Ok(false);
        }
        durability::begin_writing(self.segment())?;
        let run = self.next_to_return(index, first)?;
        mapping.store(base + shard::RETURNING, run);
        compiler_fence(Ordering::SeqCst);
        fault::step();
        self.finish_return(index)?;
        Ok(true)
    }
}
