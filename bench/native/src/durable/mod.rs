//! Measures stores with a journal. Each subcommand compares durability modes in interleaved rounds.
//!
//! - `writes`: SETs with and without a journal, durable writes by several threads, large values, and a
//!   reader next to a writer.
//! - `recovery`: the longest write during a checkpoint, and recovery from a checkpoint and from
//!   records.

mod recovery;
mod writes;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use undercroft_engine::{Durability, Options, Store, Terms};

#[derive(Subcommand)]
pub(crate) enum Work {
    /// SETs of 64 bytes without a journal and with `everysec`, in nanoseconds.
    Set(writes::Sets),
    /// SETs a second with `always`, by several threads.
    Always(writes::Always),
    /// Large values, hashes and feeds with `everysec`, compared with writing a file of the same size.
    Bulk(writes::Bulk),
    /// A reader next to a writer, in each mode.
    Readers(writes::Readers),
    /// The longest SET while a checkpoint is written.
    Checkpoint(recovery::Checkpoint),
    /// Recovery from a checkpoint, then from records.
    Recovery(recovery::Recovery),
}

impl Work {
    pub(crate) fn run(&self) {
        match self {
            Work::Set(work) => work.run(),
            Work::Always(work) => work.run(),
            Work::Bulk(work) => work.run(),
            Work::Readers(work) => work.run(),
            Work::Checkpoint(work) => work.run(),
            Work::Recovery(work) => work.run(),
        }
    }
}

/// The directory on a disk for journals.
#[derive(clap::Args)]
pub(crate) struct Disk {
    /// The directory on a disk for the journals.
    #[arg(long)]
    disk: PathBuf,
}

/// A store in shared memory with a journal on a disk, removed when dropped.
struct Journaled {
    directory: tempfile::TempDir,
    folder: tempfile::TempDir,
    store: Store,
}

impl Journaled {
    fn new(disk: &Path, durability: Durability) -> Journaled {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let folder = tempfile::tempdir_in(disk).expect("a directory on the disk");
        let terms = terms(folder.path());
        let options = Options {
            capacity: Some(16 << 30),
            ..Options::default()
        };
        let store = Store::create(&directory.path().join("store"), &options).expect("a store");
        if durability != Durability::None {
            store.set_durability(durability, &terms).expect("a journal");
        }
        Journaled {
            directory,
            folder,
            store,
        }
    }

    /// Returns the journal position after the last change, or 0 if there is no journal.
    fn head(&self) -> u64 {
        self.store.journal().map_or(0, |journal| journal.head)
    }

    /// Writes a checkpoint. If this process's thread is writing one, waits for it first.
    fn checkpoint(&self) {
        while let Err(error) = self.store.checkpoint() {
            assert!(error.is_busy(), "{error}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// Removes the store's file and recovers the store. Returns the seconds that this took.
    fn recover(self) -> (Journaled, f64) {
        let Journaled {
            directory,
            folder,
            store,
        } = self;
        drop(store);
        let path = directory.path().join("store");
        std::fs::remove_file(&path).expect("the store's file");
        let start = std::time::Instant::now();
        let journal = folder.path().join("journal");
        let store = Store::open_or_recover(&path, &journal).expect("a recovered store");
        let took = start.elapsed().as_secs_f64();
        assert!(store.recovery().is_some());
        let recovered = Journaled {
            directory,
            folder,
            store,
        };
        (recovered, took)
    }
}

fn terms(folder: &Path) -> Terms {
    Terms {
        journal: Some(folder.join("journal")),
        ..Terms::default()
    }
}

/// Returns a key of 16 bytes.
fn key(number: u64) -> [u8; 16] {
    let text = format!("key:{number:012}").into_bytes();
    text.try_into().expect("16 bytes")
}
