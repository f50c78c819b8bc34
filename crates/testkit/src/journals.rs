//! Copies journals, recovers stores from the copies, and compares these stores with the survivors.

use std::path::{Path, PathBuf};

use undercroft_engine::Store;
use undercroft_memory::Segment;

use crate::state::{self, State};

/// Copies a journal's folder without its lock, which only allows the store that it names.
///
/// # Panics
/// Panics if the folder cannot be copied.
pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a new folder");
    for entry in std::fs::read_dir(from).expect("the folder") {
        let entry = entry.expect("a file");
        if entry.file_name() != "undercroft.lock" {
            std::fs::copy(entry.path(), to.join(entry.file_name())).expect("room for a copy");
        }
    }
}

/// A store that was recovered from a copy of a journal. It is removed when the value is dropped.
pub struct Copied {
    /// The store.
    pub store: Store,
    path: PathBuf,
    folder: PathBuf,
}

impl Copied {
    /// Recovers a store from a copy of the journal in `folder`, as if its file were gone.
    ///
    /// # Panics
    /// Panics if there is no journal, or if it cannot be recovered.
    pub fn recover(folder: &Path) -> Copied {
        let (path, copy) = (
            folder.with_extension("copy"),
            folder.with_extension("copy-journal"),
        );
        copy_folder(folder, &copy);
        let store = Store::open_or_recover(&path, &copy).expect("a recovered store");
        assert!(store.recovery().is_some(), "the store was not recovered");
        Copied {
            store,
            path,
            folder: copy,
        }
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        // Ignore errors, because the test may have failed already.
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Makes the changes of a store durable, and compares the store with one that is recovered from its
/// journal (J3). No process may be changing the store. `time` is the time for both stores, in Unix
/// milliseconds.
///
/// # Errors
/// Returns the differences.
///
/// # Panics
/// Panics if the store has no journal or cannot be checked.
pub fn compare_with_journal(store: &Store, time: u64) -> Result<(), String> {
    store.make_durable().expect("a durable journal");
    let folder = store.journal().expect("a journal").folder;
    let copied = Copied::recover(&folder);
    let problems = state::problems(&copied.store).expect("a check");
    if !problems.is_empty() {
        return Err(format!("the recovered store: {problems:?}"));
    }
    let segments = [store.path(), copied.path.as_path()]
        .map(|path| Segment::open(path, false).expect("a store"));
    if let Some(at) = segments[0].first_difference(&segments[1]) {
        return Err(format!("the stores differ at offset {at}"));
    }
    store.set_time(time);
    copied.store.set_time(time);
    let survived = State::durable(store).expect("a sound store");
    let found = State::durable(&copied.store).expect("a sound store");
    if found != survived {
        return Err(found.difference(&survived));
    }
    Ok(())
}
