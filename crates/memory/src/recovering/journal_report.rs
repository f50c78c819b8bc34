//! Describes a journal to people: its files, whether they are intact, and the changes in them. The
//! folder is only read, and a store may be writing to it.

use std::io;
use std::path::Path;

use crate::error::Error;
use crate::journal::folder::{self, Contents, FileHeader, HEADER_BYTES};
use crate::mapped::disk::Disk;
use crate::processes::lock::Owner;
use crate::recovering::checkpoint_reader::{self, CheckpointReader, Parts};
use crate::recovering::point_in_time;
use crate::recovering::read_only_disk::ReadOnlyDisk;
use crate::recovering::record_reader::{Batch, Cut, Entry, Record, RecordReader};
use crate::recovering::recovery_watch::{Meter, RecoveryStage, RecoveryWatch};
use crate::recovering::replay::{Source, failed};
use crate::redo::record::{self, Kind};

/// The number of attempts to read a journal, if checkpoints replace its files in the meantime.
const ATTEMPTS: u32 = 5;

/// The kind of a journal's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalFileKind {
    /// The store as it was at one position.
    Checkpoint,
    /// The changes between two positions.
    Segment,
    /// A file that was not completed. Recovery ignores it.
    Unfinished,
}

/// A file of a journal.
#[derive(Clone, Debug)]
pub struct JournalFile {
    /// The name in the folder.
    pub name: String,
    /// The kind of file.
    pub kind: JournalFileKind,
    /// The epoch, which increases whenever a recovered store continues the journal.
    pub epoch: u64,
    /// The position of the first change in a segment, or at which recovery from a checkpoint starts.
    pub start: u64,
    /// The position after the last change that fits in a segment, or at which the store of a
    /// checkpoint is consistent.
    pub end: u64,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// When the file was last written, in Unix milliseconds.
    pub written: u64,
    /// Why the file's headers cannot be read.
    pub problem: Option<String>,
}

/// The result of reading all files of a journal.
#[derive(Clone, Debug, Default)]
pub struct JournalVerdict {
    /// The number of checkpoints that are intact.
    pub checkpoints: u64,
    /// The number of intact records since the oldest intact checkpoint.
    pub records: u64,
    /// The number of bytes that were read.
    pub bytes: u64,
    /// The position after the last intact record.
    pub end: u64,
    /// The incomplete end of the journal, which is normal after a power cut.
    pub cut: Option<Cut>,
    /// The damaged places, with file and offset.
    pub damage: Vec<String>,
}

/// The kind of a record in a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalRecordKind {
    /// The changes of a transaction, such as a command or a script.
    Transaction,
    /// A step of the heap, such as a grant of memory to a shard.
    Heap,
    /// Old contents, for a checkpoint that was being written.
    Restore,
    /// The time of a sync.
    Time,
    /// A step that did not take effect.
    Void,
}

/// A record in a journal.
#[derive(Clone, Debug)]
pub struct JournalRecord {
    /// The position of the record.
    pub position: u64,
    /// The position after the record.
    pub end: u64,
    /// The kind of record.
    pub kind: JournalRecordKind,
    /// The last time that was noted before the record, in Unix milliseconds.
    pub after: Option<u64>,
    /// The slot, in the process table, of the process that appended the record.
    pub slot: u64,
    /// The generation of that slot: how many processes have had it.
    pub generation: u64,
    /// The number of the transaction among those of its thread.
    pub number: u64,
    /// The shards that were changed, as bits.
    pub shards: u64,
    /// The number of changed bytes.
    pub bytes: u64,
    /// The changed ranges: offsets in the store file and lengths in bytes.
    pub ranges: Vec<(u64, u64)>,
}

/// Returns the files of a journal, sorted by kind and position.
///
/// # Errors
/// Fails if the folder cannot be read.
pub fn journal_files(folder: &Path) -> Result<Vec<JournalFile>, Error> {
    let disk = ReadOnlyDisk;
    let names = disk.list(folder).map_err(|error| failed(folder, error))?;
    let mut files: Vec<JournalFile> = names
        .into_iter()
        .filter(|name| folder::is_of_journal(name))
        .filter_map(|name| describe(&disk, folder, name))
        .collect();
    files.sort_by_key(|file| (file.kind as u8, file.start));
    Ok(files)
}

/// Describes a file. Returns `None` if it has been removed in the meantime.
fn describe(disk: &dyn Disk, folder: &Path, name: String) -> Option<JournalFile> {
    let path = folder.join(&name);
    let status = path.symlink_metadata().ok()?;
    let written = status
        .modified()
        .ok()
        .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
        .map_or(0, |elapsed| elapsed.as_millis() as u64);
    let kind = if name.ends_with(folder::UNFINISHED) {
        JournalFileKind::Unfinished
    } else if name.ends_with(".checkpoint") {
        JournalFileKind::Checkpoint
    } else {
        JournalFileKind::Segment
    };
    let complete = name.strip_suffix(folder::UNFINISHED).unwrap_or(&name);
    let start = folder::position_in(complete, ".checkpoint")
        .or_else(|| folder::position_in(complete, ".segment"))?;
    let mut file = JournalFile {
        kind,
        epoch: 0,
        start,
        end: start,
        bytes: status.len(),
        written,
        problem: None,
        name,
    };
    let read = match kind {
        JournalFileKind::Unfinished => Ok(()),
        JournalFileKind::Checkpoint => read_checkpoint_ends(disk, folder, &mut file),
        JournalFileKind::Segment => read_segment_header(disk, &path, &mut file),
    };
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        read => {
            file.problem = read.err().map(|error| error.to_string());
            Some(file)
        }
    }
}

fn read_checkpoint_ends(disk: &dyn Disk, folder: &Path, file: &mut JournalFile) -> io::Result<()> {
    let checkpoint = CheckpointReader::open(disk, folder, file.start)?;
    file.epoch = checkpoint.header.epoch;
    file.end = checkpoint.read_end()?;
    Ok(())
}

fn read_segment_header(disk: &dyn Disk, path: &Path, file: &mut JournalFile) -> io::Result<()> {
    let header = segment_header(disk, path)?;
    file.epoch = header.epoch;
    file.end = file.start + header.segment;
    Ok(())
}

fn segment_header(disk: &dyn Disk, path: &Path) -> io::Result<FileHeader> {
    let invalid = |reason: String| {
        let text = format!("{}: {reason}", path.display());
        io::Error::new(io::ErrorKind::InvalidData, text)
    };
    let mut page = vec![0; HEADER_BYTES as usize];
    let read = disk.open(path, false)?.read_at(&mut page, 0)?;
    page.truncate(read);
    let header = FileHeader::unpack(&page).map_err(invalid)?;
    let is_named = header.contents == Contents::Segment
        && path
            == folder::segment_path(path.parent().unwrap_or(path), header.start, header.segment);
    match is_named {
        true => Ok(header),
        false => Err(invalid("it is not the segment that its name says".into())),
    }
}

/// Calls `read` with the starts of the checkpoints, oldest first. If a new checkpoint removed files
/// in the meantime, calls it again.
fn with_steady_files<R>(
    folder: &Path,
    mut read: impl FnMut(&[u64]) -> Result<R, Error>,
    is_complete: impl Fn(&Result<R, Error>) -> bool,
) -> Result<R, Error> {
    let list = || -> Result<Vec<u64>, Error> {
        let starts = checkpoint_reader::starts(&ReadOnlyDisk, folder);
        let mut starts = starts.map_err(|error| failed(folder, error))?;
        starts.reverse();
        Ok(starts)
    };
    for attempt in 1.. {
        let starts = list()?;
        let result = read(&starts);
        if is_complete(&result) || attempt == ATTEMPTS || list()? == starts {
            return result;
        }
    }
    unreachable!("the last attempt returns")
}

/// Reads all files of a journal, and verifies every checksum.
///
/// # Errors
/// Fails if the folder cannot be read, or if it is interrupted. Damage is not an error, but a part of
/// the result.
pub fn verify_journal(folder: &Path, watch: &RecoveryWatch<'_>) -> Result<JournalVerdict, Error> {
    with_steady_files(
        folder,
        |starts| verify(folder, starts, watch),
        |result| match result {
            Ok(verdict) => verdict.damage.is_empty(),
            Err(error) => matches!(error, Error::Interrupted),
        },
    )
}

fn verify(
    folder: &Path,
    starts: &[u64],
    watch: &RecoveryWatch<'_>,
) -> Result<JournalVerdict, Error> {
    let disk = ReadOnlyDisk;
    let mut verdict = JournalVerdict::default();
    let files = journal_files(folder)?;
    let mut meter = Meter::new(watch, files.iter().map(|file| file.bytes).sum());
    let mut intact = Vec::new();
    if starts.is_empty() {
        verdict
            .damage
            .push("there is no complete checkpoint".into());
    }
    for &start in starts {
        match verify_checkpoint(&disk, folder, start, &mut meter)? {
            Ok(checkpoint) => {
                verdict.bytes += checkpoint.at;
                intact.push(checkpoint);
            }
            Err(error) => verdict.damage.push(error.to_string()),
        }
    }
    verdict.checkpoints = intact.len() as u64;
    for checkpoint in &intact {
        if checkpoint.header.start < verdict.end {
            continue;
        }
        let end = checkpoint.end.unwrap_or(checkpoint.header.start);
        let mut records = RecordReader::new(&disk, folder, &checkpoint.header, end);
        let read = verify_records(&mut records, &mut verdict, &mut meter)?;
        verdict.end = records.at;
        verdict.cut = records.cut;
        match read {
            Err(error) => verdict.damage.push(error.to_string()),
            Ok(()) if records.at < end => verdict.damage.push(format!(
                "the records end at position {}, but {} needs them up to position {end}",
                records.at,
                checkpoint.path.display()
            )),
            Ok(()) => {}
        }
    }
    for file in files {
        if let (JournalFileKind::Segment, Some(problem)) = (file.kind, file.problem)
            && !verdict.damage.iter().any(|known| known.contains(&problem))
        {
            verdict.damage.push(problem);
        }
    }
    Ok(verdict)
}

fn verify_checkpoint(
    disk: &dyn Disk,
    folder: &Path,
    start: u64,
    meter: &mut Meter<'_>,
) -> Result<io::Result<CheckpointReader>, Error> {
    let mut checkpoint = match CheckpointReader::open(disk, folder, start) {
        Ok(checkpoint) => checkpoint,
        Err(error) => return Ok(Err(error)),
    };
    let mut parts = Parts::default();
    loop {
        match meter.watch.run(|| checkpoint.next(&mut parts))? {
            Ok(true) => meter.add(RecoveryStage::Checkpoint, parts.length),
            Ok(false) => return Ok(Ok(checkpoint)),
            Err(error) => return Ok(Err(error)),
        }
    }
}

fn verify_records(
    records: &mut RecordReader<'_>,
    verdict: &mut JournalVerdict,
    meter: &mut Meter<'_>,
) -> Result<io::Result<()>, Error> {
    let mut batch = Batch::default();
    loop {
        match meter.watch.run(|| records.next(&mut batch))? {
            Ok(true) => {
                verdict.records += batch.iter().count() as u64;
                verdict.bytes += batch.length();
                meter.add(RecoveryStage::Journal, batch.length());
            }
            Ok(false) => return Ok(Ok(())),
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// Calls `each` with the records of a journal, from the oldest intact checkpoint on. Ends early if
/// `each` returns false.
///
/// # Errors
/// Fails if the journal is damaged or if the folder cannot be read. `each` has then received all
/// records before the damage.
pub fn read_journal(
    folder: &Path,
    watch: &RecoveryWatch<'_>,
    each: &mut dyn FnMut(&JournalRecord) -> bool,
) -> Result<(), Error> {
    let mut seen = 0;
    with_steady_files(
        folder,
        |starts| {
            read_records(folder, starts, watch, &mut |found| {
                // A second attempt begins at a later checkpoint, or repeats records.
                if found.position < seen {
                    return true;
                }
                seen = found.end;
                each(found)
            })
        },
        |result| matches!(result, Ok(()) | Err(Error::Interrupted)),
    )
}

fn read_records(
    folder: &Path,
    starts: &[u64],
    watch: &RecoveryWatch<'_>,
    each: &mut dyn FnMut(&JournalRecord) -> bool,
) -> Result<(), Error> {
    let disk = ReadOnlyDisk;
    let source = Source {
        disk: &disk,
        folder,
        limit: None,
        publish: &|_| (),
    };
    let newest_first: Vec<u64> = starts.iter().rev().copied().collect();
    let (end, header) = point_in_time::oldest_checkpoint(&source, &newest_first)?;
    let mut records = RecordReader::new(&disk, folder, &header, end);
    let total = records.total().map_err(|error| failed(folder, error))?;
    let mut meter = Meter::new(watch, total);
    let (mut batch, mut time) = (Batch::default(), None);
    while watch
        .run(|| records.next(&mut batch))?
        .map_err(|error| failed(folder, error))?
    {
        meter.add(RecoveryStage::Journal, batch.length());
        for found in batch.iter() {
            time = found.time().or(time);
            if !each(&described(&found, time)) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Describes a record. `after` is the last time that was noted before it.
pub(crate) fn described(found: &Record<'_>, after: Option<u64>) -> JournalRecord {
    let position = found.word(record::POSITION);
    let (kind, has_entries) = match found.kind {
        Kind::Transaction => (JournalRecordKind::Transaction, true),
        Kind::HeapStep => (JournalRecordKind::Heap, true),
        Kind::Restore => (JournalRecordKind::Restore, true),
        Kind::Mark => (JournalRecordKind::Time, false),
        Kind::Void => (JournalRecordKind::Void, false),
    };
    let mut ranges = Vec::new();
    if has_entries {
        for entry in found.entries().flatten() {
            if let Entry::Contents(at, bytes) = entry {
                ranges.push((at, bytes.len() as u64));
            }
        }
    }
    let owner = Owner::from_bits(found.word(record::OWNER) as u32);
    JournalRecord {
        position,
        end: found.end(),
        kind,
        after,
        slot: owner.slot(),
        generation: owner.generation(),
        number: found.word(record::NUMBER),
        shards: found.word(record::SHARDS),
        bytes: ranges.iter().map(|&(_, length)| length).sum(),
        ranges,
    }
}
