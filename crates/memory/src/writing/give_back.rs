//! Memory that was freed in a shard goes back to the heap, for all shards to use: after commits, a little each, and by who is
//! short of memory, all of it.

use std::time::Duration;

use crate::error::Error;
use crate::heap::step;
use crate::locking::shard_locks::{self, Unlock};
use crate::mapped::layout::shard;
use crate::probes::fault;
use crate::segment::marks::Marks;
use crate::segment::shard_set::ShardSet;
use crate::segment::{Segment, membership};

/// Runs returned to the heap after one transaction for each of its shards (W9),
const BURIED_AT_ONCE: usize = 4;
/// and for each run that it was granted: what is freed must not wait for longer than it takes to get as much again.
const BURIED_FOR_GRANTED: usize = 2;
/// And by whoever has come for just that.
const GIVEN_BACK_AT_ONCE: usize = 64;

/// How long a transaction that is over waits for the heap's lock.
const BURIAL_PATIENCE: Duration = Duration::from_millis(1);

/// What a writer that is short of memory has given back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GivenBack {
    /// Something.
    pub(crate) any: bool,
    /// As much as it needed.
    pub(crate) enough: bool,
}

impl Segment {
    /// Gives some of the memory that was freed in a shard back to the heap, for
    /// all shards to use; otherwise later writers to the shard do that, a
    /// little each. Holds the shard's lock for a bounded time. Returns whether
    /// there is more to give back.
    pub fn give_back(&self, index: usize) -> Result<bool, Error> {
        within(self, index, BURIAL_PATIENCE)
    }
}

/// Returns a few runs of each shard's graveyard to the heap, more where more were granted. The shards' locks are
/// held. What cannot be done now is done after a later transaction.
#[cold]
pub(crate) fn drain_graveyards(segment: &Segment, shards: ShardSet, granted: usize) {
    let mut more = granted * BURIED_FOR_GRANTED;
    for index in shards.iter().filter(|&index| has_buried(segment, index)) {
        let most = BURIED_AT_ONCE + more;
        let returned = return_buried(segment, index, most);
        more = more.min(most - returned);
    }
}

/// Whether a shard has something that goes back to the heap.
#[inline(always)]
fn has_buried(segment: &Segment, index: usize) -> bool {
    let base = segment.mapping.layout().shard(index);
    segment.mapping.load(base + shard::GRAVEYARD) | segment.mapping.load(base + shard::RETURNING)
        != 0
}

/// [`Segment::give_back`] that waits for the heap for so long.
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

/// Gives all memory that was freed back to the heap, for a writer that is
/// short of memory and holds no lock. Returns whether there was any.
pub(crate) fn all(segment: &Segment) -> Result<bool, Error> {
    let mut any = false;
    for index in 0..segment.shards() {
        any |= has_buried(segment, index);
        while within(segment, index, segment.patience())? {}
    }
    Ok(any)
}

/// Gives memory that was freed back to the heap until there is enough, for a writer that is short of it and holds no
/// lock: what waits to be given back must not add up while more is taken from the system.
pub(crate) fn until(
    segment: &Segment,
    enough: impl Fn() -> Result<bool, Error>,
) -> Result<GivenBack, Error> {
    let mut given = GivenBack::default();
    for index in 0..segment.shards() {
        // Where somebody works in the shard, that one gives back as well.
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

/// Returns up to so many runs of a graveyard. Returns how many.
fn return_buried(segment: &Segment, index: usize, most: usize) -> usize {
    for returned in 0..most {
        // Others wait for the shard: what holds the heap up (a stopped
        // process) must not hold them up.
        let step = step::run_within(segment, BURIAL_PATIENCE, |heap| heap.bury_one(index));
        if !matches!(step, Ok(true)) {
            return returned;
        }
        fault::step();
    }
    most
}
