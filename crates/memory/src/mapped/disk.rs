//! The operations on files that the journal needs. Tests replace them, to simulate a power failure
//! after each of them, and errors of the disk.
//!
//! No descriptor is kept from one use to the next, because its number may become another file's
//! (L2).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::mapped::platform;

/// A disk on which a journal is kept.
pub trait Disk: Send + Sync {
    /// Opens a file for reading and writing, and creates it if `create` is true.
    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file, replacing a file of that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Returns the names of the files in a directory.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;
    /// Makes the names of all files in a directory durable.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;
    /// Creates a directory that only its owner can use, unless it exists. Directories above it that
    /// are missing are created and made durable.
    fn create_directory(&self, directory: &Path) -> io::Result<()>;
    /// Returns whether all handles of a store use this disk, so that a thread with a handle of its own
    /// may sync the journal.
    fn is_shared(&self) -> bool {
        false
    }
    /// Returns another handle to this disk.
    fn another_handle(&self) -> Box<dyn Disk>;
}

/// An open file on a [`Disk`].
pub trait DiskFile {
    /// Writes all bytes at a position.
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Reads up to `bytes.len()` bytes at a position. Returns fewer only at the end of the file.
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize>;
    /// Asks the system to begin writing a range to the disk, so that the next sync takes less time.
    fn start_writing(&self, at: u64, length: u64) {
        let _ = (at, length);
    }
    /// Makes the file's contents durable.
    fn sync(&self) -> io::Result<()>;
    /// Reserves space, so that writes below `length` do not fail for lack of space.
    fn allocate(&self, length: u64) -> io::Result<()>;
    /// Returns the file's length in bytes.
    fn length(&self) -> io::Result<u64>;
}

/// The file system of this machine.
pub(crate) struct LocalDisk;

/// Returns the file system of this machine.
pub fn local_disk() -> Box<dyn Disk> {
    Box::new(LocalDisk)
}

impl Disk for LocalDisk {
    fn is_shared(&self) -> bool {
        true
    }

    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create).mode(0o600);
        options.custom_flags(libc::O_NOFOLLOW);
        Ok(Box::new(options.open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        let parent = directory.parent().filter(|parent| !parent.exists());
        if let Some(parent) = parent {
            self.create_directory(parent)?;
            self.sync_directory(parent.parent().unwrap_or(Path::new("/")))?;
        }
        let made = std::fs::DirBuilder::new().mode(0o700).create(directory);
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    fn another_handle(&self) -> Box<dyn Disk> {
        local_disk()
    }
}

impl DiskFile for File {
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, at)
    }

    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < bytes.len() {
            match FileExt::read_at(self, &mut bytes[done..], at + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn start_writing(&self, at: u64, length: u64) {
        platform::start_writing(self, at, length);
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        platform::allocate(self, 0, length)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}
