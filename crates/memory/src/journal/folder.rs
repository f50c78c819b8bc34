//! The files in a journal's folder.
//!
//! The journal is one sequence of bytes, cut into segments of equal length: the segment that
//! contains a position follows from the position alone. Each file begins with a page that says which
//! store it belongs to.

use std::io;
use std::path::{Path, PathBuf};

use crate::mapped::fingerprint::fingerprint;
use crate::mapped::layout::{PAGE, header};

/// The default length of a segment's records in bytes.
pub(crate) const SEGMENT: u64 = 64 << 20;
/// The minimum length of a segment's records in bytes.
pub(crate) const SEGMENT_MIN: u64 = 64 << 10;
/// The maximum length of a segment's records in bytes.
pub(crate) const SEGMENT_MAX: u64 = 1 << 30;
/// The suffix of a file that is not complete.
pub(crate) const UNFINISHED: &str = ".making";
/// The number of bytes before a file's contents.
pub(crate) const HEADER_BYTES: u64 = PAGE;

/// The file in a journal's folder that is locked while a store is created or recovered, and that
/// names the store.
pub(crate) const LOCK: &str = "undercroft.lock";

/// The value of [`FileHeader::previous_end`] in an epoch that a checkpoint began after a failure.
/// Recovery must not repeat its records after those of an earlier epoch, because the records in
/// between were lost. It reaches them only from that checkpoint or a later one.
pub(crate) const NOTHING: u64 = u64::MAX;

const MAGIC: u64 = u64::from_le_bytes(*b"UNDRJRNL");
const VERSION: u64 = 1;
/// The number of words in a file's header.
const WORDS: usize = 11;

/// The contents of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Contents {
    Segment = 1,
    Checkpoint = 2,
}

/// The header of a file in the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) contents: Contents,
    /// The identity of the store.
    pub(crate) store: [u64; 2],
    /// The number of times that the journal was begun, continued by a new store file, or begun again
    /// after a failure.
    pub(crate) epoch: u64,
    /// The position at which the segment starts, or at which recovery from the checkpoint starts.
    pub(crate) start: u64,
    /// In the first segment of an epoch: the position at which the records end that the epoch
    /// continues. In all files of an epoch that continues none: [`NOTHING`]. Otherwise `start`.
    pub(crate) previous_end: u64,
    /// The position up to which all records were on disk when the file was created: the end of the
    /// last record that ends before this file.
    pub(crate) durable: u64,
    /// The length of the records in each segment, in bytes.
    pub(crate) segment: u64,
}

impl FileHeader {
    /// Returns the header's bytes.
    pub(crate) fn pack(&self) -> Vec<u8> {
        let words: [u64; WORDS] = [
            MAGIC,
            VERSION,
            fingerprint(),
            self.contents as u64,
            self.store[0],
            self.store[1],
            self.epoch,
            self.start,
            self.previous_end,
            self.durable,
            self.segment,
        ];
        let mut page: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let checksum = u64::from(crc32c::crc32c(&page));
        page.extend_from_slice(&checksum.to_le_bytes());
        page.resize(HEADER_BYTES as usize, 0);
        page
    }

    /// Returns the header that `page` contains, or the reason for which it is not valid.
    pub(crate) fn unpack(page: &[u8]) -> Result<FileHeader, String> {
        let word = |index: usize| -> u64 {
            let bytes = page.get(index * 8..index * 8 + 8);
            bytes.map_or(0, |bytes| {
                u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
            })
        };
        if word(0) != MAGIC {
            return Err("expected a file that starts with UNDRJRNL".into());
        }
        // A file may be shorter than a header.
        let words = page.get(..WORDS * 8).unwrap_or_default();
        if word(WORDS) != u64::from(crc32c::crc32c(words)) {
            return Err("its header is damaged".into());
        }
        if word(1) != VERSION {
            return Err(format!(
                "expected journal version {VERSION}, found {}: recover it with the release that \
                 wrote it, and export the store",
                word(1)
            ));
        }
        if word(2) != fingerprint() {
            return Err(format!(
                "expected layout {:#018x}, found {:#018x}: recover it with the build that wrote \
                 it, and export the store",
                fingerprint(),
                word(2)
            ));
        }
        let contents = match word(3) {
            1 => Contents::Segment,
            2 => Contents::Checkpoint,
            other => return Err(format!("expected a segment or a checkpoint, found {other}")),
        };
        Ok(FileHeader {
            contents,
            store: [word(4), word(5)],
            epoch: word(6),
            start: word(7),
            previous_end: word(8),
            durable: word(9),
            segment: match word(10) {
                length @ SEGMENT_MIN..=SEGMENT_MAX => length,
                other => return Err(format!("its header states segments of {other} bytes")),
            },
        })
    }
}

/// Returns the identity of a store, from its header page: the creation time, and the checksum of the
/// header, which includes the random hash key.
pub(crate) fn store_identity(page: &[u8]) -> [u64; 2] {
    let at = header::CREATED as usize;
    let created = u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"));
    let checksum = crc32c::crc32c(&page[..header::CHECKSUM as usize]);
    [created, u64::from(checksum)]
}

/// Returns the path of the segment that contains a position. `length` is the length of the records
/// in each segment.
pub(crate) fn segment_path(folder: &Path, position: u64, length: u64) -> PathBuf {
    folder.join(format!("{:016x}.segment", position / length * length))
}

/// Returns the path of the checkpoint from which recovery starts at a position.
pub(crate) fn checkpoint_path(folder: &Path, start: u64) -> PathBuf {
    folder.join(format!("{start:016x}.checkpoint"))
}

/// Returns whether a file in the folder belongs to the journal, by its name.
pub(crate) fn is_of_journal(name: &str) -> bool {
    let name = name.strip_suffix(UNFINISHED).unwrap_or(name);
    [".segment", ".checkpoint"]
        .iter()
        .any(|suffix| position_in(name, suffix).is_some())
}

/// Returns the path of a file until it is complete. Segments and checkpoints that start at the same
/// position are written at the same time, so their paths must differ.
pub(crate) fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(UNFINISHED);
    name.into()
}

/// Returns the position in a file's name, if the name ends in the given suffix.
pub(crate) fn position_in(name: &str, suffix: &str) -> Option<u64> {
    let digits = name.strip_suffix(suffix)?;
    (digits.len() == 16)
        .then(|| u64::from_str_radix(digits, 16).ok())
        .flatten()
}

/// Removes the files of a journal, and its folder if nothing else is in it. No store may use it.
///
/// # Errors
/// Fails if a file cannot be removed. Some files may then be removed already.
pub fn remove_journal(folder: &Path) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string());
    }
    // Checkpoints first, because a store cannot be recovered without one.
    names.sort_by_key(|name| !name.ends_with(".checkpoint"));
    for name in names {
        if is_of_journal(&name) || name == LOCK {
            std::fs::remove_file(folder.join(name))?;
        }
    }
    match std::fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => removed,
    }
}
