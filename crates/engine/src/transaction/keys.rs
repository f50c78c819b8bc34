//! Inserting, removing, moving, renaming and copying keys within a transaction.

use undercroft_memory::{Offset, removing};

use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::structures::dictionary;
use crate::structures::dictionary_change;
use crate::structures::entry::{Entry, Form, Header, entry_size};
use crate::structures::graveyard;
use crate::structures::key::Key;
use crate::structures::roots::{DATABASE_WORDS, DATABASES, EXPIRES, KEYS, Root, SEEN, SOONEST};
use crate::transaction::above::above;
use crate::transaction::effect::{ChangedPart, Effect};
use crate::transaction::writer::{Found, Writer, root};

/// The number of inserted keys between two checks of whether the shard's table of access times
/// (hints) is large enough.
const COUNT_EVERY: u64 = 4096;
/// The minimum number of buckets or leaves of removed structures that a command frees when it adds
/// items.
const FREED_ALONG: u64 = 8;

impl Writer<'_, '_> {
    /// Removes a key and frees its value.
    pub(crate) fn remove_found(&mut self, root: Root, found: Found) -> Result<(), Error> {
        let _removing = removing();
        self.discard_value(root.shard, &found.entry)?;
        self.detach(root, found)
    }

    /// Removes a key but keeps its value.
    pub(crate) fn detach(&mut self, root: Root, found: Found) -> Result<(), Error> {
        if found.entry.header.expires() {
            root.add(self.transaction, EXPIRES, -1)?;
        }
        self.transaction.free(root.shard, found.entry.at);
        dictionary_change::remove(self.transaction, root, found.slot)
    }

    /// Sets or removes a key's expiry in Unix milliseconds. Returns whether the key existed. An
    /// expiry in the past does not remove the key immediately.
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
        self.changed_parts(database, key, [ChangedPart::Expiry]);
        match expiry {
            Some(_) => self.tell(KeyEvent::Expire, database, key),
            None if old.header.expires() => self.tell(KeyEvent::Persist, database, key),
            None => {}
        }
        Ok(true)
    }

    /// Creates an entry with `slack` bytes of spare room after its value.
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

    /// Inserts an entry into a dictionary that must not contain the entry's key yet.
    pub(crate) fn insert(
        &mut self,
        root: Root,
        hash: u64,
        entry: Offset,
        expires: bool,
    ) -> Result<(), Error> {
        let expected = self.store.expected_keys_of_shard();
        dictionary_change::insert_expecting(self.transaction, root, hash, entry, expected)?;
        let keys = root.get(self.view(), KEYS);
        if keys.is_power_of_two() || keys.is_multiple_of(COUNT_EVERY) {
            self.count_keys(root.shard);
        }
        if expires {
            root.add(self.transaction, EXPIRES, 1)?;
        }
        self.store.touch_inserted(root.shard, hash);
        if root.get(self.view(), EXPIRES) != 0 {
            above(self.store).sweep_a_little(self, root, entry)?;
        }
        self.free_along(root.shard, 1)
    }

    /// Reports the number of keys in a shard, so that the shard's table of access times (hints) can
    /// grow after the commit.
    #[cold]
    fn count_keys(&mut self, shard: usize) {
        let words = self
            .view()
            .roots::<{ DATABASES * DATABASE_WORDS }>(shard, 0);
        let keys = (0..DATABASES).map(|database| words.word(database * DATABASE_WORDS + KEYS));
        let keys = keys.fold(0, u64::saturating_add);
        self.transaction.expect_keys(shard, keys);
    }

    /// Moves a key to a different database, which must not contain the key. Returns whether the key
    /// existed. O(1), regardless of the size of the value.
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
        dictionary_change::remove(self.transaction, source, found.slot)?;
        self.insert(root(to, key), key.hash, found.entry.at, expires)?;
        self.changed(from, key, Effect::Removed);
        self.changed(to, key, Effect::Changed);
        self.tell(KeyEvent::New, to, key);
        self.tell(KeyEvent::MoveFrom, from, key);
        self.tell(KeyEvent::MoveTo, to, key);
        Ok(true)
    }

    /// Renames a key, including its expiry, and replaces the destination. Returns whether the
    /// source existed. Copies at most one page: a larger value is handed over without copying.
    pub fn rename(&mut self, database: usize, from: &Key<'_>, to: &Key<'_>) -> Result<bool, Error> {
        if from.bytes == to.bytes {
            return Ok(self.find(database, from)?.is_some());
        }
        if self.find(database, from)?.is_none() {
            return Ok(false);
        }
        self.remove_quietly(database, to)?;
        // Look up the source again, because removing the destination may have moved buckets.
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

    /// Copies a key's value and expiry to a key that must not exist. Returns whether the source
    /// existed.
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

    /// Creates an entry with the same value for a different key. With `take`, the new entry takes
    /// over the block of the value; otherwise, the block is copied.
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
            above(self.store).hand_over_object(self, entry, (shard, key.shard), take)?
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

    /// Swaps two databases in all shards. All shards must be locked. O(number of shards).
    pub fn swap_databases(&mut self, one: usize, other: usize) -> Result<(), Error> {
        if one == other {
            return Ok(());
        }
        for shard in self.transaction.shards().iter() {
            let [left, right] = [one, other].map(|database| Root { shard, database });
            self.swapped(left, right)?;
            self.notice_all(shard);
            for word in 0..DATABASE_WORDS {
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

    /// Frees all memory that an entry refers to. The caller frees the entry itself.
    #[inline(always)]
    pub(crate) fn discard_value(&mut self, shard: usize, entry: &Entry) -> Result<(), Error> {
        match entry.header.form() {
            Some(Form::Inline | Form::Integer) => Ok(()),
            Some(Form::Block) => {
                let block = self.view().word(entry.value_at())?;
                self.transaction.free(shard, block);
                Ok(())
            }
            Some(Form::Object) => self.discard_object(shard, entry),
            None => Err(entry.fault().into()),
        }
    }

    #[cold]
    fn discard_object(&mut self, shard: usize, entry: &Entry) -> Result<(), Error> {
        above(self.store).discard_object(self, shard, entry)
    }

    /// Frees part of the shard's removed structures during a command that adds `items` items. Frees
    /// at least one bucket or leaf for each item, so that the graveyard (the queue of large values
    /// to free) shrinks faster than it can grow.
    #[inline]
    pub(crate) fn free_along(&mut self, shard: usize, items: usize) -> Result<(), Error> {
        if graveyard::is_dying(self.view(), shard) {
            let buckets = FREED_ALONG.max(items as u64);
            return above(self.store).free_a_little(self, shard, buckets);
        }
        Ok(())
    }

    /// Lowers the earliest expiry times that the expiry sweep keeps for a database, if `deadline`
    /// is earlier.
    #[inline]
    pub(crate) fn note_deadline(&mut self, root: Root, deadline: u64) -> Result<(), Error> {
        for word in [SOONEST, SEEN] {
            if deadline < root.get(self.view(), word) {
                root.set(self.transaction, word, deadline)?;
            }
        }
        Ok(())
    }
}
