//! Changing keys within a transaction.

use undercroft_memory::{Offset, Transaction, View, removing};

use crate::error::Error;
use crate::messages::notify::KeyEvent;
use crate::store::{Key, Reader, Store};
use crate::structures::dictionary::{self, Slot};
use crate::structures::entry::{Entry, Form, Header, entry_size};
use crate::structures::roots::{DATABASE_WORDS, DATABASES, EXPIRES, KEYS, Root};
use crate::transaction::effect::Effect;
use crate::transaction::outbox::Outbox;
use crate::types::value;
use crate::upkeep::expiry;
use crate::upkeep::graveyard;

/// Keys between two looks at whether the shard's hints keep up with them.
const COUNT_EVERY: u64 = 4096;

/// What becomes of a key's expiry when its value is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The key does not expire.
    Never,
    /// It expires at this Unix time in milliseconds.
    At(u64),
    /// It keeps what it has.
    Keep,
}

/// Write access to keys of the locked shards. Everything done through it
/// becomes visible at once, or not at all.
pub struct Writer<'w, 's> {
    pub(crate) store: &'w Store,
    pub(crate) transaction: &'w mut Transaction<'s>,
    /// What is to be done and told once the transaction is committed.
    pub(crate) outbox: Outbox,
}

/// A key that was found, with the slot that refers to its entry.
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
            outbox: store.outbox(),
        }
    }

    /// The locked shards, to read entries with.
    #[inline(always)]
    pub fn view(&self) -> &View<'s> {
        self.transaction.view()
    }

    /// The locked shards as they are now, to read keys with.
    pub fn reader(&self) -> Reader<'_, 's> {
        Reader {
            store: self.store,
            view: self.transaction.view(),
        }
    }

    /// Hashes a key.
    #[inline(always)]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.store.key(bytes)
    }

    /// Brings keys into the caches ahead of a walk over them; see
    /// [`Store::warm_ahead`].
    #[inline(always)]
    pub fn warm_ahead(&self, database: usize, keys: &[Key<'_>], position: usize) {
        self.store.warm_ahead(database, keys, position);
    }

    /// Unix time in milliseconds.
    pub fn now(&self) -> u64 {
        self.store.now()
    }

    /// Looks a key up; one that has expired is removed, and will be even where the
    /// transaction fails.
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
            if expiry.is_some_and(|expiry| expiry <= self.store.now()) {
                self.remove_found(root, found)?;
                self.expired(database, key);
                return Ok(None);
            }
        }
        Ok(Some(found))
    }

    /// Whether a key holds exactly this text; None where it is not there.
    ///
    /// # Errors
    /// [`Error::WrongType`] where it holds something else than a string.
    pub fn holds(
        &mut self,
        database: usize,
        key: &Key<'_>,
        text: &[u8],
    ) -> Result<Option<bool>, Error> {
        let Some(entry) = self.find(database, key)? else {
            return Ok(None);
        };
        let held = entry.text(self.view())?;
        if held.length() != text.len() as u64 {
            return Ok(Some(false));
        }
        let mut bytes = Vec::with_capacity(text.len());
        held.append_to(self.view(), &mut bytes)?;
        Ok(Some(bytes == text))
    }

    /// Notes that a key is about to change, where that is done in parts: the first of them counts as a change, whatever
    /// becomes of the others (M2).
    pub(crate) fn expect_parts(&mut self, database: usize, key: &Key<'_>) {
        if self.transaction.is_in_parts() {
            self.changed(database, key, Effect::Changed);
        }
    }

    /// Removes a key. Returns whether it was there.
    pub fn remove(&mut self, database: usize, key: &Key<'_>) -> Result<bool, Error> {
        let removed = self.remove_quietly(database, key)?;
        if removed {
            self.tell(KeyEvent::Del, database, key);
        }
        Ok(removed)
    }

    /// Removes a key of which something else is told, or nothing.
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

    /// Removes a key if it has expired. Returns whether it had.
    pub(crate) fn remove_expired(&mut self, database: usize, key: &Key<'_>) -> Result<bool, Error> {
        let there = dictionary::find_slot(self.view(), root(database, key), key)?.is_some();
        Ok(there && self.find_slot(database, key)?.is_none())
    }

    /// Removes a key and frees its value.
    pub(crate) fn remove_found(&mut self, root: Root, found: Found) -> Result<(), Error> {
        let _removing = removing();
        self.discard_value(root.shard, &found.entry)?;
        self.detach(root, found)
    }

    /// Removes a key but keeps the block of its value.
    pub(crate) fn detach(&mut self, root: Root, found: Found) -> Result<(), Error> {
        if found.entry.header.expires() {
            root.add(self.transaction, EXPIRES, -1)?;
        }
        self.transaction.free(root.shard, found.entry.at);
        dictionary::remove(self.transaction, root, found.slot)
    }

    /// When a key expires: `None` where it is not there, `Some(None)` where it
    /// does not.
    pub fn expiry(&mut self, database: usize, key: &Key<'_>) -> Result<Option<Option<u64>>, Error> {
        match self.find(database, key)? {
            None => Ok(None),
            Some(entry) => Ok(Some(entry.expiry(self.view())?)),
        }
    }

    /// Sets or removes a key's expiry (Unix milliseconds). Returns whether the
    /// key was there. An expiry in the past does not remove the key at once.
    pub fn set_expiry(
        &mut self,
        database: usize,
        key: &Key<'_>,
        expiry: Option<u64>,
    ) -> Result<bool, Error> {
        let Some(found) = self.find_slot(database, key)? else {
            return Ok(false);
        };
        let root = root(database, key);
        let old = found.entry;
        match (old.header.expires(), expiry) {
            (false, None) => {}
            (true, Some(expiry)) => self.transaction.store(root.shard, old.at + 8, expiry)?,
            (false, Some(_)) | (true, None) => {
                let mut value = Vec::new();
                let length = old.header.inline_length();
                self.view().append_to(old.value_at(), length, &mut value)?;
                let bits = old.header.0;
                let header = Header::with_expiry(bits, expiry.is_some());
                let at = self.new_entry(root.shard, header, key.bytes, expiry, &value, 0)?;
                self.transaction.free(root.shard, old.at);
                dictionary::replace(self.transaction, root.shard, found.slot, at)?;
                let change = if expiry.is_some() { 1 } else { -1 };
                root.add(self.transaction, EXPIRES, change)?;
            }
        }
        if let Some(expiry) = expiry {
            self.note_deadline(root, expiry)?;
        }
        self.changed(database, key, Effect::Changed);
        match expiry {
            Some(_) => self.tell(KeyEvent::Expire, database, key),
            None if old.header.expires() => self.tell(KeyEvent::Persist, database, key),
            None => {}
        }
        Ok(true)
    }

    /// Fills a new entry, with `slack` bytes of room behind its value.
    pub(crate) fn new_entry(
        &mut self,
        shard: usize,
        header: Header,
        key: &[u8],
        expiry: Option<u64>,
        value: &[u8],
        slack: u64,
    ) -> Result<Offset, Error> {
        let size = entry_size(header, key.len() as u64);
        let at = self.transaction.allocate(shard, size + slack)?;
        self.transaction.fill_word(at, header.0)?;
        if let Some(expiry) = expiry {
            self.transaction.fill_word(at + 8, expiry)?;
        }
        let key_at = at + header.key_offset();
        if header.long_key() {
            self.transaction.fill_word(key_at - 8, key.len() as u64)?;
        }
        self.transaction.fill(key_at, key)?;
        let value_at = key_at + (key.len() as u64).next_multiple_of(8);
        self.transaction.fill(value_at, value)?;
        Ok(at)
    }

    /// Puts an entry into the dictionary under a key that is not there.
    pub(crate) fn insert(
        &mut self,
        root: Root,
        hash: u64,
        entry: Offset,
        expires: bool,
    ) -> Result<(), Error> {
        dictionary::insert(self.transaction, root, hash, entry)?;
        let keys = root.get(self.view(), KEYS);
        if keys.is_power_of_two() || keys.is_multiple_of(COUNT_EVERY) {
            self.count_keys(root.shard);
        }
        if expires {
            root.add(self.transaction, EXPIRES, 1)?;
        }
        self.store.touch_inserted(root.shard, hash);
        expiry::sweep_a_little(self, root, entry)?;
        graveyard::free_along(self, root.shard, 1)?;
        Ok(())
    }

    /// Lets the shard's hints keep up with its keys.
    #[cold]
    fn count_keys(&mut self, shard: usize) {
        let words = self
            .view()
            .roots::<{ DATABASES * DATABASE_WORDS }>(shard, 0);
        let keys = (0..DATABASES).map(|database| words.word(database * DATABASE_WORDS + KEYS));
        let keys = keys.fold(0, u64::saturating_add);
        self.transaction.expect_keys(shard, keys);
    }

    /// Moves a key to another database, where it must not be. Returns whether
    /// it was there to be moved. O(1), whatever its value.
    pub fn move_to(&mut self, key: &Key<'_>, from: usize, to: usize) -> Result<bool, Error> {
        let Some(found) = self.find_slot(from, key)? else {
            return Ok(false);
        };
        let source = root(from, key);
        let expiry = found.entry.expiry(self.view())?;
        let expires = expiry.is_some();
        if let Some(expiry) = expiry {
            source.add(self.transaction, EXPIRES, -1)?;
            self.note_deadline(root(to, key), expiry)?;
        }
        dictionary::remove(self.transaction, source, found.slot)?;
        self.insert(root(to, key), key.hash, found.entry.at, expires)?;
        self.changed(from, key, Effect::Removed);
        self.changed(to, key, Effect::Changed);
        self.tell(KeyEvent::New, to, key);
        self.tell(KeyEvent::MoveFrom, from, key);
        self.tell(KeyEvent::MoveTo, to, key);
        Ok(true)
    }

    /// Gives a key's value and expiry to another key, replacing what that
    /// held. Returns whether there was one to rename. Copies at most a page:
    /// a larger value changes hands.
    pub fn rename(&mut self, database: usize, from: &Key<'_>, to: &Key<'_>) -> Result<bool, Error> {
        if from.bytes == to.bytes {
            return Ok(self.find(database, from)?.is_some());
        }
        if self.find(database, from)?.is_none() {
            return Ok(false);
        }
        self.remove_quietly(database, to)?;
        // Looked up again: the removal may have moved buckets.
        let Some(found) = self.find_slot(database, from)? else {
            return Ok(false);
        };
        let place = (root(database, to), to);
        let at = self.copy_entry(&found.entry, from.shard, place, true)?;
        let expires = found.entry.header.expires();
        self.detach(root(database, from), found)?;
        self.insert(root(database, to), to.hash, at, expires)?;
        self.changed(database, from, Effect::Removed);
        self.changed(database, to, Effect::Changed);
        self.tell(KeyEvent::New, database, to);
        self.tell(KeyEvent::RenameFrom, database, from);
        self.tell(KeyEvent::RenameTo, database, to);
        Ok(true)
    }

    /// Copies a key's value and expiry to another key, which must not be there.
    /// Returns whether there was one to copy.
    pub fn copy(&mut self, from: (usize, &Key<'_>), to: (usize, &Key<'_>)) -> Result<bool, Error> {
        let Some(entry) = self.find(from.0, from.1)? else {
            return Ok(false);
        };
        let place = (root(to.0, to.1), to.1);
        let at = self.copy_entry(&entry, from.1.shard, place, false)?;
        self.insert(root(to.0, to.1), to.1.hash, at, entry.header.expires())?;
        self.changed(to.0, to.1, Effect::Changed);
        self.tell(KeyEvent::New, to.0, to.1);
        self.tell(KeyEvent::CopyTo, to.0, to.1);
        Ok(true)
    }

    /// A new entry for another key with the same value. The value's block goes
    /// over to it (`take`), or is copied.
    fn copy_entry(
        &mut self,
        entry: &Entry,
        shard: usize,
        (root, key): (Root, &Key<'_>),
        take: bool,
    ) -> Result<Offset, Error> {
        let expiry = entry.expiry(self.view())?;
        if let Some(expiry) = expiry {
            self.note_deadline(root, expiry)?;
        }
        let header = entry.header.with_key_length(key.bytes.len() as u64);
        let value = if header.form() == Some(Form::Object) {
            value::hand_over(self, entry, shard, key.shard, take)?
        } else if header.form() == Some(Form::Block) {
            let block = self.view().word(entry.value_at())?;
            let stays = key.shard == shard;
            let mine = if take && (stays || self.transaction.transfer(block, shard, key.shard)?) {
                block
            } else {
                let length = entry.header.value_length();
                let copy = self.transaction.allocate(key.shard, length)?;
                self.transaction.fill_from(copy, block, length)?;
                if take {
                    self.transaction.free(shard, block);
                }
                copy
            };
            mine.to_le_bytes().to_vec()
        } else {
            let mut value = Vec::new();
            let length = entry.header.inline_length();
            self.view()
                .append_to(entry.value_at(), length, &mut value)?;
            value
        };
        self.new_entry(key.shard, header, key.bytes, expiry, &value, 0)
    }

    /// Exchanges two databases, in every shard; all must be locked. O(1).
    pub fn swap_databases(&mut self, one: usize, other: usize) -> Result<(), Error> {
        if one == other {
            return Ok(());
        }
        for shard in self.transaction.shards().iter() {
            for database in [one, other] {
                self.all_changed(Root { shard, database })?;
            }
            self.notice_all(shard);
            for word in 0..DATABASE_WORDS {
                let (left, right) = (
                    Root {
                        shard,
                        database: one,
                    },
                    Root {
                        shard,
                        database: other,
                    },
                );
                let (old_left, old_right) =
                    (left.get(self.view(), word), right.get(self.view(), word));
                if old_left != old_right {
                    left.set(self.transaction, word, old_right)?;
                    right.set(self.transaction, word, old_left)?;
                }
            }
        }
        Ok(())
    }
}

#[inline(always)]
pub(crate) fn root(database: usize, key: &Key<'_>) -> Root {
    Root {
        shard: key.shard,
        database,
    }
}
