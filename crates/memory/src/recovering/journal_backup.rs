//! Copies a journal while a store is writing to it.
//!
//! A plain copy of the folder may be useless. A checkpoint that completes meanwhile removes files that
//! were not copied yet, and a file that is read while it grows may have a hole before its newest
//! records. This copy opens all files first, so that they cannot disappear, and contains only records
//! that were read whole, up to the first one that was not.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::journal::folder::{self, HEADER_BYTES};
use crate::mapped::disk::{Disk, DiskFile};
use crate::recovering::checkpoint_reader::{self, CheckpointReader, Parts};
use crate::recovering::read_only_disk::{ReadOnlyDisk, refused};
use crate::recovering::record_reader::{Batch, RecordReader};
use crate::recovering::recovery_watch::{Meter, RecoveryStage, RecoveryWatch};
use crate::recovering::replay::failed;

/// The number of attempts to open all files before a checkpoint removes some of them.
const ATTEMPTS: u32 = 10;

/// A complete copy of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalBackup {
    /// The position of the store that can be recovered from the copy.
    pub position: u64,
    /// The size of the copy in bytes.
    pub bytes: u64,
}

/// The files of a journal that were opened, as a disk.
struct PinnedFiles(BTreeMap<String, File>);

impl Disk for PinnedFiles {
    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn DiskFile>> {
        let name = path.file_name().and_then(|name| name.to_str());
        match name.and_then(|name| self.0.get(name)) {
            Some(file) if !create => Ok(Box::new(file.try_clone()?)),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        Ok(self.0.keys().cloned().collect())
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn create_directory(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn another_handle(&self) -> Box<dyn Disk> {
        Box::new(ReadOnlyDisk)
    }
}

/// Copies a journal to a folder that does not exist, and verifies it. A store may be writing to the
/// journal. The copy gets its name when it is complete.
///
/// # Errors
/// Fails if the journal is damaged, if a file cannot be written, or if `watch` interrupts the copy.
/// The folder does not exist then.
pub fn back_up_journal(
    folder: &Path,
    target: &Path,
    watch: &RecoveryWatch<'_>,
) -> Result<JournalBackup, Error> {
    let writing = |source| Error::Io {
        doing: "writing the copy of a journal to",
        path: target.into(),
        source,
    };
    if target.symlink_metadata().is_ok() {
        let text = "expected a folder that does not exist";
        return Err(writing(io::Error::new(io::ErrorKind::AlreadyExists, text)));
    }
    let (files, start) = open_files(folder).map_err(|error| failed(folder, error))?;
    let unfinished = folder::unfinished(target);
    let _ = std::fs::remove_dir_all(&unfinished);
    let made = DirBuilder::new().mode(0o700).create(&unfinished);
    made.map_err(writing)?;
    let copy = Copy {
        files: &files,
        folder,
        target: &unfinished,
    };
    let copied = copy.run(start, watch).and_then(|copied| {
        let parent = target.parent().filter(|parent| *parent != Path::new(""));
        std::fs::rename(&unfinished, target)
            .and_then(|()| File::open(parent.unwrap_or(Path::new(".")))?.sync_all())
            .map_err(writing)?;
        Ok(copied)
    });
    if copied.is_err() {
        let _ = std::fs::remove_dir_all(&unfinished);
    }
    copied
}

/// Opens the newest checkpoint in a folder and all segments since. Returns them and the start of the
/// checkpoint.
fn open_files(folder: &Path) -> io::Result<(PinnedFiles, u64)> {
    let disk = ReadOnlyDisk;
    for _ in 0..ATTEMPTS {
        let Some(&start) = checkpoint_reader::starts(&disk, folder)?.first() else {
            let text = "expected the folder of a journal, found no checkpoint in it";
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        };
        let mut files = BTreeMap::new();
        for name in disk.list(folder)? {
            let checkpoint = folder::position_in(&name, ".checkpoint");
            let is_needed = match checkpoint {
                Some(position) => position == start,
                None => folder::position_in(&name, ".segment").is_some(),
            };
            if !is_needed {
                continue;
            }
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(libc::O_NOFOLLOW);
            match options.open(folder.join(&name)) {
                // A checkpoint has replaced the file, or is about to replace the others as well.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                file => {
                    files.insert(name, file?);
                }
            }
        }
        // A checkpoint removes files after it got its name. So nothing was missing if the checkpoint
        // is still the newest one.
        if checkpoint_reader::starts(&disk, folder)?.first() == Some(&start) {
            return Ok((PinnedFiles(files), start));
        }
    }
    let text = "each attempt to open its files was overtaken by a new checkpoint; repeat it";
    Err(io::Error::new(io::ErrorKind::TimedOut, text))
}

/// A copy that is being made.
struct Copy<'a> {
    files: &'a PinnedFiles,
    folder: &'a Path,
    target: &'a Path,
}

impl Copy<'_> {
    fn run(&self, start: u64, watch: &RecoveryWatch<'_>) -> Result<JournalBackup, Error> {
        let fail = |error| failed(self.folder, error);
        let mut checkpoint =
            CheckpointReader::open(self.files, self.folder, start).map_err(fail)?;
        let mut total = checkpoint.length;
        let records = RecordReader::new(self.files, self.folder, &checkpoint.header, 0);
        total += records.total().map_err(fail)?;
        let mut meter = Meter::new(watch, total);
        let end = self.copy_checkpoint(&mut checkpoint, &mut meter)?;
        let mut records = RecordReader::new(self.files, self.folder, &checkpoint.header, end);
        let bytes = self.copy_records(&mut records, &mut meter)?;
        if records.at < end {
            let text = format!(
                "the journal ends at {}, before the end of its checkpoint at {end}",
                records.at
            );
            return Err(fail(io::Error::new(io::ErrorKind::InvalidData, text)));
        }
        let synced = File::open(self.target).and_then(|target| target.sync_all());
        synced.map_err(|error| self.writing(error))?;
        Ok(JournalBackup {
            position: records.at,
            bytes: checkpoint.length + bytes,
        })
    }

    fn writing(&self, source: io::Error) -> Error {
        Error::Io {
            doing: "writing the copy of a journal to",
            path: self.target.into(),
            source,
        }
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        let name = path.file_name().unwrap_or_default();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(self.target.join(name))
    }

    /// Copies a checkpoint. Returns the position at which it ends.
    fn copy_checkpoint(
        &self,
        checkpoint: &mut CheckpointReader,
        meter: &mut Meter<'_>,
    ) -> Result<u64, Error> {
        let file = self.create(&checkpoint.path);
        let file = file.map_err(|error| self.writing(error))?;
        file.write_all_at(&checkpoint.first_bytes, 0)
            .map_err(|error| self.writing(error))?;
        let mut parts = Parts::default();
        loop {
            let at = checkpoint.at;
            let more = meter.watch.run(|| checkpoint.next(&mut parts))?;
            if !more.map_err(|error| failed(self.folder, error))? {
                break;
            }
            file.write_all_at(parts.raw(), at)
                .map_err(|error| self.writing(error))?;
            meter.add(RecoveryStage::Checkpoint, parts.length);
        }
        file.sync_all().map_err(|error| self.writing(error))?;
        Ok(checkpoint.end.unwrap_or(0))
    }

    /// Copies all whole records. Returns the size of the segments that contain them.
    fn copy_records(
        &self,
        records: &mut RecordReader<'_>,
        meter: &mut Meter<'_>,
    ) -> Result<u64, Error> {
        let mut batch = Batch::default();
        let mut open: Option<(u64, File)> = None;
        let mut count = 0;
        loop {
            let more = meter.watch.run(|| records.next(&mut batch))?;
            if !more.map_err(|error| failed(self.folder, error))? {
                break;
            }
            meter.add(RecoveryStage::Journal, batch.length());
            let mut rest = batch.raw();
            while !rest.is_empty() {
                let at = records.at - rest.len() as u64;
                let start = at / records.segment * records.segment;
                if open.as_ref().is_none_or(|(known, _)| *known != start) {
                    self.complete(open.take())?;
                    let file = self.begin_segment(start, records.segment);
                    open = Some((start, file?));
                    count += 1;
                }
                let some = rest.len().min((start + records.segment - at) as usize);
                let (_, file) = open.as_ref().expect("a segment was begun");
                file.write_all_at(&rest[..some], HEADER_BYTES + at - start)
                    .map_err(|error| self.writing(error))?;
                rest = &rest[some..];
            }
        }
        self.complete(open)?;
        Ok(count * (HEADER_BYTES + records.segment))
    }

    /// Creates the copy of the segment that starts at a position, with its header.
    fn begin_segment(&self, start: u64, length: u64) -> Result<File, Error> {
        let path: PathBuf = folder::segment_path(self.folder, start, length);
        let mut page = vec![0; HEADER_BYTES as usize];
        let read = self
            .files
            .open(&path, false)
            .and_then(|file| file.read_at(&mut page, 0));
        read.map_err(|error| failed(self.folder, error))?;
        self.create(&path)
            .and_then(|file| {
                // A record may span segments, so all of them have their full length.
                file.set_len(HEADER_BYTES + length)?;
                file.write_all_at(&page, 0)?;
                Ok(file)
            })
            .map_err(|error| self.writing(error))
    }

    fn complete(&self, open: Option<(u64, File)>) -> Result<(), Error> {
        match open {
            Some((_, file)) => file.sync_all().map_err(|error| self.writing(error)),
            None => Ok(()),
        }
    }
}
