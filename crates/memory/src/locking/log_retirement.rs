//! How the memory of an undo log goes back to the system (W10).
//!
//! A log is backed with memory up to [`shard::LOG_BACKED`] and uses the part below
//! [`shard::LOG_RESERVED`]. A log that has not been long for a while is *retired* while its lock is
//! held and the log is empty, so that the next transaction finds it short. The memory above the
//! part in use is punched out of the file a moment later, one slice at a time, when no reader can
//! still be reading it. A process that punches a log, or makes it grow, first writes its name into
//! [`shard::LOG_PUNCHER`], so that no process takes away memory that another process has just
//! backed.

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

/// How long a log keeps its memory after it was last long, in milliseconds.
const IDLE: u64 = 300;
/// How long after its retirement a log may still be read, in milliseconds.
const GRACE: u64 = 1000;
/// The number of bytes punched out of the file in one step.
const SLICE: u64 = 2 << 20;
/// If the logs of one transaction come to this many bytes, their memory is given back when the
/// transaction ends.
const LONG: u64 = 1 << 20;

/// The result of one step of [`Segment::shrink_log`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// The number of bytes given back to the system.
    pub bytes: u64,
    /// Whether more memory is still to be given back.
    pub more: bool,
}

impl Segment {
    /// Takes the next step in giving back the memory of a shard's undo log, if the log was long but
    /// has been short for a while. Call it regularly, without any lock held. A locked shard is left
    /// for the next call.
    pub fn shrink_log(&self, index: usize) -> Result<Shrunk, Error> {
        shrink(self, index, IDLE, GRACE)
    }

    /// Gives the memory of all long undo logs back to the system at once, except logs that are in
    /// use.
    pub fn shrink_logs_now(&self) -> Result<(), Error> {
        shrink_now(self, ShardSet::first(self.shards()))
    }
}

/// Gives back the memory of some shards' logs after a transaction has made them very long, in case
/// no upkeep follows.
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

/// Gives the memory of some long logs back to the system at once.
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

/// Takes one step in giving back the memory of a long log. `idle` and `grace` are in milliseconds.
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

/// Shrinks the usable part of a log to the minimum that every log has. The shard is locked
/// meanwhile, so that no transaction is using more of the log.
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
