//! The part of the heap that each shard manages (H3, H4): slabs of equally sized blocks, runs of
//! pages for large blocks, and the lists that connect them.
//!
//! The map of a slab's free blocks is in its page's descriptor, not in the blocks. Filling a fresh
//! block therefore overwrites nothing that a rollback needs (W4).

use crate::allocator::block_stock::TakenBlocks;
use crate::error::{Error, Fault};
use crate::heap::pages::{PageUse, all_free, bitmap_words};
use crate::heap::pool::{BlockPlace, Pool};
use crate::mapped::classes;
use crate::mapped::layout::{EXTENT_PAGES, Offset, PAGE, descriptor, shard};
use crate::transactions::Transaction;

impl Transaction<'_> {
    /// Allocates a block of at least `bytes` bytes in a shard or an arena. The block's initial
    /// contents are unspecified. O(1).
    #[inline]
    pub fn allocate(&mut self, pool: impl Into<Pool>, bytes: u64) -> Result<Offset, Error> {
        let pool = pool.into();
        match classes::class_of(bytes) {
            // The descriptor of an arena's slab has only three bitmap words, too few for class 0.
            Some(0) if pool.is_arena() => self.allocate_block(pool, 1),
            Some(class) => self.allocate_block(pool, class),
            None => self.allocate_run(pool, bytes.div_ceil(PAGE)),
        }
    }

    /// Returns the size of the block at an offset, which may exceed the requested size.
    #[inline]
    pub fn block_size(&self, pool: impl Into<Pool>, at: Offset) -> Result<u64, Error> {
        Ok(match self.segment.mapping.place(pool.into(), at)? {
            BlockPlace::Slab(_, class, _) => u64::from(classes::SIZES[class]),
            BlockPlace::Large(_, pages) => pages * PAGE,
        })
    }

    #[inline]
    fn allocate_block(&mut self, pool: Pool, class: usize) -> Result<Offset, Error> {
        let taken = self.allocate_blocks(pool, class, 1)?;
        Ok(taken.first + u64::from(taken.bits.trailing_zeros()) * taken.size)
    }

    /// Allocates between one and `wanted` blocks of at least `bytes` bytes each, limited to the
    /// number that one log entry covers.
    ///
    /// # Panics
    /// Panics if blocks of this size do not fit in a slab.
    pub(crate) fn allocate_some(
        &mut self,
        pool: Pool,
        bytes: u64,
        wanted: u64,
    ) -> Result<TakenBlocks, Error> {
        match classes::class_of(bytes) {
            Some(0) if pool.is_arena() => self.allocate_blocks(pool, 1, wanted),
            Some(class) => self.allocate_blocks(pool, class, wanted),
            None => panic!("blocks of {bytes} bytes are not kept in slabs"),
        }
    }

    /// Allocates between one and `wanted` blocks that are covered by one word of a slab's bitmap.
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
        // In an arena, the descriptor's last bitmap word links runs instead.
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
            // Small pools request few pages. Large pools request an entire extent.
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

    /// Buries the memory that a shard retains for its next blocks: free pages, and empty slabs that
    /// are the last of their class. Returns the number of runs buried.
    pub(crate) fn bury_kept(&mut self, index: usize) -> Result<u64, Error> {
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
