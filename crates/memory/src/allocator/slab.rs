//! The heap's half in each shard (H3, H4): slabs of equal blocks, runs of
//! pages for large ones, and the lists between them.
//!
//! Which blocks of a slab are free stands in its page's descriptor and not in
//! the blocks, so that filling a fresh block spoils nothing that a rollback
//! needs (W4).

use crate::allocator::stock::TakenBlocks;
use crate::error::{Error, Fault};
use crate::heap::pages::{PageUse, Run, all_free, bitmap_word, bitmap_words};
use crate::heap::pool::{BlockPlace, Pool};
use crate::heap::step;
use crate::mapped::classes;
use crate::mapped::layout::{EXTENT_PAGES, Offset, PAGE, descriptor, shard};
use crate::writing::moves::Moved;
use crate::writing::transaction::{Shortage, Transaction};

/// Free single pages that a shard keeps for itself, and an arena at most.
const KEPT_PAGES: u64 = 16;
/// An arena keeps at most so small a part of its pages free.
const KEPT_PART: u64 = 16;

impl Transaction<'_> {
    /// Allocates a block of at least `bytes` bytes in a shard, or in an arena.
    /// Its content is whatever was there before. O(1).
    #[inline]
    pub fn allocate(&mut self, pool: impl Into<Pool>, bytes: u64) -> Result<Offset, Error> {
        let pool = pool.into();
        match classes::class_of(bytes) {
            // A descriptor in an arena has no room for so many blocks.
            Some(0) if pool.is_arena() => self.allocate_block(pool, 1),
            Some(class) => self.allocate_block(pool, class),
            None => self.allocate_run(pool, bytes.div_ceil(PAGE)),
        }
    }

    /// Bytes in the block at an offset, at least what was asked for.
    #[inline]
    pub fn block_size(&self, pool: impl Into<Pool>, at: Offset) -> Result<u64, Error> {
        Ok(match self.segment.mapping.place(pool.into(), at)? {
            BlockPlace::Slab(_, class, _) => u64::from(classes::SIZES[class]),
            BlockPlace::Large(_, pages) => pages * PAGE,
        })
    }

    /// Frees a block, as the last step of the transaction (W4).
    #[inline]
    pub fn free(&mut self, pool: impl Into<Pool>, at: Offset) {
        // The page's descriptor is wanted when the transaction ends, and often lies in no cache.
        let mapping = &self.segment.mapping;
        let page = at.wrapping_sub(mapping.layout().heap) / PAGE;
        mapping.prefetch(mapping.layout().descriptor(page));
        self.frees.push((pool.into(), at));
    }

    /// Gives a large block to another shard of this transaction without
    /// copying it (H4). False where the block is small, or was allocated or
    /// moved by this very transaction: then the caller copies.
    pub fn transfer(&mut self, at: Offset, from: usize, to: usize) -> Result<bool, Error> {
        let BlockPlace::Large(page, pages) = self.segment.mapping.place(from.into(), at)? else {
            return Ok(false);
        };
        let rest = self.rest();
        if rest.moved.at(page).is_some() || rest.granted.contains(&page) {
            return Ok(false);
        }
        // A return that was interrupted may name this very run, of an earlier
        // time: it would be returned once it is the shard's again.
        self.finish_return(to)?;
        self.careful = true;
        self.rest().moved.add(Moved {
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

    /// Adds to a word of a shard.
    #[inline(always)]
    pub(crate) fn add(&mut self, index: usize, field: u64, change: i64) -> Result<(), Error> {
        let at = self.segment.mapping.layout().shard(index) + field;
        self.add_at(index, at, change)
    }

    /// Adds to a word that our own constants name.
    #[inline(always)]
    pub(crate) fn add_at(&mut self, index: usize, at: u64, change: i64) -> Result<(), Error> {
        let old = self.segment.mapping.load(at);
        self.set(index, at, old.wrapping_add_signed(change))
    }

    #[inline(always)]
    fn shard_word(&self, index: usize, field: u64) -> u64 {
        let mapping = &self.segment.mapping;
        mapping.load(mapping.layout().shard(index) + field)
    }

    #[inline]
    fn allocate_block(&mut self, pool: Pool, class: usize) -> Result<Offset, Error> {
        let taken = self.allocate_blocks(pool, class, 1)?;
        Ok(taken.first + u64::from(taken.bits.trailing_zeros()) * taken.size)
    }

    /// Allocates one block of at least `bytes` bytes, and up to `wanted` where
    /// that takes no more entries in the log.
    ///
    /// # Panics
    /// Where such a block does not lie in a slab.
    pub(crate) fn allocate_some(
        &mut self,
        pool: Pool,
        bytes: u64,
        wanted: u64,
    ) -> Result<TakenBlocks, Error> {
        match classes::class_of(bytes) {
            Some(0) if pool.is_arena() => self.allocate_blocks(pool, 1, wanted),
            Some(class) => self.allocate_blocks(pool, class, wanted),
            None => panic!("blocks of {bytes} bytes do not lie in slabs"),
        }
    }

    /// Takes between one and `wanted` blocks that one word of a bit map stands
    /// for.
    #[inline(always)]
    fn allocate_blocks(
        &mut self,
        pool: Pool,
        class: usize,
        wanted: u64,
    ) -> Result<TakenBlocks, Error> {
        let mapping = &self.segment.mapping;
        let layout = mapping.layout();
        let index = self.home(pool);
        let pool_words = mapping.pool_words(pool)?;
        let list = pool_words + shard::CLASSES + class as u64 * 8;
        let head = mapping.load(list);
        let page = if head == 0 {
            self.new_slab(pool, class)?
        } else {
            head - 1
        };
        let damaged = Error::Damaged(Fault {
            at: list,
            what: "a slab with a free block",
        });
        let kind = PageUse::Slab(class).pack_tagged(mapping.tag(pool));
        if !mapping.page_reserved(page)
            || mapping.load(layout.descriptor(page) + descriptor::KIND) != kind
        {
            return Err(damaged);
        }
        let words = layout.descriptor(page) + descriptor::BITMAP;
        let count = bitmap_words(class);
        for word in 0..count {
            let bits = mapping.load(words + word * 8);
            if bits == 0 {
                continue;
            }
            let mut left = bits & (bits - 1);
            for _ in 1..wanted.min(64) {
                left &= left.wrapping_sub(1);
            }
            let taken = bits & !left;
            let last = word * 64 + u64::from(taken.ilog2());
            if last >= u64::from(classes::blocks(class)) {
                return Err(damaged);
            }
            self.set(index, words + word * 8, left)?;
            if left == 0 && (word + 1..count).all(|word| mapping.load(words + word * 8) == 0) {
                self.unlink(index, list, page)?;
            }
            let size = u64::from(classes::SIZES[class]);
            let blocks = match wanted {
                1 => 1,
                _ => u64::from(taken.count_ones()),
            };
            self.add_at(
                index,
                pool_words + shard::USED_BYTES,
                (blocks * size) as i64,
            )?;
            return Ok(TakenBlocks {
                first: layout.page(page) + word * 64 * size,
                size,
                bits: taken,
            });
        }
        Err(damaged)
    }

    #[cold]
    fn new_slab(&mut self, pool: Pool, class: usize) -> Result<u64, Error> {
        let pages = u64::from(classes::SLAB_PAGES[class]);
        let page = if pages == 1 {
            self.take_free_page(pool)?
        } else {
            self.grant(pool, pages, 1)?
        };
        let index = self.home(pool);
        let mapping = &self.segment.mapping;
        let layout = *mapping.layout();
        let tag = mapping.tag(pool);
        let at = layout.descriptor(page) + descriptor::KIND;
        // The last word of an arena's descriptors is not a slab's.
        let words = if pool.is_arena() { 3 } else { 4 };
        self.save(index, at, 3 + words)?;
        mapping.store(at, PageUse::Slab(class).pack_tagged(tag));
        for (word, bits) in (0..words).zip(all_free(class)) {
            mapping.store(
                layout.descriptor(page) + descriptor::BITMAP + word * 8,
                bits,
            );
        }
        for distance in 1..pages {
            let at = layout.descriptor(page + distance) + descriptor::KIND;
            self.set(index, at, PageUse::Continued(distance).pack_tagged(tag))?;
        }
        let list = mapping.pool_words(pool)? + shard::CLASSES + class as u64 * 8;
        self.link(index, list, page)?;
        Ok(page)
    }

    pub(crate) fn take_free_page(&mut self, pool: Pool) -> Result<u64, Error> {
        let mapping = &self.segment.mapping;
        let layout = *mapping.layout();
        let pool_words = mapping.pool_words(pool)?;
        let list = pool_words + shard::FREE_LIST;
        let kind = PageUse::Free.pack_tagged(mapping.tag(pool));
        if mapping.load(list) == 0 {
            // Small pools ask for little; large ones for an extent at a time.
            let wanted = match mapping.load(pool_words + shard::PAGES) {
                0..8 => 2,
                8..64 => 4,
                _ => EXTENT_PAGES,
            };
            let (first, count) = match self.try_grant(pool, wanted, wanted)? {
                Some(page) => (page, wanted),
                None => match self.try_grant(pool, 1, 1)? {
                    Some(page) => (page, 1),
                    None => return Err(self.short_of(wanted)),
                },
            };
            let index = self.home(pool);
            for page in (first..first + count).rev() {
                self.set(index, layout.descriptor(page) + descriptor::KIND, kind)?;
                self.link(index, list, page)?;
            }
            self.add_at(index, pool_words + shard::FREE_COUNT, count as i64)?;
        }
        let page = mapping.load(list).wrapping_sub(1);
        if !mapping.page_reserved(page)
            || mapping.load(layout.descriptor(page) + descriptor::KIND) != kind
        {
            return Err(Error::Damaged(Fault {
                at: list,
                what: "the number of a free page",
            }));
        }
        let index = self.home(pool);
        self.unlink(index, list, page)?;
        self.add_at(index, pool_words + shard::FREE_COUNT, -1)?;
        Ok(page)
    }

    pub(crate) fn allocate_run(&mut self, pool: Pool, pages: u64) -> Result<Offset, Error> {
        // An arena that was read from the store is looked at first.
        self.segment.mapping.pool_words(pool)?;
        let page = self.grant(pool, pages, 1)?;
        self.use_run(pool, page, pages)
    }

    /// Makes a run that was granted a block.
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
    fn short_of(&mut self, pages: u64) -> Error {
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
        let (segment, granted) = (self.segment, &mut self.rest().granted);
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
        let page = result?;
        if let Some(page) = page {
            self.rest().granted_pages += pages;
            self.add(pool.shard(), shard::PAGES, pages as i64)?;
            if pool.is_arena() {
                self.join_arena(pool, page, pages, runs)?;
            }
        }
        Ok(page)
    }

    /// Puts a page at the front of a list.
    pub(crate) fn link(&mut self, index: usize, list: u64, page: u64) -> Result<(), Error> {
        let mapping = &self.segment.mapping;
        let layout = *mapping.layout();
        let head = mapping.load(list);
        let at = layout.descriptor(page);
        self.set(index, at + descriptor::NEXT, head)?;
        self.set(index, at + descriptor::PREVIOUS, 0)?;
        if head != 0 && mapping.page_reserved(head - 1) {
            let next = layout.descriptor(head - 1);
            self.set(index, next + descriptor::PREVIOUS, page + 1)?;
        }
        self.set(index, list, page + 1)
    }

    /// Takes a page out of a list.
    pub(crate) fn unlink(&mut self, index: usize, list: u64, page: u64) -> Result<(), Error> {
        let mapping = &self.segment.mapping;
        let layout = *mapping.layout();
        let at = layout.descriptor(page);
        let next = mapping.load(at + descriptor::NEXT);
        let previous = mapping.load(at + descriptor::PREVIOUS);
        let forward = match previous {
            0 => list,
            page => self.neighbour(page)? + descriptor::NEXT,
        };
        if mapping.load(forward) != page + 1 {
            return Err(Error::Damaged(Fault {
                at: forward,
                what: "a list of pages whose links agree",
            }));
        }
        self.set(index, forward, next)?;
        if next != 0 {
            let back = self.neighbour(next)? + descriptor::PREVIOUS;
            self.set(index, back, previous)?;
        }
        Ok(())
    }

    /// The descriptor of a page that a list names by its number plus 1.
    pub(crate) fn neighbour(&self, link: u64) -> Result<u64, Error> {
        let mapping = &self.segment.mapping;
        if mapping.page_reserved(link - 1) {
            Ok(mapping.layout().descriptor(link - 1))
        } else {
            Err(Error::Damaged(Fault {
                at: link,
                what: "the number of a page in a reserved extent",
            }))
        }
    }

    /// Makes the frees that were collected.
    #[inline]
    pub(crate) fn apply_frees(&mut self) -> Result<(), Error> {
        if self.frees.is_empty() {
            return Ok(());
        }
        for number in 0..self.frees.len() {
            let (pool, at) = self.frees[number];
            self.apply_free(pool, at)?;
        }
        self.frees.clear();
        Ok(())
    }

    fn apply_free(&mut self, pool: Pool, at: Offset) -> Result<(), Error> {
        let pool = self.where_it_is(pool)?;
        if pool.is_arena() && at == pool.arena() {
            return self.apply_bury_arena(pool);
        }
        let index = self.home(pool);
        let mapping = &self.segment.mapping;
        let layout = *mapping.layout();
        let pool_words = mapping.pool_words(pool)?;
        let (page, class, block) = match mapping.place(pool, at)? {
            BlockPlace::Large(page, _) if !pool.is_arena() && self.is_page_pinned(page)? => {
                return self.park(index, page);
            }
            BlockPlace::Large(page, pages) => {
                let used = pool_words + shard::USED_BYTES;
                self.add_at(index, used, -((pages * PAGE) as i64))?;
                return self.bury(pool, page, pages);
            }
            BlockPlace::Slab(page, class, block) => (page, class, block),
        };
        let list = pool_words + shard::CLASSES + class as u64 * 8;
        let words = layout.descriptor(page) + descriptor::BITMAP;
        let free_blocks = || -> [u64; 4] {
            std::array::from_fn(|word| {
                if (word as u64) < bitmap_words(class) {
                    mapping.load(words + word as u64 * 8)
                } else {
                    0
                }
            })
        };
        if free_blocks() == [0; 4] {
            self.link(index, list, page)?;
        }
        let word = bitmap_word(mapping, page, block);
        self.set(index, word, mapping.load(word) | 1 << (block % 64))?;
        let used = pool_words + shard::USED_BYTES;
        self.add_at(index, used, -i64::from(classes::SIZES[class]))?;
        if free_blocks() != all_free(class) {
            return Ok(());
        }
        let pages = u64::from(classes::SLAB_PAGES[class]);
        let only = mapping.load(list) == page + 1
            && mapping.load(layout.descriptor(page) + descriptor::NEXT) == 0;
        if pages > 1 {
            // The last slab of its class stays: the next block may come soon.
            if !only {
                self.unlink(index, list, page)?;
                self.bury(pool, page, pages)?;
            }
            return Ok(());
        }
        self.unlink(index, list, page)?;
        let kept = if pool.is_arena() {
            (mapping.load(pool_words + shard::PAGES) / KEPT_PART).min(KEPT_PAGES)
        } else {
            KEPT_PAGES
        };
        let free = mapping.load(pool_words + shard::FREE_COUNT);
        if free >= kept {
            if free > kept {
                // What an arena may keep falls as it shrinks.
                let another = self.take_free_page(pool)?;
                self.bury(pool, another, 1)?;
            }
            return self.bury(pool, page, 1);
        }
        let kind = PageUse::Free.pack_tagged(mapping.tag(pool));
        self.set(index, layout.descriptor(page) + descriptor::KIND, kind)?;
        self.link(index, pool_words + shard::FREE_LIST, page)?;
        self.add_at(index, pool_words + shard::FREE_COUNT, 1)
    }

    /// Finishes a return to the heap that its owner did not live to finish.
    pub(crate) fn finish_return(&self, index: usize) -> Result<(), Error> {
        if self.shard_word(index, shard::RETURNING) == 0 {
            return Ok(());
        }
        step::run(self.segment, |heap| heap.finish_return(index))
    }

    /// Puts a run on the list of those that go back to the heap after commit.
    pub(crate) fn bury(&mut self, pool: Pool, page: u64, pages: u64) -> Result<(), Error> {
        let index = self.home(pool);
        // A return that was interrupted may still have its run at the front of
        // the list: it must come off before another run hides it there.
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
}
