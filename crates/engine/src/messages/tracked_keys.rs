//! The keys that a tracker tracks (M3).

use std::collections::HashMap;
use std::ops::Deref;

use undercroft_memory::{TrackedSlot, TrackerPlace};

use crate::handle::store::Store;

/// The keys of which a [`Tracker`](super::Tracker) finds the changes. Other keys that share a slot of
/// the store's filter with one of them are found, too.
///
/// The keys must not be used after the tracker has ended.
pub struct TrackedKeys<S: Deref<Target = Store>> {
    store: S,
    place: TrackerPlace,
    /// For each slot, the number of its tracked keys, if there are any.
    counts: HashMap<TrackedSlot, u32>,
}

impl<S: Deref<Target = Store>> TrackedKeys<S> {
    pub(super) fn new(store: S, place: TrackerPlace) -> TrackedKeys<S> {
        TrackedKeys {
            store,
            place,
            counts: HashMap::new(),
        }
    }

    /// Tracks a key that is about to be read, in all databases. `is_new` states that the key is not
    /// tracked yet. Returns true if the key's shard is locked: a transaction that is running now may
    /// then change the key, and this change may not be found. O(key).
    pub fn add(&mut self, key: &[u8], is_new: bool) -> bool {
        let key = self.store.key(key);
        let segment = &self.store.segment;
        if is_new {
            let slot = segment.tracked_slot(key.shard, key.hash);
            *self.counts.entry(slot).or_default() += 1;
        }
        segment.track_key(self.place, key.shard, key.hash)
    }

    /// Removes a tracked key. O(key).
    pub fn remove(&mut self, key: &[u8]) {
        let key = self.store.key(key);
        let slot = self.store.segment.tracked_slot(key.shard, key.hash);
        let Some(count) = self.counts.get_mut(&slot) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&slot);
            self.store.segment.untrack_keys(self.place, slot);
        }
    }

    /// Removes all keys. O(keys).
    pub fn clear(&mut self) {
        for (slot, _) in self.counts.drain() {
            self.store.segment.untrack_keys(self.place, slot);
        }
        self.counts.shrink_to_fit();
    }
}
