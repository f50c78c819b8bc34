//! Reads a journal: loads a checkpoint into a new store file, then repeats the records after it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::checkpoints::checkpoint::{PART_MAX, PART_WORDS, part_checksum};
use crate::error::Error;
use crate::journal::folder::{self, Contents, FileHeader, HEADER_BYTES, NOTHING};
use crate::mapped::disk::{Disk, DiskFile};
use crate::mapped::layout::{EXTENT, PAGE};
use crate::mapped::mapping::Mapping;
use crate::mapped::platform;
use crate::redo::record::{self, HEADER, Kind};

/// The unit in which a new store file is backed with memory.
const BACKED: u64 = EXTENT;

/// The part of a journal that recovery left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The position at which the journal ends.
    pub at: u64,
    /// The number of bytes after that position that are not whole records.
    pub bytes: u64,
}

/// The result of reading a journal.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// The position at which the valid records end.
    pub(crate) end: u64,
    /// The epoch with which a new store file continues the journal.
    pub(crate) epoch: u64,
    /// The position at which that epoch begins: a new segment, so that what follows the last valid
    /// record never follows a valid record again.
    pub(crate) start: u64,
    /// The length of the records in each segment.
    pub(crate) segment: u64,
    /// The runs that were granted to transactions that have no record: shards and first pages.
    pub(crate) unclaimed: Vec<(usize, u64)>,
    /// The end of the journal that was left out.
    pub(crate) cut: Option<Cut>,
}

/// A new store file that is being filled.
pub(crate) struct NewStore<'a> {
    pub(crate) file: &'a File,
    pub(crate) mapping: &'a Mapping,
    /// The parts of the file that are backed with memory.
    backed: BTreeSet<u64>,
}

impl<'a> NewStore<'a> {
    pub(crate) fn new(file: &'a File, mapping: &'a Mapping) -> NewStore<'a> {
        NewStore {
            file,
            mapping,
            backed: BTreeSet::new(),
        }
    }

    /// Writes bytes at an offset, whose length is a multiple of 8.
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.back(at, bytes.len() as u64)?;
        self.mapping.copy_from(at, bytes);
        Ok(())
    }

    /// Backs a range with memory, so that writes to it cannot fail (H2).
    pub(crate) fn back(&mut self, at: u64, length: u64) -> io::Result<()> {
        let end = at
            .checked_add(length)
            .filter(|&end| at.is_multiple_of(8) && end <= self.mapping.layout().file_length)
            .ok_or_else(|| invalid(format!("a range of {length} bytes at {at:#x}")))?;
        for unit in at / BACKED..end.div_ceil(BACKED) {
            if self.backed.insert(unit) {
                let start = unit * BACKED;
                let length = BACKED.min(self.mapping.layout().file_length - start);
                platform::allocate(self.file, start, length)?;
            }
        }
        Ok(())
    }
}

pub(super) fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// The newest complete checkpoint in a folder.
pub(crate) struct FoundCheckpoint {
    pub(crate) path: PathBuf,
    pub(crate) header: FileHeader,
    /// The store's header page.
    pub(crate) page: Vec<u8>,
    /// The position at which the store is consistent.
    end: u64,
    /// The start of the newest checkpoint and the reason why it cannot be read, if that is another
    /// one.
    newer: Option<(u64, String)>,
}

/// Finds the newest complete checkpoint in a folder. Returns `None` if there is none.
pub(crate) fn find_checkpoint(
    disk: &dyn Disk,
    folder: &Path,
) -> Result<Option<FoundCheckpoint>, Error> {
    let fail = |source| Error::Journal {
        folder: folder.into(),
        source,
    };
    let mut starts: Vec<u64> = disk
        .list(folder)
        .map_err(fail)?
        .iter()
        .filter_map(|name| folder::position_in(name, ".checkpoint"))
        .collect();
    starts.sort_unstable();
    let mut newest: Option<(u64, io::Error)> = None;
    for &start in starts.iter().rev() {
        let path = folder::checkpoint_path(folder, start);
        match read_checkpoint(disk, &path, None) {
            Ok(mut found) => {
                found.newer = newest.map(|(start, error)| (start, error.to_string()));
                return Ok(Some(found));
            }
            Err(error) => {
                let error = io::Error::new(error.kind(), format!("{}: {error}", path.display()));
                newest = newest.or(Some((start, error)));
            }
        }
    }
    match newest {
        Some((_, source)) => Err(fail(source)),
        None => Ok(None),
    }
}

/// Reads a checkpoint, and writes its parts into `store` if it is given.
pub(crate) fn read_checkpoint(
    disk: &dyn Disk,
    path: &Path,
    mut store: Option<&mut NewStore<'_>>,
) -> io::Result<FoundCheckpoint> {
    let file = disk.open(path, false)?;
    let mut reader = Reader::new(file.as_ref());
    let header = FileHeader::unpack(&reader.take(HEADER_BYTES as usize)?).map_err(invalid)?;
    if header.contents != Contents::Checkpoint {
        return Err(invalid("expected a checkpoint, found a segment".into()));
    }
    let mut page = None;
    loop {
        let at = reader.at;
        let mut part = reader.take(PART_WORDS * 8)?;
        let word = |index: usize| -> u64 {
            u64::from_le_bytes(part[index * 8..index * 8 + 8].try_into().expect("8 bytes"))
        };
        let (from, length, checksum) = (word(0), word(1), word(2));
        if length > PART_MAX || !length.is_multiple_of(8) {
            return Err(invalid(format!("the part at {at} is damaged")));
        }
        let contents = reader.take(length as usize)?;
        part.extend_from_slice(&contents);
        if u64::from(part_checksum(&part)) != checksum {
            return Err(invalid(format!("the part at {at} is damaged")));
        }
        if length == 0 {
            let page: Vec<u8> = page.ok_or_else(|| invalid("it has no store header".into()))?;
            return Ok(FoundCheckpoint {
                path: path.into(),
                header,
                page,
                end: from,
                newer: None,
            });
        }
        if from == 0 && page.is_none() {
            page = Some(contents);
        } else if let Some(store) = &mut store {
            store.write(from, &contents)?;
        }
    }
}

/// Reads a file from its start, in large pieces.
struct Reader<'a> {
    file: &'a dyn DiskFile,
    at: u64,
    buffer: Vec<u8>,
    used: usize,
}

impl<'a> Reader<'a> {
    fn new(file: &'a dyn DiskFile) -> Reader<'a> {
        Reader {
            file,
            at: 0,
            buffer: Vec::new(),
            used: 0,
        }
    }

    fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        if self.buffer.len() - self.used < length {
            self.buffer.drain(..self.used);
            self.used = 0;
            let have = self.buffer.len();
            self.buffer.resize(have + length.max(1 << 20), 0);
            let read = self
                .file
                .read_at(&mut self.buffer[have..], self.at + have as u64)?;
            self.buffer.truncate(have + read);
            if self.buffer.len() < length {
                return Err(invalid(format!(
                    "it ends at {} bytes",
                    self.at + have as u64
                )));
            }
        }
        let taken = self.buffer[self.used..self.used + length].to_vec();
        self.used += length;
        self.at += length as u64;
        Ok(taken)
    }
}

/// Loads a checkpoint and repeats the records after it.
pub(crate) fn replay(
    disk: &dyn Disk,
    folder: &Path,
    checkpoint: &FoundCheckpoint,
    store: &mut NewStore<'_>,
) -> Result<Replayed, Error> {
    let fail = |source| Error::Journal {
        folder: folder.into(),
        source,
    };
    read_checkpoint(disk, &checkpoint.path, Some(store)).map_err(fail)?;
    let mut records = Records::new(disk, folder, checkpoint);
    let mut unclaimed: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    while let Some(found) = records.next().map_err(fail)? {
        apply(&found, store, &mut unclaimed).map_err(fail)?;
    }
    if records.at < checkpoint.end {
        return Err(fail(invalid(format!(
            "the journal ends at {}, before the end of its checkpoint at {}",
            records.at, checkpoint.end
        ))));
    }
    // A checkpoint gets its name once all records before its start are durable.
    if let Some((start, reason)) = &checkpoint.newer
        && records.at < *start
    {
        return Err(fail(invalid(reason.clone())));
    }
    let (epoch, start) = records.continuation().map_err(fail)?;
    let unclaimed = unclaimed
        .into_iter()
        .flat_map(|(shard, pages)| pages.into_iter().map(move |page| (shard, page)))
        .collect();
    Ok(Replayed {
        end: records.at,
        epoch,
        start,
        segment: records.segment,
        unclaimed,
        cut: records.cut,
    })
}

/// Writes the contents of a record into the store.
fn apply(
    found: &[u8],
    store: &mut NewStore<'_>,
    unclaimed: &mut BTreeMap<usize, BTreeSet<u64>>,
) -> io::Result<()> {
    let word = |index: u64| -> u64 {
        let at = index as usize * 8;
        u64::from_le_bytes(found[at..at + 8].try_into().expect("8 bytes"))
    };
    let total = found.len() as u64 / 8;
    let Some((_, kind)) = record::unpack_length(word(record::LENGTH)) else {
        return Err(invalid("a record without a valid kind".into()));
    };
    if matches!(kind, Kind::Void | Kind::Mark) {
        return Ok(());
    }
    let shards = word(record::SHARDS);
    if kind == Kind::Transaction {
        // The runs that the transaction was granted now belong to its shards.
        unclaimed.retain(|shard, _| shards >> shard & 1 == 0);
    }
    let mut index = HEADER;
    while index < total {
        let (at, words) = record::unpack_entry(word(index));
        index += 1;
        if words == 0 {
            let shard = shards.trailing_zeros() as usize;
            unclaimed.entry(shard).or_default().insert(at);
            continue;
        }
        if words > total - index {
            return Err(invalid(format!("a record with an entry of {words} words")));
        }
        let start = index as usize * 8;
        store.write(at, &found[start..start + words as usize * 8])?;
        index += words;
    }
    Ok(())
}

/// Iterates over the records of a journal.
pub(crate) struct Records<'a> {
    disk: &'a dyn Disk,
    folder: &'a Path,
    store: [u64; 2],
    /// The length of the records in each segment.
    segment: u64,
    pub(crate) at: u64,
    pub(crate) epoch: u64,
    /// The first position that may be torn: all records before it were synced.
    durable: u64,
    open: Option<(u64, Box<dyn DiskFile>)>,
    /// Bytes read ahead, and the position of the first one.
    ahead: Vec<u8>,
    ahead_at: u64,
    pub(crate) cut: Option<Cut>,
}

impl<'a> Records<'a> {
    pub(crate) fn new(
        disk: &'a dyn Disk,
        folder: &'a Path,
        checkpoint: &FoundCheckpoint,
    ) -> Records<'a> {
        Records {
            disk,
            folder,
            store: checkpoint.header.store,
            segment: checkpoint.header.segment,
            at: checkpoint.header.start,
            epoch: checkpoint.header.epoch,
            durable: checkpoint.end,
            open: None,
            ahead: Vec::new(),
            ahead_at: 0,
            cut: None,
        }
    }

    /// Returns the next record, or `None` at the journal's end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            match self.read()? {
                Some(record) => {
                    self.at += record.len() as u64;
                    return Ok(Some(record));
                }
                // A store file that continued the journal began with a new segment.
                None if self.next_epoch()? => {}
                None => {
                    self.end()?;
                    return Ok(None);
                }
            }
        }
    }

    /// Reads the record at the current position, or returns `None` if there is no valid one.
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let header = self.bytes(HEADER * 8)?;
        let Some(words) = self.length_of(&header) else {
            return Ok(None);
        };
        let record = self.bytes(words * 8)?;
        if record.len() as u64 != words * 8 || !self.is_valid(&record) {
            return Ok(None);
        }
        Ok(Some(record))
    }

    /// Returns the length in words of the record whose header is given, if the header may be valid.
    fn length_of(&self, header: &[u8]) -> Option<u64> {
        let word = |index: u64| -> Option<u64> {
            let at = index as usize * 8;
            let bytes = header.get(at..at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
        };
        let (words, _) = record::unpack_length(word(record::LENGTH)?)?;
        (word(record::POSITION)? == self.at).then_some(words)
    }

    fn is_valid(&self, record: &[u8]) -> bool {
        let at = record::STATE as usize * 8;
        let stored = u64::from_le_bytes(record[at..at + 8].try_into().expect("8 bytes"));
        stored == record::checksum(self.epoch, record)
    }

    /// Returns up to `length` bytes at the current position, fewer at the journal's end.
    fn bytes(&mut self, length: u64) -> io::Result<Vec<u8>> {
        let inside = self.at.checked_sub(self.ahead_at);
        let have = inside.and_then(|start| self.ahead.get(start as usize..));
        if have.is_none_or(|have| (have.len() as u64) < length) {
            self.read_ahead(length)?;
        }
        let start = (self.at - self.ahead_at) as usize;
        let end = self.ahead.len().min(start + length as usize);
        Ok(self.ahead[start..end].to_vec())
    }

    fn read_ahead(&mut self, length: u64) -> io::Result<()> {
        const AHEAD: u64 = 4 << 20;
        self.ahead.clear();
        self.ahead_at = self.at;
        let wanted = length.max(AHEAD);
        while (self.ahead.len() as u64) < wanted {
            let at = self.at + self.ahead.len() as u64;
            let start = at / self.segment * self.segment;
            if !self.open_segment(start)? {
                break;
            }
            let (_, file) = self.open.as_ref().expect("the segment is open");
            let some = (wanted - self.ahead.len() as u64).min(start + self.segment - at);
            let have = self.ahead.len();
            self.ahead.resize(have + some as usize, 0);
            let read = file.read_at(&mut self.ahead[have..], HEADER_BYTES + at - start)?;
            self.ahead.truncate(have + read);
            if (read as u64) < some {
                break;
            }
        }
        Ok(())
    }

    /// Opens the segment that starts at a position, if it exists and belongs to the current epoch.
    fn open_segment(&mut self, start: u64) -> io::Result<bool> {
        if self.open.as_ref().is_some_and(|(open, _)| *open == start) {
            return Ok(true);
        }
        let Some((header, file)) = self.segment(start)? else {
            return Ok(false);
        };
        if header.epoch != self.epoch {
            return Ok(false);
        }
        self.durable = self.durable.max(header.durable);
        self.open = Some((start, file));
        Ok(true)
    }

    /// Opens a segment and checks its header. Returns `None` if it does not exist.
    fn segment(&self, start: u64) -> io::Result<Option<(FileHeader, Box<dyn DiskFile>)>> {
        let path = folder::segment_path(self.folder, start, self.segment);
        let file = match self.disk.open(&path, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut page = vec![0; PAGE as usize];
        let read = file.read_at(&mut page, 0)?;
        let header = FileHeader::unpack(&page[..read])
            .map_err(|reason| invalid(format!("{}: {reason}", path.display())))?;
        let fits = header.contents == Contents::Segment
            && header.start == start
            && header.store == self.store
            && header.segment == self.segment;
        if !fits {
            let reason = "it is not the segment that its name says, or of another store";
            return Err(invalid(format!("{}: {reason}", path.display())));
        }
        Ok(Some((header, file)))
    }

    /// Returns the starts of all segments in the folder that do not end before a position, in
    /// ascending order.
    fn segments_from(&self, position: u64) -> io::Result<Vec<u64>> {
        let names = self.disk.list(self.folder)?;
        let mut starts: Vec<u64> = names
            .iter()
            .filter_map(|name| folder::position_in(name, ".segment"))
            .filter(|start| start.saturating_add(self.segment) > position)
            .collect();
        starts.sort_unstable();
        Ok(starts)
    }

    /// Continues with the segment that begins the next epoch, if its header says that the records
    /// before it end at the current position.
    fn next_epoch(&mut self) -> io::Result<bool> {
        for start in self.segments_from(self.at)? {
            let Some((header, file)) = self.segment(start)? else {
                continue;
            };
            // An epoch that continues nothing was begun after a failure, and its checkpoint was
            // never completed.
            if header.epoch <= self.epoch || header.previous_end == NOTHING {
                continue;
            }
            if header.previous_end != self.at {
                let path = folder::segment_path(self.folder, self.at, self.segment);
                return Err(invalid(format!(
                    "{} is damaged at offset {}: expected records up to position {}, found them up \
                     to position {} only",
                    path.display(),
                    HEADER_BYTES + self.at % self.segment,
                    header.previous_end,
                    self.at,
                )));
            }
            self.epoch = header.epoch;
            self.at = start;
            self.durable = self.durable.max(header.durable);
            self.open = Some((start, file));
            self.ahead.clear();
            self.ahead_at = start;
            return Ok(true);
        }
        Ok(false)
    }

    /// Makes all records that were read durable, and returns the epoch and the position with which a
    /// new store file continues the journal. No file in the folder has either.
    fn continuation(&mut self) -> io::Result<(u64, u64)> {
        // The header of the next epoch declares that the records are on disk. The files before the
        // last one were synced before it got its name.
        if let Some((_, file)) = &self.open {
            file.sync()?;
        }
        self.disk.sync_directory(self.folder)?;
        let (mut epoch, mut last) = (self.epoch, self.at);
        for start in self.segments_from(self.at)? {
            if let Some((header, _)) = self.segment(start)? {
                epoch = epoch.max(header.epoch);
                last = last.max(start);
            }
        }
        Ok((epoch + 1, (last + 1).next_multiple_of(self.segment)))
    }

    /// Distinguishes the journal's end from damage: later records must not say that records at this
    /// position were durable (J7).
    fn end(&mut self) -> io::Result<()> {
        let at = self.at;
        let (durable, last) = self.later_claims()?;
        if durable > at {
            let path = folder::segment_path(self.folder, at, self.segment);
            let inside = HEADER_BYTES + at % self.segment;
            return Err(invalid(format!(
                "{} is damaged at offset {inside}: a record that was on disk is not valid",
                path.display()
            )));
        }
        if last > at {
            self.cut = Some(Cut {
                at,
                bytes: last - at,
            });
        }
        Ok(())
    }

    /// Returns the highest durable position that is known, also from records after the current
    /// position, and the position after the last byte that is not zero.
    fn later_claims(&mut self) -> io::Result<(u64, u64)> {
        let (mut durable, mut last) = (self.durable, self.at);
        let mut expected = self.at / self.segment * self.segment;
        for start in self.segments_from(self.at)? {
            let Some((header, file)) = self.segment(start)? else {
                continue;
            };
            if header.epoch != self.epoch {
                continue;
            }
            if start != expected {
                let path = folder::segment_path(self.folder, expected, self.segment);
                return Err(invalid(format!(
                    "{} is missing, but a later segment exists",
                    path.display()
                )));
            }
            expected += self.segment;
            durable = durable.max(header.durable);
            let from = self.at.max(start);
            let mut bytes = vec![0; (start + self.segment - from) as usize];
            let read = file.read_at(&mut bytes, HEADER_BYTES + from - start)?;
            bytes.truncate(read);
            if let Some(used) = bytes.iter().rposition(|&byte| byte != 0) {
                last = from + used as u64 + 1;
            }
            durable = durable.max(self.claims_in(&bytes, from));
        }
        Ok((durable, last))
    }

    /// Returns the highest durable position that a valid record among some bytes names.
    fn claims_in(&self, bytes: &[u8], from: u64) -> u64 {
        let mut durable = 0;
        let words = |at: usize| -> u64 {
            u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
        };
        let size = (HEADER as usize + 2) * 8;
        for at in (0..bytes.len().saturating_sub(size - 1)).step_by(8) {
            let is_mark = words(at) == from + at as u64
                && words(at + 8) == record::length(HEADER + 2, Kind::Mark);
            if is_mark && self.is_valid(&bytes[at..at + size]) {
                durable = durable.max(words(at + size - 8));
            }
        }
        durable
    }
}
