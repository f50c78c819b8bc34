//! Pools: where a block comes from, a shard's own slabs or an arena, and which block lies where in them.

use crate::error::Fault;
use crate::heap::pages::{IN_ARENA, PageUse, Run, bitmap_word};
use crate::mapped::classes;
use crate::mapped::layout::{Offset, PAGE, descriptor};
use crate::mapped::mapping::Mapping;

/// Memory that blocks are allocated from: a shard's own slabs, or an arena of
/// the shard, which is the memory of one large object (H4).
///
/// A shard's number is its pool. A block must be freed in the pool that it was
/// allocated from.
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
    /// The pool of an arena that lies in a shard; of the shard itself where
    /// `arena` is 0. Whether there is such an arena shows when it is used.
    #[inline(always)]
    pub fn new(shard: usize, arena: Offset) -> Pool {
        Pool { shard, arena }
    }

    /// The shard whose log takes the pool's changes.
    #[inline(always)]
    pub fn shard(self) -> usize {
        self.shard
    }

    /// The arena, as it is to be kept in the object whose memory it is; 0 is
    /// the shard's own slabs.
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
    /// What the uses of a pool's pages are marked with: the page of its arena,
    /// plus 1, or 0.
    #[inline(always)]
    pub(crate) fn tag(&self, pool: Pool) -> u64 {
        if pool.is_arena() {
            self.page_of(pool.arena) + 1
        } else {
            0
        }
    }

    /// Where the words of a pool start: used bytes, lists and their like. An
    /// arena that was read from the store is checked.
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

    /// The page of the arena that a run belongs to, by the run's first page,
    /// which must be backed by memory.
    pub(crate) fn arena_of_run(&self, page: u64) -> Option<u64> {
        let descriptor = self.layout().descriptor(page);
        let run = Run::unpack(self.load(descriptor + descriptor::RUN))?;
        let tag = PageUse::tag_of(self.load(descriptor + descriptor::KIND));
        (run.shard == IN_ARENA).then(|| tag.checked_sub(1))?
    }
}

/// Where a block lies.
pub(crate) enum BlockPlace {
    /// In a slab: its first page, class, and index of the block.
    Slab(u64, usize, u32),
    /// A run of so many pages.
    Large(u64, u64),
}

impl Mapping {
    /// Bytes of the allocated block at an offset, whichever pool it is of.
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

    /// Finds the allocated block of the pool that starts at an offset.
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
