//! Watched keys (M2), for detecting whether a key has changed since it was watched.
//!
//! Each change to a key increments modification counters in the key's shard, selected by database
//! and hash. Keys share counters, so a watcher may notice a change to a different key, but never
//! misses a change to its own key. Two events do not count as a change to the key and are recorded
//! separately: the key's expiry, which needs no change, and the emptying or swapping of its entire
//! database, which increments the database's epoch.

use undercroft_memory::{Changes, ShardSet, View, defer_signals};

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::dictionary;
use crate::structures::key::Key;
use crate::structures::roots::{EPOCHS, Root};
use crate::transaction::access::Access;
use crate::transaction::running::Running;
use crate::transaction::writer::{Writer, root};

/// The state of a key when it was watched.
#[derive(Clone, Debug)]
pub struct Watch {
    database: usize,
    key: Box<[u8]>,
    shard: usize,
    /// The epoch of change counting when the key was watched.
    epoch: u64,
    changes: Changes,
    /// The epoch of the database, which grows when the entire database is emptied or swapped.
    database_epoch: u64,
    /// The expiry of the key, or `None` if the key was missing or had expired.
    found: Option<Option<u64>>,
}

impl Watch {
    /// Returns whether this watch watches the given key.
    pub fn is_of(&self, database: usize, key: &[u8]) -> bool {
        self.database == database && *self.key == *key
    }

    /// Returns the shard of the key.
    pub fn shard(&self) -> usize {
        self.shard
    }
}

/// Returns the number that selects the modification counters of a key.
#[inline(always)]
fn counted_as(database: usize, hash: u64) -> u64 {
    hash ^ (database as u64).wrapping_mul(0x9e5_0079_e500_0000)
}

/// Returns the expiry of a key, or `None` if the key does not exist or has expired.
fn look(
    store: &Store,
    view: &View<'_>,
    database: usize,
    key: &Key<'_>,
) -> Result<Option<Option<u64>>, Error> {
    let Some(entry) = dictionary::find(view, root(database, key), key)? else {
        return Ok(None);
    };
    let deadline = entry.expiry(view)?;
    let lives = deadline.is_none_or(|deadline| !store.has_passed(deadline));
    Ok(lives.then_some(deadline))
}

impl Watch {
    fn is_unchanged(&self, store: &Store, view: &View<'_>) -> Result<bool, Error> {
        let key = store.key(&self.key);
        let passed = |deadline: Option<u64>| deadline.is_some_and(|time| store.has_passed(time));
        if store.segment.change_epoch() != Some(self.epoch)
            || !store
                .segment
                .changes(self.shard, counted_as(self.database, key.hash))
                .are_none_since(self.changes)
            || self.found.is_some_and(passed)
        {
            return Ok(false);
        }
        if view.root(self.shard, EPOCHS + self.database) == self.database_epoch {
            return Ok(true);
        }
        // A missing key is unchanged if it is still missing after the database was emptied or
        // swapped.
        Ok(self.found.is_none() && look(store, view, self.database, &key)?.is_none())
    }
}

impl Access<'_> {
    /// Starts watching several keys, all at the same moment. O(keys).
    ///
    /// # Errors
    /// Fails if the store is not writable or a lock cannot be acquired.
    pub fn watch<'k>(
        &self,
        database: usize,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Result<Vec<Watch>, Error> {
        let store = self.store;
        let keys: Vec<Key<'k>> = keys.map(|key| store.key(key)).collect();
        loop {
            store.segment.count_changes()?;
            // Holding the locks guarantees that every later change to these keys is counted.
            let watches = self.write(store.shards_of(&keys), |writer| {
                let Some(epoch) = store.segment.change_epoch() else {
                    return Ok(None);
                };
                let watch = |key: &Key<'k>| {
                    Ok(Watch {
                        database,
                        key: key.bytes.into(),
                        shard: key.shard,
                        epoch,
                        changes: store
                            .segment
                            .changes(key.shard, counted_as(database, key.hash)),
                        database_epoch: writer.view().root(key.shard, EPOCHS + database),
                        found: look(store, writer.view(), database, key)?,
                    })
                };
                let watches: Result<Vec<Watch>, Error> = keys.iter().map(watch).collect();
                watches.map(Some)
            })?;
            if let Some(watches) = watches {
                return Ok(watches);
            }
        }
    }

    /// Returns whether a key has not changed since it was watched.
    pub fn is_unchanged(&self, watch: &Watch) -> Result<bool, Error> {
        // The caller may be unable to report an interruption, so defer signals.
        let _deferred = defer_signals();
        self.read(ShardSet::one(watch.shard), |reader| {
            watch.is_unchanged(self.store, reader.view())
        })
    }
}

impl Running<'_, '_> {
    /// Returns whether a key has not changed since it was watched.
    pub fn is_unchanged(&self, watch: &Watch) -> Result<bool, Error> {
        self.access().is_unchanged(watch)
    }
}

impl Writer<'_, '_> {
    /// Returns whether a key has not changed since it was watched. The key's shard must be locked.
    pub(crate) fn is_unchanged(&self, watch: &Watch) -> Result<bool, Error> {
        watch.is_unchanged(self.store, self.view())
    }

    /// Out of line, so that a change costs only one branch if no key is watched.
    #[cold]
    pub(super) fn count_change(&mut self, root: Root, hash: u64) {
        let counted_as = counted_as(root.database, hash);
        self.transaction.count_change(root.shard, counted_as);
    }
}
