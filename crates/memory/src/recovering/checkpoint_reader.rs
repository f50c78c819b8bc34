//! Reads checkpoints.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::checkpoints::checkpoint::{PART_MAX, PART_WORDS, part_checksum};
use crate::journal::folder::{self, Contents, FileHeader, HEADER_BYTES};
use crate::mapped::disk::{Disk, DiskFile};
use crate::mapped::layout::PAGE;
use crate::recovering::new_store::invalid;

/// The number of bytes that are read at a time.
const PIECE: usize = 2 << 20;
/// The length of a part's header in bytes.
const PART_HEADER: usize = PART_WORDS * 8;

/// Verified parts of a checkpoint.
#[derive(Default)]
pub(crate) struct Parts {
    bytes: Vec<u8>,
    /// The offset of each part in the store file, and the place of its contents in `bytes`.
    found: Vec<(u64, Range<usize>)>,
    /// The number of bytes of the file that these parts occupy.
    pub(crate) length: u64,
}

impl Parts {
    /// Returns the bytes that these parts occupy in the file.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.bytes[..self.length as usize]
    }

    /// Iterates over the parts: their offsets in the store file, and their contents.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.found
            .iter()
            .map(|(at, range)| (*at, &self.bytes[range.clone()]))
    }
}

/// Reads a checkpoint from its start to its end.
pub(crate) struct CheckpointReader {
    pub(crate) path: PathBuf,
    pub(crate) header: FileHeader,
    /// The store's header page.
    pub(crate) page: Vec<u8>,
    /// The bytes of the file up to the part after the store's header page.
    pub(crate) first_bytes: Vec<u8>,
    /// The length of the file.
    pub(crate) length: u64,
    file: Box<dyn DiskFile>,
    /// The offset in the file of the next part.
    pub(crate) at: u64,
    /// The position at which the store is consistent, once the last part was read.
    pub(crate) end: Option<u64>,
}

/// Returns the positions in the names of all complete checkpoints in a folder, newest first.
pub(crate) fn starts(disk: &dyn Disk, folder: &Path) -> io::Result<Vec<u64>> {
    let names = disk.list(folder)?;
    let mut starts: Vec<u64> = names
        .iter()
        .filter_map(|name| folder::position_in(name, ".checkpoint"))
        .collect();
    starts.sort_unstable_by(|left, right| right.cmp(left));
    Ok(starts)
}

impl CheckpointReader {
    /// Opens the checkpoint in a folder that starts at a position. Reads the headers of the file and
    /// of the store.
    pub(crate) fn open(disk: &dyn Disk, folder: &Path, start: u64) -> io::Result<CheckpointReader> {
        let path = folder::checkpoint_path(folder, start);
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let file = disk.open(&path, false).map_err(named)?;
        let length = file.length().map_err(named)?;
        let mut bytes = vec![0; HEADER_BYTES as usize];
        let read = file.read_at(&mut bytes, 0).map_err(named)?;
        if read < bytes.len() {
            return Err(named(invalid(format!("it ends at {read} bytes"))));
        }
        let header = FileHeader::unpack(&bytes).map_err(invalid).map_err(named)?;
        if header.contents != Contents::Checkpoint || header.start != start {
            return Err(named(invalid(
                "it is not the checkpoint that its name says",
            )));
        }
        let mut reader = CheckpointReader {
            path: path.clone(),
            header,
            page: Vec::new(),
            first_bytes: bytes,
            length,
            file,
            at: HEADER_BYTES,
            end: None,
        };
        let mut first = Parts::default();
        reader
            .read(&mut first, PART_HEADER + PAGE as usize)
            .map_err(named)?;
        match first.iter().next() {
            Some((0, page)) if page.len() as u64 == PAGE => reader.page = page.to_vec(),
            _ => return Err(named(invalid("it has no store header"))),
        }
        reader.first_bytes.extend_from_slice(first.raw());
        Ok(reader)
    }

    /// Reads the next parts. Returns false after the last one.
    ///
    /// # Errors
    /// Fails if a part is damaged. The error names the file and the offset.
    pub(crate) fn next(&mut self, parts: &mut Parts) -> io::Result<bool> {
        if self.end.is_some() {
            return Ok(false);
        }
        self.read(parts, PIECE).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
        })?;
        Ok(true)
    }

    /// Returns the position at which the store is consistent, from the last part of the file.
    pub(crate) fn read_end(&self) -> io::Result<u64> {
        let mut last = [0; PART_HEADER];
        let at = self.length.saturating_sub(PART_HEADER as u64);
        let read = self.file.read_at(&mut last, at)?;
        let word = |index: usize| -> u64 {
            let word = &last[index * 8..index * 8 + 8];
            u64::from_le_bytes(word.try_into().expect("8 bytes"))
        };
        let is_valid =
            read == last.len() && word(1) == 0 && word(2) == u64::from(part_checksum(&last));
        match is_valid {
            true => Ok(word(0)),
            false => Err(invalid(format!(
                "{}: it is not complete",
                self.path.display()
            ))),
        }
    }

    fn read(&mut self, parts: &mut Parts, piece: usize) -> io::Result<()> {
        if parts.bytes.len() != piece {
            parts.bytes.resize(piece, 0);
        }
        parts.found.clear();
        let read = self.file.read_at(&mut parts.bytes, self.at)?;
        let bytes = &parts.bytes[..read];
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            let Some(part_header) = rest.get(..PART_HEADER) else {
                break;
            };
            let word = |index: usize| -> u64 {
                let word = &part_header[index * 8..index * 8 + 8];
                u64::from_le_bytes(word.try_into().expect("8 bytes"))
            };
            let (from, length, checksum) = (word(0), word(1), word(2));
            let damaged = || invalid(format!("the part at {} is damaged", self.at + used as u64));
            if length > PART_MAX || !length.is_multiple_of(8) {
                return Err(damaged());
            }
            let Some(part) = rest.get(..PART_HEADER + length as usize) else {
                break;
            };
            if u64::from(part_checksum(part)) != checksum {
                return Err(damaged());
            }
            let start = used + PART_HEADER;
            used += part.len();
            if length == 0 {
                self.end = Some(from);
                break;
            }
            parts.found.push((from, start..used));
        }
        if used == 0 {
            return Err(invalid(format!(
                "it ends at {} bytes",
                self.at + read as u64
            )));
        }
        self.at += used as u64;
        parts.length = used as u64;
        Ok(())
    }
}
