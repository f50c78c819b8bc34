//! The memory of an undo log: how the log grows (W7), and which process may change its memory.
//!
//! A log may be backed with memory up to [`shard::LOG_BACKED`], and transactions use the part below
//! [`shard::LOG_RESERVED`]. A process that grows or punches a log (`log_retirement.rs`) first
//! stores its identity in [`shard::LOG_PUNCHER`], so that no process frees memory that another
//! process has just allocated.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::error::Error;
use crate::mapped::layout::{PAGE, shard};
use crate::mapped::platform::coarse_milliseconds;
use crate::probes::fault;
use crate::processes::lock::Owner;
use crate::segment::{Segment, membership};

/// The exclusive right to change how much memory backs a log. Released when dropped.
pub(crate) struct LogClaim<'s> {
    segment: &'s Segment,
    word: u64,
}

impl Drop for LogClaim<'_> {
    fn drop(&mut self) {
        if !fault::abandoned() {
            let word = self.segment.mapping.word(self.word);
            word.store(0, Ordering::Release);
            fault::step();
        }
    }
}

/// Claims a log in order to punch or grow it. If the current owner of the claim is alive, fails and
/// returns that owner.
pub(crate) fn claim(segment: &Segment, index: usize) -> Result<LogClaim<'_>, Owner> {
    let at = segment.mapping.layout().shard(index) + shard::LOG_PUNCHER;
    let word = segment.mapping.word(at);
    let found = word.load(Ordering::Acquire);
    let owner = Owner::from_bits(found as u32);
    if found != 0 && membership::owner_lives(segment, owner) {
        return Err(owner);
    }
    let me = segment.process.owner();
    match word.compare_exchange(found, me.bits().into(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            fault::step();
            Ok(LogClaim { segment, word: at })
        }
        Err(other) => Err(Owner::from_bits(other as u32)),
    }
}

/// Records that a shard's log is long, so that its memory is retained for a while. The caller must
/// hold the shard's lock.
#[cold]
pub(crate) fn note_long(segment: &Segment, index: usize) {
    let at = segment.mapping.layout().shard(index) + shard::LOG_LONG;
    segment.mapping.store(at, segment.last_written());
}

/// Backs a shard's undo log with memory up to `wanted` bytes (W7). The caller must hold no lock.
pub(crate) fn grow(segment: &Segment, index: usize, wanted: u64) -> Result<(), Error> {
    let layout = segment.mapping.layout();
    let base = layout.shard(index);
    let reserved = segment.mapping.word(base + shard::LOG_RESERVED);
    let target = wanted.min(layout.log_capacity).next_multiple_of(PAGE);
    if target <= reserved.load(Ordering::Relaxed).min(layout.log_capacity) {
        return Ok(());
    }
    let start = Instant::now();
    let held = loop {
        match claim(segment, index) {
            Ok(held) => break held,
            Err(owner) if start.elapsed() >= segment.patience() => {
                return Err(segment.process.describe(&segment.mapping, owner));
            }
            // The process that has claimed the log is punching one slice, which takes about 250 us.
            Err(_) => std::thread::yield_now(),
        }
    };
    segment
        .mapping
        .store(base + shard::LOG_LONG, coarse_milliseconds());
    let backed = segment.mapping.word(base + shard::LOG_BACKED);
    // Raise `LOG_BACKED` before backing the memory. Otherwise a death in between could leave memory
    // that is never returned.
    backed.fetch_max(target, Ordering::Relaxed);
    fault::step();
    membership::back_range(segment, base + shard::LOG, target).map_err(|_| Error::OutOfMemory)?;
    fault::step();
    reserved.fetch_max(target, Ordering::Release);
    fault::step();
    drop(held);
    Ok(())
}

/// Returns the total size in bytes of the memory that backs undo logs.
pub(crate) fn bytes(segment: &Segment) -> u64 {
    let layout = segment.mapping.layout();
    let backed = |index| {
        segment
            .mapping
            .load(layout.shard(index) + shard::LOG_BACKED)
    };
    (0..layout.shards).map(backed).fold(0, u64::saturating_add)
}
