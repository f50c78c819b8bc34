//! The lock of a journal's folder, and the path of the store that uses the folder.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::journal::folder::{LOCK, store_identity};
use crate::mapped::layout::PAGE;
use crate::mapped::{disk, platform};
use crate::redo::failure;
use crate::segment::{Segment, membership};

/// The interval between two attempts to acquire the folder's lock.
const PAUSE: Duration = Duration::from_millis(20);
/// How long to wait for another process that is recovering the store.
const RECOVERY_PATIENCE: Duration = Duration::from_secs(3600);

/// The byte of the lock file that processes share while they write records.
const WRITERS: u64 = 1;
/// How long to wait for processes that are writing records.
const WRITERS_PATIENCE: Duration = Duration::from_secs(60);

/// The lock of a journal's folder, which the kernel holds as long as the file is open.
pub(crate) struct FolderLock {
    pub(crate) folder: PathBuf,
    file: File,
}

impl FolderLock {
    /// Creates the folder if needed and locks it. Waits for a process that is recovering the store
    /// at `path`.
    pub(crate) fn acquire(folder: &Path, path: &Path) -> Result<FolderLock, Error> {
        let fail = |source| Error::Journal {
            folder: folder.into(),
            source,
        };
        // Processes with other working directories use the folder as well.
        let folder = &std::path::absolute(folder).map_err(fail)?;
        disk::local_disk().create_directory(folder).map_err(fail)?;
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        options.mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(folder.join(LOCK)).map_err(fail)?;
        let start = Instant::now();
        while !platform::try_lock_byte(&file, 0).map_err(fail)? {
            if start.elapsed() >= RECOVERY_PATIENCE {
                let reason = format!(
                    "another process has been recovering {} for an hour",
                    path.display()
                );
                return Err(fail(io::Error::new(io::ErrorKind::TimedOut, reason)));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(FolderLock {
            folder: folder.into(),
            file,
        })
    }

    /// Records the store that uses the folder.
    pub(crate) fn write_store(&self, segment: &Segment) -> Result<(), Error> {
        let fail = |source| Error::Journal {
            folder: self.folder.clone(),
            source,
        };
        let text = named(segment);
        self.file.set_len(text.len() as u64).map_err(fail)?;
        self.file.write_all_at(&text, 0).map_err(fail)
    }

    /// Forgets the store that uses the folder, because its file is gone.
    pub(crate) fn forget_store(&self) -> Result<(), Error> {
        self.file.set_len(0).map_err(|source| Error::Journal {
            folder: self.folder.clone(),
            source,
        })
    }

    /// Waits until no process is writing records to the folder.
    pub(crate) fn wait_for_writers(&self) -> Result<(), Error> {
        let fail = |source| Error::Journal {
            folder: self.folder.clone(),
            source,
        };
        let start = Instant::now();
        while !platform::try_lock_byte(&self.file, WRITERS).map_err(fail)? {
            if start.elapsed() >= WRITERS_PATIENCE {
                let text = "a process of the old store file is writing it and does not finish";
                return Err(fail(io::Error::new(io::ErrorKind::TimedOut, text)));
            }
            std::thread::sleep(PAUSE);
        }
        platform::unlock_byte(&self.file, WRITERS).map_err(fail)
    }

    /// Checks that no other store file continues the journal. `page` is the header page of the
    /// journal's store.
    ///
    /// # Errors
    /// Fails if the recorded path is not `path` and has a file with the same identity.
    pub(crate) fn check_unused(&self, path: &Path, page: &[u8]) -> Result<(), Error> {
        let fail = |source| Error::Journal {
            folder: self.folder.clone(),
            source,
        };
        let Some((_, recorded)) = read_store(&self.file).map_err(fail)? else {
            return Ok(());
        };
        if recorded == path {
            return Ok(());
        }
        let mut other = vec![0; PAGE as usize];
        let read = File::open(&recorded).and_then(|file| file.read_exact_at(&mut other, 0));
        if read.is_ok() && store_identity(&other) == store_identity(page) {
            let reason = format!(
                "it is the journal of the store {}, which exists; remove that store, or name \
                 another folder for {}",
                recorded.display(),
                path.display()
            );
            return Err(fail(io::Error::new(io::ErrorKind::AlreadyExists, reason)));
        }
        Ok(())
    }
}

/// Returns the first line that names a store file, its device and inode numbers, and the second
/// line, its path.
fn named(segment: &Segment) -> Vec<u8> {
    let mut text = format!("{}\n", segment.process.file_name_in_kernel()).into_bytes();
    text.extend_from_slice(segment.path().as_os_str().as_bytes());
    text
}

/// Returns the numbers and the path of the store that a lock file names, or `None` if it names none.
fn read_store(file: &File) -> io::Result<Option<(Vec<u8>, PathBuf)>> {
    let length = file.metadata()?.len().min(2 * PAGE);
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, 0)?;
    let end = bytes.iter().position(|&byte| byte == b'\n');
    Ok(end.map(|end| {
        let path = PathBuf::from(OsString::from_vec(bytes.split_off(end + 1)));
        bytes.truncate(end);
        (bytes, path)
    }))
}

/// Opens the lock file of a store's journal and checks that the folder belongs to this store file,
/// not to a copy of it or to one that replaced it. As long as the result is open, no other file is
/// made to continue the journal.
///
/// # Errors
/// Fails if the folder belongs to another file, or if this store's file is gone.
pub(crate) fn enter(segment: &Segment) -> Result<Option<File>, Error> {
    if !segment.disk().is_shared() {
        return Ok(None);
    }
    let folder = failure::folder_of(segment);
    let fail = |source| Error::Journal {
        folder: folder.clone(),
        source,
    };
    let file = match File::options()
        .read(true)
        .write(true)
        .open(folder.join(LOCK))
    {
        // The folder is gone, so writing to it fails.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => {
            return check_file(segment).map(|()| None);
        }
        opened => opened.map_err(fail)?,
    };
    // If a recovery holds the byte for a moment, this store's file is gone, as found below.
    platform::share_byte(&file, WRITERS).map_err(fail)?;
    check_file(segment)?;
    match read_store(&file).map_err(fail)? {
        Some((numbers, path)) if numbers != segment.process.file_name_in_kernel().as_bytes() => {
            let text = format!(
                "it belongs to the store file {}, and {} is another file; export the \
                 data of the copy with undercroft export --unclean, then remove it",
                path.display(),
                segment.path().display()
            );
            // From now on, changes of this file are refused, because they cannot become durable.
            Err(failure::fail(
                segment,
                io::Error::new(io::ErrorKind::AlreadyExists, text),
            ))
        }
        _ => Ok(Some(file)),
    }
}

/// Checks that the mapped store file has not been removed or replaced.
fn check_file(segment: &Segment) -> Result<(), Error> {
    membership::check_place(segment);
    match segment.is_lost() {
        true => Err(Error::Removed {
            path: segment.path().into(),
        }),
        false => Ok(()),
    }
}

/// Checks like [`enter`], when a store is opened.
pub(crate) fn check_owner(segment: &Segment) -> Result<(), Error> {
    enter(segment).map(drop)
}
