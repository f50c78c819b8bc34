//! Prefetching keys into the CPU caches.

use smallvec::SmallVec;
use undercroft_memory::Offset;

use crate::handle::store::Store;
use crate::structures::dictionary::{first_candidate, home};
use crate::structures::key::Key;
use crate::structures::prefetch::TOGETHER;
use crate::structures::roots::Root;

/// The distance in bytes from the start of an entry to the second cache line to prefetch.
const NEXT_LINE: u64 = 64;

impl Store {
    /// Prefetches keys into the CPU caches, for commands that will soon use them. A single command
    /// waits for memory several times in a row: for the bucket, for the entry and for the hint (the
    /// key's access time). Prefetching many keys overlaps these waits. Changes nothing, reports no
    /// errors, and never blocks. O(keys).
    pub fn warm(&self, database: usize, keys: &[&[u8]]) {
        for keys in keys.chunks(TOGETHER) {
            let keys: SmallVec<[Key<'_>; TOGETHER]> =
                keys.iter().map(|bytes| self.key(bytes)).collect();
            self.warm_group(database, &keys);
        }
    }

    /// Prefetches the next group of keys during a walk over many keys. Call this at each position
    /// of the walk. At the start of a group, it prefetches the entire group, which is small enough
    /// to stay in the cache until the walk reaches its keys.
    #[inline(always)]
    pub fn warm_ahead(&self, database: usize, keys: &[Key<'_>], position: usize) {
        if position.is_multiple_of(TOGETHER) && keys.len() > 1 {
            let group = &keys[position..keys.len().min(position + TOGETHER)];
            self.warm_group(database, group);
        }
    }

    /// Prefetches the bucket of a key and its hint (the access time). Returns the bucket.
    #[inline(always)]
    pub(crate) fn warm_home(&self, database: usize, key: &Key<'_>) -> Offset {
        self.segment.prefetch_hint(key.shard, key.hash);
        self.prefetch_home(database, key)
    }

    fn warm_group(&self, database: usize, keys: &[Key<'_>]) {
        // Prefetch the bucket without loading it, because a stalled load also stalls the
        // instructions after it.
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
            // Ignore errors: the commands that follow report a damaged store.
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
