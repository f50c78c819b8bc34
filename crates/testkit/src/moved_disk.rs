//! A disk for the journal of a copied store file. The store contains the path of its folder, so a copy
//! of the store would write to the folder of the original.

use std::io;
use std::path::{Path, PathBuf};

use undercroft_memory::{Disk, DiskFile, local_disk};

/// A disk on which one folder is in another place. No thread may sync a journal on it, so that a
/// process that a debugger steps through has one thread.
#[derive(Clone, Debug)]
pub struct MovedDisk {
    /// The path that the store contains.
    pub from: PathBuf,
    /// The path of the folder.
    pub to: PathBuf,
}

impl MovedDisk {
    /// Returns a disk on which a folder is where the store expects it.
    pub fn unmoved(folder: &Path) -> MovedDisk {
        MovedDisk {
            from: folder.into(),
            to: folder.into(),
        }
    }

    fn moved(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.from) {
            Ok(rest) if rest.as_os_str().is_empty() => self.to.clone(),
            Ok(rest) => self.to.join(rest),
            Err(_) => path.into(),
        }
    }
}

impl Disk for MovedDisk {
    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn DiskFile>> {
        local_disk().open(&self.moved(path), create)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        local_disk().rename(&self.moved(from), &self.moved(to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        local_disk().remove(&self.moved(path))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        local_disk().list(&self.moved(directory))
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        local_disk().sync_directory(&self.moved(directory))
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        local_disk().create_directory(&self.moved(directory))
    }

    fn another_handle(&self) -> Box<dyn Disk> {
        Box::new(self.clone())
    }
}
