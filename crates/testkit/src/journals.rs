//! Copies journals, recovers stores from the copies, and compares these stores with the survivors.

use std::fs::File;
use std::os::unix::fs::FileExt;
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
    store.set_time(time);
    copied.store.set_time(time);
    let survived = State::durable(store).expect("a sound store");
    let found = State::durable(&copied.store).expect("a sound store");
    if found != survived {
        return Err(found.difference(&survived));
    }
    let paths = [store.path(), copied.path.as_path()];
    let [left, right] = paths.map(|path| Segment::open(path, false).expect("a store"));
    match left.first_difference(&right) {
        None => Ok(()),
        Some(at) => {
            let [survived, found] = paths.map(|path| words_around(path, at));
            Err(format!(
                "the structures differ at offset {at}, although the contents are equal: expected \
                 {survived:x?}, found {found:x?}"
            ))
        }
    }
}

/// Returns the words of a store's file in the 64 bytes that contain an offset, such as a descriptor.
fn words_around(path: &Path, at: u64) -> Vec<u64> {
    let file = File::open(path).expect("a store");
    let mut bytes = [0; 64];
    file.read_exact_at(&mut bytes, at / 64 * 64)
        .expect("a store");
    let words = bytes.chunks(8);
    words
        .map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
        .collect()
}
