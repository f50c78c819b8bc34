//! Write access to keys within a transaction: finding keys and removing them.

use undercroft_memory::{Transaction, View};

use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::structures::dictionary::{self, Slot};
use crate::structures::entry::Entry;
use crate::structures::key::Key;
use crate::structures::roots::Root;
use crate::transaction::effect::Effect;
use crate::transaction::outbox::Outbox;

/// The expiry that a key gets when its value is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The key does not expire.
    Never,
    /// The key expires at this Unix time in milliseconds.
    At(u64),
    /// The key keeps its current expiry.
    Keep,
}

/// Write access to the keys of the locked shards. All changes made through a writer become visible
/// together, or not at all.
pub struct Writer<'w, 's> {
    pub(crate) store: &'w Store,
    pub(crate) transaction: &'w mut Transaction<'s>,
    /// The work and the notifications to process after the commit.
    pub(crate) outbox: Outbox,
}

/// The entry of a key that was found, with the slot that refers to the entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) slot: Slot,
    pub(crate) entry: Entry,
}

impl<'w, 's> Writer<'w, 's> {
    #[inline(always)]
    pub(crate) fn new(store: &'w Store, transaction: &'w mut Transaction<'s>) -> Self {
        Writer {
            store,
            transaction,
            outbox: outbox_of(store),
        }
    }

    /// Returns a view of the locked shards, through which entries are read.
    #[inline(always)]
    pub fn view(&self) -> &View<'s> {
        self.transaction.view()
    }

    /// Returns a reader for keys of the locked shards in their current state, including uncommitted
    /// changes.
    pub fn reader(&self) -> Reader<'_, 's> {
        Reader {
            store: self.store,
            view: self.transaction.view(),
        }
    }

    /// Hashes the bytes of a key, for use in lookups.
    #[inline(always)]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.store.key(bytes)
    }

    /// Prefetches the next group of keys during a walk over many keys; see [`Store::warm_ahead`].
    #[inline(always)]
    pub fn warm_ahead(&self, database: usize, keys: &[Key<'_>], position: usize) {
        self.store.warm_ahead(database, keys, position);
    }

    /// Returns the Unix time in milliseconds against which expiry times are checked.
    pub fn now(&self) -> u64 {
        self.store.now()
    }

    /// Returns whether a deadline has passed; see [`Store::has_passed`].
    pub fn has_passed(&self, deadline: u64) -> bool {
        self.store.has_passed(deadline)
    }

    /// Looks up a key. An expired key is removed and treated as missing. If the transaction fails,
    /// the key is removed later.
    #[inline(always)]
    pub fn find(&mut self, database: usize, key: &Key<'_>) -> Result<Option<Entry>, Error> {
        Ok(self.find_slot(database, key)?.map(|found| found.entry))
    }

    #[inline(always)]
    pub(crate) fn find_slot(
        &mut self,
        database: usize,
        key: &Key<'_>,
    ) -> Result<Option<Found>, Error> {
        let root = root(database, key);
        let Some((slot, entry)) = dictionary::find_slot(self.view(), root, key)? else {
            return Ok(None);
        };
        let found = Found { slot, entry };
        if entry.header.expires() {
            let expiry = entry.expiry(self.view())?;
            if expiry.is_some_and(|expiry| self.store.has_passed(expiry)) {
                self.remove_found(root, found)?;
                self.expired(database, key);
                return Ok(None);
            }
        }
        Ok(Some(found))
    }

    /// Prepares for a removal in parts. If the transaction commits in parts, its first part counts
    /// as a change to the key, even if later parts fail (M2).
    pub(crate) fn expect_parts(&mut self, database: usize, key: &Key<'_>) -> Result<(), Error> {
        if self.transaction.is_in_parts() {
            self.changed(database, key, Effect::Changed);
            // The first part must not commit a change that is not logged.
            self.outbox.check()?;
        }
        Ok(())
    }

    /// Returns the expiry of a key: `None` if the key does not exist, and `Some(None)` if it does
    /// not expire.
    pub fn expiry(&mut self, database: usize, key: &Key<'_>) -> Result<Option<Option<u64>>, Error> {
        match self.find(database, key)? {
            None => Ok(None),
            Some(entry) => Ok(Some(entry.expiry(self.view())?)),
        }
    }

    /// Removes a key. Returns whether the key existed.
    pub fn remove(&mut self, database: usize, key: &Key<'_>) -> Result<bool, Error> {
        let removed = self.remove_quietly(database, key)?;
        if removed {
            self.tell(KeyEvent::Del, database, key);
        }
        Ok(removed)
    }

    /// Removes a key without publishing a `del` event. Returns whether the key existed.
    pub fn remove_quietly(&mut self, database: usize, key: &Key<'_>) -> Result<bool, Error> {
        match self.find_slot(database, key)? {
            None => Ok(false),
            Some(found) => {
                self.remove_found(root(database, key), found)?;
                self.changed(database, key, Effect::Removed);
                Ok(true)
            }
        }
    }

    /// Removes a key if it has expired. Returns whether it had expired.
    pub(crate) fn remove_expired(&mut self, database: usize, key: &Key<'_>) -> Result<bool, Error> {
        let there = dictionary::find_slot(self.view(), root(database, key), key)?.is_some();
        Ok(there && self.find_slot(database, key)?.is_none())
    }
}

#[inline(always)]
pub(crate) fn root(database: usize, key: &Key<'_>) -> Root {
    Root {
        shard: key.shard,
        database,
    }
}

/// Creates an empty outbox. The cost is two atomic loads.
#[inline(always)]
pub(crate) fn outbox_of(store: &Store) -> Outbox {
    Outbox::new(store.told_events(), store.refuses_changes())
}
