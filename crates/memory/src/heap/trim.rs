//! Giving memory back to the system (H5).
//!
//! Freed extents stay warm for reuse. When there are many, some are *retired*:
//! unmarked in the map of reserved extents and marked in one of their own, so
//! that no read and no grant goes there any more. After a grace period, in
//! which every read that was under way has ended, they are punched out of the
//! file, one slice at a time, and forgotten; then they may be reserved again
//! like new ones. One process punches at a time. While one does, nobody uses
//! what is retired, so a puncher that was stopped for long does no harm when it
//! goes on. At any other time a writer that finds no other memory takes back all
//! that is retired: it is still there.

use std::time::Duration;

use crate::error::Error;
use crate::heap::step::{self, Heap};
use crate::heap::{removal, search};
use crate::mapped::layout::{EXTENT, EXTENT_PAGES, PAGE, control};
use crate::mapped::platform::unix_milliseconds;
use crate::processes::lock::Owner;
use crate::segment::{Segment, membership};

/// Reads that began before extents were retired have ended after this.
const GRACE: Duration = Duration::from_secs(1);
/// While they are so young, in milliseconds, more are added to what is retired,
const OPEN: u64 = 50;
/// where more than so many extents are to be.
const WORTH_ADDING: u64 = 64;
/// Extents retired at a time at most: 16 GiB.
const RETIRED_MAX: u64 = 1 << 18;
/// Extents retired in one step at most (W9),
const RETIRED_AT_ONCE: u64 = 2048;
/// and in one run.
const RUN_MAX: u64 = 512;
/// Bytes of the heap's undo log that one step of retiring fills (W9).
const LOG_BYTES: u64 = 40 << 10;
/// Extents punched out of the file in one step: some 250 us of the kernel's work.
const SLICE: u64 = 32;

/// What one step of [`Segment::trim`] came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Bytes given back to the system.
    pub bytes: u64,
    /// Whether memory is on its way back still.
    pub more: bool,
}

/// Extents that are punched out of the file in one step.
#[derive(Clone, Copy, Debug)]
struct Slice {
    first: u64,
    count: u64,
}

impl Segment {
    /// Does the next step of giving memory back, where more than `keep` bytes
    /// are free: retires some, or punches a slice of what was retired once its
    /// grace is over. To be called now and then; no lock may be held.
    pub fn trim(&self, keep: u64) -> Result<Trimmed, Error> {
        after(self, keep, GRACE)
    }

    /// [`trim`](Self::trim) without the grace period; for tests, where nobody
    /// reads meanwhile.
    #[cfg(feature = "fault")]
    pub fn trim_now(&self, keep: u64) -> Result<Trimmed, Error> {
        after(self, keep, Duration::ZERO)
    }
}

/// [`Segment::trim`] with a grace period of its own.
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

/// Takes back what is retired, for who finds no other memory. Returns
/// whether to look again: there was something, or somebody punches just now.
#[cold]
pub(crate) fn recall(segment: &Segment) -> Result<bool, Error> {
    let mut any = false;
    while segment.mapping.load(control::RETIRED_COUNT) != 0 {
        let owner = segment.mapping.load(control::RETIRED_OWNER) as u32;
        if owner != 0 {
            // A slice takes some 250 us; a dead puncher's is punched once its grace is over.
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

/// Frees the file's blocks behind a slice, without any lock (W9).
fn punch(segment: &Segment, slice: Slice) -> Result<(), Error> {
    let start = segment.mapping.layout().heap + slice.first * EXTENT;
    let punched = segment.mapping.punch(start, slice.count * EXTENT);
    punched.map_err(|source| Error::Io {
        doing: "giving back memory of",
        path: segment.path().into(),
        source,
    })
}

impl Heap<'_> {
    /// Whether more may be retired: the grace of what is there begins anew.
    fn is_open(&self, excess: u64, grace: Duration) -> bool {
        let age = unix_milliseconds().saturating_sub(self.load(control::RETIRED_SINCE));
        let count = self.load(control::RETIRED_COUNT);
        let young = age < OPEN && !grace.is_zero();
        excess > 0 && (count == 0 || young && excess > WORTH_ADDING && count < RETIRED_MAX)
    }

    /// Retires the highest of the free extents, up to `wanted`. Returns how
    /// many.
    fn retire(&self, wanted: u64) -> Result<u64, Error> {
        let layout = *self.layout();
        if self.segment().mapping.copy_is_on() {
            // What is free now may have been in use at the copy's moment, and is read until the copy is made.
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

    /// Makes some of what is retired free again, unless somebody punches it.
    /// Returns how many extents.
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

    /// The last run of set bits of a map below a bit, its first and its length,
    /// which is at most `longest`.
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

    /// Makes this process the one that punches the next slice, if it is time
    /// and nobody living does.
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
            // The count of a damaged store: there is nothing to punch.
            self.set(control::RETIRED_COUNT, 0)?;
            return Ok(None);
        };
        let me = self.segment().process.owner();
        self.set(control::RETIRED_OWNER, me.bits().into())?;
        Ok(Some(Slice { first, count }))
    }

    /// Lets others punch, and forgets a slice that is punched.
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
