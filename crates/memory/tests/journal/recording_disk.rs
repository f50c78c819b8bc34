//! A disk in memory that knows what a power cut may leave of it, and that fails on request.
//!
//! A sector that was written since the file's last sync may be on the disk or not, in any of its
//! versions, and so may the file's new length. A change of a name that no sync of the directory
//! followed may be on the disk or not. Real disks and file systems lose less.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use undercroft_memory::{Disk, DiskFile};

/// The unit in which a disk writes, in bytes.
const SECTOR: usize = 512;

/// A kind of operation, and the path of its file or directory.
pub(crate) type Operation<'a> = (&'static str, &'a Path);
/// A function that is called before each operation.
type Hook = Box<dyn FnMut(Operation<'_>) + Send>;

/// The contents of a file.
#[derive(Clone, Default)]
struct Contents {
    /// The bytes that processes read.
    seen: Vec<u8>,
    /// The bytes that a power cut certainly leaves.
    synced: Vec<u8>,
    /// All versions of the sectors that were written since the last sync.
    unsynced: BTreeMap<usize, Vec<Vec<u8>>>,
}

impl Contents {
    /// Returns the contents of a file that is entirely on the disk.
    fn of(bytes: Vec<u8>) -> Contents {
        Contents {
            seen: bytes.clone(),
            synced: bytes,
            unsynced: BTreeMap::new(),
        }
    }

    /// Notes that the sectors of a range were written.
    fn note(&mut self, from: usize, to: usize) {
        for sector in from / SECTOR..to.div_ceil(SECTOR) {
            let end = self.seen.len().min((sector + 1) * SECTOR);
            let version = self.seen[sector * SECTOR..end].to_vec();
            self.unsynced.entry(sector).or_default().push(version);
        }
    }

    fn put(bytes: &mut [u8], sector: usize, version: &[u8]) {
        let start = (sector * SECTOR).min(bytes.len());
        let length = version.len().min(bytes.len() - start);
        bytes[start..start + length].copy_from_slice(&version[..length]);
    }

    /// Makes the sectors durable for which `is_kept` returns true, and forgets that the others were
    /// written.
    fn sync(&mut self, is_kept: impl Fn(usize) -> bool) {
        self.synced.resize(self.seen.len(), 0);
        for (sector, versions) in std::mem::take(&mut self.unsynced) {
            if is_kept(sector) {
                Self::put(
                    &mut self.synced,
                    sector,
                    versions.last().expect("a version"),
                );
            }
        }
    }

    /// Returns what a power cut leaves. All sectors of a file that is not complete share a choice,
    /// because recovery does not read it.
    fn after_power_cut(
        &self,
        is_complete: bool,
        choose: &mut dyn FnMut(usize) -> usize,
    ) -> Contents {
        if !is_complete && !self.unsynced.is_empty() {
            return match choose(2) {
                0 => Contents::of(self.synced.clone()),
                _ => Contents::of(self.seen.clone()),
            };
        }
        let mut left = self.synced.clone();
        if self.seen.len() != left.len() && choose(2) == 1 {
            left.resize(self.seen.len(), 0);
        }
        for (&sector, versions) in &self.unsynced {
            let chosen = choose(versions.len() + 1);
            if chosen > 0 {
                Self::put(&mut left, sector, &versions[chosen - 1]);
            }
        }
        Contents::of(left)
    }
}

/// A change of a name that is not durable yet.
#[derive(Clone)]
enum NameChange {
    /// A directory was created.
    Directory(PathBuf),
    /// A file was created.
    Create(PathBuf, usize),
    /// A file got another name.
    Rename(PathBuf, PathBuf, usize),
    /// A file was removed.
    Remove(PathBuf),
}

impl NameChange {
    fn directory(&self) -> Option<&Path> {
        match self {
            NameChange::Directory(path)
            | NameChange::Create(path, _)
            | NameChange::Rename(path, ..)
            | NameChange::Remove(path) => path.parent(),
        }
    }
}

/// The names of files and directories.
#[derive(Clone, Default)]
struct Names {
    directories: BTreeSet<PathBuf>,
    /// The index in [`Platter::files`] of each file.
    files: BTreeMap<PathBuf, usize>,
}

impl Names {
    fn apply(&mut self, change: &NameChange) {
        match change {
            NameChange::Directory(path) => drop(self.directories.insert(path.clone())),
            NameChange::Create(path, file) => drop(self.files.insert(path.clone(), *file)),
            NameChange::Rename(from, to, file) => {
                self.files.remove(from);
                self.files.insert(to.clone(), *file);
            }
            NameChange::Remove(path) => drop(self.files.remove(path)),
        }
    }
}

/// Everything on the disk.
#[derive(Clone, Default)]
struct Platter {
    files: Vec<Contents>,
    seen: Names,
    durable: Names,
    pending: Vec<NameChange>,
    /// The number of operations that were started.
    operations: u64,
    /// The number of operations that succeed before one fails, and its error number.
    failure: Option<(u64, i32)>,
    /// Whether all operations after the first failed one fail as well.
    stays_broken: bool,
}

impl Platter {
    fn change(&mut self, change: NameChange) {
        self.seen.apply(&change);
        self.pending.push(change);
    }

    fn file(&self, path: &Path) -> io::Result<usize> {
        let file = self.seen.files.get(path).copied();
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// A handle to a disk in memory.
#[derive(Clone)]
pub(crate) struct RecordingDisk {
    platter: Arc<Mutex<Platter>>,
    hook: Arc<Mutex<Option<Hook>>>,
}

impl RecordingDisk {
    /// Returns a disk that contains one empty directory.
    pub(crate) fn new(directory: &Path) -> RecordingDisk {
        let mut platter = Platter::default();
        platter.seen.directories.insert(directory.into());
        platter.durable.directories.insert(directory.into());
        RecordingDisk::with(platter)
    }

    /// Returns a handle to a new disk.
    fn with(platter: Platter) -> RecordingDisk {
        RecordingDisk {
            platter: Arc::new(Mutex::new(platter)),
            hook: Arc::default(),
        }
    }

    /// Locks the disk's state.
    fn lock(&self) -> MutexGuard<'_, Platter> {
        self.platter.lock().expect("a test that did not panic")
    }

    /// Sets a function that is called before each operation, except for operations that it causes
    /// itself.
    pub(crate) fn set_hook(&self, hook: impl FnMut(Operation<'_>) + Send + 'static) {
        *self.hook.lock().expect("no panic") = Some(Box::new(hook));
    }

    /// Removes the hook.
    pub(crate) fn remove_hook(&self) {
        *self.hook.lock().expect("no panic") = None;
    }

    /// Lets the operation after `count` further ones fail, and those after it if `stays_broken`.
    pub(crate) fn fail_after(&self, count: u64, code: i32, stays_broken: bool) {
        let mut platter = self.lock();
        platter.failure = Some((platter.operations + count, code));
        platter.stays_broken = stays_broken;
    }

    /// Ends all failures. Returns true if an operation failed.
    pub(crate) fn repair(&self) -> bool {
        let mut platter = self.lock();
        let failure = platter.failure.take();
        failure.is_some_and(|(at, _)| platter.operations > at)
    }

    /// Returns a disk as a power cut at this moment may leave it. `choose(n)` returns a number below
    /// `n`; 0 means that an unsynced change is lost.
    pub(crate) fn image(&self, choose: &mut dyn FnMut(usize) -> usize) -> RecordingDisk {
        let platter = self.lock();
        let mut names = platter.durable.clone();
        for change in &platter.pending {
            if choose(2) == 1 {
                names.apply(change);
            }
        }
        let directories = &names.directories;
        names.files.retain(|path, _| {
            let directory = path.parent().expect("a path in a directory");
            directories.contains(directory)
        });
        let mut files = vec![Contents::default(); platter.files.len()];
        for (path, &file) in &names.files {
            let is_complete = path.extension().is_some_and(|end| end != "making");
            files[file] = platter.files[file].after_power_cut(is_complete, choose);
        }
        RecordingDisk::with(Platter {
            files,
            seen: names.clone(),
            durable: names,
            ..Platter::default()
        })
    }

    /// Returns a copy of the disk with everything that is not durable yet.
    pub(crate) fn unsynced_copy(&self) -> RecordingDisk {
        RecordingDisk::with(self.lock().clone())
    }

    /// Changes a file's bytes without the store's knowledge.
    pub(crate) fn edit(&self, path: &Path, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut platter = self.lock();
        let file = platter.file(path).expect("a file to edit");
        let contents = &mut platter.files[file];
        edit(&mut contents.seen);
        contents.synced = contents.seen.clone();
        contents.unsynced.clear();
    }

    /// Returns a file's bytes.
    pub(crate) fn bytes(&self, path: &Path) -> Vec<u8> {
        let platter = self.lock();
        let file = platter.file(path).expect("a file to read");
        platter.files[file].seen.clone()
    }

    /// Returns the paths of all files.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.lock().seen.files.keys().cloned().collect()
    }

    /// Starts an operation. Returns the error with which it must fail, if any.
    fn start(&self, operation: Operation<'_>) -> io::Result<()> {
        let taken = self.hook.lock().expect("no panic").take();
        if let Some(mut hook) = taken {
            hook(operation);
            *self.hook.lock().expect("no panic") = Some(hook);
        }
        let mut platter = self.lock();
        let number = platter.operations;
        platter.operations += 1;
        match platter.failure {
            Some((at, code)) if number == at || number > at && platter.stays_broken => {
                Err(io::Error::from_raw_os_error(code))
            }
            _ => Ok(()),
        }
    }
}

impl Disk for RecordingDisk {
    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn DiskFile>> {
        self.start(("open", path))?;
        let mut platter = self.lock();
        let file = match platter.file(path) {
            Ok(file) => file,
            Err(error) if !create => return Err(error),
            Err(error) => {
                let directory = path.parent().expect("a path in a directory");
                if !platter.seen.directories.contains(directory) {
                    return Err(error);
                }
                let file = platter.files.len();
                platter.files.push(Contents::default());
                platter.change(NameChange::Create(path.into(), file));
                file
            }
        };
        Ok(Box::new(RecordingFile {
            disk: self.clone(),
            path: path.into(),
            file,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.start(("rename", to))?;
        let mut platter = self.lock();
        let file = platter.file(from)?;
        platter.change(NameChange::Rename(from.into(), to.into(), file));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.start(("remove", path))?;
        let mut platter = self.lock();
        platter.file(path)?;
        platter.change(NameChange::Remove(path.into()));
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.start(("list", directory))?;
        let platter = self.lock();
        if !platter.seen.directories.contains(directory) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let files = platter.seen.files.keys();
        let inside = files.filter(|path| path.parent() == Some(directory));
        let name = |path: &PathBuf| path.file_name()?.to_str().map(str::to_owned);
        Ok(inside.filter_map(name).collect())
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.start(("sync_directory", directory))?;
        let mut platter = self.lock();
        for change in std::mem::take(&mut platter.pending) {
            match change.directory() == Some(directory) {
                true => platter.durable.apply(&change),
                false => platter.pending.push(change),
            }
        }
        Ok(())
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.start(("create_directory", directory))?;
        let mut platter = self.lock();
        if !platter.seen.directories.contains(directory) {
            platter.change(NameChange::Directory(directory.into()));
        }
        Ok(())
    }

    fn another_handle(&self) -> Box<dyn Disk> {
        Box::new(self.clone())
    }
}

/// An open file on a [`RecordingDisk`].
struct RecordingFile {
    disk: RecordingDisk,
    path: PathBuf,
    file: usize,
}

impl DiskFile for RecordingFile {
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let started = self.disk.start(("write", &self.path));
        // A failed write has written a part.
        let length = started.as_ref().map_or(bytes.len() / 2, |()| bytes.len());
        let (start, end) = (at as usize, at as usize + length);
        let contents = &mut self.disk.lock().files[self.file];
        if contents.seen.len() < end {
            contents.seen.resize(end, 0);
        }
        contents.seen[start..end].copy_from_slice(&bytes[..length]);
        contents.note(start, end);
        started
    }

    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        self.disk.start(("read", &self.path))?;
        let seen = &self.disk.lock().files[self.file].seen;
        let from = seen.get(at as usize..).unwrap_or_default();
        let length = from.len().min(bytes.len());
        bytes[..length].copy_from_slice(&from[..length]);
        Ok(length)
    }

    fn sync(&self) -> io::Result<()> {
        let started = self.disk.start(("sync", &self.path));
        let contents = &mut self.disk.lock().files[self.file];
        // Linux drops the sectors that a failed sync could not write, and the next sync succeeds.
        contents.sync(|sector| started.is_ok() || sector % 2 == 0);
        started
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.disk.start(("allocate", &self.path))?;
        let contents = &mut self.disk.lock().files[self.file];
        if contents.seen.len() < length as usize {
            contents.seen.resize(length as usize, 0);
        }
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.lock().files[self.file].seen.len() as u64)
    }
}
