//! Reads shards through their undo logs, as they were before unfinished changes (R9).
//!
//! A slow, stopped or dead writer may leave a shard's counter odd for a long time. However, its log
//! contains the old content of each word that it changed (W4), and memory that it filled without
//! logging was free before. The log and the file together therefore contain the complete old state
//! of the shard. A reader lays the old content over the file as an overlay and reads normally.
//!
//! The overlay shows one moment of the log. As long as the counter stays the same, a log either
//! - grows and then becomes empty, after the transaction's record says that it is committed; or
//! - shrinks, with each entry restored before it is removed (a rollback, which raises the counter
//!   at its beginning and at its end).
//!
//! A read is therefore correct if afterward the counter is the same, the transaction is not
//! committed, and no word was read before the log contained it. The last condition is checked
//! against the entries that were added to the log during the read. Those entries also complete the
//! overlay for the next attempt.
//!
//! If the record says that the transaction is committed although the counter is still odd, the
//! content of the file is correct.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::mapped::fork_mutex::ForkMutex;
use crate::mapped::layout::{SHARDS_MAX, SLOTS, control, shard, slot};
use crate::mapped::mapping::Mapping;
use crate::mapped::overlaid::Overlaid;
use crate::mapped::overlay::{LoggedChanges, Overlay};
use crate::segment::shard_set::ShardSet;
use crate::segment::{Segment, counter};

/// The minimum length in bytes of a log whose overlay is cached.
const LONG_LOG: u64 = 2048;

/// Shards that are being changed, shown as they were before the changes.
pub(crate) struct OldStateView<'m> {
    segment: &'m Segment,
    mapping: &'m Mapping,
    /// The mapping, overlaid with old content from the logs.
    pub(crate) before: Overlaid<'m>,
    shards: ShardSet,
    counters: [u64; SHARDS_MAX],
    /// The logs of uncommitted changes.
    logs: ForkMutex<Vec<Unfinished>>,
    /// Whether a word was changed after this attempt had read it.
    is_torn: AtomicBool,
}

/// The log of an uncommitted change.
struct Unfinished {
    index: usize,
    /// The offset of the word that contains the number of the writer's last committed transaction.
    record: u64,
    /// The number of the transaction that wrote the log.
    number: u64,
    /// The number of bytes of the log that the overlay contains.
    tail: u64,
}

/// How the shards changed while they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interference {
    /// Nothing relevant changed, and the read is valid.
    Nothing,
    /// Words changed after they had been read. The overlay now contains them.
    Torn,
    /// The change has ended, or its rollback has begun.
    Ended,
}

impl<'m> OldStateView<'m> {
    /// Prepares to read shards whose counters were recorded, at least one of which is odd. Returns
    /// `None` if a counter has changed or a log is invalid.
    #[cold]
    pub(crate) fn new(
        segment: &'m Segment,
        shards: ShardSet,
        noted: &[u64],
    ) -> Option<OldStateView<'m>> {
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
        let back = OldStateView {
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

    /// Begins another attempt by clearing the record of which words were read.
    pub(crate) fn begin(&self) {
        self.before.forget_reads();
        self.is_torn.store(false, Ordering::Relaxed);
    }

    /// Returns what happened to the shards since this attempt began. Adds new log entries to the
    /// overlay.
    #[cold]
    pub(crate) fn interference(&self) -> Interference {
        // Orders all reads of the attempt before the checks that follow.
        counter::end_of_reading::<AtomicU64>();
        let mut logs = self.logs.lock();
        for log in &mut *logs {
            // Check the log before the transaction's record, because a writer updates the record
            // before it empties the log.
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

    /// Adds a log's new entries to the overlay. Returns true if any of their words had been read,
    /// or `None` if the log is invalid, for example because it now belongs to another change.
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

impl Drop for OldStateView<'_> {
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

/// Returns the log of a shard with an odd counter, or `Some(None)` if its change is committed.
/// Returns `None` if the log's owner is invalid.
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

/// Returns true if the change that wrote a log was committed.
fn is_committed(mapping: &Mapping, log: &Unfinished) -> bool {
    mapping.word(log.record).load(Ordering::Acquire) == log.number
}
