//! The failure of a journal (J5).
//!
//! After a failed write or sync, it is unknown which bytes are on disk, and a second sync may report
//! success for bytes that the system has dropped. The current epoch is therefore given up: it gets
//! no more records. A checkpoint clears the failure. It begins a new epoch, which does not continue
//! the records of the old one, and which counts only once the checkpoint is complete.
//!
//! `REDO_FAILED` contains the error. Until it is 0 again, transactions are refused and nothing is
//! reported as durable.

use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::mapped::layout::{control, redo};
use crate::mapped::mapping::Mapping;
use crate::segment::Segment;

/// The bit of `REDO_FAILED` that says that a checkpoint has begun a new epoch. Records are appended
/// and written again, because the checkpoint needs them.
pub(crate) const RESTARTED: u64 = 1 << 32;

/// Returns the journal's folder, as recorded in the store.
pub(crate) fn folder_of(segment: &Segment) -> PathBuf {
    let start = segment.mapping.layout().redo;
    let length = segment.mapping.load(start + redo::PATH_LENGTH);
    let mut bytes = Vec::new();
    let length = length.min(redo::PATH_MAX) as usize;
    segment
        .mapping
        .append_to(start + redo::PATH, length, &mut bytes);
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// Returns whether [`failure`] returns an error.
#[inline(always)]
pub(crate) fn has_failed(mapping: &Mapping) -> bool {
    let failed = mapping.word(control::REDO_FAILED).load(Ordering::Acquire);
    failed & !RESTARTED != 0
}

/// Returns the error of the first failed write, if no checkpoint has cleared it.
pub(crate) fn failure(segment: &Segment) -> Option<Error> {
    let failed = segment.mapping.word(control::REDO_FAILED);
    let code = (failed.load(Ordering::Acquire) & !RESTARTED).checked_sub(1)?;
    Some(stopped(segment, &io::Error::from_raw_os_error(code as i32)))
}

/// Returns the error for a journal that cannot be written.
fn stopped(segment: &Segment, source: &io::Error) -> Error {
    let text = format!(
        "{source}; nothing more is durable until a checkpoint succeeds: free space or repair the \
         disk, then run undercroft checkpoint"
    );
    Error::Journal {
        folder: folder_of(segment),
        source: io::Error::new(source.kind(), text),
    }
}

/// Returns true if the current epoch was given up. The answer remains valid as long as the caller
/// holds a shard's lock or the heap's lock, except that it may become true.
pub(crate) fn is_given_up(mapping: &Mapping) -> bool {
    let failed = mapping.word(control::REDO_FAILED).load(Ordering::Acquire);
    failed != 0 && failed & RESTARTED == 0
}

/// Gives up the current epoch after a failed write.
pub(crate) fn fail(segment: &Segment, source: io::Error) -> Error {
    let code = match source.raw_os_error() {
        Some(code) => code,
        None if source.kind() == io::ErrorKind::AlreadyExists => libc::EEXIST,
        None => libc::EIO,
    } as u64;
    let failed = segment.mapping.word(control::REDO_FAILED);
    // The first error of an epoch is the one to report.
    let _ = failed.fetch_update(Ordering::AcqRel, Ordering::Acquire, |found| {
        (found == 0 || found & RESTARTED != 0).then_some(code + 1)
    });
    stopped(segment, &source)
}

/// Gives up an epoch that a checkpoint began but did not complete. Only the process that writes the
/// checkpoint may call this.
pub(crate) fn give_up_restart(mapping: &Mapping) {
    let failed = mapping.word(control::REDO_FAILED);
    failed.fetch_and(!RESTARTED, Ordering::AcqRel);
}

/// Clears the failure after the checkpoint that began the current epoch is complete.
pub(crate) fn clear(mapping: &Mapping) {
    let failed = mapping.word(control::REDO_FAILED);
    let _ = failed.fetch_update(Ordering::AcqRel, Ordering::Acquire, |found| {
        (found & RESTARTED != 0).then_some(0)
    });
}
