//! Recovers a shard whose writer died: rolls back the writer's change, or keeps it if it was
//! committed (W3, W6). Every function in this file requires the shard's lock.

use crate::error::{Error, Fault};
use crate::heap::step;
use crate::mapped::layout::{SLOTS, control, shard, slot};
use crate::mapped::shard_words::ShardWords;
use crate::probes::fault;
use crate::redo::restore;
use crate::segment::marks::{self, Marks};
use crate::segment::settings::CACHE_COUNTS;
use crate::segment::{Segment, counter, membership};

/// Returns whether a shard needs no recovery and has no mark (pending cleanup). The caller must
/// hold the shard's lock.
#[inline(always)]
pub(crate) fn is_settled(shard: ShardWords<'_>) -> bool {
    shard.load::<{ shard::LOG_TAIL }>() == 0
        && counter::is_plain(shard.load::<{ shard::COUNTER }>())
}

/// Recovers a shard from a dead owner (W3). Called after every acquisition of the shard's lock.
pub(crate) fn settle(segment: &Segment, index: usize, marks: Marks) -> Result<(), Error> {
    match is_settled(segment.mapping.shard_words(index)) {
        true => Ok(()),
        false => settle_slowly(segment, index, marks),
    }
}

/// Like [`settle`], for a shard that is not [settled](is_settled), because a dead owner left a
/// change in it or it is marked for cleanup.
#[cold]
pub(crate) fn settle_slowly(segment: &Segment, index: usize, marks: Marks) -> Result<(), Error> {
    recover(segment, index)?;
    match marks {
        Marks::Respected
            if segment.is_marked(index) && !marks::was_looked_after(segment, index) =>
        {
            Err(Error::Marked)
        }
        _ => Ok(()),
    }
}

/// Keeps a dead transaction's changes if it had committed, and undoes them otherwise (W6).
fn recover(segment: &Segment, index: usize) -> Result<(), Error> {
    membership::check_place(segment);
    let base = segment.mapping.layout().shard(index);
    let log = segment.mapping.shard_log(index);
    if !log.is_empty() {
        let owner = segment.mapping.load(base + shard::LOG_OWNER);
        let number = segment.mapping.load(base + shard::LOG_NUMBER);
        let (slot_index, record) = (owner >> 8, owner & 0xff);
        let slots = segment.mapping.load(control::SLOTS_USED).min(SLOTS);
        if slot_index >= slots || record >= slot::RECORD_COUNT {
            return Err(Error::Damaged(Fault {
                at: base + shard::LOG_OWNER,
                what: "a log header that names a record",
            }));
        }
        let record = segment.mapping.layout().record(slot_index, record);
        if segment.mapping.load(record + slot::COMMITTED) == number {
            log.clear();
            fault::step();
        } else {
            roll_back(segment, index)?;
        }
    }
    if segment.mapping.load(base + shard::COUNTER) & counter::ODD != 0 {
        // The dead transaction may have committed without counting its changes a second time; see
        // `Transaction::count_up`.
        for setting in CACHE_COUNTS {
            segment.count_up(setting)?;
        }
        marks::renew(segment, index);
        make_even(segment, index);
        fault::step();
    }
    Ok(())
}

/// Undoes the changes in a shard's log.
pub(crate) fn roll_back(segment: &Segment, index: usize) -> Result<(), Error> {
    roll_back_to(segment, index, 0)
}

/// Undoes the changes made since a shard's log was `until` bytes long.
pub(crate) fn roll_back_to(segment: &Segment, index: usize, until: u64) -> Result<(), Error> {
    let layout = *segment.mapping.layout();
    let base = layout.shard(index);
    let descriptors_end = layout.descriptor(layout.pages());
    let log = segment.mapping.shard_log(index);
    if log.length() == until {
        return Ok(());
    }
    // All entries, also below `until`: only the oldest contents of a word are committed ones.
    restore::before_rollback(segment, &log, 1 << index);
    // Raise the counter, because readers that go through the log rely on it: as long as the counter
    // does not change, a log either only grows or only shrinks.
    let counter = segment.mapping.word(base + shard::COUNTER);
    counter::raise(counter);
    let rolled_back = log.roll_back(
        until,
        |at, words| {
            let length = words.saturating_mul(8);
            let end = at.saturating_add(length);
            let inside = |start: u64, stop: u64| at >= start && end <= stop;
            at % 8 == 0
                && (inside(base + shard::USED_BYTES, base + shard::HINT_BITS)
                    || inside(base + shard::MARK, base + shard::MARK + 8)
                    || inside(base + shard::CLASSES, base + shard::HINTS)
                    || inside(layout.descriptors, descriptors_end)
                    || segment.mapping.reserved(at, length))
        },
        |page| step::run(segment, |heap| heap.take_back(index, page)),
    );
    counter::raise(counter);
    rolled_back
}

/// Makes a shard's version counter even, which ends the change for readers.
pub(crate) fn make_even(segment: &Segment, index: usize) {
    let at = segment.mapping.layout().shard(index) + shard::COUNTER;
    counter::make_even(segment.mapping.word(at));
}
