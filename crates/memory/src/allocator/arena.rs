//! Arenas (H4): the memory of one large object each, so that the object moves
//! to another shard, and goes, in a step that does not depend on its size.
//!
//! An arena is a run of one page, which has the words of a shard's own slabs
//! and the list of all other runs of the arena. That page alone names the shard
//! that the arena belongs to; its runs name the arena. A buried arena is on its
//! shard's graveyard as a whole: its runs are returned to the heap from there,
//! one after the other.

use std::sync::atomic::{Ordering, compiler_fence};

use crate::error::{Error, Fault};
use crate::heap::pages::{IN_ARENA, PageUse, Run};
use crate::heap::pool::Pool;
use crate::mapped::classes;
use crate::mapped::layout::{Offset, PAGE, arena, descriptor, shard};
use crate::mapped::mapping::Mapping;
use crate::probes::fault;
use crate::views::view::View;
use crate::writing::moves::Moved;
use crate::writing::transaction::Transaction;

/// Bytes of an arena's first page that are in use.
const HEAD: u64 = shard::CLASSES + classes::COUNT as u64 * 8;

impl View<'_> {
    /// Bytes of memory that an arena takes, whether its blocks use them or not.
    /// O(1).
    pub fn arena_bytes(&self, arena: Offset) -> Result<u64, Fault> {
        self.check(arena, PAGE)?;
        let pages = self.mapping.load(arena + shard::PAGES);
        Ok(pages.saturating_mul(PAGE))
    }

    /// A word that is the arena's user's own, and goes with the arena; 0 at
    /// first.
    pub fn arena_note(&self, arena: Offset) -> Result<u64, Fault> {
        self.check(arena, PAGE)?;
        Ok(self.mapping.load(arena + arena::NOTE))
    }
}

impl Transaction<'_> {
    /// Makes an arena in a shard: memory of its own for a large object. It
    /// takes a page, and more as blocks are allocated in it. Keep
    /// [`Pool::arena`] in the object.
    pub fn create_arena(&mut self, index: usize) -> Result<Pool, Error> {
        let page = self.grant(index.into(), 1, 1)?;
        let mapping = &self.segment.mapping;
        let at = mapping.layout().page(page);
        self.keep(at, HEAD);
        for word in (0..HEAD).step_by(8) {
            mapping.store(at + word, 0);
        }
        mapping.store(at + shard::PAGES, 1);
        fault::step();
        let kind = mapping.layout().descriptor(page) + descriptor::KIND;
        self.set(index, kind, PageUse::Arena.pack())?;
        self.add(index, shard::USED_BYTES, PAGE as i64)?;
        Ok(Pool::new(index, at))
    }

    /// Gives an arena, with all blocks in it, to another shard of this
    /// transaction. Returns it as a pool of that shard. O(1), and its blocks
    /// may be changed on, before the commit as well.
    pub fn transfer_arena(&mut self, pool: Pool, to: usize) -> Result<Pool, Error> {
        let mapping = &self.segment.mapping;
        let words = mapping.pool_words(pool)?;
        let moved = Pool::new(to, pool.arena());
        if !pool.is_arena() || to == pool.shard() {
            return Ok(moved);
        }
        // As with a single run: the note of an interrupted return may name any
        // of the arena's pages, of an earlier time.
        self.finish_return(to)?;
        let page = mapping.page_of(words);
        let home = self.home(pool);
        self.careful = true;
        self.rest().moved.add(Moved {
            page,
            pages: 1,
            arena: true,
            from: home,
        });
        let at = mapping.layout().descriptor(page) + descriptor::RUN;
        let run = Run {
            shard: to,
            age: mapping.age(to),
            pages: 1,
        };
        self.set(home, at, run.pack())?;
        let pages = mapping.load(words + shard::PAGES) as i64;
        for (index, sign) in [(pool.shard(), -1), (to, 1)] {
            let pages = pages.wrapping_mul(sign);
            self.add(index, shard::PAGES, pages)?;
            self.add(index, shard::USED_BYTES, pages.wrapping_mul(PAGE as i64))?;
        }
        Ok(moved)
    }

    /// Changes the word that [`View::arena_note`] reads.
    pub fn set_arena_note(&mut self, pool: Pool, note: u64) -> Result<(), Error> {
        let words = self.segment.mapping.pool_words(pool)?;
        self.set(self.home(pool), words + arena::NOTE, note)
    }

    /// Frees an arena with all blocks in it, as the last step of the
    /// transaction. O(1): its memory goes back to the heap in small steps after
    /// the commit.
    pub fn bury_arena(&mut self, pool: Pool) {
        self.frees.push((pool, pool.arena()));
    }

    /// An arena where it is now: what is to be freed was noted where the arena
    /// was then. Any other pool stays what it is.
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

    pub(crate) fn apply_bury_arena(&mut self, pool: Pool) -> Result<(), Error> {
        let index = self.home(pool);
        self.finish_return(index)?;
        let mapping = &self.segment.mapping;
        let layout = *mapping.layout();
        let words = mapping.pool_words(pool)?;
        let pages = mapping.load(words + shard::PAGES) as i64;
        self.add(pool.shard(), shard::PAGES, pages.wrapping_neg())?;
        let bytes = pages.wrapping_mul(PAGE as i64);
        self.add(pool.shard(), shard::USED_BYTES, bytes.wrapping_neg())?;
        let page = mapping.page_of(words);
        let at = layout.descriptor(page);
        self.set(index, at + descriptor::KIND, PageUse::BuriedArena.pack())?;
        if index != pool.shard() {
            let run = Run {
                shard: index,
                age: mapping.age(index),
                pages: 1,
            };
            self.set(index, at + descriptor::RUN, run.pack())?;
        }
        self.link(index, layout.shard(index) + shard::GRAVEYARD, page)
    }

    /// Makes runs that were just granted to the shard runs of the arena.
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

    /// Makes a run of the arena one of the shard's.
    pub(crate) fn leave_arena(&mut self, pool: Pool, page: u64, pages: u64) -> Result<(), Error> {
        let index = self.home(pool);
        let mapping = &self.segment.mapping;
        let list = pool.arena() + arena::RUNS;
        let (next, previous) = mapping.siblings(page);
        let damaged = |at| {
            Err(Error::Damaged(Fault {
                at,
                what: "a list of an arena's runs whose links agree",
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

    /// The shard whose log takes changes of a pool: of an arena that this
    /// transaction moved, the one that it came from, as only within one log is
    /// the order of undoing certain.
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
        let moved = self.rest.as_ref().and_then(|rest| rest.moved.arena(page));
        moved.map_or(pool.shard(), |moved| moved.from)
    }

    /// The shard whose log takes a change, where it concerns what was moved: a
    /// word of a run or of an arena, or of the descriptor of such a page.
    #[cold]
    pub(crate) fn log_of(&mut self, at: u64) -> Option<usize> {
        let mapping = &self.segment.mapping;
        let page = mapping.page_concerned(at)?;
        let moved = &self.rest.as_ref()?.moved;
        if let Some(moved) = moved.at(page) {
            return Some(moved.from);
        }
        if !moved.has_arena() {
            return None;
        }
        let (first, pages, arena) = mapping.arena_around(page)?;
        let from = moved.arena(arena)?.from;
        if pages > 1 {
            // Spares the next look for the start of the run.
            self.rest().moved.add(Moved {
                page: first,
                pages,
                arena: false,
                from,
            });
        }
        Some(from)
    }
}

/// The half of a word that names the next run.
const LOW: u64 = 0xffff_ffff;

impl Mapping {
    /// The page that an offset lies in, or whose descriptor it lies in.
    fn page_concerned(&self, at: u64) -> Option<u64> {
        let layout = self.layout();
        if at >= layout.heap {
            return Some(self.page_of(at));
        }
        let behind = at.checked_sub(layout.descriptors)?;
        Some(behind / descriptor::STRIDE)
    }

    /// The run of an arena around a page: its first page, its pages and the
    /// arena's page. O(pages of the run).
    fn arena_around(&self, page: u64) -> Option<(u64, u64, u64)> {
        let mut first = page;
        while self.page_reserved(first) {
            let word = self.load(self.layout().descriptor(first) + descriptor::RUN);
            if let Some(run) = Run::unpack(word) {
                let inside = page - first < run.pages;
                let arena = self.arena_of_run(first).filter(|_| inside)?;
                return Some((first, run.pages, arena));
            }
            first = first.checked_sub(1)?;
        }
        None
    }
}
