//! Records of undone changes, which a checkpoint in progress needs.
//!
//! A checkpoint copies pages while transactions change them. The record of a committed change is
//! after the checkpoint's start, so recovery repeats the change, whatever the checkpoint copied. A
//! change that is undone has no record, so a checkpoint that copied the change must be followed by a
//! record with the old contents. The record is appended before the old contents are restored, so
//! that the process may die at any point: the next process that rolls the log back appends the
//! remaining contents again.

use crate::mapped::layout::control;
use crate::mapped::mapping::Mapping;
use crate::redo::failure;
use crate::redo::record::{self, ENTRY_WORDS, Kind, State};
use crate::redo::ring::{self, Heading};
use crate::segment::Segment;
use crate::undo::log::Log;

/// No checkpoint is being written.
pub(crate) const NONE: u64 = 0;
/// A checkpoint is being written.
pub(crate) const ON: u64 = 1;
/// A checkpoint is being written, and must be started again.
pub(crate) const SPOILED: u64 = 2;

/// Appends the old contents of all entries of an undo log that is about to be rolled back, if a
/// checkpoint is being written. If there is no space, or if the journal has failed, marks the checkpoint as spoiled instead.
pub(crate) fn before_rollback(segment: &Segment, log: &Log<'_>, shards: u64) {
    if segment.mapping.load(control::CHECKPOINT) == ON {
        match failure::is_given_up(&segment.mapping) {
            true => spoil(segment),
            false => append(segment, log, shards),
        }
    }
}

/// Returns whether a record must contain the words that have the contents again that they had before
/// its step, because a checkpoint in progress may have copied other contents.
///
/// The caller must hold the locks of its step. A checkpoint copies no page before it has acquired
/// every lock once, so the answer remains true to the end of the step.
#[inline(always)]
pub(crate) fn needs_unchanged_words(mapping: &Mapping) -> bool {
    mapping.load_control::<{ control::CHECKPOINT }>() != NONE
}

#[cold]
fn append(segment: &Segment, log: &Log<'_>, shards: u64) {
    let mut words_in_body = 0;
    log.for_each_saved(0, |_, words| {
        words_in_body += words + words.div_ceil(ENTRY_WORDS);
    });
    let heading = Heading {
        kind: Kind::Restore,
        record: 0,
        number: 0,
        shards,
        may_use_spare: true,
        state: State::Counts,
    };
    let appended = ring::append(segment, &heading, words_in_body, |writer| {
        // Newest first, so that the oldest contents of a word that was logged twice come last.
        log.for_each_entry(0, |at, words, saved| {
            let mut done = 0;
            while done < words {
                let some = (words - done).min(ENTRY_WORDS);
                writer.put(record::entry(at + done * 8, some));
                writer.copy(saved + done * 8, some);
                done += some;
            }
        });
    });
    if appended.is_err() {
        spoil(segment);
    }
}

/// Marks the checkpoint in progress as spoiled, so that it is started again.
pub(crate) fn spoil(segment: &Segment) {
    let state = segment.mapping.word(control::CHECKPOINT);
    let order = std::sync::atomic::Ordering::AcqRel;
    let _ = state.compare_exchange(ON, SPOILED, order, std::sync::atomic::Ordering::Acquire);
}
