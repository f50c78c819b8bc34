//! Prepares memory in advance (W9, M8), in bounded steps after commits and without any lock, so
//! that no change waits while a large amount of memory is zeroed.
//!
//! A small change must not wait for a long run, such as the run of a hash table, because the kernel
//! takes milliseconds to zero the pages. A transaction that wants a long run when none is free
//! continues without it, and a few extents are backed with memory after its commit. After several
//! such transactions, a long enough run is free. This progress is recorded only in the map of
//! extents that are backed and free, and other transactions may use those extents.

use crate::error::Error;
use crate::heap::backing;
use crate::heap::pool::Pool;
use crate::heap::removal::not_removing;
use crate::mapped::layout::{EXTENT_PAGES, Offset, PAGE};
use crate::transactions::Transaction;
use crate::transactions::rare_state::{Preparation, Shortage};

impl Transaction<'_> {
    /// Allocates a block for work that can wait. Returns `None` if the store is full, or if the
    /// block needs a long run and none is free. In the latter case, some memory is backed after the
    /// commit, so that a later call finds a run.
    pub fn allocate_if_ready(
        &mut self,
        pool: impl Into<Pool>,
        bytes: u64,
    ) -> Result<Option<Offset>, Error> {
        let (pool, pages) = (pool.into(), bytes.div_ceil(PAGE));
        // A block that can wait must not use the reserve for removals.
        let _adding = not_removing();
        if pages <= EXTENT_PAGES {
            let was_short = self.shortage.is_some();
            return match self.allocate(pool, bytes) {
                Err(error) if !was_short && matches!(self.shortage, Some(Shortage::Pages(_))) => {
                    // A removal that is committed in parts cannot run again.
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
        // Check the arena first, because its offset may have been read from the store.
        self.segment.mapping.pool_words(pool)?;
        let Some(page) = self.try_grant(pool, pages, 1)? else {
            self.rare().preparations.push(Preparation::Run(pages));
            return Ok(None);
        };
        self.use_run(pool, page, pages).map(Some)
    }
}
