//! Writes a checkpoint while all processes go on writing (J6).
//!
//! Pages are copied at different moments, in the middle of transactions. That suffices, because redo
//! records contain new contents, not operations: recovery loads the pages and then repeats all
//! records from the position at which the checkpoint started. At the position at which it ended, the
//! store is consistent. Three rules make this true:
//!
//! - The start is noted after every shard was locked once with the checkpoint's flag set. So every
//!   change that a copied page may contain has its record after the start, and every rollback that
//!   it may contain appends a record (`redo/restore.rs`).
//! - The end is noted after every shard was locked once after the last page was copied. So every
//!   change that a copied page may contain has its record before the end.
//! - The checkpoint counts only once all records before its end are durable.
//!
//! No writer waits, no page is saved for the copy, and no memory is needed but a buffer.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::checkpoints::{areas, restart};
use crate::error::Error;
use crate::journal::folder::{self, Contents, FileHeader, HEADER_BYTES};
use crate::journal::{folder_lock, waiting, writer};
use crate::locking::shard_locks;
use crate::mapped::disk::DiskFile;
use crate::mapped::layout::{PAGE, control};
use crate::mapped::platform::unix_milliseconds;
use crate::probes::fault;
use crate::processes::lock::Owner;
use crate::redo::{failure, restore};
use crate::segment::{Segment, membership, place};

/// The number of attempts before a checkpoint fails.
const ATTEMPTS: u32 = 4;
/// The size of the buffer in bytes.
const BUFFER: usize = 1 << 20;
/// The maximum length of a part's contents in bytes.
pub(crate) const PART_MAX: u64 = BUFFER as u64 / 4;
/// The number of words before the contents of a part: its offset, its length in bytes, and the
/// CRC-32C of both words and the contents.
pub(crate) const PART_WORDS: usize = 3;

impl Segment {
    /// Writes a checkpoint, then removes the files that recovery no longer needs. Other processes
    /// read and write in the meantime, and wait for nothing. If the journal has failed, the
    /// checkpoint clears the failure once it is complete. O(memory in use).
    ///
    /// # Errors
    /// Fails if the store has no journal, if another process is writing a checkpoint, or if a file
    /// cannot be written.
    pub fn checkpoint(&self) -> Result<(), Error> {
        write_after(self, 0, || {})
    }
}

/// Writes a checkpoint after a call of `began`, at which no other process can begin one. Writes at most
/// `rate` bytes a second, where 0 means no limit. See [`Segment::checkpoint`].
pub(crate) fn write_after(segment: &Segment, rate: u64, began: impl FnOnce()) -> Result<(), Error> {
    place::prepare_to_write(segment)?;
    if !segment.mapping.is_journaled() {
        return Err(Error::NoJournal);
    }
    writer::check(segment)?;
    let _role = become_checkpointer(segment)?;
    began();
    write_with_role(segment, rate)
}

/// Returns whether a living process is writing a checkpoint.
pub(crate) fn is_writing(segment: &Segment) -> bool {
    let owner = segment.mapping.load(control::CHECKPOINT_OWNER) as u32;
    owner != 0 && membership::owner_lives(segment, Owner::from_bits(owner))
}

/// Writes a checkpoint, for the process that has the role. See [`Segment::checkpoint`].
pub(super) fn write_with_role(segment: &Segment, rate: u64) -> Result<(), Error> {
    let folder = failure::folder_of(segment);
    for attempt in 1.. {
        restart::begin_epoch_after_failure(segment)?;
        let written = write(segment, &folder, rate);
        let state = segment.mapping.word(control::CHECKPOINT);
        let spoiled = state.swap(restore::NONE, Ordering::AcqRel) == restore::SPOILED;
        fault::step();
        match written {
            Ok(written) if !spoiled => return complete(segment, &folder, written),
            Err(error) if !spoiled => return Err(error),
            _ if attempt == ATTEMPTS => return Err(Error::JournalFull),
            _ => {}
        }
    }
    unreachable!("the last attempt returns")
}

/// A checkpoint whose file is complete but does not have its name yet.
struct Written {
    start: u64,
    end: u64,
    bytes: u64,
}

/// A guard for the role of the process that writes a checkpoint.
pub(super) struct RoleGuard<'a> {
    segment: &'a Segment,
}

impl Drop for RoleGuard<'_> {
    fn drop(&mut self) {
        if !fault::abandoned() {
            let mapping = &self.segment.mapping;
            // Without a complete checkpoint, nothing in its epoch counts.
            failure::give_up_restart(mapping);
            mapping
                .word(control::CHECKPOINT)
                .store(restore::NONE, Ordering::Release);
            mapping
                .word(control::CHECKPOINT_OWNER)
                .store(0, Ordering::Release);
        }
    }
}

pub(super) fn become_checkpointer(segment: &Segment) -> Result<RoleGuard<'_>, Error> {
    let word = segment.mapping.word(control::CHECKPOINT_OWNER);
    let me = u64::from(segment.process.owner().bits());
    loop {
        match word.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Ok(RoleGuard { segment }),
            Err(found) => {
                let owner = Owner::from_bits(found as u32);
                if found == me || membership::owner_lives(segment, owner) {
                    return Err(segment.process.describe(&segment.mapping, owner));
                }
                // If this fails, another process took the role first.
                let _ = word.compare_exchange(found, 0, Ordering::AcqRel, Ordering::Acquire);
            }
        }
    }
}

fn write(segment: &Segment, folder: &Path, rate: u64) -> Result<Written, Error> {
    let mapping = &segment.mapping;
    let head = mapping.word(control::REDO_HEAD);
    // Changes and rollbacks that are complete before the locks were passed are in the pages. All
    // others have their records after this position.
    let start = head.load(Ordering::Acquire);
    mapping
        .word(control::CHECKPOINT)
        .store(restore::ON, Ordering::Release);
    fault::step();
    shard_locks::pass_all(segment)?;
    let header = FileHeader {
        contents: Contents::Checkpoint,
        store: writer::identity(segment),
        epoch: mapping.load(control::REDO_EPOCH),
        start,
        previous_end: start,
        durable: mapping.load(control::REDO_DURABLE),
        segment: writer::segment_length(segment),
    };
    let fail = |source| Error::Journal {
        folder: folder.into(),
        source,
    };
    let path = folder::unfinished(&folder::checkpoint_path(folder, start));
    let file = segment.disk().open(&path, true).map_err(fail)?;
    let mut parts = Parts::new(segment, file.as_ref(), rate);
    parts.append(&header.pack()).map_err(fail)?;
    parts.add(0, PAGE).map_err(fail)?;
    let mut result = Ok(());
    areas::for_each_table(mapping, |from, to| {
        if result.is_ok() {
            result = parts.add(from, to);
        }
    });
    result.map_err(fail)?;
    let mut extent = 0;
    // The heap may grow during the copy. The records have everything that is new.
    while extent
        < mapping
            .load(control::HEAP_HIGH)
            .min(mapping.layout().extents)
    {
        let mut result = Ok(());
        areas::for_each_part_of_extent(mapping, extent, |from, to| {
            if result.is_ok() {
                result = parts.add(from, to);
            }
        });
        result.map_err(fail)?;
        extent += 1;
    }
    shard_locks::pass_all(segment)?;
    let end = head.load(Ordering::Acquire);
    let bytes = parts.finish(end).map_err(fail)?;
    file.sync().map_err(fail)?;
    waiting::until_position(segment, end)?;
    Ok(Written { start, end, bytes })
}

/// Gives the checkpoint its name, and removes what it replaces.
fn complete(segment: &Segment, folder: &Path, written: Written) -> Result<(), Error> {
    // Another store file must not be continuing the journal while files are removed.
    let _entered = folder_lock::enter(segment)?;
    let disk = segment.disk();
    let fail = |source| Error::Journal {
        folder: folder.into(),
        source,
    };
    let path = folder::checkpoint_path(folder, written.start);
    disk.rename(&folder::unfinished(&path), &path)
        .map_err(fail)?;
    fault::step();
    disk.sync_directory(folder).map_err(fail)?;
    fault::step();
    let mapping = &segment.mapping;
    failure::clear(mapping);
    fault::step();
    debug_assert!(written.end >= written.start);
    mapping.store(control::CHECKPOINT_AT, written.start);
    mapping.store(control::CHECKPOINT_BYTES, written.bytes);
    mapping.store(control::CHECKPOINT_TIME, unix_milliseconds());
    fault::step();
    let length = writer::segment_length(segment);
    for name in disk.list(folder).map_err(fail)? {
        // Files that were never completed are left by processes that died and by errors.
        let complete = name.strip_suffix(folder::UNFINISHED).unwrap_or(&name);
        let checkpoint = folder::position_in(complete, ".checkpoint");
        let segments = folder::position_in(complete, ".segment");
        let is_old = checkpoint.is_some_and(|start| start < written.start)
            || segments.is_some_and(|start| start + length <= written.start);
        if is_old {
            disk.remove(&folder.join(name)).map_err(fail)?;
        }
    }
    disk.sync_directory(folder).map_err(fail)?;
    // The journal may have failed while the checkpoint was completed.
    match failure::failure(segment) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Writes the parts of a checkpoint.
struct Parts<'a> {
    segment: &'a Segment,
    file: &'a dyn DiskFile,
    at: u64,
    buffer: Vec<u8>,
    /// The maximum number of bytes a second, or 0 for no limit.
    rate: u64,
    start: Instant,
}

impl<'a> Parts<'a> {
    fn new(segment: &'a Segment, file: &'a dyn DiskFile, rate: u64) -> Parts<'a> {
        Parts {
            segment,
            file,
            rate,
            start: Instant::now(),
            at: 0,
            buffer: Vec::with_capacity(BUFFER),
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(bytes);
        match self.buffer.len() >= BUFFER {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.at)?;
        fault::step();
        // The sync at the end then takes less time, in which writers with `always` also wait.
        self.file.start_writing(self.at, self.buffer.len() as u64);
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        self.keep_pace();
        Ok(())
    }

    /// Pauses until no more bytes have been written than the rate allows.
    fn keep_pace(&self) {
        let due = self.at.saturating_mul(1000).checked_div(self.rate);
        let due = Duration::from_millis(due.unwrap_or(0));
        std::thread::sleep(due.saturating_sub(self.start.elapsed()));
    }

    /// Adds the contents of the store from one offset to another.
    fn add(&mut self, from: u64, to: u64) -> io::Result<()> {
        let mut start = from;
        while start < to {
            let length = (to - start).min(PART_MAX);
            let at = self.buffer.len();
            self.part_header(start, length);
            self.segment
                .mapping
                .append_to(start, length as usize, &mut self.buffer);
            self.seal(at);
            self.append(&[])?;
            start += length;
        }
        Ok(())
    }

    fn part_header(&mut self, from: u64, length: u64) {
        for word in [from, length, 0] {
            self.buffer.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Computes the checksum of the part that begins at `at` in the buffer.
    fn seal(&mut self, at: usize) {
        let part = &mut self.buffer[at..];
        let checksum = u64::from(part_checksum(part));
        part[16..24].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Ends the file with an empty part that has the end position. Returns the file's length.
    fn finish(&mut self, end: u64) -> io::Result<u64> {
        let at = self.buffer.len();
        self.part_header(end, 0);
        self.seal(at);
        self.flush()?;
        Ok(self.at)
    }
}

/// Computes the checksum of a part, without the checksum's own word.
pub(crate) fn part_checksum(part: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&part[..16]), &part[PART_WORDS * 8..])
}

/// Returns how long ago the last checkpoint was completed, in milliseconds.
pub(crate) fn age(segment: &Segment) -> Option<u64> {
    let time = segment.mapping.load(control::CHECKPOINT_TIME);
    (time != 0).then(|| unix_milliseconds().saturating_sub(time))
}

const _: () = assert!(HEADER_BYTES == PAGE);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapped::disk;
    use crate::store_file::opening::Options;

    #[test]
    fn parts_are_not_written_faster_than_the_rate() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let path = directory.path().join("store");
        let segment = Segment::create(&path, &Options::default()).expect("a store");
        let disk = disk::local_disk();
        let file = disk.open(&directory.path().join("file"), true);
        let file = file.expect("a file");
        let rate = 8 * BUFFER as u64;
        let mut parts = Parts::new(&segment, file.as_ref(), rate);
        let start = Instant::now();
        parts.append(&[7; BUFFER]).expect("space");
        parts.append(&[7; BUFFER]).expect("space");
        assert!(start.elapsed() >= Duration::from_millis(250));
    }
}
