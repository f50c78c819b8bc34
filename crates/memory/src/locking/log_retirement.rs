//! Returns the memory of undo logs to the system (W10).
//!
//! A log is backed with memory up to [`shard::LOG_BACKED`], and transactions may use the part below
//! [`shard::LOG_RESERVED`]. A log that has been short for a while is *retired* while it is empty
//! and the shard is locked, so that the next transaction can use only its minimum length. The
//! memory above the usable part is punched out of the file a moment later, slice by slice, when no
//! reader can still be reading it. A process that punches or grows a log first writes its identity
//! into [`shard::LOG_PUNCHER`], so that no process frees memory that another process has just
//! allocated.

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

/// How long a log's memory is retained after the log was last long, in milliseconds.
const IDLE: u64 = 300;
/// How long readers may still read a log after its retirement, in milliseconds.
const GRACE: u64 = 1000;
/// The number of bytes punched out of the file in one step.
const SLICE: u64 = 2 << 20;
/// If the logs of one transaction reach this total length in bytes, their memory is returned to the
/// system when the transaction ends.
const LONG: u64 = 1 << 20;

/// The result of one step of [`Segment::shrink_log`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// The number of bytes returned to the system.
    pub bytes: u64,
    /// Whether more memory remains to be returned.
    pub more: bool,
}

impl Segment {
    /// Performs the next step of returning the memory of a shard's undo log to the system, if the
    /// log was long but has been short for a while. Call it regularly, without any lock held. If
    /// the shard is locked, the step is left to the next call.
    pub fn shrink_log(&self, index: usize) -> Result<Shrunk, Error> {
        shrink(self, index, IDLE, GRACE)
    }

    /// Immediately returns the memory of all long undo logs to the system, except logs that are in
    /// use.
    pub fn shrink_logs_now(&self) -> Result<(), Error> {
        shrink_now(self, ShardSet::first(self.shards()))
    }
}

/// Returns the memory of shards' logs to the system after a transaction has made the logs very
/// long, because upkeep may never run.
#[cold]
pub(crate) fn shrink_after(segment: &Segment, shards: ShardSet) {
    let long = |index| {
        segment
            .mapping
            .load(segment.mapping.layout().shard(index) + shard::LOG_BACKED)
    };
    if shards.iter().map(long).fold(0, u64::saturating_add) >= LONG {
        // The transaction is already committed, so an error here is ignored.
        let _ = shrink_now(segment, shards);
    }
}

/// Immediately returns the memory of the given shards' long logs to the system.
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

/// Performs one step of returning a long log's memory to the system. `idle` and `grace` are in
/// milliseconds.
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
        doing: "returning memory of",
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

/// Shrinks the usable part of a log to the minimum that every log has. The shard is locked during
/// the change, so that no transaction is using more of the log.
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
