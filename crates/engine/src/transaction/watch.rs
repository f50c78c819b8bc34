//! Watched keys (M2): whether a key was changed since somebody looked.
//!
//! Each change of a key adds to modification counters of its shard, picked by
//! database and hash. Keys share counters, so a watcher may be told of a change
//! that was another key's, and never misses one of its own. What no change of
//! the key itself tells is noted beside it: its deadline, which passes without
//! anybody's doing, and an epoch of its database, which goes up when the whole
//! database is emptied or exchanged.

use undercroft_memory::{Changes, ShardSet, View, defer_signals};

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::dictionary;
use crate::structures::key::Key;
use crate::structures::roots::{EPOCHS, Root};
use crate::transaction::access::Access;
use crate::transaction::running::Running;
use crate::transaction::writer::{Writer, root};

/// A key as it was when somebody began to watch it.
#[derive(Clone, Debug)]
pub struct Watch {
    database: usize,
    key: Box<[u8]>,
    shard: usize,
    /// Of the counting itself.
    epoch: u64,
    changes: Changes,
    /// Of the database.
    database_epoch: u64,
    /// Whether it was there and had not expired, and its deadline.
    found: Option<Option<u64>>,
}

impl Watch {
    /// Whether it is a watch of this key.
    pub fn is_of(&self, database: usize, key: &[u8]) -> bool {
        self.database == database && *self.key == *key
    }

    /// The shard the key lies in.
    pub fn shard(&self) -> usize {
        self.shard
    }
}

/// What picks the modification counters of a key.
#[inline(always)]
fn counted_as(database: usize, hash: u64) -> u64 {
    hash ^ (database as u64).wrapping_mul(0x9e5_0079_e500_0000)
}

/// A key's deadline, where it is there and has not expired.
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
        // A key that was never there is the same in another database.
        Ok(self.found.is_none() && look(store, view, self.database, &key)?.is_none())
    }
}

impl Access<'_> {
    /// Begins to watch keys, all at one moment. O(keys).
    ///
    /// # Errors
    /// Where the store cannot be written to, or another process holds a lock.
    pub fn watch<'k>(
        &self,
        database: usize,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Result<Vec<Watch>, Error> {
        let store = self.store;
        let keys: Vec<Key<'k>> = keys.map(|key| store.key(key)).collect();
        loop {
            store.segment.count_changes()?;
            // Locked, so that whoever changes the keys from now on counts.
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

    /// Whether a key is as it was when it began to be watched.
    pub fn is_unchanged(&self, watch: &Watch) -> Result<bool, Error> {
        // Whoever asks may have nobody to tell of a signal.
        let _deferred = defer_signals();
        self.read(ShardSet::one(watch.shard), |reader| {
            watch.is_unchanged(self.store, reader.view())
        })
    }
}

impl Running<'_, '_> {
    /// Whether a key is as it was when it began to be watched.
    pub fn is_unchanged(&self, watch: &Watch) -> Result<bool, Error> {
        self.access().is_unchanged(watch)
    }
}

impl Writer<'_, '_> {
    /// Whether a key, whose shard is locked, is as it was when it began to be watched.
    pub(crate) fn is_unchanged(&self, watch: &Watch) -> Result<bool, Error> {
        watch.is_unchanged(self.store, self.view())
    }

    /// Apart, so that a change costs one branch where nobody watches.
    #[cold]
    pub(super) fn count_change(&mut self, root: Root, hash: u64) {
        let counted_as = counted_as(root.database, hash);
        self.transaction.count_change(root.shard, counted_as);
    }
}
