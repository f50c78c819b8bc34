//! Collects the blocks that a transaction frees (W4), and frees them as the transaction's last
//! step.

use crate::error::Error;
use crate::heap::pages::{PageUse, all_free, bitmap_word, bitmap_words};
use crate::heap::pool::{BlockPlace, Pool};
use crate::mapped::classes;
use crate::mapped::layout::{Offset, PAGE, descriptor, shard};
use crate::transactions::Transaction;

/// The maximum number of free single pages that a shard or an arena retains for reuse.
const KEPT_PAGES: u64 = 16;
/// An arena retains at most 1/`KEPT_PART` of its pages for reuse.
const KEPT_PART: u64 = 16;

impl Transaction<'_> {
    /// Frees a block, as the last step of the transaction (W4).
    #[inline]
    pub fn free(&mut self, pool: impl Into<Pool>, at: Offset) {
        // The commit needs the page's descriptor, which is often not cached yet.
        let mapping = &self.segment.mapping;
        let page = at.wrapping_sub(mapping.layout().heap) / PAGE;
        mapping.prefetch(mapping.layout().descriptor(page));
        self.frees.push((pool.into(), at));
    }

    /// Performs the frees collected by this transaction.
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
            // Retain a slab that is the last of its class, because the next allocation may need it
            // soon.
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
                // The number of pages that an arena may retain falls as the arena shrinks.
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

    /// Frees a staged or parked block, as the last step of the transaction.
    pub(crate) fn free_staged(&mut self, index: usize, page: u64) -> Result<(), Error> {
        let layout = *self.segment.mapping.layout();
        self.unlink(index, layout.shard(index) + shard::STAGING, page)?;
        let kind = layout.descriptor(page) + descriptor::KIND;
        self.set(index, kind, PageUse::Large.pack())?;
        self.free(index, layout.page(page));
        Ok(())
    }
}
