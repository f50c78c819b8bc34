//! The durability mode of a store.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::checkpoints::{areas, checkpoint};
use crate::error::Error;
use crate::heap::step;
use crate::journal::folder::{self, SEGMENT, SEGMENT_MAX, SEGMENT_MIN, remove_journal};
use crate::journal::folder_lock::{self, FolderLock};
use crate::journal::waiting;
use crate::locking::shard_locks;
use crate::mapped::disk::Disk;
use crate::mapped::layout::{PAGE, control, redo};
use crate::mapped::platform;
use crate::redo::ring::{self, SIZE_MIN};
use crate::redo::{failure, lag};
use crate::segment::{Segment, place};

/// The default size of the ring in bytes.
const RING: u64 = 16 << 20;

/// When changes become durable: when they survive a failure of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Durability {
    /// Never. The store has no journal.
    None = 0,
    /// About once a second.
    EverySecond = 1,
    /// Before the call that makes them returns.
    Always = 2,
}

impl Durability {
    /// Returns the mode with a name: `none`, `everysec` or `always`.
    pub fn from_name(name: &str) -> Option<Durability> {
        [
            Durability::None,
            Durability::EverySecond,
            Durability::Always,
        ]
        .into_iter()
        .find(|mode| mode.name() == name)
    }

    /// Returns the mode's name.
    pub fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::EverySecond => "everysec",
            Durability::Always => "always",
        }
    }

    fn unpack(word: u64) -> Durability {
        match word {
            1 => Durability::EverySecond,
            2 => Durability::Always,
            _ => Durability::None,
        }
    }
}

/// Options for a new journal.
#[derive(Clone, Debug, Default)]
pub struct JournalOptions {
    /// The size in bytes of the ring in the store file, which contains the changes that are not in a
    /// file yet, rounded up to a power of two. The ring grows if a transaction needs more. Default:
    /// 16 MiB.
    pub ring: Option<u64>,
    /// The size of the journal's files in bytes, from 64 KiB to 1 GiB. Default: 64 MiB.
    pub segment: Option<u64>,
}

/// The state of a store's journal. Positions and lags are in bytes.
#[derive(Clone, Debug)]
pub struct JournalState {
    /// The durability mode.
    pub durability: Durability,
    /// The folder of the journal.
    pub folder: PathBuf,
    /// The position after the last change.
    pub head: u64,
    /// The position up to which all changes are durable.
    pub durable: u64,
    /// How long ago the oldest change was made that is not durable, in milliseconds. 0 if all changes
    /// are durable. Accurate to about a second.
    pub lag_age: u64,
    /// The position at which the last complete checkpoint starts.
    pub checkpoint: u64,
    /// The size of that checkpoint.
    pub checkpoint_bytes: u64,
    /// How long ago that checkpoint was completed, in milliseconds.
    pub checkpoint_age: Option<u64>,
    /// Whether a process is writing a checkpoint.
    pub is_checkpointing: bool,
    /// The error that stopped the journal.
    pub error: Option<String>,
}

/// Removes the files of a journal that could not be begun, so that the next attempt finds an empty
/// folder and no recovery finds a checkpoint. Errors are ignored, because the caller reports the one
/// that caused this.
fn remove_all(disk: &dyn Disk, folder: &Path) {
    let mut names = disk.list(folder).unwrap_or_default();
    // Without checkpoints, the other files mean nothing.
    names.sort_by_key(|name| !name.ends_with(".checkpoint"));
    for name in names.iter().filter(|name| folder::is_of_journal(name)) {
        let _ = disk.remove(&folder.join(name));
    }
    let _ = disk.sync_directory(folder);
}

impl Segment {
    /// Returns the durability mode of the store.
    pub fn durability(&self) -> Durability {
        Durability::unpack(self.mapping.load(control::JOURNALED))
    }

    /// Begins to keep a journal in a folder, and writes the first checkpoint. The folder must not
    /// contain a journal. Other processes may write in the meantime.
    ///
    /// # Errors
    /// Fails if the store already has a journal, or if a file cannot be written. The store then has
    /// no journal.
    pub fn begin_journal(
        &self,
        folder: &Path,
        durability: Durability,
        options: &JournalOptions,
    ) -> Result<(), Error> {
        place::prepare_to_write(self)?;
        let lock = FolderLock::acquire(folder, self.path(), &|_| folder_lock::sleep(self.hook()))?;
        begin(self, &lock, durability, options)
    }

    /// Changes when the changes of a store with a journal become durable. The new mode is durable when
    /// the call returns.
    ///
    /// # Errors
    /// Fails if the store has no journal, if `durability` is [`Durability::None`], or if the journal
    /// cannot be written.
    pub fn set_durability(&self, durability: Durability) -> Result<(), Error> {
        if durability == Durability::None {
            return Err(Error::NoJournal);
        }
        place::prepare_to_write(self)?;
        // A heap step, so that the change has a record.
        step::run(self, |heap| match heap.load(control::JOURNALED) {
            0 => Err(Error::NoJournal),
            _ => heap.set(control::JOURNALED, durability as u64),
        })?;
        self.make_durable()
    }

    /// Ends the journal of the store and removes its files. From then on, changes do not survive a
    /// failure of the machine.
    ///
    /// # Errors
    /// Fails if the store has no journal, or if a file cannot be removed.
    pub fn end_journal(&self) -> Result<(), Error> {
        place::prepare_to_write(self)?;
        if !self.mapping.is_journaled() {
            return Err(Error::NoJournal);
        }
        let _role = checkpoint::become_checkpointer(self)?;
        let folder = failure::folder_of(self);
        // Become the writer first, because the wait may fail, and the store then keeps its journal.
        let _writer = waiting::until_writer(self)?;
        let journaled = self.mapping.word(control::JOURNALED);
        journaled.store(0, Ordering::Release);
        // No transaction appends a record after this. If a process is stopped that may still append
        // one, the files are removed nevertheless, because they no longer have all changes.
        let passed = shard_locks::pass_all(self);
        remove_journal(&folder).map_err(|source| Error::Journal { folder, source })?;
        passed
    }

    /// Makes all changes that were made before the call durable. Returns immediately if the store
    /// has no journal.
    ///
    /// # Errors
    /// Fails if the journal cannot be written, or if the wait is interrupted.
    pub fn make_durable(&self) -> Result<(), Error> {
        if !self.mapping.is_journaled() {
            return Ok(());
        }
        place::prepare_to_write(self)?;
        let head = self
            .mapping
            .word(control::REDO_HEAD)
            .load(Ordering::Acquire);
        waiting::until_durable(self, head)
    }

    /// Returns the offset of the first word in which the structures of two stores differ, or `None` if
    /// they are equal (J3). No process may be changing either store.
    pub fn first_difference(&self, other: &Segment) -> Option<u64> {
        areas::first_difference(&self.mapping, &other.mapping)
    }

    /// Returns whether the journal's folder is on tmpfs or ramfs, so that a failure of the machine
    /// removes the journal, too. Returns false if the store has no journal or its folder is missing.
    pub fn journal_is_in_memory(&self) -> bool {
        let folder = || File::open(failure::folder_of(self));
        let is_in_memory = || folder().and_then(|folder| platform::is_in_memory(&folder));
        self.mapping.is_journaled() && is_in_memory().unwrap_or(false)
    }

    /// Returns the state of the journal, or `None` if the store has none.
    pub fn journal(&self) -> Option<JournalState> {
        let mapping = &self.mapping;
        mapping.is_journaled().then(|| JournalState {
            durability: self.durability(),
            folder: failure::folder_of(self),
            head: mapping.load(control::REDO_HEAD),
            durable: mapping.load(control::REDO_DURABLE),
            lag_age: lag::age(mapping),
            checkpoint: mapping.load(control::CHECKPOINT_AT),
            checkpoint_bytes: mapping.load(control::CHECKPOINT_BYTES),
            checkpoint_age: checkpoint::age(self),
            is_checkpointing: checkpoint::is_writing(self),
            error: failure::failure(self).map(|error| error.to_string()),
        })
    }
}

/// Begins a journal in a folder that is locked. See [`Segment::begin_journal`].
pub(crate) fn begin(
    segment: &Segment,
    lock: &FolderLock,
    durability: Durability,
    options: &JournalOptions,
) -> Result<(), Error> {
    let folder = lock.folder.as_path();
    place::prepare_to_write(segment)?;
    let fail = |source| Error::Journal {
        folder: folder.into(),
        source,
    };
    let bytes = folder.as_os_str().as_bytes();
    if bytes.len() as u64 > redo::PATH_MAX {
        return Err(fail(io::ErrorKind::InvalidFilename.into()));
    }
    if durability == Durability::None || segment.mapping.is_journaled() {
        let text = "the store already has a journal, or the durability mode is none";
        return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, text)));
    }
    let disk = segment.disk();
    disk.create_directory(folder).map_err(fail)?;
    // The folder's own name must be durable as well.
    let parent = folder.parent().unwrap_or(Path::new("/"));
    disk.sync_directory(parent).map_err(fail)?;
    let names = disk.list(folder).map_err(fail)?;
    if names.iter().any(|name| name.ends_with(".checkpoint")) {
        let text = "the folder contains the journal of another store; name another folder, or \
                    remove this one";
        return Err(fail(io::Error::new(io::ErrorKind::AlreadyExists, text)));
    }
    // A journal whose first checkpoint was not completed is of no use.
    remove_all(disk, folder);
    lock.write_store(segment)?;
    // After a power cut, a file on a disk must be recognized as a store of another boot.
    segment.mapping.sync(0, PAGE).map_err(fail)?;
    let _role = checkpoint::become_checkpointer(segment)?;
    shard_locks::pass_all(segment)?;
    let mapping = &segment.mapping;
    let size = options.ring.unwrap_or(RING).max(SIZE_MIN);
    let size = size.next_power_of_two().min(mapping.layout().redo_capacity);
    let length = options.segment.unwrap_or(SEGMENT);
    let length = length.clamp(SEGMENT_MIN, SEGMENT_MAX).next_multiple_of(8);
    waiting::back(segment, size)?;
    mapping.store(
        mapping.layout().redo + redo::PATH_LENGTH,
        bytes.len() as u64,
    );
    mapping.copy_from(mapping.layout().redo + redo::PATH, bytes);
    begin_positions(segment, size, length)?;
    let journaled = mapping.word(control::JOURNALED);
    journaled.store(durability as u64, Ordering::Release);
    // Every transaction that does not append a record has ended after this.
    shard_locks::pass_all(segment)
        .and_then(|()| checkpoint::write_with_role(segment, 0))
        .inspect_err(|_| {
            journaled.store(0, Ordering::Release);
            remove_all(disk, folder);
        })
}

/// Sets the positions of a new journal. They are above those of an earlier journal of the store, so
/// that a process that still waits for an earlier position does not wait forever.
fn begin_positions(segment: &Segment, size: u64, length: u64) -> Result<(), Error> {
    let mapping = &segment.mapping;
    let _writer = waiting::until_writer(segment)?;
    let _guard = ring::take_lock(segment)?;
    let positions = [
        control::REDO_HEAD,
        control::REDO_WRITTEN,
        control::REDO_DURABLE,
    ];
    let last = positions.map(|at| mapping.load(at)).into_iter().max();
    let start = (last.unwrap_or(0) + 1).next_multiple_of(length);
    for (word, value) in [
        (control::REDO_SIZE, size),
        (control::REDO_EPOCH, mapping.load(control::REDO_EPOCH) + 1),
        (control::REDO_SEGMENT, length),
        (control::REDO_BEFORE, start),
        (control::REDO_BEGIN, start),
        (control::REDO_FAILED, 0),
        (control::REDO_HEAD, start),
        (control::REDO_WRITTEN, start),
        (control::REDO_DURABLE, start),
        (control::REDO_HEAP_STEP, 0),
        (control::CHECKPOINT_AT, start),
        (control::CHECKPOINT_BYTES, 0),
        (control::CHECKPOINT_TIME, 0),
    ] {
        mapping.word(word).store(value, Ordering::Release);
    }
    lag::note(mapping, lag::now());
    Ok(())
}
