//! Read access to the keys of a store, through a consistent view.

use undercroft_memory::View;

use crate::error::Error;
use crate::handle::expired_seen;
use crate::handle::store::Store;
use crate::structures::dictionary;
use crate::structures::entry::Entry;
use crate::structures::key::Key;
use crate::structures::roots::Root;

/// Read access to a consistent view of the store's keys.
pub struct Reader<'r, 's> {
    pub(crate) store: &'r Store,
    pub(crate) view: &'r View<'s>,
}

impl<'s> Reader<'_, 's> {
    /// Returns the view through which entries are read.
    #[inline(always)]
    pub fn view(&self) -> &View<'s> {
        self.view
    }

    /// Hashes the bytes of a key, for use in lookups.
    #[inline(always)]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.store.key(bytes)
    }

    /// Returns the Unix time in milliseconds against which expiry times are checked.
    #[inline]
    pub fn now(&self) -> u64 {
        self.store.now()
    }

    /// Prefetches the next group of keys during a walk over many keys; see [`Store::warm_ahead`].
    #[inline(always)]
    pub fn warm_ahead(&self, database: usize, keys: &[Key<'_>], position: usize) {
        self.store.warm_ahead(database, keys, position);
    }

    /// Looks up a key. An expired key counts as missing.
    #[inline(always)]
    pub fn find(&self, database: usize, key: &Key<'_>) -> Result<Option<Entry>, Error> {
        let root = Root {
            shard: key.shard,
            database,
        };
        match dictionary::find(self.view, root, key)? {
            Some(entry) if entry.header.expires() && self.has_expired(database, &entry)? => {
                Ok(None)
            }
            found => Ok(found),
        }
    }

    #[cold]
    fn has_expired(&self, database: usize, entry: &Entry) -> Result<bool, Error> {
        let expiry = entry.expiry(self.view)?;
        let expired = expiry.is_some_and(|expiry| self.store.has_passed(expiry));
        if expired {
            expired_seen::remember(self.view, database, entry);
        }
        Ok(expired)
    }
}
