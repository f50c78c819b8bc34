//! What is made ready ahead of need (W9, M8): a bounded part at a time, behind
//! commits and outside all locks, so that no change waits for much of it.
//!
//! A long run, such as a table's, is not what a small change may have to wait
//! for: the system's zeroing of its pages takes milliseconds. Who could use one
//! and finds none goes on without, and has some extents backed with memory. The
//! run comes together in this way; nothing notes how far that is but the map
//! of extents that have memory and are free. Others may use what is there.

use crate::error::Error;
use crate::heap::backing;
use crate::heap::pool::Pool;
use crate::heap::removal::not_removing;
use crate::mapped::layout::{EXTENT_PAGES, Offset, PAGE};
use crate::transactions::Transaction;
use crate::transactions::rare_state::{Preparation, Shortage};

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
                    if !self.in_parts && !backing::was_full(self.segment) {
                        self.rare().can_wait = true;
                        return Err(error);
                    }
                    self.shortage = None;
                    self.rare().preparations.push(Preparation::Run(pages));
                    Ok(None)
                }
                allocated => allocated.map(Some),
            };
        }
        // An arena that was read from the store is looked at first.
        self.segment.mapping.pool_words(pool)?;
        let Some(page) = self.try_grant(pool, pages, 1)? else {
            self.rare().preparations.push(Preparation::Run(pages));
            return Ok(None);
        };
        self.use_run(pool, page, pages).map(Some)
    }
}
