//! Steps of the heap's global part (H1, H2), which records which extents are backed with memory and
//! which runs of pages are granted to which shard.
//!
//! These records change under the heap's lock and through the heap's own undo log. A heap step
//! commits when its log is emptied, independently of the shard transaction that requested it.
//! Before a grant, the shard's log records the run, so that rolling the shard back returns the run.
//! Before a return, the shard's `RETURNING` word records the run, so that the next process that
//! locks the heap for this shard completes the return.

use std::cell::RefCell;
use std::time::Duration;

use smallvec::SmallVec;

use crate::error::{Error, Fault};
use crate::mapped::futex;
use crate::mapped::layout::{EXTENT_PAGES, HEAP_LOG_RESERVED, Layout, control, shard};
use crate::probes::fault;
use crate::processes::lock;
use crate::redo::changes::Changes;
use crate::redo::record::{Kind, State};
use crate::redo::restore;
use crate::redo::ring::{self, Heading, Refused};
use crate::redo::{failure, lag};
use crate::segment::waiting::{WaitedLock, Waiter};
use crate::segment::{Segment, durability};
use crate::undo::log::Log;

/// Write access to the heap's tables while the heap's lock is held.
pub(crate) struct Heap<'a> {
    segment: &'a Segment,
    /// The runs that the step granted, as shards and first pages, if the step is journaled.
    granted: RefCell<SmallVec<[(usize, u64); 4]>>,
}

/// Runs one step of the heap under its lock. The step's changes are committed if the step returns
/// `Ok` and undone otherwise.
pub(crate) fn run<R>(
    segment: &Segment,
    step: impl FnOnce(&Heap<'_>) -> Result<R, Error>,
) -> Result<R, Error> {
    run_within(segment, segment.patience(), step)
}

/// Like [`run`], but with the given timeout for the lock.
pub(crate) fn run_within<R>(
    segment: &Segment,
    patience: Duration,
    step: impl FnOnce(&Heap<'_>) -> Result<R, Error>,
) -> Result<R, Error> {
    let word = segment.mapping.lock(control::HEAP_LOCK);
    let mut waiter = Waiter::new(segment, WaitedLock::Heap, patience);
    let me = segment.process.owner();
    if !lock::try_acquire(word, me) {
        lock::acquire(word, me, &mut waiter).map_err(|refusal| waiter.explain(refusal))?;
    }
    let guard = HeapGuard { segment };
    fault::step();
    // Roll back the log left by a process that died during a heap step (W3).
    roll_back(segment)?;
    let heap = Heap {
        segment,
        granted: RefCell::default(),
    };
    let result = step(&heap)?;
    heap.commit(&[])?;
    drop(guard);
    Ok(result)
}

/// Returns the heap's undo log.
pub(crate) fn log(segment: &Segment) -> Log<'_> {
    Log {
        mapping: &segment.mapping,
        tail: control::HEAP_LOG_TAIL,
        area: segment.mapping.layout().heap_log,
        limit: HEAP_LOG_RESERVED,
    }
}

/// Undoes an unfinished step, and decides whether its redo record counts.
fn roll_back(segment: &Segment) -> Result<(), Error> {
    let log = log(segment);
    let appended = segment.mapping.load(control::REDO_HEAP_STEP);
    if appended != 0 {
        let state = if log.is_empty() {
            State::Counts
        } else {
            State::Void
        };
        // A process that died after it settled the record may have left the word, and the record's
        // place may have been reused.
        let written = segment.mapping.load(control::REDO_WRITTEN);
        let is_open =
            |header: ring::Header| header.kind == Kind::HeapStep && header.state == State::Open;
        if appended > written && ring::header(&segment.mapping, appended - 1).is_some_and(is_open) {
            ring::settle(&segment.mapping, appended - 1, state);
        }
        segment.mapping.store(control::REDO_HEAP_STEP, 0);
        fault::step();
    }
    if log.is_empty() {
        return Ok(());
    }
    restore::before_rollback(segment, &log, 0);
    let layout = *segment.mapping.layout();
    log.roll_back(
        0,
        |at, words| {
            let end = at.saturating_add(words.saturating_mul(8));
            let counts = at >= control::HEAP_HIGH && end <= control::HEAP_RESERVED + 8;
            let tables = at >= layout.reserved_map && end <= layout.heap;
            let copy = at >= control::COPY_OWNER && end <= control::COPY_PAGES + 8;
            let settings = at >= control::MAX_MEMORY && end <= control::TOLD_EVENTS + 8
                || at >= control::CHECKPOINT_RATE && end <= control::REPLICA + 8
                || at == control::JOURNALED && words == 1;
            at % 8 == 0
                && (counts || settings || tables || copy || is_of_flushed_runs(&layout, at, end))
        },
        |_| Ok(()),
    )
}

/// Releases the heap's lock and wakes a waiter.
fn unlock(segment: &Segment) {
    let lock = segment.mapping.lock(control::HEAP_LOCK);
    if lock::release(lock) {
        futex::wake_one(lock.word());
    }
    fault::step();
}

/// A guard that holds the heap's lock for one step.
struct HeapGuard<'a> {
    segment: &'a Segment,
}

impl Drop for HeapGuard<'_> {
    fn drop(&mut self) {
        if fault::abandoned() {
            return;
        }
        // The step failed, so undo it. A damaged log remains for `check` to report.
        let _ = roll_back(self.segment);
        unlock(self.segment);
    }
}

impl Heap<'_> {
    /// Makes the changes so far permanent. `values` are words that change together with them, and
    /// that the caller stores.
    pub(crate) fn commit(&self, values: &[(u64, u64)]) -> Result<(), Error> {
        let mapping = &self.segment.mapping;
        if mapping.is_journaled() {
            self.append(values)?;
        }
        log(self.segment).clear();
        fault::step();
        let appended = mapping.load(control::REDO_HEAP_STEP);
        if appended != 0 {
            ring::settle(mapping, appended - 1, State::Counts);
            mapping.store(control::REDO_HEAP_STEP, 0);
            fault::step();
        }
        Ok(())
    }

    /// Appends a redo record of the changes so far, if there are any.
    #[cold]
    fn append(&self, values: &[(u64, u64)]) -> Result<(), Error> {
        let mut changes = Changes::default();
        let unchanged_words = restore::needs_unchanged_words(&self.segment.mapping);
        changes.add_log(&log(self.segment), unchanged_words);
        let mut shards = 0;
        let granted = self.granted.take();
        if failure::is_given_up(&self.segment.mapping) {
            // No file gets the record, and the full ring must not stop a rollback.
            return Ok(());
        }
        for (shard, page) in granted {
            changes.add_grant(page);
            shards |= 1 << shard;
        }
        for &(at, value) in values {
            changes.add_value(at, value);
        }
        if changes.is_empty() {
            return Ok(());
        }
        let heading = Heading {
            kind: Kind::HeapStep,
            record: 0,
            number: 0,
            shards,
            may_use_spare: true,
            state: State::Open,
        };
        let words = changes.finish();
        // The word must name the record before the step can take effect.
        let appended = ring::append(self.segment, &heading, words, |writer| {
            changes.write(writer);
        });
        match appended {
            Ok(position) => {
                self.segment
                    .mapping
                    .store(control::REDO_HEAP_STEP, position + 1);
                fault::step();
                lag::note_first(&self.segment.mapping, position);
                Ok(())
            }
            Err(Refused::Full(_)) => Err(Error::JournalFull),
            Err(Refused::Failed(error)) => Err(error),
        }
    }

    /// Notes that the step granted a run to a shard.
    pub(crate) fn note_grant(&self, shard: usize, page: u64) {
        if self.segment.mapping.is_journaled() {
            self.granted.borrow_mut().push((shard, page));
        }
    }

    pub(crate) fn segment(&self) -> &Segment {
        self.segment
    }

    pub(crate) fn layout(&self) -> &Layout {
        self.segment.mapping.layout()
    }

    /// Returns an extent's bit in a map that contains one bit for each extent.
    pub(crate) fn bit(&self, map: u64, extent: u64) -> bool {
        self.load(map + extent / 64 * 8) >> (extent % 64) & 1 == 1
    }

    pub(crate) fn set(&self, at: u64, value: u64) -> Result<(), Error> {
        self.save(at, 1)?;
        self.segment.mapping.store(at, value);
        fault::step();
        Ok(())
    }

    fn save(&self, at: u64, words: u64) -> Result<(), Error> {
        let log = log(self.segment);
        if log.is_empty() {
            durability::begin_writing(self.segment)?;
        }
        log.save(at, words).map_err(|_| Error::OutOfMemory)
    }

    pub(crate) fn load(&self, at: u64) -> u64 {
        self.segment.mapping.load(at)
    }

    /// Sets or clears bits `first..first + count` of a bitmap.
    pub(crate) fn set_bits(&self, map: u64, first: u64, count: u64, on: bool) -> Result<(), Error> {
        let end = first + count;
        let mut bit = first;
        while bit < end {
            let stop = (bit | 63).min(end - 1);
            let mask = (u64::MAX << (bit % 64)) & (u64::MAX >> (63 - stop % 64));
            let at = map + bit / 64 * 8;
            let old = self.load(at);
            let new = if on { old | mask } else { old & !mask };
            if new != old {
                self.set(at, new)?;
            }
            bit = stop + 1;
        }
        Ok(())
    }

    pub(crate) fn page_mask(&self, extent: u64) -> u64 {
        let at = self.segment.mapping.layout().page_masks + extent / 4 * 8;
        self.load(at) >> (extent % 4 * 16) & 0xffff
    }

    /// Sets an extent's mask of free pages, and updates the two maps that depend on it.
    pub(crate) fn set_page_mask(&self, extent: u64, mask: u64) -> Result<(), Error> {
        let layout = *self.segment.mapping.layout();
        let at = layout.page_masks + extent / 4 * 8;
        let shift = extent % 4 * 16;
        self.set(at, self.load(at) & !(0xffff << shift) | mask << shift)?;
        self.set_bits(layout.some_free_map, extent, 1, mask != 0)?;
        self.set_bits(layout.all_free_map, extent, 1, mask == 0xffff)
    }

    pub(crate) fn add_free_pages(&self, change: i64) -> Result<(), Error> {
        let free = self.load(control::HEAP_FREE_PAGES);
        self.set(control::HEAP_FREE_PAGES, free.wrapping_add_signed(change))
    }

    /// Marks entire extents as free or used, in their page masks and in both maps. All masks share
    /// one log entry.
    pub(crate) fn set_extents(&self, first: u64, count: u64, free: bool) -> Result<(), Error> {
        let layout = *self.segment.mapping.layout();
        let end = first + count;
        let at = |extent: u64| layout.page_masks + extent / 4 * 8;
        self.save(at(first), (end - 1) / 4 - first / 4 + 1)?;
        for extent in first..end {
            let bits = 0xffff << (extent % 4 * 16);
            let old = self.load(at(extent));
            let new = if free { old | bits } else { old & !bits };
            self.segment.mapping.store(at(extent), new);
        }
        fault::step();
        self.set_bits(layout.some_free_map, first, count, free)?;
        self.set_bits(layout.all_free_map, first, count, free)
    }

    /// Returns whether an extent is backed with memory.
    pub(crate) fn is_backed(&self, extent: u64) -> bool {
        self.bit(self.layout().reserved_map, extent)
    }

    /// Returns whether an extent's memory is being returned to the system.
    pub(crate) fn is_retired(&self, extent: u64) -> bool {
        self.bit(self.layout().retired_map, extent)
    }

    /// Marks a run as free or used. The run must start at an extent boundary or lie within one
    /// extent.
    pub(crate) fn mark(&self, page: u64, pages: u64, free: bool) -> Result<(), Error> {
        let (mut extent, start) = (page / EXTENT_PAGES, page % EXTENT_PAGES);
        let mut left = pages;
        if start == 0 && pages >= EXTENT_PAGES {
            let whole = pages / EXTENT_PAGES;
            self.set_extents(extent, whole, free)?;
            extent += whole;
            left = pages % EXTENT_PAGES;
        }
        if left > 0 {
            let old = self.page_mask(extent);
            let bits = (0xffff_u64 >> EXTENT_PAGES.saturating_sub(left)) << start;
            let expected = if free { 0 } else { bits };
            if bits > 0xffff || old & bits != expected {
                return Err(Error::Damaged(Fault {
                    at: self.segment.mapping.layout().page_masks + extent * 2,
                    what: "a mask of free pages that matches the runs",
                }));
            }
            self.set_page_mask(extent, old ^ bits)?;
        }
        self.add_free_pages(if free { pages as i64 } else { -(pages as i64) })
    }
}

/// Returns whether a range of words is among the words that describe a shard's abandoned memory.
fn is_of_flushed_runs(layout: &Layout, at: u64, end: u64) -> bool {
    let Some(behind) = at.checked_sub(layout.shard_start) else {
        return false;
    };
    let start = at - behind % layout.shard_stride;
    end <= layout.heap_log && at >= start + shard::LEFT_BYTES && end <= start + shard::LEFT_END
}
