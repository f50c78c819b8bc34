//! Keys that this process evicted, and removed because they had expired.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::handle::store::Store;
use crate::transaction::access::Access;

/// The counts: a part of the handle.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    evicted: AtomicU64,
    expired: AtomicU64,
}

impl Counters {
    /// Counts a key that was evicted.
    pub(crate) fn count_evicted(&self) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a key that was removed because it had expired.
    pub(crate) fn count_expired(&self) {
        self.expired.fetch_add(1, Ordering::Relaxed);
    }
}

impl Store {
    /// Keys that this process evicted since it opened the store, or since
    /// [`reset_evicted_keys`](Store::reset_evicted_keys).
    pub fn evicted_keys(&self) -> u64 {
        self.part::<Counters>().evicted.load(Ordering::Relaxed)
    }

    /// Begins to count evicted keys anew.
    pub fn reset_evicted_keys(&self) {
        self.part::<Counters>().evicted.store(0, Ordering::Relaxed);
    }

    /// Keys that this process removed because they had expired.
    pub fn expired_keys(&self) -> u64 {
        self.part::<Counters>().expired.load(Ordering::Relaxed)
    }

    /// Begins to count expired keys anew.
    pub fn reset_expired_keys(&self) {
        self.part::<Counters>().expired.store(0, Ordering::Relaxed);
    }
}

impl Access<'_> {
    /// Keys that this process evicted.
    pub fn evicted_keys(&self) -> u64 {
        self.store.evicted_keys()
    }

    /// Keys that this process removed because they had expired.
    pub fn expired_keys(&self) -> u64 {
        self.store.expired_keys()
    }

    /// Begins to count evicted and expired keys anew.
    pub fn reset_counted_keys(&self) {
        self.store.reset_evicted_keys();
        self.store.reset_expired_keys();
    }
}
