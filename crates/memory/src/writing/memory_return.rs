//! Returns a shard's freed memory to the heap, for all shards to use: a small amount after each
//! commit, and all of it if a writer runs out of memory.

use std::time::Duration;

use crate::error::Error;
use crate::heap::step;
use crate::locking::shard_locks::{self, Unlock};
use crate::mapped::layout::shard;
use crate::probes::fault;
use crate::segment::marks::Marks;
use crate::segment::shard_set::ShardSet;
use crate::segment::{Segment, membership};

/// The number of runs that a transaction returns to the heap for each of its shards after its
/// commit (W9).
const BURIED_AT_ONCE: usize = 4;
/// The number of additional runs returned for each run that was granted to the transaction. Memory
/// must be returned at least as fast as it is allocated.
const BURIED_FOR_GRANTED: usize = 2;
/// The number of runs returned by one call of [`Segment::give_back`].
const GIVEN_BACK_AT_ONCE: usize = 64;

/// How long a finished transaction waits for the heap's lock.
const BURIAL_PATIENCE: Duration = Duration::from_millis(1);

/// How much memory a writer that ran out of memory has returned to the heap.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReturnedMemory {
    /// Whether any memory was returned.
    pub(crate) any: bool,
    /// Whether enough memory was returned.
    pub(crate) enough: bool,
}

impl Segment {
    /// Returns part of a shard's freed memory to the heap, for all shards to use. Without this
    /// call, later writers to the shard return the memory gradually. Holds the shard's lock for a
    /// bounded time. Returns true if more memory remains to be returned.
    pub fn give_back(&self, index: usize) -> Result<bool, Error> {
        within(self, index, BURIAL_PATIENCE)
    }
}

/// Returns a few runs from each shard's graveyard (its queue of freed runs) to the heap, and more
/// if the transaction was granted more. The shards' locks must be held. Runs that cannot be
/// returned now are returned after a later transaction.
#[cold]
pub(crate) fn drain_graveyards(segment: &Segment, shards: ShardSet, granted: usize) {
    let mut more = granted * BURIED_FOR_GRANTED;
    for index in shards.iter().filter(|&index| has_buried(segment, index)) {
        let most = BURIED_AT_ONCE + more;
        let returned = return_buried(segment, index, most);
        more = more.min(most - returned);
    }
}

/// Returns true if a shard has memory to return to the heap.
#[inline(always)]
fn has_buried(segment: &Segment, index: usize) -> bool {
    let base = segment.mapping.layout().shard(index);
    segment.mapping.load(base + shard::GRAVEYARD) | segment.mapping.load(base + shard::RETURNING)
        != 0
}

/// Returns part of a shard's freed memory to the heap, waiting at most `patience` for the heap's
/// lock each time. See [`Segment::give_back`].
fn within(segment: &Segment, index: usize, patience: Duration) -> Result<bool, Error> {
    if !has_buried(segment, index) {
        return Ok(false);
    }
    membership::join(segment)?;
    let shards = ShardSet::one(index);
    shard_locks::lock(segment, shards, Marks::Ignored)?;
    let _unlock = Unlock { segment, shards };
    for _ in 0..GIVEN_BACK_AT_ONCE {
        if !step::run_within(segment, patience, |heap| heap.bury_one(index))? {
            break;
        }
        fault::step();
    }
    Ok(has_buried(segment, index))
}

/// Returns all freed memory to the heap, for a writer that ran out of memory and holds no lock.
/// Returns true if any memory was returned.
pub(crate) fn all(segment: &Segment) -> Result<bool, Error> {
    let mut any = false;
    for index in 0..segment.shards() {
        any |= has_buried(segment, index);
        while within(segment, index, segment.patience())? {}
    }
    Ok(any)
}

/// Returns freed memory to the heap until there is enough, for a writer that ran out of memory and
/// holds no lock. Otherwise freed memory would accumulate while more memory is allocated from the
/// system.
pub(crate) fn until(
    segment: &Segment,
    enough: impl Fn() -> Result<bool, Error>,
) -> Result<ReturnedMemory, Error> {
    let mut given = ReturnedMemory::default();
    for index in 0..segment.shards() {
        // Skip a locked shard, because its owner returns memory as well.
        while has_buried(segment, index) && !segment.is_locked(index) {
            let more = match segment.give_back(index) {
                Err(Error::Busy { .. }) => break,
                more => more?,
            };
            given.any = true;
            if enough()? {
                given.enough = true;
                return Ok(given);
            }
            if !more {
                break;
            }
        }
    }
    Ok(given)
}

/// Returns up to `most` runs from a graveyard to the heap. The result is the number of runs
/// returned.
fn return_buried(segment: &Segment, index: usize, most: usize) -> usize {
    for returned in 0..most {
        // Wait only briefly: if a stopped process holds the heap's lock, it must not also block the
        // processes that wait for this shard.
        let step = step::run_within(segment, BURIAL_PATIENCE, |heap| heap.bury_one(index));
        if !matches!(step, Ok(true)) {
            return returned;
        }
        fault::step();
    }
    most
}
