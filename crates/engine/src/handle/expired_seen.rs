//! Expired keys that reads have found, for a caller that can remove them.
//!
//! Readers never write (R6), so an expired key that is only read stays in the store until a writer
//! or the sweep finds it. Redis removes such a key at once, which clients can observe through
//! DBSIZE. Each thread therefore remembers the expired keys that its reads found, and they are
//! removed after the command has replied. A writer removes the expired keys that it finds. If its
//! change is rolled back, those keys exist again and are remembered, too.

use std::cell::Cell;

use undercroft_memory::{ThreadCached, View};

use crate::structures::entry::Entry;

/// The maximum number of keys remembered. Further keys are left to the sweep.
const KEYS_MAX: usize = 1024;
/// The maximum length in bytes of a remembered key.
const KEY_LENGTH_MAX: u64 = 64 * 1024;

thread_local! {
    /// The database and name of each key. An entry may be stale, so every key is looked up again
    /// before it is removed.
    static MET: Cell<Vec<(usize, Vec<u8>)>> = const { Cell::new(Vec::new()) };
    /// Whether any key is remembered.
    static HAS_MET: Cell<bool> = const { Cell::new(false) };
}

/// Remembers a key that a read found expired.
#[cold]
pub(crate) fn remember(view: &View<'_>, database: usize, entry: &Entry) {
    let mut key = Vec::new();
    // After a torn read, appending the key may fail. Then there is nothing to remember.
    if entry.key_length() <= KEY_LENGTH_MAX && entry.append_key(view, &mut key).is_ok() {
        remember_key(database, key);
    }
}

/// Remembers an expired key whose removal was rolled back.
#[cold]
pub(crate) fn remember_key(database: usize, key: Vec<u8>) {
    let mut met = MET.take_cached();
    let met_key = (database, key);
    if met.len() < KEYS_MAX && !met.contains(&met_key) {
        met.push(met_key);
    }
    MET.put_back(met);
    HAS_MET.set(true);
}

/// Whether this thread remembers expired keys that may still exist.
#[inline]
pub(crate) fn has_any() -> bool {
    HAS_MET.get()
}

/// Takes the keys that this thread remembers.
pub(crate) fn take() -> Vec<(usize, Vec<u8>)> {
    HAS_MET.set(false);
    MET.take_cached()
}
