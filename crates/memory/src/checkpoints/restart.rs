//! Begins a new epoch of a journal that has failed, for the checkpoint that clears the failure (J5).

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::heap::step;
use crate::journal::folder::NOTHING;
use crate::journal::{waiting, writer};
use crate::locking::shard_locks;
use crate::mapped::layout::control;
use crate::probes::fault;
use crate::redo::{failure, ring};
use crate::segment::Segment;

/// Begins a new epoch if the journal has failed. Only the process that writes the checkpoint may
/// call this.
///
/// The epoch begins at a new segment, because the contents of the old one are unknown. It does not
/// continue the records before it: those in the ring never reached a file. A process that dies here
/// leaves the epoch given up, and the next checkpoint begins another one.
pub(crate) fn begin_epoch_after_failure(segment: &Segment) -> Result<(), Error> {
    let mapping = &segment.mapping;
    if mapping.word(control::REDO_FAILED).load(Ordering::Acquire) == 0 {
        return Ok(());
    }
    // The process that began the last epoch may have died.
    failure::give_up_restart(mapping);
    fault::step();
    // Transactions append no records until the failure is cleared, so none of them has an open
    // record after this. An open record's owner writes to the record's place in the ring.
    shard_locks::pass_all(segment)?;
    let _writer = waiting::until_writer(segment)?;
    // Under the heap's lock, no heap step has an open record.
    step::run(segment, |_| {
        let _guard = ring::take_lock(segment)?;
        let positions = [
            control::REDO_HEAD,
            control::REDO_WRITTEN,
            control::REDO_DURABLE,
        ];
        let last = positions.map(|at| mapping.load(at)).into_iter().max();
        // The segment after the last position has no file yet.
        let start = (last.unwrap_or(0) + 1).next_multiple_of(writer::segment_length(segment));
        for (word, value) in [
            (control::REDO_EPOCH, mapping.load(control::REDO_EPOCH) + 1),
            (control::REDO_BEFORE, NOTHING),
            (control::REDO_BEGIN, start),
            (control::REDO_HEAD, start),
            (control::REDO_WRITTEN, start),
            (control::REDO_DURABLE, start),
        ] {
            mapping.word(word).store(value, Ordering::Release);
            fault::step();
        }
        let failed = mapping.word(control::REDO_FAILED);
        failed.fetch_or(failure::RESTARTED, Ordering::AcqRel);
        fault::step();
        Ok(())
    })
}
