//! Expired keys that were met and are still there, for a caller that may remove them.
//!
//! Readers write nothing (R6), so an expired key that is only read stays until a writer or a sweep comes by. Redis
//! removes it at once, and clients see that in DBSIZE. So each thread remembers the expired keys that its reads met, and
//! they are removed once the command has replied. A writer removes those that it meets; where its change is undone they
//! are there again, and remembered, too.

use std::cell::Cell;

use undercroft_memory::{ThreadCached, View};

use crate::structures::entry::Entry;

/// Keys remembered at most: what is beyond is left to the sweep.
const KEYS_MAX: usize = 1024;
/// Longest key remembered.
const KEY_LENGTH_MAX: u64 = 64 * 1024;

thread_local! {
    /// Database and name of each. They need not be true: every one is looked up
    /// again before it is removed.
    static MET: Cell<Vec<(usize, Vec<u8>)>> = const { Cell::new(Vec::new()) };
    /// Whether there are any.
    static HAS_MET: Cell<bool> = const { Cell::new(false) };
}

/// Remembers a key that a read took for expired.
#[cold]
pub(crate) fn remember(view: &View<'_>, database: usize, entry: &Entry) {
    let mut key = Vec::new();
    // A torn read may fail, and then has met nothing.
    if entry.key_length() <= KEY_LENGTH_MAX && entry.append_key(view, &mut key).is_ok() {
        remember_key(database, key);
    }
}

/// Remembers an expired key whose removal was undone with the change that met it.
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

/// Whether this thread met expired keys that are still there.
#[inline]
pub(crate) fn has_any() -> bool {
    HAS_MET.get()
}

/// Takes those that this thread met.
pub(crate) fn take() -> Vec<(usize, Vec<u8>)> {
    HAS_MET.set(false);
    MET.take_cached()
}
