//! Staging (W8): large blocks are filled outside the lock and published in one
//! step.
//!
//! A staged block is on its shard's staging list, with the process that fills
//! it named in its descriptor. When that process dies, upkeep frees the block,
//! or whoever needs the memory or reclaims its slot. Where the process itself
//! cannot free one now, it takes its name off it, and upkeep frees it as one that
//! nobody reads in place any more.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use crate::allocator::pins::PARKED;
use crate::error::{Error, Fault};
use crate::heap::pages::PageUse;
use crate::heap::pool::BlockPlace;
use crate::locking::shard_locks::{self, Unlock};
use crate::mapped::layout::{Offset, PAGE, descriptor, shard, slot};
use crate::objects::owners::Owners;
use crate::objects::pinned;
use crate::processes::patience::defer_signals;
use crate::segment::Segment;
use crate::segment::marks::Marks;
use crate::segment::shard_set::ShardSet;
use crate::transactions::Transaction;
use crate::writing::commit::commit;
use crate::writing::reservation::{self, Runs};
use crate::writing::run::used;

/// Blocks of a shard looked at without its lock at most.
const LOOK: usize = 1024;
/// Pages of a staged block that are saved under one hold of its shard's lock (W9).
const STAGED_AT_ONCE: u64 = 256;
/// Blocks of the dead freed in one transaction at most (W9).
const FREED_AT_ONCE: usize = 16;

/// A large block that belongs to nobody but this handle: fill it, then
/// [adopt](Transaction::adopt) it. Freed when dropped before that.
pub struct Staged<'a> {
    segment: &'a Segment,
    block: StagedBlock,
    length: u64,
    adopted: bool,
}

/// A staged block that nobody works on for now, as plain numbers: whoever fills one bit by bit keeps it so, and
/// [takes it up](Segment::take_up) for each of them. One that is not taken up again stays as long as the process.
#[derive(Debug)]
#[must_use]
pub struct PutDown {
    block: StagedBlock,
    length: u64,
}

/// A staged block, and the process that fills it as its descriptor names it.
#[derive(Clone, Copy, Debug)]
struct StagedBlock {
    shard: usize,
    page: u64,
    owner: u64,
}

impl Segment {
    /// Allocates a block of at least `bytes` in a shard, to be filled without
    /// the shard's lock. Meant for blocks that take long to fill; always whole
    /// pages.
    pub fn stage(&self, index: usize, bytes: u64) -> Result<Staged<'_>, Error> {
        let (page, owner) = self.write(ShardSet::one(index), |transaction| {
            let at = transaction.allocate_run(index.into(), bytes.div_ceil(PAGE).max(1))?;
            let page = self.mapping.page_of(at);
            let owner = this_process(self);
            transaction.put_on_staging_list(index, page, owner)?;
            Ok::<_, Error>((page, owner))
        })?;
        let staged = Staged {
            segment: self,
            block: StagedBlock {
                shard: index,
                page,
                owner,
            },
            length: bytes,
            adopted: false,
        };
        // Filled without the lock: what a copy of the store still needs of these pages is saved before.
        save_for_copy(self, index, page, bytes)?;
        Ok(staged)
    }

    /// Where a block of this process begins in its memory, for whoever fills or reads it in place until it is taken up:
    /// as many bytes as [`PutDown::length`] says. Mapped for as long as this handle.
    pub fn address_of(&self, block: &PutDown) -> *mut u8 {
        self.mapping
            .address(self.mapping.layout().page(block.block.page), block.length)
    }

    /// The bytes of a block of this process that nobody fills. Empty in a forked child: there it is its parent's.
    pub fn bytes_of<'a>(&'a self, block: &'a PutDown) -> &'a [u8] {
        if !self.is_own(block) {
            return &[];
        }
        let (at, length) = (self.address_of(block), block.length as usize);
        // SAFETY: the block lies there, mapped for as long as this handle; nobody else reaches it, and this process
        // cannot take it up to be filled or freed while it is borrowed.
        unsafe { std::slice::from_raw_parts(at, length) }
    }

    /// Appends the bytes of a block of this process to `out`.
    pub fn append_put_down(&self, block: &PutDown, out: &mut Vec<u8>) {
        let at = self.mapping.layout().page(block.block.page);
        self.mapping.append_to(at, block.length as usize, out);
    }

    /// Whether a block is this very process': a forked child's copy of it is not.
    pub fn is_own(&self, block: &PutDown) -> bool {
        self.process.claimed() && this_process(self) == block.block.owner
    }

    /// Goes on with a staged block of this process.
    pub fn take_up(&self, block: PutDown) -> Staged<'_> {
        Staged {
            segment: self,
            block: block.block,
            length: block.length,
            adopted: false,
        }
    }

    /// Frees the blocks that processes were filling when they died, or had taken over, and those in nobody's name that
    /// nobody reads in place any more, for who keeps the store or needs the memory. Returns whether there were any.
    pub fn free_dead_staged(&self) -> Result<bool, Error> {
        // Who is dead is asked without a lock (W9), and stays so. A list that changes
        // meanwhile may lead anywhere: it is looked at again the next time.
        let mut owners = Owners::default();
        let mut has_dead = |index| {
            let mut pages = each_page(self, index).take(LOOK).map_while(Result::ok);
            pages.any(|page| is_left(self, page, None, &mut owners))
        };
        let any = (0..self.mapping.layout().shards).any(&mut has_dead);
        if any {
            free_of_the_dead(self, None)?;
        }
        Ok(any)
    }
}

impl PutDown {
    /// Bytes asked for.
    pub fn length(&self) -> u64 {
        self.length
    }
}

impl Staged<'_> {
    /// The shard it lies in.
    pub fn shard(&self) -> usize {
        self.block.shard
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
        mapping.fill_staged(mapping.layout().page(self.block.page) + position, bytes);
    }

    /// Receives from a socket, straight into the block from a position on; what comes behind its end goes to `more`, as
    /// much as that has room for. Returns how many bytes came in all, none at the end of the stream.
    ///
    /// # Errors
    /// Those of the system.
    ///
    /// # Panics
    /// If the position lies beyond the length asked for.
    pub fn receive(
        &mut self,
        position: u64,
        socket: BorrowedFd<'_>,
        more: &mut Vec<u8>,
    ) -> io::Result<usize> {
        assert!(position <= self.length);
        let mapping = &self.segment.mapping;
        let at = mapping.layout().page(self.block.page);
        let last = self.length / 8 * 8;
        if position <= last && last < self.length {
            // What lies behind the bytes in the last word is zeros, as in every block.
            mapping.fill_staged(at + last, &[0; 8]);
        }
        mapping.receive_staged(at + position, self.length - position, socket, more)
    }

    /// Appends all bytes of the block to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let mapping = &self.segment.mapping;
        let at = mapping.layout().page(self.block.page);
        mapping.append_to(at, self.length as usize, out);
    }

    /// Leaves the block as it is, for later.
    pub fn put_down(mut self) -> PutDown {
        self.adopted = true;
        PutDown {
            block: self.block,
            length: self.length,
        }
    }

    /// The transaction that adopted the block was committed: the block is no
    /// longer this handle's.
    pub fn adopted(mut self) {
        self.adopted = true;
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if self.adopted || crate::probes::fault::abandoned() {
            return;
        }
        // There is no error to return, and whoever was asked for a signal and had
        // nobody to tell would lose it.
        let _deferred = defer_signals();
        if free(self.segment, self.block).is_err() {
            leave_to_upkeep(self.segment, self.block);
        }
    }
}

impl Transaction<'_> {
    /// Takes a staged block over, as a block of its shard, which must be one of
    /// this transaction's. The transaction may still be rolled back: call
    /// [`Staged::adopted`] once it has been committed.
    pub fn adopt(&mut self, staged: &Staged<'_>) -> Result<Offset, Error> {
        let layout = *self.segment.mapping.layout();
        let index = staged.block.shard;
        self.unlink(
            index,
            layout.shard(index) + shard::STAGING,
            staged.block.page,
        )?;
        let kind = layout.descriptor(staged.block.page) + descriptor::KIND;
        self.set(index, kind, PageUse::Large.pack())?;
        Ok(layout.page(staged.block.page))
    }

    /// Takes a large block of the shard away from whatever referred to it, which is the caller's to change: once this
    /// transaction has been committed, the block is this process' own until it is [taken up](Segment::take_up) and
    /// dropped. None where the block is part of a slab: then the caller copies and frees it.
    pub fn take_over(
        &mut self,
        index: usize,
        at: Offset,
        length: u64,
    ) -> Result<Option<PutDown>, Error> {
        let BlockPlace::Large(page, pages) = self.segment.mapping.place(index.into(), at)? else {
            return Ok(None);
        };
        let owner = this_process(self.segment);
        self.put_on_staging_list(index, page, owner)?;
        Ok(Some(PutDown {
            block: StagedBlock {
                shard: index,
                page,
                owner,
            },
            length: length.min(pages.saturating_mul(PAGE)),
        }))
    }
}

/// This process as it is named in the descriptors of its staged blocks.
pub(crate) fn this_process(segment: &Segment) -> u64 {
    let slot_index = segment.process.slot();
    let at = segment.mapping.layout().slot(slot_index) + slot::GENERATION;
    (slot_index << 32) | (segment.mapping.load(at) & 0xffff_ffff)
}

/// Frees a block that was staged and not adopted.
fn free(segment: &Segment, block: StagedBlock) -> Result<(), Error> {
    // A forked child's copy of the handle frees nothing.
    if !segment.process.claimed() || this_process(segment) != block.owner {
        return Ok(());
    }
    segment.write(ShardSet::one(block.shard), |transaction| {
        transaction.free_staged(block.shard, block.page)
    })
}

/// Leaves a block of this process that cannot be freed now to upkeep: from here on it is in nobody's name. The one
/// word of it that changes is nobody else's while it names this process, so this needs no lock.
fn leave_to_upkeep(segment: &Segment, block: StagedBlock) {
    let at = segment.mapping.layout().descriptor(block.page) + descriptor::BITMAP;
    let word = segment.mapping.word(at);
    let _ = word.compare_exchange(block.owner, PARKED, Ordering::Release, Ordering::Relaxed);
    crate::probes::fault::step();
}

/// Frees the staged blocks of a slot whose owner is dead; of all dead
/// owners where none is named.
pub(crate) fn free_of_the_dead(segment: &Segment, slot_index: Option<u64>) -> Result<(), Error> {
    let layout = *segment.mapping.layout();
    let mut owners = Owners::default();
    for index in 0..layout.shards {
        let list = layout.shard(index) + shard::STAGING;
        if segment.mapping.load(list) == 0 {
            continue;
        }
        let mut runs = Runs::default();
        loop {
            let mut transaction = match Transaction::begin(segment, ShardSet::one(index)) {
                Ok(transaction) => transaction,
                // Somebody is stopped with the lock: the blocks can wait.
                Err(Error::Busy { .. }) => break,
                Err(error) => return Err(error),
            };
            let pages = pages(segment, index)?.into_iter();
            let left = pages.filter(|&page| is_left(segment, page, slot_index, &mut owners));
            let left: SmallVec<[u64; FREED_AT_ONCE]> = left.take(FREED_AT_ONCE).collect();
            if left.is_empty() {
                break;
            }
            let freed = left
                .iter()
                .try_for_each(|&page| transaction.free_staged(index, page));
            let shortage = match freed.and_then(|()| commit(&mut transaction)) {
                Ok(shortage) => shortage,
                Err(error) => Some(transaction.shortage.ok_or(error)?),
            };
            if let Some(shortage) = shortage {
                let used = used(&transaction, shortage);
                drop(transaction);
                reservation::make_room(segment, &used, &mut runs)?;
            }
        }
    }
    Ok(())
}

/// Whether nobody needs a staged block any more: the process that fills it, or took it over, is dead; nobody reads
/// a parked one in place. A slot that is being reclaimed has only dead former owners; others are asked.
fn is_left(segment: &Segment, page: u64, slot_index: Option<u64>, owners: &mut Owners) -> bool {
    let at = segment.mapping.layout().descriptor(page) + descriptor::BITMAP;
    let owner = segment.mapping.word(at).load(Ordering::Acquire);
    if owner == PARKED {
        return !pinned::is_pinned_by_the_living(segment, page, owners);
    }
    match slot_index {
        Some(slot_index) => owner >> 32 == slot_index,
        None => owners.is_dead(segment, owner),
    }
}

/// The pages on a shard's staging list. Under its lock.
pub(crate) fn pages(segment: &Segment, index: usize) -> Result<Vec<u64>, Error> {
    each_page(segment, index).collect()
}

/// The pages on a shard's staging list, one after the other; an error is the
/// last one.
fn each_page(segment: &Segment, index: usize) -> impl Iterator<Item = Result<u64, Error>> + '_ {
    let layout = *segment.mapping.layout();
    let list = layout.shard(index) + shard::STAGING;
    let mut link = segment.mapping.load(list);
    let mut left = layout.pages();
    std::iter::from_fn(move || {
        let page = link.checked_sub(1)?;
        let sound = left > 0
            && segment.mapping.page_reserved(page)
            && segment.mapping.page_use(page) == Some(PageUse::Staged);
        if !sound {
            link = 0;
            return Some(Err(Error::Damaged(Fault {
                at: list,
                what: "a list of staged blocks that ends",
            })));
        }
        left -= 1;
        link = segment
            .mapping
            .load(layout.descriptor(page) + descriptor::NEXT);
        Some(Ok(page))
    })
}

/// Saves the pages of a block that was just staged, a bounded number under each hold of the lock. A copy that begins
/// later has no need of them: nobody refers to the block.
#[inline]
pub(crate) fn save_for_copy(
    segment: &Segment,
    index: usize,
    page: u64,
    bytes: u64,
) -> Result<(), Error> {
    // A copy whose moment was before the block was staged is on, seen through the shard's lock, or over.
    if !segment.mapping.copy_is_on() {
        return Ok(());
    }
    let shards = ShardSet::one(index);
    let at = segment.mapping.layout().page(page);
    for start in (0..bytes).step_by((STAGED_AT_ONCE * PAGE) as usize) {
        shard_locks::lock(segment, shards, Marks::Ignored)?;
        let _unlock = Unlock { segment, shards };
        let some = (bytes - start).min(STAGED_AT_ONCE * PAGE);
        segment.mapping.save_for_copy(at + start, some);
    }
    Ok(())
}
