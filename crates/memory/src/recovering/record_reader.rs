//! Reads the records of a journal (J7).

use std::io;
use std::path::Path;

use crate::journal::folder::{self, Contents, FileHeader, HEADER_BYTES, NOTHING};
use crate::mapped::disk::{Disk, DiskFile};
use crate::mapped::layout::PAGE;
use crate::recovering::new_store::invalid;
use crate::redo::record::{self, HEADER, Kind};

/// The number of bytes that are read at a time, unless a record is longer.
const PIECE: u64 = 2 << 20;
/// The number of words in the body of a mark.
const MARK_WORDS: u64 = 2;

/// The part of a journal that recovery left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The position at which the journal ends.
    pub at: u64,
    /// The number of bytes after that position that are not whole records.
    pub bytes: u64,
}

/// Verified records that follow one another.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// The number of bytes that the records occupy.
    used: usize,
}

impl Batch {
    /// Returns the number of bytes that the records occupy.
    pub(crate) fn length(&self) -> u64 {
        self.used as u64
    }

    /// Returns the bytes of the records.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Iterates over the records.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Record<'_>> {
        let mut rest = &self.bytes[..self.used];
        std::iter::from_fn(move || {
            let (words, kind) = record::unpack_length(word(rest, record::LENGTH)?)?;
            let (bytes, after) = rest.split_at_checked(words as usize * 8)?;
            rest = after;
            Some(Record { bytes, kind })
        })
    }
}

/// Returns a word of a record, or `None` if the record is too short.
fn word(bytes: &[u8], index: u64) -> Option<u64> {
    let at = index as usize * 8;
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
}

/// A verified record.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    bytes: &'a [u8],
    pub(crate) kind: Kind,
}

/// A part of a record's body.
pub(crate) enum Entry<'a> {
    /// New contents of a range at an offset.
    Contents(u64, &'a [u8]),
    /// The first page of a run that was granted to the record's shard.
    Grant(u64),
}

impl<'a> Record<'a> {
    /// Returns a word of the header.
    pub(crate) fn word(&self, index: u64) -> u64 {
        word(self.bytes, index).unwrap_or(0)
    }

    /// Returns the length in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the position after the record.
    pub(crate) fn end(&self) -> u64 {
        self.word(record::POSITION) + self.length()
    }

    /// Returns the time of a mark, in Unix milliseconds.
    pub(crate) fn time(&self) -> Option<u64> {
        (self.kind == Kind::Mark).then(|| self.word(HEADER))
    }

    /// Iterates over the parts of the body of a record that changes the store.
    pub(crate) fn entries(&self) -> impl Iterator<Item = io::Result<Entry<'a>>> + use<'a> {
        let mut rest = &self.bytes[HEADER as usize * 8..];
        std::iter::from_fn(move || {
            let (at, words) = record::unpack_entry(word(rest, 0)?);
            rest = &rest[8..];
            if words == 0 {
                return Some(Ok(Entry::Grant(at)));
            }
            let Some((contents, after)) = rest.split_at_checked(words as usize * 8) else {
                rest = &[];
                let reason = format!("a record with an entry of {words} words");
                return Some(Err(invalid(reason)));
            };
            rest = after;
            Some(Ok(Entry::Contents(at, contents)))
        })
    }
}

/// Reads the records of a journal, from the start of a checkpoint.
pub(crate) struct RecordReader<'a> {
    disk: &'a dyn Disk,
    folder: &'a Path,
    store: [u64; 2],
    /// The length of the records in each segment.
    pub(crate) segment: u64,
    pub(crate) at: u64,
    pub(crate) epoch: u64,
    /// The first position that may be torn: all records before it were synced.
    durable: u64,
    /// The position after which no record is read.
    pub(crate) limit: u64,
    /// Whether the next record ends after the limit.
    at_limit: bool,
    open: Option<(u64, Box<dyn DiskFile>)>,
    pub(crate) cut: Option<Cut>,
}

impl<'a> RecordReader<'a> {
    /// Reads the records after the start of a checkpoint, whose end is `end`.
    pub(crate) fn new(
        disk: &'a dyn Disk,
        folder: &'a Path,
        header: &FileHeader,
        end: u64,
    ) -> RecordReader<'a> {
        RecordReader {
            disk,
            folder,
            store: header.store,
            segment: header.segment,
            at: header.start,
            epoch: header.epoch,
            durable: end,
            limit: u64::MAX,
            at_limit: false,
            open: None,
            cut: None,
        }
    }

    /// Reads the next records. Returns false at the journal's end, or at the limit.
    ///
    /// # Errors
    /// Fails if a record is damaged that was on disk. The error names the file and the offset.
    pub(crate) fn next(&mut self, batch: &mut Batch) -> io::Result<bool> {
        loop {
            self.read(batch)?;
            if batch.used > 0 {
                self.at += batch.length();
                return Ok(true);
            }
            if self.at_limit {
                return Ok(false);
            }
            // A store file that continued the journal began with a new segment.
            if self.next_epoch()? {
                continue;
            }
            let claims = self.later_claims()?;
            // A process may have written records after the first look.
            self.read(batch)?;
            if batch.used == 0 {
                self.end(claims)?;
                return Ok(false);
            }
        }
    }

    /// Reads the valid records at the current position.
    fn read(&mut self, batch: &mut Batch) -> io::Result<()> {
        batch.used = 0;
        self.at_limit = self.at >= self.limit;
        if self.at_limit {
            return Ok(());
        }
        let mut have = self.fill(&mut batch.bytes, 0, PIECE)?;
        loop {
            let rest = &batch.bytes[batch.used..have];
            let at = self.at + batch.length();
            let Some(words) = length_of(rest, at) else {
                return Ok(());
            };
            let length = words as usize * 8;
            if at + length as u64 > self.limit {
                self.at_limit = true;
                return Ok(());
            }
            let Some(record) = rest.get(..length) else {
                // Mostly, the next call reads the record again. A long one must be completed here.
                if batch.used as u64 >= PIECE / 2 {
                    return Ok(());
                }
                let before = have;
                let wanted = length as u64 + batch.length();
                have = self.fill(&mut batch.bytes, have, wanted)?;
                match have > before {
                    true => continue,
                    false => return Ok(()),
                }
            };
            if !self.is_valid(record) {
                return Ok(());
            }
            batch.used += length;
        }
    }

    /// Reads bytes from the current position, of which `have` bytes are in `bytes` already, until
    /// there are `wanted` bytes. Returns their number, which is less at the journal's end.
    fn fill(&mut self, bytes: &mut Vec<u8>, mut have: usize, wanted: u64) -> io::Result<usize> {
        while (have as u64) < wanted {
            let at = self.at + have as u64;
            let start = at / self.segment * self.segment;
            if !self.open_segment(start)? {
                break;
            }
            let (_, file) = self.open.as_ref().expect("the segment is open");
            let some = (wanted - have as u64).min(start + self.segment - at) as usize;
            if bytes.len() < have + some {
                bytes.resize(have + some, 0);
            }
            let read = file.read_at(&mut bytes[have..have + some], HEADER_BYTES + at - start)?;
            have += read;
            if read < some {
                break;
            }
        }
        Ok(have)
    }

    fn is_valid(&self, record: &[u8]) -> bool {
        word(record, record::STATE) == Some(record::checksum(self.epoch, record))
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

    /// Returns the number of bytes to read: the lengths of all segments after the current position.
    pub(crate) fn total(&self) -> io::Result<u64> {
        Ok(self.segments_from(self.at)?.len() as u64 * self.segment)
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
                     to position {} only; {}",
                    path.display(),
                    HEADER_BYTES + self.at % self.segment,
                    header.previous_end,
                    self.at,
                    way_out(self.at),
                )));
            }
            self.epoch = header.epoch;
            self.at = start;
            self.durable = self.durable.max(header.durable);
            self.open = Some((start, file));
            return Ok(true);
        }
        Ok(false)
    }

    /// Makes all records that were read durable, and returns the epoch and the position with which a
    /// new store file continues the journal. No file in the folder has either.
    pub(crate) fn continuation(&mut self) -> io::Result<(u64, u64)> {
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
    fn end(&mut self, (durable, last): (u64, u64)) -> io::Result<()> {
        let at = self.at;
        if durable > at {
            let path = folder::segment_path(self.folder, at, self.segment);
            let inside = HEADER_BYTES + at % self.segment;
            return Err(invalid(format!(
                "{} is damaged at offset {inside}: a record that was on disk is not valid; {}",
                path.display(),
                way_out(at),
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
                    "{} is missing, but a later segment exists; {}",
                    path.display(),
                    way_out(self.at),
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
        let expected = record::length(HEADER + MARK_WORDS, Kind::Mark);
        let size = (HEADER + MARK_WORDS) as usize * 8;
        for at in (0..bytes.len().saturating_sub(size - 1)).step_by(8) {
            let found = &bytes[at..at + size];
            let is_mark = word(found, record::POSITION) == Some(from + at as u64)
                && word(found, record::LENGTH) == Some(expected);
            if is_mark && self.is_valid(found) {
                durable = durable.max(word(found, HEADER + 1).unwrap_or(0));
            }
        }
        durable
    }
}

/// Says how to recover the store without the damaged part of its journal.
fn way_out(position: u64) -> String {
    format!(
        "undercroft recover STORE --until {position} recovers everything before the damage, \
         without the changes after it"
    )
}

/// Returns the length in words of the record at a position, if its header may be valid.
fn length_of(header: &[u8], position: u64) -> Option<u64> {
    let (words, _) = record::unpack_length(word(header, record::LENGTH)?)?;
    (word(header, record::POSITION)? == position).then_some(words)
}
