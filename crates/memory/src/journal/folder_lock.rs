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
use crate::journal::lock_holder::LockWait;
use crate::mapped::layout::PAGE;
use crate::mapped::{disk, platform};
use crate::processes::patience::{self, WaitHook};
use crate::redo::failure;
use crate::segment::{Segment, membership};

/// The interval between two attempts to acquire the folder's lock.
const PAUSE: Duration = Duration::from_millis(20);
/// How long to wait for another process that is recovering the store and makes no progress.
const RECOVERY_PATIENCE: Duration = Duration::from_secs(300);
/// The first word of a lock file during a recovery.
const RECOVERING: &str = "recovering";

/// The byte of the lock file that a process locks while it creates or recovers the store.
const MAKER: u64 = 0;
/// The byte of the lock file that processes share while they write records.
const WRITERS: u64 = 1;
/// How long to wait for processes that are writing records.
const WRITERS_PATIENCE: Duration = Duration::from_secs(60);

/// The progress of a process that is recovering a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recovering {
    pub(crate) pid: u32,
    /// The number of bytes that it has read.
    pub(crate) done: u64,
    /// The number of bytes to read.
    pub(crate) total: u64,
}

/// A pause while a process waits for a folder: sleeps, and shows the progress of the process for
/// which it waits. An error ends the wait.
pub(crate) type Pause<'a> = &'a dyn Fn(Option<Recovering>) -> Result<(), Error>;

/// Sleeps between two attempts, without the locks of a language runtime.
///
/// # Errors
/// Fails if the wait is interrupted.
pub(crate) fn sleep(hook: Option<&dyn WaitHook>) -> Result<(), Error> {
    let Some(hook) = hook else {
        std::thread::sleep(PAUSE);
        return Ok(());
    };
    hook.blocked(&mut || std::thread::sleep(PAUSE));
    match patience::is_interrupted(hook) {
        true => Err(Error::Interrupted),
        false => Ok(()),
    }
}

/// The lock of a journal's folder, which the kernel holds as long as the file is open.
pub(crate) struct FolderLock {
    pub(crate) folder: PathBuf,
    file: File,
}

impl FolderLock {
    /// Creates the folder if needed and locks it. Waits for a process that is recovering the store
    /// at `path`.
    ///
    /// # Errors
    /// Fails if that process is stopped for five seconds, if it makes no progress for five minutes, or
    /// if `pause` fails.
    pub(crate) fn acquire(
        folder: &Path,
        path: &Path,
        pause: Pause<'_>,
    ) -> Result<FolderLock, Error> {
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
        let (mut start, mut seen) = (Instant::now(), None);
        let mut wait = LockWait::new(&file, MAKER);
        while !platform::try_lock_byte(&file, MAKER).map_err(fail)? {
            wait.check().map_err(fail)?;
            let progress = read_progress(&file);
            if progress != seen {
                (start, seen) = (Instant::now(), progress);
            }
            if start.elapsed() >= RECOVERY_PATIENCE {
                return Err(fail(no_progress(path, progress)));
            }
            pause(progress)?;
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

    /// Shows processes that wait for the lock how far a recovery has come. Errors are ignored,
    /// because the progress is only information.
    pub(crate) fn write_progress(&self, done: u64, total: u64) {
        let pid = std::process::id();
        // Without a line end, the text names no store. The numbers only grow, so each text replaces
        // the one before it.
        let text = format!("{RECOVERING} {pid} {done} {total}");
        let _ = self.file.write_all_at(text.as_bytes(), 0);
    }

    /// Waits until no process is writing records to the folder.
    ///
    /// # Errors
    /// Fails if such a process is stopped for five seconds or does not finish within a minute, or if
    /// `pause` fails.
    pub(crate) fn wait_for_writers(&self, pause: Pause<'_>) -> Result<(), Error> {
        let fail = |source| Error::Journal {
            folder: self.folder.clone(),
            source,
        };
        let start = Instant::now();
        let mut wait = LockWait::new(&self.file, WRITERS);
        while !platform::try_lock_byte(&self.file, WRITERS).map_err(fail)? {
            wait.check().map_err(fail)?;
            if start.elapsed() >= WRITERS_PATIENCE {
                let text = "a process of the old store file is writing it and does not finish";
                return Err(fail(io::Error::new(io::ErrorKind::TimedOut, text)));
            }
            pause(None)?;
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

/// Returns the progress that a recovering process has written to a lock file.
fn read_progress(file: &File) -> Option<Recovering> {
    let mut bytes = [0; 128];
    let read = file.read_at(&mut bytes, 0).ok()?;
    let text = std::str::from_utf8(&bytes[..read]).ok()?;
    let mut words = text.split_ascii_whitespace();
    if words.next() != Some(RECOVERING) || text.contains('\n') {
        return None;
    }
    let mut number = || words.next()?.parse::<u64>().ok();
    Some(Recovering {
        pid: u32::try_from(number()?).ok()?,
        done: number()?,
        total: number()?,
    })
}

/// Returns the error for a process that holds a folder's lock for too long.
fn no_progress(path: &Path, progress: Option<Recovering>) -> io::Error {
    let process = match progress {
        Some(recovering) => format!("process {}", recovering.pid),
        None => "another process".to_owned(),
    };
    let reason = format!(
        "{process} is recovering {} and has made no progress for {} seconds; if it is stopped, \
         continue it with SIGCONT or kill it",
        path.display(),
        RECOVERY_PATIENCE.as_secs()
    );
    io::Error::new(io::ErrorKind::TimedOut, reason)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_as_it_was_written_and_names_no_store() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let folder = directory.path().join("journal");
        let path = directory.path().join("store");
        let never = |_| panic!("no other process has the lock");
        let lock = FolderLock::acquire(&folder, &path, &never).expect("a lock");
        let file = File::open(folder.join(LOCK)).expect("a lock file");
        assert_eq!(read_progress(&file), None);
        for done in [0, 5, 700, 80_000] {
            lock.write_progress(done, 80_000);
            let expected = Recovering {
                pid: std::process::id(),
                done,
                total: 80_000,
            };
            assert_eq!(read_progress(&file), Some(expected));
            assert_eq!(read_store(&file).expect("a lock file"), None);
        }
        lock.forget_store().expect("a lock file");
        assert_eq!(read_progress(&file), None);
        let error = no_progress(
            &path,
            Some(Recovering {
                pid: 77,
                done: 1,
                total: 2,
            }),
        );
        assert!(
            error.to_string().starts_with("process 77 is recovering"),
            "{error}"
        );
    }
}
