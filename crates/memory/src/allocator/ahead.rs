//! What is made ready ahead of need (W9, M8): a bounded part at a time, behind
//! commits and outside all locks, so that no change waits for much of it.
//!
//! A long run, such as a table's, is not what a small change may have to wait
//! for: the system's zeroing of its pages takes milliseconds. Who could use one
//! and finds none goes on without, and has some extents backed with memory. The
//! run comes together in this way; nothing notes how far that is but the map
//! of extents that have memory and are free. Others may use what is there.

use std::sync::atomic::Ordering;

use crate::allocator::pool::Pool;
use crate::error::Error;
use crate::mapped::layout::{EXTENT_PAGES, Offset, PAGE};
use crate::mapped::platform::coarse_milliseconds;
use crate::segment::{Segment, hints, place};
use crate::writing::removal::{self, not_removing};
use crate::writing::transaction::{Shortage, Transaction};

/// Extents backed with memory in one step: some 100 us of the kernel's work.
pub(crate) const EXTENTS_AT_ONCE: u64 = 4;

/// Milliseconds for which a store that was full counts as full for what can wait.
const FULL_FOR: u64 = 1000;

/// What is to be made ready.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ahead {
    /// The hint table of a shard, which has so many keys.
    Hints(usize, u64),
    /// A free run of so many pages.
    Run(u64),
}

impl Segment {
    /// Does a step for each. What cannot be done is no error.
    #[cold]
    pub(crate) fn make_ready(&self, ahead: &[Ahead]) {
        for &ahead in ahead {
            match ahead {
                Ahead::Hints(index, keys) => hints::try_to_grow(self, index, keys),
                Ahead::Run(pages) => {
                    let _ = self.prepare_run(pages);
                }
            }
        }
    }

    /// Backs some memory, where no run of so many bytes is free: after some of
    /// these steps one is. Called without any lock held. Returns whether there was
    /// anything to do.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where there is no place for such a run.
    pub fn prepare(&self, bytes: u64) -> Result<bool, Error> {
        place::prepare_to_write(self)?;
        self.prepare_run(bytes.div_ceil(PAGE))
    }

    /// Notes that no memory could be had.
    pub(crate) fn note_full(&self) {
        self.full_at.store(coarse_milliseconds(), Ordering::Relaxed);
    }

    /// Whether that was so a moment ago: what can wait need not try again.
    fn was_full(&self) -> bool {
        let since = coarse_milliseconds().wrapping_sub(self.full_at.load(Ordering::Relaxed));
        since < FULL_FOR
    }

    /// Whether a run of so many pages is free.
    pub(crate) fn has_run(&self, pages: u64) -> Result<bool, Error> {
        self.with_heap(|heap| Ok(heap.find(pages).is_some()))
    }

    fn prepare_run(&self, pages: u64) -> Result<bool, Error> {
        let extents = pages.div_ceil(EXTENT_PAGES);
        let missing = self.with_heap(|heap| {
            if heap.find(pages).is_some() {
                return Ok(None);
            }
            // The run may be there, and what is kept for removals (H6) not yet.
            let wanted = match heap.find_free(extents) {
                Some(_) => removal::reserved_extents(heap.layout()),
                None => extents,
            };
            let missing = heap.missing_part(wanted, EXTENTS_AT_ONCE);
            missing.map(Some).ok_or(Error::OutOfMemory)
        })?;
        let Some((first, count)) = missing else {
            return Ok(false);
        };
        self.back_extents(first, count)?;
        Ok(true)
    }
}

impl Transaction<'_> {
    /// Allocates a block for what can wait: none where it needs a long run and none is free, or where the store is full.
    /// Then some memory is backed behind the commit, so that one of the next calls finds one.
    pub fn allocate_if_ready(
        &mut self,
        pool: impl Into<Pool>,
        bytes: u64,
    ) -> Result<Option<Offset>, Error> {
        let (pool, pages) = (pool.into(), bytes.div_ceil(PAGE));
        // A table that can wait takes nothing of what is kept for removals.
        let _adding = not_removing();
        if pages <= EXTENT_PAGES {
            let was_short = self.shortage.is_some();
            return match self.allocate(pool, bytes) {
                Err(error) if !was_short && matches!(self.shortage, Some(Shortage::Pages(_))) => {
                    // What is carried out in parts does not run again.
                    if !self.in_parts && !self.segment.was_full() {
                        self.rest().can_wait = true;
                        return Err(error);
                    }
                    self.shortage = None;
                    self.rest().ahead.push(Ahead::Run(pages));
                    Ok(None)
                }
                allocated => allocated.map(Some),
            };
        }
        // An arena that was read from the store is looked at first.
        self.segment.mapping.pool_words(pool)?;
        let Some(page) = self.try_grant(pool, pages, 1)? else {
            self.rest().ahead.push(Ahead::Run(pages));
            return Ok(None);
        };
        self.use_run(pool, page, pages).map(Some)
    }
}
