//! Staging (W8): large blocks are filled outside the lock and published in one
//! step.
//!
//! A staged block is on its shard's staging list, with the process that fills
//! it named in its descriptor. When that process dies, whoever reclaims its
//! slot frees the block.

use crate::error::{Error, Fault};
use crate::kind::Kind;
use crate::layout::{PAGE, descriptor, shard, slot};
use crate::lock::Owner;
use crate::segment::Segment;
use crate::shards::ShardSet;
use crate::transaction::Transaction;
use crate::view::Offset;

/// A large block that belongs to nobody but this handle: fill it, then
/// [adopt](Transaction::adopt) it. Freed when dropped before that.
pub struct Staged<'a> {
    segment: &'a Segment,
    shard: usize,
    page: u64,
    length: u64,
    owner: u64,
    adopted: bool,
}

impl Segment {
    /// This process as it is named in the descriptors of its staged blocks.
    fn staging_owner(&self) -> u64 {
        let slot_index = self.process.slot();
        let at = self.mapping.layout().slot(slot_index) + slot::GENERATION;
        (slot_index << 32) | (self.mapping.load(at) & 0xffff_ffff)
    }

    /// Allocates a block of at least `bytes` in a shard, to be filled without
    /// the shard's lock. Meant for blocks that take long to fill; always whole
    /// pages.
    pub fn stage(&self, index: usize, bytes: u64) -> Result<Staged<'_>, Error> {
        let layout = *self.mapping.layout();
        let (page, owner) = self.write(ShardSet::one(index), |transaction| {
            let at = transaction.allocate_run(index.into(), bytes.div_ceil(PAGE).max(1))?;
            let page = self.mapping.page_of(at);
            let words = layout.descriptor(page);
            transaction.set(index, words + descriptor::KIND, Kind::Staged.pack())?;
            let owner = self.staging_owner();
            transaction.set(index, words + descriptor::BITMAP, owner)?;
            transaction.link(index, layout.shard(index) + shard::STAGING, page)?;
            Ok::<_, Error>((page, owner))
        })?;
        Ok(Staged {
            segment: self,
            shard: index,
            page,
            length: bytes,
            owner,
            adopted: false,
        })
    }

    /// Frees the staged blocks of a slot whose owner is dead; of all dead
    /// owners where none is named.
    pub(crate) fn free_staged_of_the_dead(&self, slot_index: Option<u64>) -> Result<(), Error> {
        let layout = *self.mapping.layout();
        for index in 0..layout.shards {
            let list = layout.shard(index) + shard::STAGING;
            if self.mapping.load(list) == 0 {
                continue;
            }
            loop {
                let mut transaction = match Transaction::begin(self, ShardSet::one(index)) {
                    Ok(transaction) => transaction,
                    // Somebody is stopped with the lock: the blocks can wait.
                    Err(Error::Busy { .. }) => break,
                    Err(error) => return Err(error),
                };
                let pages = self.staged_pages(index)?;
                let Some(page) = pages
                    .into_iter()
                    .find(|&page| self.filler_is_dead(page, slot_index))
                else {
                    break;
                };
                transaction.free_staged(index, page)?;
                transaction.commit()?;
            }
        }
        Ok(())
    }

    /// Whether the process that fills a staged block is dead. A slot that is
    /// being reclaimed has only dead former owners; others are asked.
    fn filler_is_dead(&self, page: u64, slot_index: Option<u64>) -> bool {
        let at = self.mapping.layout().descriptor(page) + descriptor::BITMAP;
        let owner = self.mapping.load(at);
        let (named, generation) = (owner >> 32, owner & 0xffff_ffff);
        match slot_index {
            Some(slot_index) => named == slot_index,
            None => !self
                .process
                .alive(&self.mapping, Owner::new(named, generation)),
        }
    }

    /// The pages on a shard's staging list.
    pub(crate) fn staged_pages(&self, index: usize) -> Result<Vec<u64>, Error> {
        let layout = *self.mapping.layout();
        let list = layout.shard(index) + shard::STAGING;
        let mut pages = Vec::new();
        let mut link = self.mapping.load(list);
        while link != 0 {
            let page = link - 1;
            let sound = self.mapping.page_reserved(page)
                && self.mapping.kind(page) == Some(Kind::Staged)
                && pages.len() as u64 <= layout.pages();
            if !sound {
                return Err(Error::Damaged(Fault {
                    at: list,
                    what: "a list of staged blocks that ends",
                }));
            }
            pages.push(page);
            link = self
                .mapping
                .load(layout.descriptor(page) + descriptor::NEXT);
        }
        Ok(pages)
    }
}

impl Staged<'_> {
    /// The shard it lies in.
    pub fn shard(&self) -> usize {
        self.shard
    }

    /// Bytes asked for.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Fills part of the block, from a position that is a multiple of 8; the
    /// last word is padded with zeros.
    ///
    /// # Panics
    /// If the bytes do not fit the length asked for, or `position` is not a
    /// multiple of 8.
    pub fn fill(&mut self, position: u64, bytes: &[u8]) {
        let end = position + bytes.len() as u64;
        assert!(position.is_multiple_of(8) && end <= self.length);
        let mapping = &self.segment.mapping;
        mapping.copy_from(mapping.layout().page(self.page) + position, bytes);
    }

    /// The transaction that adopted the block was committed: the block is no
    /// longer this handle's.
    pub fn adopted(mut self) {
        self.adopted = true;
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        // A forked child's copy of the handle frees nothing.
        let mine = self.segment.process.claimed() && self.segment.staging_owner() == self.owner;
        if self.adopted || !mine || crate::fault::abandoned() {
            return;
        }
        // Where this fails (the shard cannot be locked now), the block stays
        // staged until this process ends and its slot is reclaimed.
        let _ = self
            .segment
            .write(ShardSet::one(self.shard), |transaction| {
                transaction.free_staged(self.shard, self.page)
            });
    }
}

impl Transaction<'_> {
    /// Takes a staged block over, as a block of its shard, which must be one of
    /// this transaction's. The transaction may still be rolled back: call
    /// [`Staged::adopted`] once it has been committed.
    pub fn adopt(&mut self, staged: &Staged<'_>) -> Result<Offset, Error> {
        let layout = *self.segment.mapping.layout();
        let index = staged.shard;
        self.unlink(index, layout.shard(index) + shard::STAGING, staged.page)?;
        let kind = layout.descriptor(staged.page) + descriptor::KIND;
        self.set(index, kind, Kind::Large.pack())?;
        Ok(layout.page(staged.page))
    }

    fn free_staged(&mut self, index: usize, page: u64) -> Result<(), Error> {
        let layout = *self.segment.mapping.layout();
        self.unlink(index, layout.shard(index) + shard::STAGING, page)?;
        let kind = layout.descriptor(page) + descriptor::KIND;
        self.set(index, kind, Kind::Large.pack())?;
        self.free(index, layout.page(page));
        Ok(())
    }
}
