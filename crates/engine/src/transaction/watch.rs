//! Watched keys (M2): whether a key has changed since it was watched.
//!
//! Each change of a key increments modification counters of its shard, which are selected by
//! database and hash. Keys share counters, so a watcher may see the change of a different key, but
//! never misses a change of its own key. Two events do not count as a change of the key and are
//! recorded separately: its deadline, which can pass without any change, and the epoch of its
//! database, which grows when the entire database is emptied or swapped.

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
    /// The epoch of change counting.
    epoch: u64,
    changes: Changes,
    /// The epoch of the database.
    database_epoch: u64,
    /// The deadline of the key, or `None` if the key was missing or had expired.
    found: Option<Option<u64>>,
}

impl Watch {
    /// Whether this is a watch of the given key.
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

/// Returns the deadline of a key, or `None` if the key does not exist or has expired.
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
    let lives = deadline.is_none_or(|deadline| deadline > store.now());
    Ok(lives.then_some(deadline))
}

impl Watch {
    fn is_unchanged(&self, store: &Store, view: &View<'_>) -> Result<bool, Error> {
        let key = store.key(&self.key);
        let passed = |deadline: Option<u64>| deadline.is_some_and(|time| time <= store.now());
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
        // A missing key is unchanged if it is also missing from the new content of the database.
        Ok(self.found.is_none() && look(store, view, self.database, &key)?.is_none())
    }
}

impl Access<'_> {
    /// Starts watching keys, all at one moment. O(keys).
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
            // The locks guarantee that every later change of these keys is counted.
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

    /// Whether a key is unchanged since it was watched.
    pub fn is_unchanged(&self, watch: &Watch) -> Result<bool, Error> {
        // The caller may be unable to report an interruption, so defer signals.
        let _deferred = defer_signals();
        self.read(ShardSet::one(watch.shard), |reader| {
            watch.is_unchanged(self.store, reader.view())
        })
    }
}

impl Running<'_, '_> {
    /// Whether a key is unchanged since it was watched.
    pub fn is_unchanged(&self, watch: &Watch) -> Result<bool, Error> {
        self.access().is_unchanged(watch)
    }
}

impl Writer<'_, '_> {
    /// Whether a key is unchanged since it was watched. The shard of the key must be locked.
    pub(crate) fn is_unchanged(&self, watch: &Watch) -> Result<bool, Error> {
        watch.is_unchanged(self.store, self.view())
    }

    /// Kept out of line, so that a change costs only one branch if no key is watched.
    #[cold]
    pub(super) fn count_change(&mut self, root: Root, hash: u64) {
        let counted_as = counted_as(root.database, hash);
        self.transaction.count_change(root.shard, counted_as);
    }
}
