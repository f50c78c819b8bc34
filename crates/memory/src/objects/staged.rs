//! Staging (W8): large blocks are filled without the lock and published in one step.
//!
//! A staged block is on its shard's staging list, and its descriptor contains the identity of the
//! process that fills it. If that process dies, the block is freed by upkeep, by a process that
//! needs the memory, or by the process that reclaims the slot. If a living process cannot free its
//! block at the moment, it clears its identity, and upkeep frees the block like a parked block.

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

/// The maximum number of a shard's staged blocks that are examined without the shard's lock.
const LOOK: usize = 1024;
/// The maximum number of a staged block's pages that are saved for a copy each time the shard's
/// lock is held (W9).
const STAGED_AT_ONCE: u64 = 256;
/// The maximum number of dead processes' blocks that are freed in one transaction (W9).
const FREED_AT_ONCE: usize = 16;

/// A large block that belongs to this handle alone. Fill it, then [adopt](Transaction::adopt) it.
/// Dropping the handle before adoption frees the block.
pub struct Staged<'a> {
    segment: &'a Segment,
    block: StagedBlock,
    length: u64,
    adopted: bool,
}

/// A suspended handle of a staged block, which does not borrow the segment. A process that fills a
/// block piece by piece retains the block in this form and [resumes](Segment::take_up) it for each
/// piece. A block that is never resumed stays allocated as long as the process lives.
#[derive(Debug)]
#[must_use]
pub struct SuspendedBlock {
    block: StagedBlock,
    length: u64,
}

/// A staged block, and the identity of the process that fills it, as stored in the block's
/// descriptor.
#[derive(Clone, Copy, Debug)]
struct StagedBlock {
    shard: usize,
    page: u64,
    owner: u64,
}

impl Segment {
    /// Allocates a block of at least `bytes` bytes in a shard, to be filled without the shard's
    /// lock. Meant for blocks that take a long time to fill. The block always consists of whole
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
        // The block is filled without the lock, so first save its pages in case a copy is in
        // progress.
        save_for_copy(self, index, page, bytes)?;
        Ok(staged)
    }

    /// Returns the address of a staged block of this process, for filling or reading it in place
    /// until it is resumed. The block consists of [`SuspendedBlock::length`] bytes and stays mapped as
    /// long as this segment exists.
    pub fn address_of(&self, block: &SuspendedBlock) -> *mut u8 {
        self.mapping
            .address(self.mapping.layout().page(block.block.page), block.length)
    }

    /// Returns the bytes of a staged block of this process that is not being filled. Returns an
    /// empty slice in a forked child, whose parent owns the block.
    pub fn bytes_of<'a>(&'a self, block: &'a SuspendedBlock) -> &'a [u8] {
        if !self.is_own(block) {
            return &[];
        }
        let (at, length) = (self.address_of(block), block.length as usize);
        // SAFETY: the block stays mapped as long as `self` exists. No other process can reach the
        // block, and this process cannot resume, fill or free it while `block` is borrowed.
        unsafe { std::slice::from_raw_parts(at, length) }
    }

    /// Appends the bytes of a staged block of this process to `out`.
    pub fn append_put_down(&self, block: &SuspendedBlock, out: &mut Vec<u8>) {
        let at = self.mapping.layout().page(block.block.page);
        self.mapping.append_to(at, block.length as usize, out);
    }

    /// Returns whether a staged block belongs to this process. A copy inherited by fork does not.
    pub fn is_own(&self, block: &SuspendedBlock) -> bool {
        self.process.claimed() && this_process(self) == block.block.owner
    }

    /// Resumes work on a staged block of this process.
    pub fn take_up(&self, block: SuspendedBlock) -> Staged<'_> {
        Staged {
            segment: self,
            block: block.block,
            length: block.length,
            adopted: false,
        }
    }

    /// Frees staged blocks that are no longer needed: blocks that dead processes were filling or
    /// had taken over, and parked blocks that no process reads in place anymore. Returns whether
    /// any were freed. Meant for upkeep and for callers that need the memory.
    pub fn free_dead_staged(&self) -> Result<bool, Error> {
        // Check liveness before taking the lock (W9), because a dead process stays dead. If the
        // list changes during the walk, the walk may stray from the list; the next call examines
        // the list again.
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

impl SuspendedBlock {
    /// Returns the requested number of bytes.
    pub fn length(&self) -> u64 {
        self.length
    }
}

impl Staged<'_> {
    /// Returns the shard that contains the block.
    pub fn shard(&self) -> usize {
        self.block.shard
    }

    /// Returns the requested number of bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Fills part of the block, starting at a position that is a multiple of 8. The last word is
    /// padded with zeros.
    ///
    /// # Panics
    /// Panics if the bytes exceed the requested length, or if `position` is not a multiple of 8.
    pub fn fill(&mut self, position: u64, bytes: &[u8]) {
        let end = position + bytes.len() as u64;
        assert!(position.is_multiple_of(8) && end <= self.length);
        let mapping = &self.segment.mapping;
        mapping.fill_staged(mapping.layout().page(self.block.page) + position, bytes);
    }

    /// Receives data from a socket directly into the block, starting at a position. Data beyond the
    /// end of the block is appended to `more`, as far as its spare capacity allows. Returns the
    /// total number of bytes received, which is 0 at the end of the stream.
    ///
    /// # Errors
    /// Fails if the system call fails.
    ///
    /// # Panics
    /// Panics if the position is beyond the requested length.
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
            // Zero the unused bytes of the last word, as in every block.
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

    /// Suspends work on the block, to be resumed later.
    pub fn put_down(mut self) -> SuspendedBlock {
        self.adopted = true;
        SuspendedBlock {
            block: self.block,
            length: self.length,
        }
    }

    /// Releases the handle without freeing the block. Call it after the transaction that adopted
    /// the block has committed, when the block no longer belongs to the handle.
    pub fn adopted(mut self) {
        self.adopted = true;
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if self.adopted || crate::probes::fault::abandoned() {
            return;
        }
        // `drop` cannot return an error, so a signal noticed here would be lost. Defer signals.
        let _deferred = defer_signals();
        if free(self.segment, self.block).is_err() {
            leave_to_upkeep(self.segment, self.block);
        }
    }
}

impl Transaction<'_> {
    /// Turns a staged block into a block of its shard, which must be one of this transaction's
    /// shards. The transaction may still be rolled back; call [`Staged::adopted`] once it has
    /// committed.
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
        let at = layout.page(staged.block.page);
        self.note_fill(at, staged.length);
        Ok(at)
    }

    /// Detaches a large block of the shard from the object that refers to it. The caller must
    /// remove the reference. Once this transaction has committed, the block belongs to this process
    /// until it is [resumed](Segment::take_up) and dropped. Returns `None` if the block is part of
    /// a slab; the caller must then copy and free it.
    pub fn take_over(
        &mut self,
        index: usize,
        at: Offset,
        length: u64,
    ) -> Result<Option<SuspendedBlock>, Error> {
        let BlockPlace::Large(page, pages) = self.segment.mapping.place(index.into(), at)? else {
            return Ok(None);
        };
        let owner = this_process(self.segment);
        self.put_on_staging_list(index, page, owner)?;
        Ok(Some(SuspendedBlock {
            block: StagedBlock {
                shard: index,
                page,
                owner,
            },
            length: length.min(pages.saturating_mul(PAGE)),
        }))
    }
}

/// Returns this process's identity as stored in the descriptors of its staged blocks.
pub(crate) fn this_process(segment: &Segment) -> u64 {
    let slot_index = segment.process.slot();
    let at = segment.mapping.layout().slot(slot_index) + slot::GENERATION;
    (slot_index << 32) | (segment.mapping.load(at) & 0xffff_ffff)
}

/// Frees a staged block that was not adopted.
fn free(segment: &Segment, block: StagedBlock) -> Result<(), Error> {
    // A handle that was copied by fork must not free the block.
    if !segment.process.claimed() || this_process(segment) != block.owner {
        return Ok(());
    }
    segment.write(ShardSet::one(block.shard), |transaction| {
        transaction.free_staged(block.shard, block.page)
    })
}

/// Removes the owner of a staged block that this process cannot free now, so that upkeep frees the
/// block. No lock is needed: as long as the owner's word identifies this process, only this process
/// may change it.
fn leave_to_upkeep(segment: &Segment, block: StagedBlock) {
    let at = segment.mapping.layout().descriptor(block.page) + descriptor::BITMAP;
    let word = segment.mapping.word(at);
    let _ = word.compare_exchange(block.owner, PARKED, Ordering::Release, Ordering::Relaxed);
    crate::probes::fault::step();
}

/// Frees the staged blocks of a slot whose owner is dead, or of all dead processes if `slot_index`
/// is `None`.
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
                // A stopped process may hold the shard's lock. Leave these blocks to a later call.
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
                // No change is possible until a checkpoint succeeds. Leave these blocks to a later
                // call, so that this process can join and write the checkpoint.
                Err(Error::Journal { .. }) => break,
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

/// Returns whether a staged block is no longer needed, either because the process that filled it or
/// took it over is dead, or because it is parked and not read in place. If `slot_index` is a slot
/// that is being reclaimed, all of its former owners are dead; otherwise, the function checks the
/// owner's liveness.
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

/// Returns the pages on a shard's staging list. The caller must hold the shard's lock.
pub(crate) fn pages(segment: &Segment, index: usize) -> Result<Vec<u64>, Error> {
    each_page(segment, index).collect()
}

/// Iterates over the pages on a shard's staging list. An error ends the iteration.
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

/// Saves the pages of a newly staged block for a copy, a bounded number each time the lock is held.
/// A copy that begins later does not need the pages, because no object refers to the block.
#[inline]
pub(crate) fn save_for_copy(
    segment: &Segment,
    index: usize,
    page: u64,
    bytes: u64,
) -> Result<(), Error> {
    // A copy whose moment precedes the staging has either ended or is visible here, because the
    // staging transaction locked the shard after that moment.
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
