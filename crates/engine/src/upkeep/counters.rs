//! Counts the keys that this process evicted and the expired keys that it removed.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::handle::store::Store;
use crate::transaction::access::Access;

/// The counters of evicted and expired keys, kept in the store handle.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    evicted: AtomicU64,
    expired: AtomicU64,
}

impl Counters {
    /// Counts one key that was evicted.
    pub(crate) fn count_evicted(&self) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one key that was removed because it had expired.
    pub(crate) fn count_expired(&self) {
        self.expired.fetch_add(1, Ordering::Relaxed);
    }
}

impl Store {
    /// Returns the number of keys that this process evicted since it opened the store or since the
    /// last call to [`reset_evicted_keys`](Store::reset_evicted_keys).
    pub fn evicted_keys(&self) -> u64 {
        self.part::<Counters>().evicted.load(Ordering::Relaxed)
    }

    /// Resets the count of evicted keys to zero.
    pub fn reset_evicted_keys(&self) {
        self.part::<Counters>().evicted.store(0, Ordering::Relaxed);
    }

    /// Returns the number of expired keys that this process removed.
    pub fn expired_keys(&self) -> u64 {
        self.part::<Counters>().expired.load(Ordering::Relaxed)
    }

    /// Resets the count of expired keys to zero.
    pub fn reset_expired_keys(&self) {
        self.part::<Counters>().expired.store(0, Ordering::Relaxed);
    }
}

impl Access<'_> {
    /// Returns the number of keys that this process evicted.
    pub fn evicted_keys(&self) -> u64 {
        self.store.evicted_keys()
    }

    /// Returns the number of expired keys that this process removed.
    pub fn expired_keys(&self) -> u64 {
        self.store.expired_keys()
    }

    /// Resets the counts of evicted and expired keys to zero.
    pub fn reset_counted_keys(&self) {
        self.store.reset_evicted_keys();
        self.store.reset_expired_keys();
    }
}
