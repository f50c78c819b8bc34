//! Arenas (H4). An arena is the memory of one large object, so that the object can be moved to
//! another shard or freed in constant time.
//!
//! An arena consists of a one-page run, which contains the words of the arena's slabs, and a list
//! of all its other runs. Only that first page records the shard to which the arena belongs; the
//! runs record the arena. A freed arena is added to its shard's graveyard (the queue of memory to
//! be freed) in one step. From there, upkeep returns its runs to the heap one by one.

use crate::error::{Error, Fault};
use crate::heap::pages::{PageUse, Run};
use crate::heap::pool::Pool;
use crate::mapped::classes;
use crate::mapped::layout::{Offset, PAGE, arena, descriptor, shard};
use crate::probes::fault;
use crate::transactions::Transaction;
use crate::transactions::moved_runs::MovedRun;
use crate::views::view::View;

/// The number of bytes used in an arena's first page.
const HEAD: u64 = shard::CLASSES + classes::COUNT as u64 * 8;

impl View<'_> {
    /// Returns the size of an arena's memory in bytes, including memory that no block uses. O(1).
    pub fn arena_bytes(&self, arena: Offset) -> Result<u64, Fault> {
        self.check(arena, PAGE)?;
        let pages = self.mapping.load(arena + shard::PAGES);
        Ok(pages.saturating_mul(PAGE))
    }

    /// Returns a word that the arena's owner may set freely and that moves with the arena.
    /// Initially 0.
    pub fn arena_note(&self, arena: Offset) -> Result<u64, Fault> {
        self.check(arena, PAGE)?;
        Ok(self.mapping.load(arena + arena::NOTE))
    }
}

impl Transaction<'_> {
    /// Creates an arena (separate memory for one large object) in a shard. The arena starts with
    /// one page and grows as blocks are allocated in it. Store [`Pool::arena`] in the object.
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

    /// Moves an arena and all blocks in it to another shard of this transaction, and returns the
    /// arena as a pool of that shard. O(1). The arena's blocks can still be changed afterward,
    /// even before the commit.
    pub fn transfer_arena(&mut self, pool: Pool, to: usize) -> Result<Pool, Error> {
        let mapping = &self.segment.mapping;
        let words = mapping.pool_words(pool)?;
        let moved = Pool::new(to, pool.arena());
        if !pool.is_arena() || to == pool.shard() {
            return Ok(moved);
        }
        // An interrupted return of shard `to` may still refer to a page that is now in this arena.
        // Complete that return first; otherwise, it would free the page later.
        self.finish_return(to)?;
        let page = mapping.page_of(words);
        let home = self.home(pool);
        self.careful = true;
        self.rare().moved.add(MovedRun {
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

    /// Sets the word that [`View::arena_note`] returns.
    pub fn set_arena_note(&mut self, pool: Pool, note: u64) -> Result<(), Error> {
        let words = self.segment.mapping.pool_words(pool)?;
        self.set(self.home(pool), words + arena::NOTE, note)
    }

    /// Frees an arena and all blocks in it, as the last step of the transaction. O(1): after the
    /// commit, its memory is returned to the heap in small steps.
    pub fn bury_arena(&mut self, pool: Pool) {
        self.frees.push((pool, pool.arena()));
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
}
