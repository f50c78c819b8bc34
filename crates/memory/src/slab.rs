//! The heap's half in each shard (H3, H4): slabs of equal blocks, runs of
//! pages for large ones, and the lists between them.
//!
//! Which blocks of a slab are free stands in its page's descriptor and not in
//! the blocks, so that filling a fresh block spoils nothing that a rollback
//! needs (W4).

use std::time::Duration;

use crate::classes;
use crate::error::{Error, Fault};
use crate::fault;
use crate::heap::Run;
use crate::layout::{EXTENT_PAGES, PAGE, descriptor, shard};
use crate::mapping::Mapping;
use crate::segment::Segment;
use crate::transaction::{Shortage, Transaction};
use crate::view::Offset;

/// Free single pages that a shard keeps for itself.
const KEPT_PAGES: u64 = 16;
/// Runs returned to the heap after one transaction at most (W9).
const BURIED_AT_ONCE: usize = 4;

/// How long a transaction that is over waits for the heap's lock.
const BURIAL_PATIENCE: Duration = Duration::from_millis(1);

/// What a page is used for, as its descriptor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// On the shard's list of free pages.
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
}

impl Kind {
    pub(crate) fn pack(self) -> u64 {
        match self {
            Kind::Free => 1,
            Kind::Slab(class) => 2 | (class as u64) << 8,
            Kind::Continued(distance) => 3 | distance << 8,
            Kind::Large => 4,
            Kind::Buried => 5,
            Kind::Staged => 6,
        }
    }

    pub(crate) fn unpack(word: u64) -> Option<Kind> {
        let argument = word >> 8;
        match word & 0xff {
            1 => Some(Kind::Free),
            2 if argument < classes::COUNT as u64 => Some(Kind::Slab(argument as usize)),
            3 if argument < 8 => Some(Kind::Continued(argument)),
            4 => Some(Kind::Large),
            5 => Some(Kind::Buried),
            6 => Some(Kind::Staged),
            _ => None,
        }
    }
}

/// Where a block lies.
pub(crate) enum Place {
    /// In a slab: its first page, class, and index of the block.
    Slab(u64, usize, u32),
    /// A run of so many pages.
    Large(u64, u64),
}

impl Mapping {
    pub(crate) fn kind(&self, page: u64) -> Option<Kind> {
        Kind::unpack(self.load(self.layout().descriptor(page) + descriptor::KIND))
    }

    /// Finds the allocated block that starts at an offset.
    pub(crate) fn place(&self, index: usize, at: Offset) -> Result<Place, Fault> {
        let fault = Fault {
            at,
            what: "the start of an allocated block of the shard",
        };
        self.check(at, 8)?;
        let mut page = self.page_of(at);
        if let Some(Kind::Continued(distance)) = self.kind(page) {
            page = page.checked_sub(distance).ok_or(fault)?;
        }
        let run = Run::unpack(self.load(self.layout().descriptor(page))).ok_or(fault)?;
        if run.shard != index {
            return Err(fault);
        }
        match self.kind(page) {
            Some(Kind::Slab(class)) => {
                let inside = at - self.layout().page(page);
                let block = inside / u64::from(classes::SIZES[class]);
                let sound = inside.is_multiple_of(u64::from(classes::SIZES[class]))
                    && block < u64::from(classes::blocks(class))
                    && self.load(bitmap_word(self, page, block as u32)) >> (block % 64) & 1 == 0;
                if sound {
                    Ok(Place::Slab(page, class, block as u32))
                } else {
                    Err(fault)
                }
            }
            Some(Kind::Large) if at == self.layout().page(page) => {
                Ok(Place::Large(page, run.pages))
            }
            _ => Err(fault),
        }
    }
}

#[inline(always)]
fn bitmap_word(mapping: &Mapping, page: u64, block: u32) -> u64 {
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

impl Transaction<'_> {
    /// Allocates a block of at least `bytes` bytes in a shard. Its content is
    /// whatever was there before. O(1).
    #[inline]
    pub fn allocate(&mut self, index: usize, bytes: u64) -> Result<Offset, Error> {
        match classes::class_of(bytes) {
            Some(class) => self.allocate_block(index, class),
            None => self.allocate_run(index, bytes.div_ceil(PAGE)),
        }
    }

    /// Bytes in the block at an offset, at least what was asked for.
    #[inline]
    pub fn block_size(&self, index: usize, at: Offset) -> Result<u64, Error> {
        Ok(match self.segment.mapping.place(index, at)? {
            Place::Slab(_, class, _) => u64::from(classes::SIZES[class]),
            Place::Large(_, pages) => pages * PAGE,
        })
    }

    /// Frees a block, as the last step of the transaction (W4).
    #[inline]
    pub fn free(&mut self, index: usize, at: Offset) {
        self.frees.push((index as u8, at));
    }

    /// Gives a large block to another shard of this transaction without
    /// copying it (H4). False where the block is small, or was allocated or
    /// moved by this very transaction: then the caller copies.
    pub fn transfer(&mut self, at: Offset, from: usize, to: usize) -> Result<bool, Error> {
        let Place::Large(page, pages) = self.segment.mapping.place(from, at)? else {
            return Ok(false);
        };
        let again = self.moved.iter().any(|(first, ..)| *first == at);
        if again || self.granted.contains(&page) {
            return Ok(false);
        }
        // A return that was interrupted may name this very run, of an earlier
        // time: it would be returned once it is the shard's again.
        self.finish_return(to)?;
        self.moved.push((at, at + pages * PAGE - 1, from));
        let run = Run { shard: to, pages };
        let at = self.segment.mapping.layout().descriptor(page);
        self.set(from, at + descriptor::RUN, run.pack())?;
        for (index, sign) in [(from, -1), (to, 1)] {
            self.add(index, shard::PAGES, sign * pages as i64)?;
            self.add(index, shard::USED_BYTES, sign * (pages * PAGE) as i64)?;
        }
        Ok(true)
    }

    #[inline(always)]
    fn add(&mut self, index: usize, field: u64, change: i64) -> Result<(), Error> {
        let at = self.segment.mapping.layout().shard(index) + field;
        let old = self.segment.mapping.load(at);
        self.set(index, at, old.wrapping_add_signed(change))
    }

    #[inline(always)]
    fn shard_word(&self, index: usize, field: u64) -> u64 {
        let mapping = &self.segment.mapping;
        mapping.load(mapping.layout().shard(index) + field)
    }

    #[inline]
    fn allocate_block(&mut self, index: usize, class: usize) -> Result<Offset, Error> {
        let mapping = &self.segment.mapping;
        let layout = mapping.layout();
        let list = layout.shard(index) + shard::CLASSES + class as u64 * 8;
        let head = mapping.load(list);
        let page = if head == 0 {
            self.new_slab(index, class)?
        } else {
            head - 1
        };
        let damaged = Error::Damaged(Fault {
            at: list,
            what: "a slab with a free block",
        });
        if !mapping.page_reserved(page) || mapping.kind(page) != Some(Kind::Slab(class)) {
            return Err(damaged);
        }
        let words = layout.descriptor(page) + descriptor::BITMAP;
        let count = classes::blocks(class).div_ceil(64);
        for word in 0..u64::from(count) {
            let bits = mapping.load(words + word * 8);
            if bits == 0 {
                continue;
            }
            let block = word * 64 + u64::from(bits.trailing_zeros());
            if block >= u64::from(classes::blocks(class)) {
                return Err(damaged);
            }
            let left = bits & (bits - 1);
            self.set(index, words + word * 8, left)?;
            if left == 0 && (word + 1..count.into()).all(|word| mapping.load(words + word * 8) == 0)
            {
                self.unlink(index, list, page)?;
            }
            let size = classes::SIZES[class];
            self.add(index, shard::USED_BYTES, i64::from(size))?;
            return Ok(layout.page(page) + block * u64::from(size));
        }
        Err(damaged)
    }

    #[cold]
    fn new_slab(&mut self, index: usize, class: usize) -> Result<u64, Error> {
        let pages = u64::from(classes::SLAB_PAGES[class]);
        let page = if pages == 1 {
            self.take_free_page(index)?
        } else {
            self.grant(index, pages, 1)?
        };
        let layout = *self.segment.mapping.layout();
        let at = layout.descriptor(page) + descriptor::KIND;
        self.save(index, at, 7)?;
        let mapping = &self.segment.mapping;
        mapping.store(at, Kind::Slab(class).pack());
        for (word, bits) in all_free(class).into_iter().enumerate() {
            mapping.store(
                layout.descriptor(page) + descriptor::BITMAP + word as u64 * 8,
                bits,
            );
        }
        for distance in 1..pages {
            let at = layout.descriptor(page + distance) + descriptor::KIND;
            self.set(index, at, Kind::Continued(distance).pack())?;
        }
        let list = layout.shard(index) + shard::CLASSES + class as u64 * 8;
        self.link(index, list, page)?;
        Ok(page)
    }

    fn take_free_page(&mut self, index: usize) -> Result<u64, Error> {
        if self.shard_word(index, shard::FREE_LIST) == 0 {
            // Small stores ask for little; large ones for an extent at a time.
            let wanted = match self.shard_word(index, shard::PAGES) {
                0..8 => 2,
                8..64 => 4,
                _ => EXTENT_PAGES,
            };
            let layout = *self.segment.mapping.layout();
            let list = layout.shard(index) + shard::FREE_LIST;
            let (first, count) = match self.try_grant(index, wanted, wanted)? {
                Some(page) => (page, wanted),
                None => match self.try_grant(index, 1, 1)? {
                    Some(page) => (page, 1),
                    None => return Err(self.short_of(wanted)),
                },
            };
            for page in (first..first + count).rev() {
                let at = layout.descriptor(page) + descriptor::KIND;
                self.set(index, at, Kind::Free.pack())?;
                self.link(index, list, page)?;
            }
            self.add(index, shard::FREE_COUNT, count as i64)?;
        }
        let list = self.segment.mapping.layout().shard(index) + shard::FREE_LIST;
        let page = self.segment.mapping.load(list).wrapping_sub(1);
        if !self.segment.mapping.page_reserved(page) {
            return Err(Error::Damaged(Fault {
                at: list,
                what: "the number of a free page",
            }));
        }
        self.unlink(index, list, page)?;
        self.add(index, shard::FREE_COUNT, -1)?;
        Ok(page)
    }

    pub(crate) fn allocate_run(&mut self, index: usize, pages: u64) -> Result<Offset, Error> {
        let page = self.grant(index, pages, 1)?;
        let layout = *self.segment.mapping.layout();
        let at = layout.descriptor(page) + descriptor::KIND;
        self.set(index, at, Kind::Large.pack())?;
        self.add(index, shard::USED_BYTES, (pages * PAGE) as i64)?;
        Ok(layout.page(page))
    }

    fn grant(&mut self, index: usize, pages: u64, runs: u64) -> Result<u64, Error> {
        match self.try_grant(index, pages, runs)? {
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
    fn try_grant(&mut self, index: usize, pages: u64, runs: u64) -> Result<Option<u64>, Error> {
        let log = self.log(index);
        let mut full = None;
        let granted = &mut self.granted;
        let result = self.segment.with_heap(|heap| {
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
        if page.is_some() {
            self.add(index, shard::PAGES, pages as i64)?;
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

    fn neighbour(&self, link: u64) -> Result<u64, Error> {
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
        for (index, at) in std::mem::take(&mut self.frees) {
            self.apply_free(index.into(), at)?;
        }
        Ok(())
    }

    fn apply_free(&mut self, index: usize, at: Offset) -> Result<(), Error> {
        let mapping = &self.segment.mapping;
        let layout = *mapping.layout();
        let (page, class, block) = match mapping.place(index, at)? {
            Place::Large(page, pages) => {
                self.add(index, shard::USED_BYTES, -((pages * PAGE) as i64))?;
                return self.bury(index, page, pages);
            }
            Place::Slab(page, class, block) => (page, class, block),
        };
        let list = layout.shard(index) + shard::CLASSES + class as u64 * 8;
        let words = layout.descriptor(page) + descriptor::BITMAP;
        let bits: [u64; 4] = std::array::from_fn(|word| mapping.load(words + word as u64 * 8));
        if bits == [0; 4] {
            self.link(index, list, page)?;
        }
        let word = bitmap_word(mapping, page, block);
        self.set(index, word, mapping.load(word) | 1 << (block % 64))?;
        self.add(index, shard::USED_BYTES, -i64::from(classes::SIZES[class]))?;
        let now: [u64; 4] = std::array::from_fn(|word| mapping.load(words + word as u64 * 8));
        if now != all_free(class) {
            return Ok(());
        }
        let pages = u64::from(classes::SLAB_PAGES[class]);
        let only = mapping.load(list) == page + 1
            && mapping.load(layout.descriptor(page) + descriptor::NEXT) == 0;
        if pages > 1 {
            // The last slab of its class stays: the next block may come soon.
            if !only {
                self.unlink(index, list, page)?;
                self.bury(index, page, pages)?;
            }
            return Ok(());
        }
        self.unlink(index, list, page)?;
        if self.shard_word(index, shard::FREE_COUNT) >= KEPT_PAGES {
            return self.bury(index, page, 1);
        }
        let at = layout.descriptor(page) + descriptor::KIND;
        self.set(index, at, Kind::Free.pack())?;
        self.link(index, layout.shard(index) + shard::FREE_LIST, page)?;
        self.add(index, shard::FREE_COUNT, 1)
    }

    /// Finishes a return to the heap that its owner did not live to finish.
    fn finish_return(&self, index: usize) -> Result<(), Error> {
        if self.shard_word(index, shard::RETURNING) == 0 {
            return Ok(());
        }
        self.segment.with_heap(|heap| heap.finish_return(index))
    }

    /// Puts a run on the list of those that go back to the heap after commit.
    fn bury(&mut self, index: usize, page: u64, pages: u64) -> Result<(), Error> {
        // A return that was interrupted may still have its run at the front of
        // the list: it must come off before another run hides it there.
        self.finish_return(index)?;
        let layout = *self.segment.mapping.layout();
        let at = layout.descriptor(page) + descriptor::KIND;
        self.set(index, at, Kind::Buried.pack())?;
        self.add(index, shard::PAGES, -(pages as i64))?;
        self.link(index, layout.shard(index) + shard::GRAVEYARD, page)
    }
}

impl Segment {
    /// Returns a few runs of the graveyard to the heap. The shard's lock is
    /// held. What cannot be done now is done after a later transaction.
    #[inline(always)]
    pub(crate) fn drain_graveyard(&self, index: usize) {
        let base = self.mapping.layout().shard(index);
        let pending =
            self.mapping.load(base + shard::GRAVEYARD) | self.mapping.load(base + shard::RETURNING);
        if pending != 0 {
            self.return_buried(index);
        }
    }

    #[cold]
    fn return_buried(&self, index: usize) {
        for _ in 0..BURIED_AT_ONCE {
            // Others wait for the shard: what holds the heap up (a stopped
            // process) must not hold them up.
            let step = self.with_heap_within(BURIAL_PATIENCE, |heap| heap.bury_one(index));
            if !matches!(step, Ok(true)) {
                return;
            }
            fault::step();
        }
    }
}
