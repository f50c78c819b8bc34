//! A store whose journal is on a [`RecordingDisk`], and everything that it ever contained. Images of
//! the disk are taken between and during its operations, then recovered and compared.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use fastrand::Rng;
use undercroft_memory::{Durability, Error, JournalOptions, Recovered, Segment};

use crate::recording_disk::RecordingDisk;
use crate::store::{Content, content, create, put};

/// The length of the records in a segment: the minimum, so that the histories use many files.
pub(crate) const SEGMENT: u64 = 64 << 10;
/// The length of a mark, the record with which each sync begins.
pub(crate) const MARK: u64 = 64;

/// The store after an operation.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    /// The journal's position.
    pub(crate) head: u64,
    /// The contents of the store.
    pub(crate) content: Content,
}

/// An image of the disk, and the moment that it must contain.
struct Taken {
    /// The image.
    disk: RecordingDisk,
    /// The index of the last moment that was reported as durable when the image was taken.
    durable: usize,
    /// The operation before which the image was taken.
    before: String,
}

/// The contents of a store at each moment, and the images that have not been verified yet.
#[derive(Default)]
struct Ledger {
    /// The store after each operation, except for changes that a restart lost.
    moments: Vec<Moment>,
    /// The index of the last moment that was reported as durable.
    durable: usize,
    /// Images that have not been verified.
    images: Vec<Taken>,
}

/// A store and its past.
pub(crate) struct History {
    /// The store.
    pub(crate) segment: Segment,
    /// The disk on which its journal is kept.
    pub(crate) disk: RecordingDisk,
    /// The journal's folder.
    pub(crate) folder: PathBuf,
    /// The directory of the store and of recovered stores.
    directory: tempfile::TempDir,
    /// The store's past, shared with the disk's hook.
    ledger: Arc<Mutex<Ledger>>,
    /// The number of recovered images.
    pub(crate) images: usize,
    /// The number of files that were made for recovered stores.
    files: usize,
}

/// Locks a ledger.
fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().expect("a test that did not panic")
}

/// Notes the store's content.
fn note(ledger: &mut Ledger, segment: &Segment) {
    ledger.moments.push(Moment {
        head: segment.journal().map_or(0, |journal| journal.head),
        content: content(segment),
    });
}

/// Chooses what a power cut leaves: nothing, everything, or a random part of the unsynced changes.
pub(crate) fn random_choice(random: &mut Rng) -> impl FnMut(usize) -> usize {
    let (kind, mut random) = (random.u32(..8), random.fork());
    move |options| match kind {
        0 => 0,
        1 => options - 1,
        // Almost everything is lost, or almost nothing.
        2 if random.u32(..8) > 0 => 0,
        3 if random.u32(..8) > 0 => options - 1,
        _ => random.usize(..options),
    }
}

impl History {
    /// Creates a store without a journal.
    pub(crate) fn new() -> History {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let disk = RecordingDisk::new(directory.path());
        let mut segment = create(&directory.path().join("store"));
        segment.set_disk(Box::new(disk.clone()));
        History {
            segment,
            disk,
            folder: directory.path().join("journal"),
            directory,
            ledger: Arc::default(),
            images: 0,
            files: 0,
        }
    }

    /// Creates a store with a journal.
    pub(crate) fn journaled() -> History {
        History::journaled_with(1 << 20)
    }

    /// Creates a store with a journal whose ring has the given length.
    pub(crate) fn journaled_with(ring: u64) -> History {
        let history = History::new();
        history.begin_with(ring).expect("a journal");
        history.note();
        history.note_durable();
        history
    }

    /// Begins the journal.
    pub(crate) fn begin(&self) -> Result<(), Error> {
        self.begin_with(1 << 20)
    }

    /// Begins the journal with a ring of the given length.
    fn begin_with(&self, ring: u64) -> Result<(), Error> {
        let options = JournalOptions {
            ring: Some(ring),
            segment: Some(SEGMENT),
        };
        let mode = Durability::EverySecond;
        self.segment.begin_journal(&self.folder, mode, &options)
    }

    /// Opens the store again.
    pub(crate) fn another_handle(&self) -> Segment {
        let path = self.segment.path();
        let mut segment = Segment::open(path, true).expect("the same store");
        segment.set_disk(Box::new(self.disk.clone()));
        segment
    }

    /// Notes the store's content after an operation.
    pub(crate) fn note(&self) {
        note(&mut lock(&self.ledger), &self.segment);
    }

    /// Notes that everything up to now was reported as durable.
    pub(crate) fn note_durable(&self) {
        let mut ledger = lock(&self.ledger);
        ledger.durable = ledger.moments.len() - 1;
    }

    /// Returns the last noted moment.
    pub(crate) fn last_moment(&self) -> Moment {
        let ledger = lock(&self.ledger);
        ledger.moments.last().expect("a moment").clone()
    }

    /// Returns the last noted content.
    pub(crate) fn last(&self) -> Content {
        self.last_moment().content
    }

    /// Takes images before the disk's operations, and calls `change` before each write to a
    /// checkpoint, and before the first page is copied. `rate` is the mean number of operations per image.
    pub(crate) fn watch(
        &self,
        seed: u64,
        rate: u32,
        mut change: impl FnMut(&Segment) + Send + 'static,
    ) {
        let (ledger, disk) = (self.ledger.clone(), self.disk.clone());
        let folder = self.folder.clone();
        let segment = self.another_handle();
        let mut random = Rng::with_seed(seed);
        self.disk.set_hook(move |(kind, path)| {
            let mut ledger = lock(&ledger);
            if random.u32(..rate) == 0 {
                let image = disk.image(&mut random_choice(&mut random));
                let durable = ledger.durable;
                ledger.images.push(Taken {
                    disk: image,
                    durable,
                    before: format!("{kind} {}", path.display()),
                });
            }
            let is_checkpoint =
                path.starts_with(&folder) && !path.to_string_lossy().contains(".segment");
            if ["open", "write"].contains(&kind) && is_checkpoint {
                change(&segment);
                note(&mut ledger, &segment);
            }
        });
    }

    /// Recovers a store from a disk into a new file.
    pub(crate) fn recover(&mut self, disk: &RecordingDisk) -> Result<Option<Recovered>, Error> {
        let path = self
            .directory
            .path()
            .join(format!("recovered{}", self.files));
        self.files += 1;
        Segment::recover_from(&path, &self.folder, Some(Durability::EverySecond), disk)
    }

    /// Recovers a store from an image, and verifies that it contains all changes up to a moment that
    /// is not before the one at `durable`. Returns the recovered store and the moment's index.
    fn recover_image(
        &mut self,
        disk: &RecordingDisk,
        durable: usize,
        context: &str,
    ) -> (Recovered, usize) {
        let recovered = self.recover(disk);
        let recovered = recovered.unwrap_or_else(|error| panic!("{context}: {error}"));
        let recovered = recovered.unwrap_or_else(|| panic!("{context}: no checkpoint"));
        let found = content(&recovered.segment);
        self.images += 1;
        let ledger = lock(&self.ledger);
        let moments = &ledger.moments;
        // The records of an operation end after the moment before it and not after its own.
        let before = moments.partition_point(|moment| moment.head <= recovered.position);
        let candidates = before.saturating_sub(1)..moments.len().min(before + 1);
        // Operations without a record leave moments at the same position.
        let index = candidates
            .clone()
            .rev()
            .find(|&index| moments[index].content == found);
        let Some(index) = index else {
            let any = moments.iter().position(|moment| moment.content == found);
            panic!(
                "{context}: the store at position {} equals the store at none of the moments \
                 {candidates:?} of {}, but at {any:?}",
                recovered.position,
                moments.len()
            );
        };
        // Moments with the same content may have no record between them.
        let lost = moments.get(index + 1..=durable).unwrap_or_default();
        assert!(
            lost.iter().all(|moment| moment.content == found),
            "{context}: moment {durable} was durable, recovered moment {index}"
        );
        (recovered, index)
    }

    /// Verifies an image of the disk, taken now.
    pub(crate) fn verify(&mut self, choose: &mut dyn FnMut(usize) -> usize, context: &str) {
        let image = self.disk.image(choose);
        let durable = lock(&self.ledger).durable;
        let (recovered, _) = self.recover_image(&image, durable, context);
        self.forget(recovered.segment);
    }

    /// Verifies all images that were taken during the last operations.
    pub(crate) fn verify_taken(&mut self, context: &str) {
        let images = std::mem::take(&mut lock(&self.ledger).images);
        for taken in images {
            let context = format!("{context}, before {}", taken.before);
            let (recovered, index) = self.recover_image(&taken.disk, taken.durable, &context);
            let mut expected = lock(&self.ledger).moments[index].content.clone();
            // In every second image, the recovered store continues the journal.
            let is_continued = self.images.is_multiple_of(2);
            if is_continued {
                put(&recovered.segment, 0, 0, 64, 1).expect(&context);
                recovered.segment.make_durable().expect(&context);
                expected = content(&recovered.segment);
            }
            self.forget(recovered.segment);
            // After another power cut, recovery finds the same changes: the first recovery made
            // durable what it relied on, and the torn end never becomes a part of the journal.
            let mut random = Rng::with_seed(self.images as u64);
            let again = taken.disk.image(&mut random_choice(&mut random));
            let recovered = self.recover(&again).expect(&context);
            let recovered = recovered.expect("a checkpoint");
            let found = content(&recovered.segment);
            let context = format!("{context}, recovered again, continued: {is_continued}");
            assert_eq!(found, expected, "{context}");
            self.forget(recovered.segment);
        }
    }

    /// Drops a recovered store and its file.
    fn forget(&self, segment: Segment) {
        let _ = std::fs::remove_file(segment.path());
    }

    /// Continues with a store that is recovered from the disk, after a power cut if `choose` is
    /// given. The changes that were not durable may be gone.
    pub(crate) fn restart(
        &mut self,
        choose: Option<&mut dyn FnMut(usize) -> usize>,
        context: &str,
    ) {
        self.disk.remove_hook();
        if let Some(choose) = choose {
            self.disk = self.disk.image(choose);
        }
        let disk = self.disk.clone();
        let durable = lock(&self.ledger).durable;
        let (recovered, index) = self.recover_image(&disk, durable, context);
        let old = std::mem::replace(&mut self.segment, recovered.segment);
        self.forget(old);
        let mut ledger = lock(&self.ledger);
        ledger.moments.truncate(index + 1);
        // The same content at the position where the new epoch begins, which no file contains yet.
        note(&mut ledger, &self.segment);
        ledger.durable = index;
    }

    /// Makes all changes durable, then verifies that recovery returns the surviving store.
    pub(crate) fn settle(&mut self, context: &str) {
        self.segment.make_durable().expect(context);
        self.note_durable();
        self.verify(&mut |_| 0, context);
        let path: &Path = self.segment.path();
        assert!(path.exists(), "{context}");
    }
}
