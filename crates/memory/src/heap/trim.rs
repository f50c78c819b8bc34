//! Returns memory to the system (H5).
//!
//! Freed extents stay backed for reuse. If too many are free, some are *retired*: they are moved
//! from the map of reserved extents to the map of retired extents, so that reads and grants no
//! longer use them. After a grace period, when all reads that were in progress have ended, retired
//! extents are punched out of the file, slice by slice. From then on, they can be reserved again
//! like new extents.
//!
//! Only one process punches at any time. Meanwhile, no process uses retired extents, so a punching
//! process does no harm even if it is stopped for a long time and then resumes. While no process
//! punches, a writer that finds no other memory may recall all retired extents, whose memory is
//! still backed.

use std::time::Duration;

use crate::error::Error;
use crate::heap::step::{self, Heap};
use crate::heap::{removal, search};
use crate::mapped::layout::{EXTENT, EXTENT_PAGES, PAGE, control};
use crate::mapped::platform::unix_milliseconds;
use crate::processes::lock::Owner;
use crate::segment::{Segment, membership};

/// The grace period after a retirement, during which all earlier reads end.
const GRACE: Duration = Duration::from_secs(1);
/// How long after a retirement further extents may be added to the retired ones, in milliseconds.
const OPEN: u64 = 50;
/// Further extents are retired only if the excess is larger than this number of extents.
const WORTH_ADDING: u64 = 64;
/// The maximum number of retired extents to which more may be added: 16 GiB.
const RETIRED_MAX: u64 = 1 << 18;
/// The maximum number of extents retired in one step (W9).
const RETIRED_AT_ONCE: u64 = 2048;
/// The maximum number of extents in one retired run.
const RUN_MAX: u64 = 512;
/// The number of bytes that one retirement step may write to the heap's undo log (W9).
const LOG_BYTES: u64 = 40 << 10;
/// The number of extents punched out of the file in one step, which takes the kernel about 250 us.
const SLICE: u64 = 32;

/// The result of one step of [`Segment::trim`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// The number of bytes returned to the system.
    pub bytes: u64,
    /// Whether any retired memory remains to be returned.
    pub more: bool,
}

/// A range of extents that one step punches out of the file.
#[derive(Clone, Copy, Debug)]
struct Slice {
    first: u64,
    count: u64,
}

impl Segment {
    /// Performs the next step of returning memory to the system, if more than `keep` bytes are
    /// free. The step retires some extents, or punches a slice of the retired extents after their
    /// grace period. Call it regularly, without any lock held.
    pub fn trim(&self, keep: u64) -> Result<Trimmed, Error> {
        after(self, keep, GRACE)
    }

    /// Like [`trim`](Self::trim), but without the grace period. For tests in which no other process
    /// reads during the call.
    #[cfg(feature = "fault")]
    pub fn trim_now(&self, keep: u64) -> Result<Trimmed, Error> {
        after(self, keep, Duration::ZERO)
    }
}

/// Like [`Segment::trim`], but with the given grace period.
fn after(segment: &Segment, keep: u64, grace: Duration) -> Result<Trimmed, Error> {
    let free = segment
        .mapping
        .load(control::HEAP_FREE_PAGES)
        .saturating_mul(PAGE);
    let kept = removal::reserved_extents(segment.mapping.layout());
    let excess = (free.saturating_sub(keep) / EXTENT)
        .min(search::free_extents(segment).saturating_sub(kept));
    let retired = segment.mapping.load(control::RETIRED_COUNT);
    if retired == 0 && excess == 0 {
        return Ok(Trimmed::default());
    }
    membership::join(segment)?;
    let slice = step::run(segment, |heap| {
        if heap.is_open(excess, grace) && heap.retire(excess)? > 0 {
            return Ok(None);
        }
        heap.claim_slice(grace)
    })?;
    let mut bytes = 0;
    if let Some(slice) = slice {
        let punched = punch(segment, slice);
        step::run(segment, |heap| heap.end_slice(slice, punched.is_ok()))?;
        punched?;
        bytes = slice.count * EXTENT;
    }
    let more = segment.mapping.load(control::RETIRED_COUNT) != 0;
    Ok(Trimmed { bytes, more })
}

/// Recalls retired extents for a writer that finds no other memory. Returns whether the writer
/// should search again, because extents were recalled or a living process is punching.
#[cold]
pub(crate) fn recall(segment: &Segment) -> Result<bool, Error> {
    let mut any = false;
    while segment.mapping.load(control::RETIRED_COUNT) != 0 {
        let owner = segment.mapping.load(control::RETIRED_OWNER) as u32;
        if owner != 0 {
            // A living process finishes punching its slice in about 250 us. After the grace period,
            // another process punches the slice of a dead process.
            std::thread::yield_now();
            return Ok(any || membership::owner_lives(segment, Owner::from_bits(owner)));
        }
        if step::run(segment, |heap| heap.recall())? == 0 {
            break;
        }
        any = true;
    }
    Ok(any)
}

/// Frees a slice's memory in the file, without holding any lock (W9).
fn punch(segment: &Segment, slice: Slice) -> Result<(), Error> {
    let start = segment.mapping.layout().heap + slice.first * EXTENT;
    let punched = segment.mapping.punch(start, slice.count * EXTENT);
    punched.map_err(|source| Error::Io {
        doing: "returning memory of",
        path: segment.path().into(),
        source,
    })
}

impl Heap<'_> {
    /// Returns whether more extents may be retired. Adding extents restarts the grace period of all
    /// retired extents.
    fn is_open(&self, excess: u64, grace: Duration) -> bool {
        let age = unix_milliseconds().saturating_sub(self.load(control::RETIRED_SINCE));
        let count = self.load(control::RETIRED_COUNT);
        let young = age < OPEN && !grace.is_zero();
        excess > 0 && (count == 0 || young && excess > WORTH_ADDING && count < RETIRED_MAX)
    }

    /// Retires up to `wanted` of the highest free extents. Returns the number of extents retired.
    fn retire(&self, wanted: u64) -> Result<u64, Error> {
        let layout = *self.layout();
        if self.segment().mapping.copy_is_on() {
            // An extent that is free now may have been in use at the copy's moment, so the copy may
            // read it until the copy is complete.
            return Ok(0);
        }
        let mut below = self.load(control::HEAP_HIGH).min(layout.extents);
        let mut retired = 0;
        let wanted = wanted.min(RETIRED_AT_ONCE);
        while retired < wanted && self.load(control::HEAP_LOG_TAIL) < LOG_BYTES {
            let longest = (wanted - retired).min(RUN_MAX);
            let Some((first, count)) = self.last_run(layout.all_free_map, below, longest) else {
                break;
            };
            self.set_extents(first, count, false)?;
            self.set_bits(layout.reserved_map, first, count, false)?;
            self.set_bits(layout.retired_map, first, count, true)?;
            below = first;
            retired += count;
        }
        if retired > 0 {
            self.add_free_pages(-((retired * EXTENT_PAGES) as i64))?;
            let backed = self.load(control::HEAP_RESERVED);
            self.set(control::HEAP_RESERVED, backed.saturating_sub(retired))?;
            self.set(control::RETIRED_SINCE, unix_milliseconds())?;
            let count = self.load(control::RETIRED_COUNT);
            self.set(control::RETIRED_COUNT, count + retired)?;
        }
        Ok(retired)
    }

    /// Makes some retired extents free again, unless a process is punching, and returns how many.
    fn recall(&self) -> Result<u64, Error> {
        let layout = *self.layout();
        if self.load(control::RETIRED_OWNER) != 0 {
            return Ok(0);
        }
        let mut below = self.load(control::HEAP_HIGH).min(layout.extents);
        let mut recalled = 0;
        while self.load(control::HEAP_LOG_TAIL) < LOG_BYTES {
            let Some((first, count)) = self.last_run(layout.retired_map, below, RUN_MAX) else {
                break;
            };
            self.set_bits(layout.retired_map, first, count, false)?;
            self.set_bits(layout.reserved_map, first, count, true)?;
            self.set_extents(first, count, true)?;
            below = first;
            recalled += count;
        }
        if recalled > 0 {
            self.add_free_pages((recalled * EXTENT_PAGES) as i64)?;
            let backed = self.load(control::HEAP_RESERVED);
            self.set(control::HEAP_RESERVED, backed + recalled)?;
            let count = self.load(control::RETIRED_COUNT);
            self.set(control::RETIRED_COUNT, count.saturating_sub(recalled))?;
        }
        Ok(recalled)
    }

    /// Returns the start and length of the last run of set bits of a map that ends before `below`,
    /// limited to `longest` bits.
    fn last_run(&self, map: u64, below: u64, longest: u64) -> Option<(u64, u64)> {
        let mut end = below;
        loop {
            let (word, bits) = ((end.checked_sub(1)?) / 64, (end - 1) % 64 + 1);
            let set = self.load(map + word * 8) & (u64::MAX >> (64 - bits));
            if set != 0 {
                end = word * 64 + 64 - u64::from(set.leading_zeros());
                break;
            }
            end = word * 64;
        }
        let mut first = end - 1;
        while first > 0 && end - first < longest && self.bit(map, first - 1) {
            first -= 1;
        }
        Some((first, end - first))
    }

    /// Claims the next slice for this process to punch, if the grace period has ended and no living
    /// process is punching.
    fn claim_slice(&self, grace: Duration) -> Result<Option<Slice>, Error> {
        let layout = *self.layout();
        let age = unix_milliseconds().saturating_sub(self.load(control::RETIRED_SINCE));
        if self.load(control::RETIRED_COUNT) == 0 || age < grace.as_millis() as u64 {
            return Ok(None);
        }
        let owner = self.load(control::RETIRED_OWNER) as u32;
        if owner != 0 && membership::owner_lives(self.segment(), Owner::from_bits(owner)) {
            return Ok(None);
        }
        let high = self.load(control::HEAP_HIGH).min(layout.extents);
        let Some((first, count)) = self.last_run(layout.retired_map, high, SLICE) else {
            // The counter is wrong because the store is damaged, and there is nothing to punch.
            self.set(control::RETIRED_COUNT, 0)?;
            return Ok(None);
        };
        let me = self.segment().process.owner();
        self.set(control::RETIRED_OWNER, me.bits().into())?;
        Ok(Some(Slice { first, count }))
    }

    /// Removes a punched slice from the retired extents, and allows other processes to punch.
    fn end_slice(&self, slice: Slice, punched: bool) -> Result<(), Error> {
        if punched {
            let retired = self.layout().retired_map;
            self.set_bits(retired, slice.first, slice.count, false)?;
            let count = self.load(control::RETIRED_COUNT);
            self.set(control::RETIRED_COUNT, count.saturating_sub(slice.count))?;
        }
        self.set(control::RETIRED_OWNER, 0)
    }
}
