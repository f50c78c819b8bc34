//! Bringing keys into the processor's caches ahead of their use.

use smallvec::SmallVec;
use undercroft_memory::Offset;

use crate::handle::store::Store;
use crate::structures::dictionary::{first_candidate, home};
use crate::structures::key::Key;
use crate::structures::prefetch::TOGETHER;
use crate::structures::roots::Root;

/// Bytes of an entry from which on it lies in a second cache line, wherever it starts.
const NEXT_LINE: u64 = 64;

impl Store {
    /// Asks for where keys lie, so that commands on them soon find it in the processor's caches. One command waits
    /// for memory several times, one after the other: for its bucket, its entry, its hint. Here those of many keys
    /// come at the same time. Changes nothing, answers nothing, waits for nobody. O(keys).
    pub fn warm(&self, database: usize, keys: &[&[u8]]) {
        for keys in keys.chunks(TOGETHER) {
            let keys: SmallVec<[Key<'_>; TOGETHER]> =
                keys.iter().map(|bytes| self.key(bytes)).collect();
            self.warm_group(database, &keys);
        }
    }

    /// [`warm`](Self::warm) for a walk over many keys, called with each position: warms the next group where one
    /// begins, so that it is still in the caches when the walk comes to it.
    #[inline(always)]
    pub fn warm_ahead(&self, database: usize, keys: &[Key<'_>], position: usize) {
        if position.is_multiple_of(TOGETHER) && keys.len() > 1 {
            let group = &keys[position..keys.len().min(position + TOGETHER)];
            self.warm_group(database, group);
        }
    }

    /// Asks for a key's bucket and hint.
    #[inline(always)]
    pub(crate) fn warm_home(&self, database: usize, key: &Key<'_>) -> Offset {
        self.segment.prefetch_hint(key.shard, key.hash);
        self.prefetch_home(database, key)
    }

    fn warm_group(&self, database: usize, keys: &[Key<'_>]) {
        // Prefetches and no loads: a load that waits keeps what is behind it waiting, too.
        let homes: SmallVec<[Offset; TOGETHER]> = keys
            .iter()
            .map(|key| self.warm_home(database, key))
            .collect();
        // Only now, when the buckets are on their way, what they refer to.
        for (key, home) in keys.iter().zip(homes) {
            self.prefetch_entry(key, home);
        }
    }

    #[inline(always)]
    fn prefetch_home(&self, database: usize, key: &Key<'_>) -> Offset {
        let mut found = 0;
        self.segment.glance(|view| {
            // Whatever is wrong with the store is for the commands to tell.
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
