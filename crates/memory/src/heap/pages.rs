//! The heap's page descriptors: the runs in which pages were granted, and the uses of pages.

use crate::mapped::classes;
use crate::mapped::layout::{descriptor, shard};
use crate::mapped::mapping::Mapping;

/// Stored in place of the owning shard for an arena's runs. The descriptor of the run's first page
/// identifies the arena, so an arena can move to another shard without modifying its runs.
pub(crate) const IN_ARENA: usize = 0xfe;
/// Stored in place of the owning shard for runs allocated for a copy of the store.
pub(crate) const OF_COPY: usize = 0xfd;

/// The owner and length of a granted run, as stored in its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The owning shard, [`IN_ARENA`] or [`OF_COPY`].
    pub(crate) shard: usize,
    /// The shard's age at the time of the grant; see `flushed_runs.rs`.
    pub(crate) age: u64,
    pub(crate) pages: u64,
}

impl Run {
    pub(crate) fn pack(self) -> u64 {
        (self.shard as u64 + 1) | self.age << 8 | self.pages << 32
    }

    pub(crate) fn unpack(word: u64) -> Option<Run> {
        let shard = (word & 0xff) as usize;
        (shard != 0).then(|| Run {
            shard: shard - 1,
            age: word >> 8 & (AGES - 1),
            pages: word >> 32,
        })
    }
}

/// The number of distinct ages, after which ages restart from 0.
const AGES: u64 = 1 << 24;

/// Returns the age that follows `age`.
pub(crate) fn next_age(age: u64) -> u64 {
    (age + 1) % AGES
}

impl Mapping {
    /// Returns the current age of a shard, which is recorded in newly granted runs.
    pub(crate) fn age(&self, index: usize) -> u64 {
        self.load(self.layout().shard(index) + shard::AGE) % AGES
    }
}

/// The use of a page, as stored in its descriptor: the low byte contains the use, the next byte its
/// argument, and the bytes above them the *tag*, which is the page of its arena plus 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageUse {
    /// A page on its pool's free list.
    Free,
    /// The first page of a slab with this size class.
    Slab(usize),
    /// A later page of a slab, at this distance in pages from the first page.
    Continued(u64),
    /// The first page of a large block.
    Large,
    /// The first page of a run that is being returned to the heap.
    Buried,
    /// The first page of a large block that is being filled without the lock.
    Staged,
    /// The first page of an arena.
    Arena,
    /// The first page of an arena that is being returned to the heap.
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

    /// Packs the use together with the tag of an arena; a tag of 0 means no arena.
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

impl Mapping {
    #[inline(always)]
    pub(crate) fn page_use(&self, page: u64) -> Option<PageUse> {
        PageUse::unpack(self.load(self.layout().descriptor(page) + descriptor::KIND))
    }

    /// Returns the next and previous runs in an arena's list, each as a page number plus 1.
    pub(crate) fn siblings(&self, page: u64) -> (u64, u64) {
        let word = self.load(self.layout().descriptor(page) + descriptor::SIBLINGS);
        (word & 0xffff_ffff, word >> 32)
    }
}

/// Returns the number of descriptor words that record which blocks of a slab are free.
#[inline(always)]
pub(crate) fn bitmap_words(class: usize) -> u64 {
    classes::blocks(class).div_ceil(64).into()
}

#[inline(always)]
pub(crate) fn bitmap_word(mapping: &Mapping, page: u64, block: u32) -> u64 {
    mapping.layout().descriptor(page) + descriptor::BITMAP + u64::from(block / 64 * 8)
}

/// Returns the bitmap words of a slab whose blocks are all free.
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
