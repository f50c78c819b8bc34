//! The durability mode of a store.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::checkpoints::{areas, checkpoint};
use crate::error::Error;
use crate::journal::folder::{SEGMENT, SEGMENT_MAX, SEGMENT_MIN};
use crate::journal::{waiting, writer};
use crate::mapped::layout::{control, redo};
use crate::segment::{Segment, place};

/// The default size of the ring in bytes.
const RING: u64 = 16 << 20;
/// The minimum size of the ring in bytes.
const RING_MIN: u64 = 64 << 10;

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
    /// The position at which the last complete checkpoint starts.
    pub checkpoint: u64,
    /// The size of that checkpoint.
    pub checkpoint_bytes: u64,
    /// How long ago that checkpoint was completed, in milliseconds.
    pub checkpoint_age: Option<u64>,
    /// The error that stopped the journal.
    pub error: Option<String>,
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
        let fail = |source| Error::Journal {
            folder: folder.into(),
            source,
        };
        let bytes = folder.as_os_str().as_bytes();
        if bytes.len() as u64 > redo::PATH_MAX {
            return Err(fail(std::io::ErrorKind::InvalidFilename.into()));
        }
        if durability == Durability::None || self.mapping.is_journaled() {
            return Err(fail(std::io::ErrorKind::AlreadyExists.into()));
        }
        let disk = self.disk();
        disk.create_directory(folder).map_err(fail)?;
        if !disk.list(folder).map_err(fail)?.is_empty() {
            return Err(fail(std::io::ErrorKind::DirectoryNotEmpty.into()));
        }
        let mapping = &self.mapping;
        let size = options.ring.unwrap_or(RING).max(RING_MIN);
        let size = size.next_power_of_two().min(mapping.layout().redo_capacity);
        let length = options.segment.unwrap_or(SEGMENT);
        let length = length.clamp(SEGMENT_MIN, SEGMENT_MAX).next_multiple_of(8);
        waiting::back(self, size)?;
        mapping.store(
            mapping.layout().redo + redo::PATH_LENGTH,
            bytes.len() as u64,
        );
        mapping.copy_from(mapping.layout().redo + redo::PATH, bytes);
        for (word, value) in [
            (control::REDO_SIZE, size),
            (control::REDO_EPOCH, 1),
            (control::REDO_SEGMENT, length),
            (control::REDO_BEFORE, length),
            (control::REDO_FAILED, 0),
            (control::REDO_HEAD, length),
            (control::REDO_WRITTEN, length),
            (control::REDO_DURABLE, length),
        ] {
            mapping.store(word, value);
        }
        let journaled = mapping.word(control::JOURNALED);
        journaled.store(durability as u64, Ordering::Release);
        self.checkpoint()
            .inspect_err(|_| journaled.store(0, Ordering::Release))
    }

    /// Changes when the changes of a store with a journal become durable.
    ///
    /// # Errors
    /// Fails if the store has no journal or if `durability` is [`Durability::None`].
    pub fn set_durability(&self, durability: Durability) -> Result<(), Error> {
        if !self.mapping.is_journaled() || durability == Durability::None {
            return Err(Error::NoJournal);
        }
        let journaled = self.mapping.word(control::JOURNALED);
        journaled.store(durability as u64, Ordering::Release);
        Ok(())
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

    /// Returns the state of the journal, or `None` if the store has none.
    pub fn journal(&self) -> Option<JournalState> {
        let mapping = &self.mapping;
        mapping.is_journaled().then(|| JournalState {
            durability: self.durability(),
            folder: writer::folder_of(self),
            head: mapping.load(control::REDO_HEAD),
            durable: mapping.load(control::REDO_DURABLE),
            checkpoint: mapping.load(control::CHECKPOINT_AT),
            checkpoint_bytes: mapping.load(control::CHECKPOINT_BYTES),
            checkpoint_age: checkpoint::age(self),
            error: writer::failure(self).map(|error| error.to_string()),
        })
    }
}
