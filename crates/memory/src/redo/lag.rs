//! The age of the oldest change that is not durable.
//!
//! Records of changes contain no time, because reading the clock would slow down each change. Instead,
//! the upper half of `REDO_SYNCS` contains a recent time before which every change was made durable.
//! It is noted at no cost to most changes: by each sync, once a second by the threads that sync the
//! journal, by the change that starts such a thread, and by heap steps. An error is at most the
//! interval of these threads, about a second.
//!
//! The time is in milliseconds since boot, and wraps around after 49 days.

use std::sync::atomic::Ordering;

use crate::mapped::layout::control;
use crate::mapped::mapping::Mapping;
use crate::mapped::platform::coarse_milliseconds;

/// The offset of the time.
const TIME: u64 = control::REDO_SYNCS + 4;

/// Returns the current time for [`note`]. Call it before the check that all changes are durable.
pub(crate) fn now() -> u32 {
    coarse_milliseconds() as u32
}

/// Notes that all changes before a time are durable.
pub(crate) fn note(mapping: &Mapping, time: u32) {
    mapping.half(TIME).store(time, Ordering::Relaxed);
}

/// Notes the time of a change whose record starts at a position, if all changes before are durable.
#[cold]
pub(crate) fn note_first(mapping: &Mapping, position: u64) {
    if mapping.load(control::REDO_DURABLE) >= position {
        note(mapping, now());
    }
}

/// Returns how long ago the oldest change was made that is not durable, in milliseconds. Returns 0 if
/// all changes are durable.
pub(crate) fn age(mapping: &Mapping) -> u64 {
    let head = mapping.word(control::REDO_HEAD).load(Ordering::Acquire);
    if head <= mapping.load(control::REDO_DURABLE) {
        return 0;
    }
    let noted = mapping.half(TIME).load(Ordering::Relaxed);
    u64::from(now().wrapping_sub(noted))
}
