//! Reading through the undo logs (R9): shards as they were before changes that are not finished.
//!
//! A writer that is slow, stopped or dead leaves a shard's counter odd for as long as that. But its log holds the old
//! content of each word that it changed (W4), and memory that it fills without that was free before: the shard as it was
//! is all there. A reader lays the old content over the file as an overlay, and reads as ever.
//!
//! The overlay is of one moment of the log. While the counter stays as it is, a log
//! - grows, and then becomes empty, for which the transaction's record says that it is committed; or
//! - shrinks, each of whose entries was put back before (a rollback, which raises the counter where it begins and ends).
//!
//! So what was read is right if the counter is the same afterwards, the transaction is not committed, and no word was read
//! before the log came to hold it. The entries that a log has grown by are looked at for that. They also make the overlay
//! what it has to be for the next try.
//!
//! Where the record says that the transaction is committed, though the counter is still odd, what lies there is right.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::mapped::fork_mutex::ForkMutex;
use crate::mapped::layout::{SHARDS_MAX, SLOTS, control, shard, slot};
use crate::mapped::mapping::Mapping;
use crate::mapped::overlaid::Overlaid;
use crate::mapped::overlay::{LoggedChanges, Overlay};
use crate::segment::shard_set::ShardSet;
use crate::segment::{Segment, counter};

/// What a log shorter than this has laid over a shard is not kept.
const LONG_LOG: u64 = 2048;

/// Shards in the midst of changes, as they were before.
pub(crate) struct LookBack<'m> {
    segment: &'m Segment,
    mapping: &'m Mapping,
    /// The mapping, with what the logs have laid over it.
    pub(crate) before: Overlaid<'m>,
    shards: ShardSet,
    counters: [u64; SHARDS_MAX],
    /// The logs of changes that are not committed.
    logs: ForkMutex<Vec<Unfinished>>,
    /// Whether a word changed that this try had read.
    is_torn: AtomicBool,
}

/// The log of a change that is not committed.
struct Unfinished {
    index: usize,
    /// The word that says which transaction of its writer was committed last.
    record: u64,
    /// The number of this one.
    number: u64,
    /// How much of the log is in the overlay.
    tail: u64,
}

/// What became of the shards while they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interference {
    /// Nothing that matters: what was read counts.
    Nothing,
    /// Words changed that were read before; the overlay has them now.
    Torn,
    /// The change ended, or began to be undone.
    Ended,
}

impl<'m> LookBack<'m> {
    /// Prepares to read shards, with these counters, of which some are odd. None where they are not what they were, or
    /// have no sound log.
    #[cold]
    pub(crate) fn new(
        segment: &'m Segment,
        shards: ShardSet,
        noted: &[u64],
    ) -> Option<LookBack<'m>> {
        let mapping = &segment.mapping;
        let mut counters = [0; SHARDS_MAX];
        counters[..noted.len()].copy_from_slice(noted);
        let mut logs = Vec::new();
        for (index, noted) in shards.iter().zip(noted) {
            if noted & counter::ODD != 0
                && let Some(log) = unfinished(mapping, index)?
            {
                logs.push(log);
            }
        }
        let kept = shards
            .single()
            .zip(logs.first_mut())
            .and_then(|(index, log)| {
                let mut place = segment.logged_changes[index].try_lock()?;
                let kept = place.take().filter(|kept| kept.counter == noted[0])?;
                log.tail = kept.tail;
                Some(kept.changed)
            });
        let back = LookBack {
            segment,
            mapping,
            before: mapping.overlaid(Overlay::of(kept.unwrap_or_default())),
            shards,
            counters,
            logs: ForkMutex::new(logs, Vec::new),
            is_torn: AtomicBool::new(false),
        };
        (back.interference() == Interference::Nothing).then_some(back)
    }

    /// Begins another try: nothing was read yet.
    pub(crate) fn begin(&self) {
        self.before.forget_reads();
        self.is_torn.store(false, Ordering::Relaxed);
    }

    /// What became of the shards since this try began. What the logs have grown by is in the overlay then.
    #[cold]
    pub(crate) fn interference(&self) -> Interference {
        // What was read comes before all that follows.
        counter::end_of_reading::<AtomicU64>();
        let mut logs = self.logs.lock();
        for log in &mut *logs {
            // A log that became empty is looked at before its record: that was written first.
            match self.take_saved(log) {
                Some(false) => {}
                Some(true) => self.is_torn.store(true, Ordering::Relaxed),
                None => return Interference::Ended,
            }
            if is_committed(self.mapping, log) {
                return Interference::Ended;
            }
        }
        match self.has_counters() {
            false => Interference::Ended,
            true if self.is_torn.load(Ordering::Relaxed) => Interference::Torn,
            true => Interference::Nothing,
        }
    }

    /// Takes what a log has grown by into the overlay. Returns whether any of it was read before; none where the log is not
    /// sound, as one may be that is of another change by now.
    fn take_saved(&self, log: &mut Unfinished) -> Option<bool> {
        let at = self.mapping.layout().shard(log.index) + shard::LOG_TAIL;
        let tail = self.mapping.word(at).load(Ordering::Acquire);
        if tail <= log.tail {
            return Some(false);
        }
        let saved = self.mapping.shard_log(log.index);
        let saved = saved.saved(log.tail, tail, || self.has_counters())?;
        log.tail = tail;
        Some(self.before.add_saved(&saved))
    }

    fn has_counters(&self) -> bool {
        counter::end_of_reading::<AtomicU64>();
        let mut counters = self.shards.iter().zip(&self.counters);
        counters.all(|(index, &noted)| {
            let at = self.mapping.layout().shard(index) + shard::COUNTER;
            counter::unchanged(self.mapping.word(at), noted)
        })
    }
}

impl Drop for LookBack<'_> {
    fn drop(&mut self) {
        let logs = self.logs.lock();
        if let (Some(index), Some(log)) = (self.shards.single(), logs.first())
            && log.tail >= LONG_LOG
            && self.has_counters()
            && let Some(mut place) = self.segment.logged_changes[index].try_lock()
        {
            *place = Some(LoggedChanges {
                counter: self.counters[0],
                tail: log.tail,
                changed: self.before.take_changed(),
            });
        }
    }
}

/// The log of an odd shard, with nothing of it in an overlay; `Some(None)` where its change is committed.
fn unfinished(mapping: &Mapping, index: usize) -> Option<Option<Unfinished>> {
    let base = mapping.layout().shard(index);
    let owner = mapping.load(base + shard::LOG_OWNER);
    let (slot_index, record) = (owner >> 8, owner & 0xff);
    let slots = mapping.load(control::SLOTS_USED).min(SLOTS);
    if slot_index >= slots || record >= slot::RECORD_COUNT {
        return None;
    }
    let log = Unfinished {
        index,
        record: mapping.layout().record(slot_index, record) + slot::COMMITTED,
        number: mapping.load(base + shard::LOG_NUMBER),
        tail: 0,
    };
    Some((!is_committed(mapping, &log)).then_some(log))
}

/// Whether the change that a log is of was committed.
fn is_committed(mapping: &Mapping, log: &Unfinished) -> bool {
    mapping.word(log.record).load(Ordering::Acquire) == log.number
}
