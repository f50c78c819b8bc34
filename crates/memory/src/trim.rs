//! Giving memory back to the system (H5).
//!
//! Freed extents stay warm for reuse. When there are many, a batch of them is
//! *retired*: unmarked in the map of reserved extents, so that no read and no
//! grant goes there any more. After a grace period, in which every read that
//! was under way has ended, one process punches the batch out of the file and
//! forgets it; then the extents may be reserved again like new ones. Nobody
//! reserves extents of a batch, so a puncher that was stopped for long does no
//! harm when it goes on.

use std::time::Duration;

use crate::error::Error;
use crate::heap::Heap;
use crate::layout::{EXTENT, EXTENT_PAGES, PAGE, control};
use crate::lock::Owner;
use crate::process::unix_milliseconds;
use crate::segment::Segment;

/// Reads that began before a batch was retired have ended after this.
const GRACE: Duration = Duration::from_secs(1);
/// Extents in a batch at most: 64 MiB.
const BATCH_MAX: u64 = 1024;

/// The batch that is being given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl Batch {
    pub(crate) fn end(self) -> u64 {
        self.first.saturating_add(self.count)
    }
}

impl Segment {
    /// Does the next step of giving memory back, where more than `keep` bytes
    /// are free: retires a batch, or punches one whose grace is over. To be
    /// called now and then; no lock may be held. Returns the bytes given back
    /// by this call.
    pub fn trim(&self, keep: u64) -> Result<u64, Error> {
        self.join()?;
        self.trim_after(keep, GRACE)
    }

    /// [`trim`](Self::trim) without the grace period; for tests, where nobody
    /// reads meanwhile.
    #[cfg(feature = "fault")]
    pub fn trim_now(&self, keep: u64) -> Result<u64, Error> {
        self.join()?;
        self.trim_after(keep, Duration::ZERO)
    }

    fn trim_after(&self, keep: u64, grace: Duration) -> Result<u64, Error> {
        let free = self
            .mapping
            .load(control::HEAP_FREE_PAGES)
            .saturating_mul(PAGE);
        let pending = self.mapping.load(control::RETIRED_COUNT) != 0;
        if !pending && free <= keep.saturating_add(EXTENT) {
            return Ok(0);
        }
        let batch = self.with_heap(|heap| match heap.batch() {
            None => heap.retire((free - keep.min(free)) / EXTENT).map(|()| None),
            Some(batch) => heap.claim_batch(batch, grace),
        })?;
        let Some(batch) = batch else {
            return Ok(0);
        };
        self.punch(batch)?;
        self.with_heap(|heap| heap.forget_batch())?;
        Ok(batch.count * EXTENT)
    }

    /// Frees the file's blocks behind a batch, without any lock (W9).
    fn punch(&self, batch: Batch) -> Result<(), Error> {
        let start = self.mapping.layout().heap + batch.first * EXTENT;
        let punched = self.mapping.punch(start, batch.count * EXTENT);
        punched.map_err(|source| Error::Io {
            doing: "giving back memory of",
            path: self.path().into(),
            source,
        })
    }
}

impl Heap<'_> {
    /// The batch that is being given back, if there is one.
    pub(crate) fn batch(&self) -> Option<Batch> {
        let count = self.load(control::RETIRED_COUNT);
        (count != 0).then(|| Batch {
            first: self.load(control::RETIRED_FIRST),
            count,
        })
    }

    /// Retires the highest run of free extents, up to `wanted`.
    fn retire(&self, wanted: u64) -> Result<(), Error> {
        let layout = *self.layout();
        let wanted = wanted.min(BATCH_MAX);
        let high = self.load(control::HEAP_HIGH).min(layout.extents);
        let is_free = |extent: u64| self.bit(layout.all_free_map, extent);
        let Some(last) = (0..high).rev().find(|&extent| is_free(extent)) else {
            return Ok(());
        };
        let mut first = last;
        while first > 0 && last - first + 1 < wanted && is_free(first - 1) {
            first -= 1;
        }
        let count = last - first + 1;
        self.set_extents(first, count, false)?;
        self.set_bits(layout.reserved_map, first, count, false)?;
        self.add_free_pages(-((count * EXTENT_PAGES) as i64))?;
        let backed = self.load(control::HEAP_RESERVED);
        self.set(control::HEAP_RESERVED, backed.saturating_sub(count))?;
        self.set(control::RETIRED_FIRST, first)?;
        self.set(control::RETIRED_SINCE, unix_milliseconds())?;
        self.set(control::RETIRED_OWNER, 0)?;
        self.set(control::RETIRED_COUNT, count)
    }

    /// Makes this process the one that punches the batch, if it is time and
    /// nobody living does.
    fn claim_batch(&self, batch: Batch, grace: Duration) -> Result<Option<Batch>, Error> {
        let layout = *self.layout();
        let since = self.load(control::RETIRED_SINCE);
        let sound = batch.first < layout.extents && batch.count <= layout.extents - batch.first;
        if !sound || unix_milliseconds().saturating_sub(since) < grace.as_millis() as u64 {
            return Ok(None);
        }
        let owner = self.load(control::RETIRED_OWNER) as u32;
        if owner != 0 && self.segment().owner_lives(Owner::from_bits(owner)) {
            return Ok(None);
        }
        let me = self.segment().process.owner();
        self.set(control::RETIRED_OWNER, me.bits().into())?;
        Ok(Some(batch))
    }

    fn forget_batch(&self) -> Result<(), Error> {
        self.set(control::RETIRED_COUNT, 0)
    }
}
