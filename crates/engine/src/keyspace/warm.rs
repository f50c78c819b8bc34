//! Prefetching elements of collections into the CPU caches.

use smallvec::SmallVec;
use undercroft_memory::{Offset, View};

use crate::handle::store::Store;
use crate::structures::dictionary::{self, home};
use crate::structures::elements::{Elements, element_key};
use crate::structures::key::Key;
use crate::structures::prefetch::TOGETHER;
use crate::structures::roots::Root;
use crate::transaction::access::Access;

impl Store {
    /// Prefetches fields of hashes and members of sets and sorted sets, as [`warm`](Self::warm)
    /// does for keys. Each element is given as its collection's key and its own name. Prefetch the
    /// keys first with `warm`. Only elements of large collections are prefetched. O(elements).
    pub fn warm_elements(&self, database: usize, elements: &[(&[u8], &[u8])]) {
        for some in elements.chunks(TOGETHER) {
            let mut homes: SmallVec<[(Key<'_>, Offset); TOGETHER]> = SmallVec::new();
            self.segment.glance(|view| {
                // Consecutive elements are often in the same collection, so reuse the last lookup.
                let mut last: Option<(&[u8], Option<Elements>)> = None;
                for &(collection, element) in some {
                    let found = match last {
                        Some((same, found)) if same == collection => found,
                        _ => self.glance_at_elements(view, database, collection),
                    };
                    last = Some((collection, found));
                    let Some(elements) = found else { continue };
                    let key = element_key(self.segment.hash_key(), element);
                    let home = home(view, elements, &key).unwrap_or(0);
                    view.prefetch(home);
                    homes.push((key, home));
                }
            });
            for (key, home) in &homes {
                self.prefetch_entry(key, *home);
            }
        }
    }

    fn glance_at_elements(&self, view: &View<'_>, database: usize, key: &[u8]) -> Option<Elements> {
        let key = self.key(key);
        let entry = dictionary::find(
            view,
            Root {
                shard: key.shard,
                database,
            },
            &key,
        )
        .ok()??;
        entry.elements()
    }
}

impl Access<'_> {
    /// Prefetches keys into the CPU caches; see [`Store::warm`].
    #[inline]
    pub fn warm(&self, database: usize, keys: &[&[u8]]) {
        self.store.warm(database, keys);
    }

    /// Prefetches elements of collections into the CPU caches; see [`Store::warm_elements`].
    #[inline]
    pub fn warm_elements(&self, database: usize, elements: &[(&[u8], &[u8])]) {
        self.store.warm_elements(database, elements);
    }

    /// Prefetches the next group of keys during a walk over many keys; see [`Store::warm_ahead`].
    #[inline(always)]
    pub fn warm_ahead(&self, database: usize, keys: &[Key<'_>], position: usize) {
        self.store.warm_ahead(database, keys, position);
    }
}
