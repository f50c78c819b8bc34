//! Prefetching keys into the processor's caches.

use smallvec::SmallVec;
use undercroft_memory::Offset;

use crate::handle::store::Store;
use crate::structures::dictionary::{first_candidate, home};
use crate::structures::key::Key;
use crate::structures::prefetch::TOGETHER;
use crate::structures::roots::Root;

/// The size in bytes from which an entry extends into a second cache line, wherever it starts.
const NEXT_LINE: u64 = 64;

impl Store {
    /// Prefetches keys, so that commands soon find them in the processor's caches. A single command
    /// waits for memory several times in a row: for the bucket, the entry and the hint. Prefetching
    /// overlaps these waits for many keys. It changes nothing, reports nothing, and never blocks.
    /// O(keys).
    pub fn warm(&self, database: usize, keys: &[&[u8]]) {
        for keys in keys.chunks(TOGETHER) {
            let keys: SmallVec<[Key<'_>; TOGETHER]> =
                keys.iter().map(|bytes| self.key(bytes)).collect();
            self.warm_group(database, &keys);
        }
    }

    /// Prefetches for a walk over many keys. Call this at each position: at the start of a group it
    /// prefetches that group, so that the keys are still cached when the walk reaches them.
    #[inline(always)]
    pub fn warm_ahead(&self, database: usize, keys: &[Key<'_>], position: usize) {
        if position.is_multiple_of(TOGETHER) && keys.len() > 1 {
            let group = &keys[position..keys.len().min(position + TOGETHER)];
            self.warm_group(database, group);
        }
    }

    /// Prefetches the bucket and the hint of a key. Returns the bucket.
    #[inline(always)]
    pub(crate) fn warm_home(&self, database: usize, key: &Key<'_>) -> Offset {
        self.segment.prefetch_hint(key.shard, key.hash);
        self.prefetch_home(database, key)
    }

    fn warm_group(&self, database: usize, keys: &[Key<'_>]) {
        // Prefetch without loading, because a stalled load also stalls the instructions after it.
        let homes: SmallVec<[Offset; TOGETHER]> = keys
            .iter()
            .map(|key| self.warm_home(database, key))
            .collect();
        // Prefetch the entries only after all buckets have been requested.
        for (key, home) in keys.iter().zip(homes) {
            self.prefetch_entry(key, home);
        }
    }

    #[inline(always)]
    fn prefetch_home(&self, database: usize, key: &Key<'_>) -> Offset {
        let mut found = 0;
        self.segment.glance(|view| {
            // Ignore errors here, because the commands report a damaged store.
            found = home(view, root(database, key), key).unwrap_or(0);
            view.prefetch(found);
        });
        found
    }

    #[inline(always)]
    pub(crate) fn prefetch_entry(&self, key: &Key<'_>, home: Offset) {
        self.segment.glance(|view| {
            if let Ok(entry @ 1..) = first_candidate(view, home, key) {
                view.prefetch(entry);
                view.prefetch(entry.wrapping_add(NEXT_LINE));
            }
        });
    }
}

#[inline(always)]
fn root(database: usize, key: &Key<'_>) -> Root {
    Root {
        shard: key.shard,
        database,
    }
}
