//! What pages are used for, and which block lies where in them.

use crate::allocator::heap::{IN_ARENA, Run};
use crate::allocator::pool::Pool;
use crate::error::Fault;
use crate::mapped::classes;
use crate::mapped::layout::{Offset, PAGE, descriptor};
use crate::mapped::mapping::Mapping;

/// What a page is used for, as its descriptor says: the use in the low byte,
/// its argument in the next one, and above them the page of the arena that it
/// belongs to, plus 1 (its *tag*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageUse {
    /// On the pool's list of free pages.
    Free,
    /// First page of a slab of this class.
    Slab(usize),
    /// Inside a slab that starts so many pages before.
    Continued(u64),
    /// First page of a large block.
    Large,
    /// First page of a run on its way to the heap.
    Buried,
    /// First page of a large block that is being filled outside the lock.
    Staged,
    /// First page of an arena.
    Arena,
    /// First page of an arena on its way to the heap.
    BuriedArena,
}

impl PageUse {
    #[inline(always)]
    pub(crate) fn pack(self) -> u64 {
        match self {
            PageUse::Free => 1,
            PageUse::Slab(class) => 2 | (class as u64) << 8,
            PageUse::Continued(distance) => 3 | distance << 8,
            PageUse::Large => 4,
            PageUse::Buried => 5,
            PageUse::Staged => 6,
            PageUse::Arena => 7,
            PageUse::BuriedArena => 8,
        }
    }

    /// With the tag of an arena, or 0.
    #[inline(always)]
    pub(crate) fn pack_tagged(self, tag: u64) -> u64 {
        self.pack() | tag << TAG_SHIFT
    }

    pub(crate) fn tag_of(word: u64) -> u64 {
        word >> TAG_SHIFT
    }

    #[inline(always)]
    pub(crate) fn unpack(word: u64) -> Option<PageUse> {
        let argument = word >> 8 & 0xff;
        match word & 0xff {
            1 => Some(PageUse::Free),
            2 if argument < classes::COUNT as u64 => Some(PageUse::Slab(argument as usize)),
            3 if argument < 8 => Some(PageUse::Continued(argument)),
            4 => Some(PageUse::Large),
            5 => Some(PageUse::Buried),
            6 => Some(PageUse::Staged),
            7 => Some(PageUse::Arena),
            8 => Some(PageUse::BuriedArena),
            _ => None,
        }
    }
}

const TAG_SHIFT: u32 = 16;

/// Where a block lies.
pub(crate) enum BlockPlace {
    /// In a slab: its first page, class, and index of the block.
    Slab(u64, usize, u32),
    /// A run of so many pages.
    Large(u64, u64),
}

impl Mapping {
    #[inline(always)]
    pub(crate) fn page_use(&self, page: u64) -> Option<PageUse> {
        PageUse::unpack(self.load(self.layout().descriptor(page) + descriptor::KIND))
    }

    /// The neighbours of a run in its arena's list: next and previous, plus 1
    /// each.
    pub(crate) fn siblings(&self, page: u64) -> (u64, u64) {
        let word = self.load(self.layout().descriptor(page) + descriptor::SIBLINGS);
        (word & 0xffff_ffff, word >> 32)
    }

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

/// Words of a descriptor that say which blocks of a slab are free.
#[inline(always)]
pub(crate) fn bitmap_words(class: usize) -> u64 {
    classes::blocks(class).div_ceil(64).into()
}

#[inline(always)]
pub(crate) fn bitmap_word(mapping: &Mapping, page: u64, block: u32) -> u64 {
    mapping.layout().descriptor(page) + descriptor::BITMAP + u64::from(block / 64 * 8)
}

/// The bit maps of a slab of which every block is free.
pub(crate) fn all_free(class: usize) -> [u64; 4] {
    let blocks = classes::blocks(class);
    std::array::from_fn(|word| {
        let left = blocks.saturating_sub(word as u32 * 64).min(64);
        if left == 0 {
            0
        } else {
            u64::MAX >> (64 - left)
        }
    })
}
