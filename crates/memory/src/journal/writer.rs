//! Moves records from the ring to segments (J4). One process at a time is the writer. A writer that
//! dies leaves nothing to recover: the next one writes the same bytes again.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::error::{Error, Fault};
use crate::journal::folder::{self, Contents, FileHeader, HEADER_BYTES, NOTHING};
use crate::journal::{folder_lock, settling};
use crate::mapped::disk::DiskFile;
use crate::mapped::futex;
use crate::mapped::layout::{PAGE, control};
use crate::mapped::platform::unix_milliseconds;
use crate::mapped::thread_cached::ThreadCached;
use crate::probes::fault;
use crate::processes::lock::Owner;
use crate::redo::record::{self, Kind, State};
use crate::redo::ring::{self, Heading};
use crate::redo::{failure, lag};
use crate::segment::{Segment, membership};

/// The number of bytes written to a file in one call, unless a record is longer.
const CHUNK: u64 = 4 << 20;
/// The minimum number of bytes that are sent to the disk before the next sync.
const STARTED: u64 = 1 << 20;
/// The number of times that an open record of a living process is examined before the records
/// before it are written without it.
const LOOKS: u32 = 200;

thread_local! {
    /// The buffer for the bytes of records.
    static BYTES: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The state of the journal after an attempt to write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Progress {
    /// This thread wrote all records that are settled.
    Wrote,
    /// A process with this identity, encoded as in a lock word, is writing or has not finished the
    /// first record that is not written yet.
    Waits(u32),
}

/// A guard for the writer's role.
pub(crate) struct WriterGuard<'a> {
    segment: &'a Segment,
}

impl Drop for WriterGuard<'_> {
    fn drop(&mut self) {
        if fault::abandoned() {
            return;
        }
        let word = self.segment.mapping.word(control::REDO_WRITER);
        word.store(0, Ordering::Release);
        fault::step();
    }
}

/// Becomes the writer, or returns the writer's identity.
pub(crate) fn become_writer(segment: &Segment) -> Result<WriterGuard<'_>, u32> {
    let word = segment.mapping.word(control::REDO_WRITER);
    let me = u64::from(segment.process.owner().bits());
    loop {
        match word.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                fault::step();
                return Ok(WriterGuard { segment });
            }
            Err(found) => {
                let owner = Owner::from_bits(found as u32);
                if found == me || membership::owner_lives(segment, owner) {
                    return Err(found as u32);
                }
                // If this fails, another process took the role first.
                let _ = word.compare_exchange(found, 0, Ordering::AcqRel, Ordering::Acquire);
            }
        }
    }
}

/// Returns the length of the records in each segment.
pub(crate) fn segment_length(segment: &Segment) -> u64 {
    let length = segment.mapping.load(control::REDO_SEGMENT);
    length.clamp(folder::SEGMENT_MIN, folder::SEGMENT_MAX)
}

/// Returns the identity of the store, for the headers of files.
pub(crate) fn identity(segment: &Segment) -> [u64; 2] {
    let mut page = Vec::new();
    segment.mapping.append_to(0, PAGE as usize, &mut page);
    folder::store_identity(&page)
}

/// Writes all settled records to segments, and syncs them if `sync` is true.
///
/// # Errors
/// Fails if a file cannot be written. The journal is then not trusted until a checkpoint succeeds
/// (J5).
pub(crate) fn write_out(segment: &Segment, sync: bool) -> Result<Progress, Error> {
    check(segment)?;
    let guard = match become_writer(segment) {
        Ok(guard) => guard,
        Err(owner) => return Ok(Progress::Waits(owner)),
    };
    let _entered = folder_lock::enter(segment).map_err(|error| match error {
        // No process can write to the folder, for example because it is read-only.
        Error::Journal { source, .. }
            if !failure::is_given_up(&segment.mapping) && !is_of_this_process(&source) =>
        {
            failure::fail(segment, source)
        }
        error => error,
    })?;
    // Only a writer fails, so no other process gives up the epoch from here on.
    if failure::is_given_up(&segment.mapping)
        && let Some(error) = failure::failure(segment)
    {
        return Err(error);
    }
    let result = write_as_writer(segment, sync);
    drop(guard);
    futex::wake_all(segment.mapping.half(control::REDO_SYNCS));
    result
}

/// Checks the words that say where the journal is, so that a damaged store writes no file elsewhere.
pub(crate) fn check(segment: &Segment) -> Result<(), Error> {
    let is_valid = segment.mapping.redo_size() != 0 && failure::folder_of(segment).is_absolute();
    match is_valid {
        true => Ok(()),
        false => Err(Error::Damaged(Fault {
            at: control::REDO_SIZE,
            what: "a ring and an absolute path of the journal's folder",
        })),
    }
}

fn write_as_writer(segment: &Segment, sync: bool) -> Result<Progress, Error> {
    let mapping = &segment.mapping;
    let began = lag::now();
    let durable = mapping.load(control::REDO_DURABLE);
    let written = mapping.load(control::REDO_WRITTEN);
    if mapping.load(control::REDO_HEAD) != written {
        mark(segment, durable);
    }
    let mut progress = Progress::Wrote;
    let mut at = written;
    let mut bytes = BYTES.take_cached();
    let mut result = Ok(());
    let mut files = Files::new(segment);
    loop {
        bytes.clear();
        let until = match collect(segment, at, &mut bytes)? {
            Collected::All(until) => until,
            Collected::Open(until, owner) => {
                progress = Progress::Waits(owner);
                until
            }
        };
        if until == at {
            break;
        }
        result = files.write(at, &bytes);
        if result.is_err() {
            break;
        }
        at = until;
        // The records can be read back from the file, so their space may be reused.
        publish_written(segment, at);
    }
    if bytes.capacity() as u64 <= 2 * CHUNK {
        BYTES.put_back(bytes);
    }
    if result.is_ok() && sync && at > durable {
        result = files.sync();
    }
    if let Err(error) = result {
        return Err(match is_of_this_process(&error) {
            true => Error::Journal {
                folder: failure::folder_of(segment),
                source: error,
            },
            false => failure::fail(segment, error),
        });
    }
    if sync && at > durable {
        mapping
            .word(control::REDO_DURABLE)
            .store(at, Ordering::Release);
        fault::step();
        lag::note(mapping, began);
        mapping
            .half(control::REDO_SYNCS)
            .fetch_add(1, Ordering::Release);
    }
    Ok(progress)
}

/// Returns whether only this process could not open a file. Nothing was written then, and another
/// process can write the records.
fn is_of_this_process(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::EACCES | libc::EPERM)
    )
}

fn publish_written(segment: &Segment, at: u64) {
    let written = segment.mapping.word(control::REDO_WRITTEN);
    let freed = at - written.load(Ordering::Relaxed);
    written.store(at, Ordering::Release);
    fault::step();
    if freed >= segment.mapping.redo_size() / 4 {
        // Threads may be waiting for space in the ring.
        let syncs = segment.mapping.half(control::REDO_SYNCS);
        syncs.fetch_add(1, Ordering::Release);
        futex::wake_all(syncs);
    }
}

/// Appends a record with the time and the durable position. It is not needed if the ring is full.
fn mark(segment: &Segment, durable: u64) {
    let heading = Heading {
        kind: Kind::Mark,
        record: 0,
        number: 0,
        shards: 0,
        may_use_spare: false,
        state: State::Counts,
    };
    let _ = ring::append(segment, &heading, 2, |writer| {
        writer.put(unix_milliseconds());
        writer.put(durable);
    });
}

/// Records collected from the ring, up to a position.
enum Collected {
    /// All settled records, or as many as fit in a chunk.
    All(u64),
    /// The records before one that is open, and the identity of its living owner.
    Open(u64, u32),
}

/// Appends settled records, as they are stored in files, to `bytes`.
fn collect(segment: &Segment, from: u64, bytes: &mut Vec<u8>) -> Result<Collected, Error> {
    let mapping = &segment.mapping;
    let head = mapping.word(control::REDO_HEAD).load(Ordering::Acquire);
    let epoch = mapping.load(control::REDO_EPOCH);
    let mut at = from;
    while at < head && at - from < CHUNK {
        let damaged = || {
            Error::Damaged(Fault {
                at: mapping.redo_word(at),
                what: "a redo record",
            })
        };
        let mut header = ring::header(mapping, at).ok_or_else(damaged)?;
        let mut looks = 0;
        while header.state == State::Open {
            if looks == LOOKS {
                if !settling::settle(segment, &header)? {
                    return Ok(Collected::Open(at, header.owner));
                }
            } else {
                std::hint::spin_loop();
            }
            looks += 1;
            header = ring::header(mapping, at).ok_or_else(damaged)?;
        }
        if at + header.length > head || header.length > mapping.redo_size() {
            return Err(damaged());
        }
        let start = bytes.len();
        ring::read(mapping, at, at + header.length, bytes);
        let record = &mut bytes[start..];
        let mut put = |index: u64, word: u64| {
            let at = index as usize * 8;
            record[at..at + 8].copy_from_slice(&word.to_le_bytes());
        };
        if header.state == State::Void {
            put(
                record::LENGTH,
                record::length(header.length / 8, Kind::Void),
            );
        }
        let checksum = record::checksum(epoch, record);
        let at_state = record::STATE as usize * 8;
        record[at_state..at_state + 8].copy_from_slice(&checksum.to_le_bytes());
        at += header.length;
    }
    Ok(Collected::All(at))
}

/// The segments that one call writes.
struct Files<'a> {
    segment: &'a Segment,
    folder: PathBuf,
    /// The length of the records in each segment.
    length: u64,
    /// The start of the open segment, and the segment.
    open: Option<(u64, Box<dyn DiskFile>)>,
}

impl<'a> Files<'a> {
    fn new(segment: &'a Segment) -> Files<'a> {
        Files {
            segment,
            folder: failure::folder_of(segment),
            length: segment_length(segment),
            open: None,
        }
    }

    /// Writes bytes at a position.
    fn write(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        let (mut at, mut left) = (position, bytes);
        while !left.is_empty() {
            let start = at / self.length * self.length;
            let some = left.len().min((start + self.length - at) as usize);
            let file = self.file(start, position, bytes)?;
            let in_file = HEADER_BYTES + at - start;
            file.write_all_at(&left[..some], in_file)?;
            if some as u64 >= STARTED {
                file.start_writing(in_file, some as u64);
            }
            fault::step();
            left = &left[some..];
            at += some as u64;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        match &self.open {
            Some((_, file)) => file.sync(),
            None => {
                // The records were written by a process that did not sync them.
                let at = self.segment.mapping.load(control::REDO_WRITTEN);
                let path = folder::segment_path(&self.folder, at.saturating_sub(8), self.length);
                self.segment.disk().open(&path, false)?.sync()
            }
        }
    }

    /// Returns the segment that starts at `start`, creating it if needed. `bytes` are the records to
    /// write, and `position` is their start.
    fn file(&mut self, start: u64, position: u64, bytes: &[u8]) -> io::Result<&dyn DiskFile> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != start) {
            let file = match start < position {
                // Records before these are in the segment, so it was entered properly.
                true => {
                    let path = folder::segment_path(&self.folder, start, self.length);
                    self.segment.disk().open(&path, false)?
                }
                false => self.enter(start, boundary(position, bytes, start))?,
            };
            self.open = Some((start, file));
        }
        let (_, file) = self.open.as_ref().expect("a segment was opened");
        Ok(file.as_ref())
    }

    /// Prepares the segment that starts at `start` for its first records. Once it has its name, all
    /// records before it are on disk; the last of them ends at `durable`.
    fn enter(&self, start: u64, durable: u64) -> io::Result<Box<dyn DiskFile>> {
        let disk = self.segment.disk();
        let mapping = &self.segment.mapping;
        if mapping.load(control::REDO_DURABLE) < start {
            // This process or another one has written records to the segment before, and a sync
            // covers the last segment only.
            let before = folder::segment_path(&self.folder, start - 8, self.length);
            disk.open(&before, false)?.sync()?;
        }
        let before = mapping.load(control::REDO_BEFORE);
        let is_first = mapping.load(control::REDO_BEGIN) == start;
        let path = folder::segment_path(&self.folder, start, self.length);
        let header = FileHeader {
            contents: Contents::Segment,
            store: identity(self.segment),
            epoch: mapping.load(control::REDO_EPOCH),
            start,
            previous_end: match before {
                NOTHING => NOTHING,
                before if is_first => before,
                _ => start,
            },
            durable,
            segment: self.length,
        };
        match disk.open(&path, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(file) => {
                check_header(file.as_ref(), &path, &header)?;
                // The writer that made the segment died, possibly before its name was durable.
                disk.sync_directory(&self.folder)?;
                return Ok(file);
            }
        }
        // The file gets its name once its header is durable.
        let made = folder::unfinished(&path);
        let file = disk.open(&made, true)?;
        file.allocate(HEADER_BYTES + self.length)?;
        file.write_all_at(&header.pack(), 0)?;
        file.sync()?;
        disk.rename(&made, &path)?;
        fault::step();
        disk.sync_directory(&self.folder)?;
        fault::step();
        Ok(file)
    }
}

/// Checks that an existing segment was made for the same part of this journal, so that the records of
/// another one are never overwritten.
fn check_header(file: &dyn DiskFile, path: &Path, wanted: &FileHeader) -> io::Result<()> {
    let mut page = vec![0; HEADER_BYTES as usize];
    let length = file.read_at(&mut page, 0)?;
    let found = match length == page.len() {
        true => FileHeader::unpack(&page),
        false => Err(format!("its header has {length} bytes")),
    };
    let same = |found: &FileHeader| (found.contents, found.store, found.epoch, found.start);
    if found
        .as_ref()
        .is_ok_and(|found| same(found) == same(wanted))
    {
        return Ok(());
    }
    let found = match found {
        Ok(found) => format!(
            "one of epoch {} that starts at {}",
            found.epoch, found.start
        ),
        Err(reason) => reason,
    };
    let text = format!(
        "{} exists: expected a segment of epoch {} that starts at {}, found {found}",
        path.display(),
        wanted.epoch,
        wanted.start
    );
    Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
}

/// Returns the end of the last record that ends at or before `limit`, among records that start at
/// `position`.
fn boundary(position: u64, bytes: &[u8], limit: u64) -> u64 {
    let mut at = position;
    loop {
        let word = (at - position + record::LENGTH * 8) as usize;
        let length = bytes.get(word..word + 8).and_then(|length| {
            record::unpack_length(u64::from_le_bytes(length.try_into().expect("8 bytes")))
        });
        match length {
            Some((words, _)) if at + words * 8 <= limit => at += words * 8,
            _ => return at,
        }
    }
}
