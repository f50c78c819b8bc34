//! Opens the files of a journal that must not be changed, such as a backup on a read-only file system.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::mapped::disk::{Disk, DiskFile, local_disk};

/// The file system of this machine, on which nothing can be changed.
pub(crate) struct ReadOnlyDisk;

/// Returns the error for an operation that changes a file.
pub(crate) fn refused() -> io::Error {
    io::ErrorKind::ReadOnlyFilesystem.into()
}

impl Disk for ReadOnlyDisk {
    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn DiskFile>> {
        if create {
            return Err(refused());
        }
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NOFOLLOW);
        let file: File = options.open(path)?;
        Ok(Box::new(file))
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        local_disk().list(directory)
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn create_directory(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    /// Returns a handle with which files can be changed, for the store that was recovered.
    fn another_handle(&self) -> Box<dyn Disk> {
        local_disk()
    }
}
