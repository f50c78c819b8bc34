//! Pools: the memory from which a block is allocated (either a shard's own slabs or an arena), and
//! the place of each block within it.

use crate::error::Fault;
use crate::heap::pages::{IN_ARENA, PageUse, Run, bitmap_word};
use crate::mapped::classes;
use crate::mapped::layout::{Offset, PAGE, descriptor};
use crate::mapped::mapping::Mapping;

/// The memory from which blocks are allocated: either a shard's own slabs, or an arena of the
/// shard, which is the memory of one large object (H4).
///
/// A shard number converts to the pool of that shard's slabs. A block must be freed in the pool
/// from which it was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    shard: usize,
    arena: Offset,
}

impl From<usize> for Pool {
    #[inline(always)]
    fn from(shard: usize) -> Pool {
        Pool { shard, arena: 0 }
    }
}

impl Pool {
    /// Returns the pool of an arena in a shard, or of the shard's own slabs if `arena` is 0. The
    /// arena's offset is checked when the pool is used.
    #[inline(always)]
    pub fn new(shard: usize, arena: Offset) -> Pool {
        Pool { shard, arena }
    }

    /// Returns the shard to which the pool belongs.
    #[inline(always)]
    pub fn shard(self) -> usize {
        self.shard
    }

    /// Returns the arena's offset, which the object that owns the arena must store, or 0 for a
    /// shard's own slabs.
    #[inline(always)]
    pub fn arena(self) -> Offset {
        self.arena
    }

    #[inline(always)]
    pub(crate) fn is_arena(self) -> bool {
        self.arena != 0
    }
}

impl Mapping {
    /// Returns the tag of a pool's pages: the page of its arena plus 1, or 0 for a shard's own
    /// slabs.
    #[inline(always)]
    pub(crate) fn tag(&self, pool: Pool) -> u64 {
        if pool.is_arena() {
            self.page_of(pool.arena) + 1
        } else {
            0
        }
    }

    /// Returns the offset of a pool's words, such as its used bytes and its lists. Checks an
    /// arena's offset, because it may have been read from the store.
    #[inline(always)]
    pub(crate) fn pool_words(&self, pool: Pool) -> Result<u64, Fault> {
        if pool.is_arena() {
            self.check_arena(pool)?;
            Ok(pool.arena)
        } else {
            Ok(self.layout().shard(pool.shard))
        }
    }

    fn check_arena(&self, pool: Pool) -> Result<(), Fault> {
        let at = pool.arena;
        self.check(at, PAGE)?;
        let page = self.page_of(at);
        let descriptor = self.layout().descriptor(page);
        let run = Run::unpack(self.load(descriptor + descriptor::RUN));
        let sound = at == self.layout().page(page)
            && run.is_some_and(|run| run.shard == pool.shard && run.pages == 1)
            && self.page_use(page) == Some(PageUse::Arena);
        if sound {
            Ok(())
        } else {
            Err(Fault {
                at,
                what: "the start of an arena of the shard",
            })
        }
    }

    /// Returns the page of the arena to which a run belongs. `page` is the run's first page and
    /// must be backed with memory.
    pub(crate) fn arena_of_run(&self, page: u64) -> Option<u64> {
        let descriptor = self.layout().descriptor(page);
        let run = Run::unpack(self.load(descriptor + descriptor::RUN))?;
        let tag = PageUse::tag_of(self.load(descriptor + descriptor::KIND));
        (run.shard == IN_ARENA).then(|| tag.checked_sub(1))?
    }
}

/// The place of a block within its pool.
pub(crate) enum BlockPlace {
    /// A block in a slab: the slab's first page, its class, and the index of the block.
    Slab(u64, usize, u32),
    /// A run of pages: its first page and its number of pages.
    Large(u64, u64),
}

impl Mapping {
    /// Returns the size of the allocated block at an offset, in any pool.
    pub(crate) fn block_bytes(&self, at: Offset) -> Result<u64, Fault> {
        let fault = Fault {
            at,
            what: "the start of an allocated block",
        };
        self.check(at, 8)?;
        let mut page = self.page_of(at);
        if let Some(PageUse::Continued(distance)) = self.page_use(page) {
            page = page.checked_sub(distance).ok_or(fault)?;
        }
        match self.page_use(page) {
            Some(PageUse::Slab(class)) => Ok(classes::SIZES[class].into()),
            Some(PageUse::Large) => {
                let run = self.load(self.layout().descriptor(page) + descriptor::RUN);
                let run = Run::unpack(run).ok_or(fault)?;
                Ok(run.pages.saturating_mul(PAGE))
            }
            _ => Err(fault),
        }
    }

    /// Finds the allocated block that starts at an offset in the pool.
    pub(crate) fn place(&self, pool: Pool, at: Offset) -> Result<BlockPlace, Fault> {
        let fault = Fault {
            at,
            what: "the start of an allocated block of the shard",
        };
        self.check(at, 8)?;
        let mut page = self.page_of(at);
        if let Some(PageUse::Continued(distance)) = self.page_use(page) {
            page = page.checked_sub(distance).ok_or(fault)?;
        }
        let run = Run::unpack(self.load(self.layout().descriptor(page))).ok_or(fault)?;
        let kind = self.load(self.layout().descriptor(page) + descriptor::KIND);
        let owner = if pool.is_arena() {
            self.pool_words(pool)?;
            IN_ARENA
        } else {
            pool.shard()
        };
        if run.shard != owner || PageUse::tag_of(kind) != self.tag(pool) {
            return Err(fault);
        }
        match PageUse::unpack(kind) {
            Some(PageUse::Slab(class)) => {
                let inside = at - self.layout().page(page);
                let block = inside / u64::from(classes::SIZES[class]);
                let sound = inside.is_multiple_of(u64::from(classes::SIZES[class]))
                    && block < u64::from(classes::blocks(class))
                    && self.load(bitmap_word(self, page, block as u32)) >> (block % 64) & 1 == 0;
                if sound {
                    Ok(BlockPlace::Slab(page, class, block as u32))
                } else {
                    Err(fault)
                }
            }
            Some(PageUse::Large) if at == self.layout().page(page) => {
                Ok(BlockPlace::Large(page, run.pages))
            }
            _ => Err(fault),
        }
    }
}
