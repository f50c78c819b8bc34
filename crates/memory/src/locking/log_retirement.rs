//! How an undo log grows, and how its memory goes back to the system (W10).
//!
//! A log has memory up to [`shard::LOG_BACKED`], of which it uses what lies below [`shard::LOG_RESERVED`]. One that was not
//! long for a while is *retired*: its lock is held and the log empty, so that the next transaction finds it short. What lies
//! above is punched out of the file a moment later, when nobody reads there any more, a slice at a time. Whoever punches, or
//! has a log grow, first puts its name into [`shard::LOG_PUNCHER`], so that what one has backed the other does not take away.

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::locking::shard_locks::{self, Unlock};
use crate::mapped::layout::shard;
use crate::mapped::platform::coarse_milliseconds;
use crate::probes::fault;
use crate::segment::marks::Marks;
use crate::segment::shard_set::ShardSet;
use crate::segment::{Segment, membership};
use crate::undo::log_memory;

/// Milliseconds for which a log that was long stays so.
const IDLE: u64 = 300;
/// Milliseconds after which nobody reads in a log that was retired.
const GRACE: u64 = 1000;
/// Bytes punched out of the file in one step.
const SLICE: u64 = 2 << 20;
/// Logs of one transaction that come to so many bytes go back when it ends.
const LONG: u64 = 1 << 20;

/// What one step of [`Segment::shrink_log`] came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// Bytes given back to the system.
    pub bytes: u64,
    /// Whether memory is on its way back still.
    pub more: bool,
}

impl Segment {
    /// Does the next step of giving the memory of a shard's long undo log back to the system, where it was not long for a
    /// moment. To be called now and then; no lock may be held. What others have locked is left for the next time.
    pub fn shrink_log(&self, index: usize) -> Result<Shrunk, Error> {
        shrink(self, index, IDLE, GRACE)
    }

    /// Gives the memory of all long undo logs back to the system at once, but what others use just now.
    pub fn shrink_logs_now(&self) -> Result<(), Error> {
        shrink_now(self, ShardSet::first(self.shards()))
    }
}

/// The same of some shards' logs, behind the end of a transaction that has made them very long: nobody may come for that
/// later.
#[cold]
pub(crate) fn shrink_after(segment: &Segment, shards: ShardSet) {
    let long = |index| {
        segment
            .mapping
            .load(segment.mapping.layout().shard(index) + shard::LOG_BACKED)
    };
    if shards.iter().map(long).fold(0, u64::saturating_add) >= LONG {
        // The transaction is committed, whatever stands in the way of this.
        let _ = shrink_now(segment, shards);
    }
}

/// Gives the memory of some long logs back at once.
fn shrink_now(segment: &Segment, shards: ShardSet) -> Result<(), Error> {
    for index in shards.iter() {
        loop {
            let shrunk = shrink(segment, index, 0, 0)?;
            if !shrunk.more || shrunk.bytes == 0 {
                break;
            }
        }
    }
    Ok(())
}

/// One step of giving the memory of a long log back; `idle` and `grace` are milliseconds.
fn shrink(segment: &Segment, index: usize, idle: u64, grace: u64) -> Result<Shrunk, Error> {
    let base = segment.mapping.layout().shard(index);
    let reserved = || segment.mapping.load(base + shard::LOG_RESERVED);
    let since = |word: u64| coarse_milliseconds().wrapping_sub(segment.mapping.load(base + word));
    let later = Shrunk {
        bytes: 0,
        more: true,
    };
    if reserved() > shard::LOG_RESERVED_MIN {
        if since(shard::LOG_LONG) < idle || segment.is_locked(index) {
            return Ok(later);
        }
        membership::join(segment)?;
        retire(segment, index)?;
    }
    if segment.mapping.load(base + shard::LOG_BACKED) <= reserved() {
        return Ok(Shrunk::default());
    }
    if since(shard::LOG_RETIRED) < grace {
        return Ok(later);
    }
    membership::join(segment)?;
    let Ok(_claim) = log_memory::claim(segment, index) else {
        return Ok(later);
    };
    let backed = segment.mapping.load(base + shard::LOG_BACKED);
    let floor = reserved().max(shard::LOG_RESERVED_MIN);
    let bytes = backed.saturating_sub(floor).min(SLICE);
    if bytes == 0 || backed > segment.mapping.layout().log_capacity {
        return Ok(Shrunk::default());
    }
    let start = base + shard::LOG + backed - bytes;
    let punched = segment.mapping.punch(start, bytes);
    punched.map_err(|source| Error::Io {
        doing: "giving back memory of",
        path: segment.path().into(),
        source,
    })?;
    fault::step();
    segment
        .mapping
        .store(base + shard::LOG_BACKED, backed - bytes);
    fault::step();
    Ok(Shrunk {
        bytes,
        more: backed - bytes > floor,
    })
}

/// Has a log use the least that every log has. Its shard is locked for that moment: nobody is in the midst of a longer
/// one.
fn retire(segment: &Segment, index: usize) -> Result<(), Error> {
    let shards = ShardSet::one(index);
    shard_locks::lock(segment, shards, Marks::Ignored)?;
    let _unlock = Unlock { segment, shards };
    let base = segment.mapping.layout().shard(index);
    segment
        .mapping
        .store(base + shard::LOG_RETIRED, coarse_milliseconds());
    fault::step();
    let reserved = segment.mapping.word(base + shard::LOG_RESERVED);
    reserved.store(shard::LOG_RESERVED_MIN, Ordering::Release);
    fault::step();
    Ok(())
}
