//! Where a block comes from: a shard's own slabs, or an arena.

use crate::allocator::heap::{IN_ARENA, Run};
use crate::allocator::page_use::PageUse;
use crate::error::Fault;
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
