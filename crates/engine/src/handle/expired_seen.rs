//! Expired keys that this thread's reads found, for a caller that can remove them.
//!
//! Readers never write (R6), so an expired key that is only read stays in the store until a writer
//! or a sweep finds it. Redis removes such a key immediately, which clients can observe through
//! DBSIZE. Each thread therefore remembers the expired keys that its reads found, and they are
//! removed after the command has replied. A writer removes the expired keys that it finds. If its
//! change is rolled back, those keys exist again, so they are also remembered.

use std::cell::Cell;

use undercroft_memory::{ThreadCached, View};

use crate::structures::entry::Entry;

/// The maximum number of remembered keys. Sweeps remove any further expired keys.
const KEYS_MAX: usize = 1024;
/// The maximum length in bytes of a remembered key.
const KEY_LENGTH_MAX: u64 = 64 * 1024;

thread_local! {
    /// The database and the name of each remembered key. An entry can be stale, so every key is
    /// looked up again before it is removed.
    static MET: Cell<Vec<(usize, Vec<u8>)>> = const { Cell::new(Vec::new()) };
    /// Whether this thread remembers any keys.
    static HAS_MET: Cell<bool> = const { Cell::new(false) };
}

/// Remembers a key that a read found to be expired, so that it can be removed later.
#[cold]
pub(crate) fn remember(view: &View<'_>, database: usize, entry: &Entry) {
    let mut key = Vec::new();
    // After a torn read, appending the key can fail. In that case, remember nothing.
    if entry.key_length() <= KEY_LENGTH_MAX && entry.append_key(view, &mut key).is_ok() {
        remember_key(database, key);
    }
}

/// Remembers an expired key that exists again, because its removal was rolled back.
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

/// Returns whether this thread remembers expired keys that may still exist.
#[inline]
pub(crate) fn has_any() -> bool {
    HAS_MET.get()
}

/// Returns the expired keys that this thread remembers, and forgets them.
pub(crate) fn take() -> Vec<(usize, Vec<u8>)> {
    HAS_MET.set(false);
    MET.take_cached()
}
