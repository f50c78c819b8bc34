//! The heap memory that a copy of the store uses (C3): a table and a stock of pages. The heap
//! records the identity of the copying process and a list of the runs that this memory consists of.
//!
//! The identity and the list change only in heap steps, through the heap's log, so a process that
//! dies between two steps leaves a list of all of the copy's runs. Other processes detect a dead
//! copier by its identity: the next copier, upkeep or `recover` ends the copy in the same way as
//! the copier itself (C4). First, the copy is switched off, so that new changes no longer save
//! pages. Then each shard's lock is acquired once, so that no writer that began earlier is still
//! saving pages. Finally, the runs are returned, one in each step.

use std::sync::atomic::Ordering;

use crate::error::{Error, Fault};
use crate::heap::backing;
use crate::heap::pages::{OF_COPY, Run};
use crate::heap::step::{self, Heap};
use crate::locking::shard_locks;
use crate::mapped::copy_table::{CopyTable, DONE, NONE};
use crate::mapped::layout::{EXTENT_PAGES, PAGE, control, descriptor};
use crate::probes::fault;
use crate::processes::lock::Owner;
use crate::processes::patience::defer_signals;
use crate::segment::marks::Marks;
use crate::segment::shard_set::ShardSet;
use crate::segment::{Segment, membership};

/// The number of extents that one heap step adds to the stock.
const STOCK_AT_ONCE: u64 = 64;
/// How many times in a row other processes may take a run that this process reserved before the
/// heap is considered full.
const TRIES: u32 = 16;

/// This process's copy, which ends when the value is dropped.
pub(super) struct Area<'s> {
    pub(super) segment: &'s Segment,
    owner: u64,
}

impl Segment {
    /// Ends a dead process's copy and returns its memory. Returns false if there was no such copy.
    pub fn free_dead_copy(&self) -> Result<bool, Error> {
        let found = self.mapping.load(control::COPY_OWNER);
        let owner = Owner::from_bits(found as u32);
        if found == 0 {
            return Ok(false);
        }
        let mine = found == u64::from(self.process.owner().bits());
        let over = match mine {
            true => !is_copying(self),
            false => !membership::owner_lives(self, owner),
        };
        if over {
            end(self, found)?;
        }
        Ok(over)
    }
}

impl<'s> Area<'s> {
    /// Allocates a run of pages for the copy.
    fn take(&self, pages: u64) -> Result<u64, Error> {
        for _ in 0..TRIES {
            let taken = step::run(self.segment, |heap| heap.grant_to_copy(self.owner, pages))?;
            if let Some(page) = taken {
                return Ok(page);
            }
            backing::reserve(self.segment, pages)?;
        }
        Err(Error::OutOfMemory)
    }

    /// Allocates and clears a table for `extents` extents. No other process reads the table before
    /// the copy is switched on.
    pub(super) fn take_table(&self, extents: u64) -> Result<CopyTable<'s>, Error> {
        let mapping = &self.segment.mapping;
        let pages = CopyTable::bytes(extents).div_ceil(PAGE);
        let first = self.take(pages)?;
        let zeros = [0; PAGE as usize];
        for page in first..first + pages {
            mapping.copy_from(mapping.layout().page(page), &zeros);
        }
        for (word, value) in [
            (control::COPY_TABLE, mapping.layout().page(first)),
            (control::COPY_EXTENTS, extents),
            (control::COPY_STOCKED, 0),
            (control::COPY_TAKEN, 0),
        ] {
            mapping.store(word, value);
        }
        let table = CopyTable::of(mapping).ok_or(Error::Damaged(Fault {
            at: control::COPY_TABLE,
            what: "the table of a copy",
        }))?;
        leave_out(&table, first, pages);
        Ok(table)
    }

    /// Adds up to `extents` extents to the stock. Returns the number added, which is smaller if
    /// memory is scarce. Calls `free` for each run before adding it to the stock, to ensure that
    /// the copy no longer needs the run's pages.
    pub(super) fn stock_up(
        &self,
        table: &CopyTable<'_>,
        extents: u64,
        free: impl Fn(u64, u64),
    ) -> Result<u64, Error> {
        let mapping = &self.segment.mapping;
        let stocked = mapping.word(control::COPY_STOCKED);
        let mut added = 0;
        while added < extents {
            let there = stocked.load(Ordering::Relaxed) / EXTENT_PAGES;
            let room = CopyTable::stock_most(table.extents).saturating_sub(there);
            let some = (extents - added).min(STOCK_AT_ONCE).min(room);
            if some == 0 {
                break;
            }
            let (first, some) = match self.take(some * EXTENT_PAGES) {
                // No free run is that long, so try to allocate a single extent.
                Err(Error::OutOfMemory) if some > 1 => match self.take(EXTENT_PAGES) {
                    Err(Error::OutOfMemory) => break,
                    result => (result?, 1),
                },
                Err(Error::OutOfMemory) => break,
                result => (result?, some),
            };
            free(first, some * EXTENT_PAGES);
            for extent in 0..some {
                let at = mapping.layout().page(first + extent * EXTENT_PAGES);
                table.stock(there + extent).store(at, Ordering::Relaxed);
            }
            fault::step();
            stocked.store((there + some) * EXTENT_PAGES, Ordering::Release);
            fault::step();
            added += some;
        }
        Ok(added)
    }

    /// Returns the number of pages that remain in the stock.
    pub(super) fn left(&self) -> u64 {
        let mapping = &self.segment.mapping;
        let taken = mapping.load(control::COPY_TAKEN);
        mapping.load(control::COPY_STOCKED).saturating_sub(taken)
    }
}

/// Excludes a run from the copy because it was allocated for the copy itself, before the copy's
/// moment.
pub(super) fn leave_out(table: &CopyTable<'_>, first: u64, pages: u64) {
    let end = (first + pages).min(table.extents * EXTENT_PAGES);
    for page in first..end {
        table.entry(page).store(DONE, Ordering::Relaxed);
    }
}

impl Drop for Area<'_> {
    fn drop(&mut self) {
        if fault::abandoned() {
            return;
        }
        // If a stopped process holds a lock, the next copy or upkeep returns the remaining memory.
        let _deferred = defer_signals();
        let _ = end(self.segment, self.owner);
    }
}

impl Heap<'_> {
    /// Grants a run to a process's copy. Returns `None` if no free run is long enough.
    fn grant_to_copy(&self, owner: u64, pages: u64) -> Result<Option<u64>, Error> {
        if self.load(control::COPY_OWNER) != owner {
            return Err(Error::Damaged(Fault {
                at: control::COPY_OWNER,
                what: "the process that is making a copy",
            }));
        }
        let Some(page) = self.find(pages) else {
            return Ok(None);
        };
        self.mark(page, pages, false)?;
        let run = Run {
            shard: OF_COPY,
            age: 0,
            pages,
        };
        let at = self.layout().descriptor(page);
        self.set(at + descriptor::NEXT, self.load(control::COPY_RUNS))?;
        self.set(at + descriptor::RUN, run.pack())?;
        self.set(control::COPY_RUNS, page + 1)?;
        self.set(control::COPY_PAGES, self.load(control::COPY_PAGES) + pages)?;
        Ok(Some(page))
    }

    /// Returns one run of a process's copy to the heap, or clears the copier's identity if no run
    /// remains. Returns whether to call this function again.
    fn free_run_of_copy(&self, owner: u64) -> Result<bool, Error> {
        if self.load(control::COPY_OWNER) != owner {
            return Ok(false);
        }
        let Some(page) = self.load(control::COPY_RUNS).checked_sub(1) else {
            self.set(control::COPY_OWNER, 0)?;
            return Ok(false);
        };
        let mapping = &self.segment().mapping;
        let layout = *self.layout();
        let run = match mapping.page_reserved(page) {
            true => Run::unpack(self.load(layout.descriptor(page) + descriptor::RUN)),
            false => None,
        };
        let sound = |run: &Run| {
            run.shard == OF_COPY
                && run.pages > 0
                && mapping.reserved(layout.page(page), run.pages * PAGE)
        };
        let Some(run) = run.filter(sound) else {
            return Err(Error::Damaged(Fault {
                at: control::COPY_RUNS,
                what: "a run taken by a copy",
            }));
        };
        let at = layout.descriptor(page);
        self.set(control::COPY_RUNS, self.load(at + descriptor::NEXT))?;
        let left = self.load(control::COPY_PAGES).wrapping_sub(run.pages);
        self.set(control::COPY_PAGES, left)?;
        self.mark(page, run.pages, true)?;
        self.set(at + descriptor::RUN, 0)?;
        Ok(true)
    }
}

/// Claims the copy for this process. If a living process is already copying, returns that process's
/// ID instead.
pub(super) fn claim(segment: &Segment) -> Result<Result<Area<'_>, u32>, Error> {
    let me = u64::from(segment.process.owner().bits());
    loop {
        let found = step::run(segment, |heap| {
            let found = heap.load(control::COPY_OWNER);
            if found == 0 {
                heap.set(control::COPY_OWNER, me)?;
            }
            Ok(found)
        })?;
        let owner = Owner::from_bits(found as u32);
        if found == 0 {
            return Ok(Ok(Area { segment, owner: me }));
        } else if found != me && membership::owner_lives(segment, owner) {
            return Ok(Err(
                match segment.process.describe(&segment.mapping, owner) {
                    Error::Busy { pid, .. } => pid,
                    _ => 0,
                },
            ));
        }
        // The claim belongs to a dead process, or to an earlier copy that this process could not
        // end.
        end(segment, found)?;
    }
}

/// Ends a process's copy, if the copy still belongs to that process.
fn end(segment: &Segment, owner: u64) -> Result<(), Error> {
    let is_its = step::run(segment, |heap| {
        let is_its = heap.load(control::COPY_OWNER) == owner;
        if is_its {
            let state = segment.mapping.word(control::COPY_STATE);
            state.store(NONE, Ordering::Release);
            fault::step();
        }
        Ok(is_its)
    })?;
    if !is_its {
        return Ok(());
    }
    for index in 0..segment.shards() {
        let shards = ShardSet::one(index);
        shard_locks::lock(segment, shards, Marks::Ignored)?;
        shard_locks::unlock_all(segment, shards);
    }
    while step::run(segment, |heap| heap.free_run_of_copy(owner))? {}
    Ok(())
}

/// Returns whether this process is currently copying the store.
fn is_copying(segment: &Segment) -> bool {
    segment.copying_as.load(Ordering::Acquire) == segment.process.owner().bits()
}
