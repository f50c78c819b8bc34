//! Typed functions for the operations that embedded clients call most often.

use undercroft_memory::{Body, Scratch, ShardSet, View, removing};

use crate::error::Error;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::structures::key::Key;
use crate::transaction::access::Access;
use crate::transaction::writer::Expiry;
use crate::types::string::mget::{Held, Values};
use crate::types::string::text::Text;

/// The condition under which a value is stored, like the NX and XX options of SET.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Stores the value unconditionally.
    #[default]
    Always,
    /// Stores the value only if the key does not exist (NX).
    IfMissing,
    /// Stores the value only if the key exists (XX).
    IfPresent,
}

impl Condition {
    pub(crate) fn met(self, there: bool) -> bool {
        match self {
            Condition::Always => true,
            Condition::IfMissing => !there,
            Condition::IfPresent => there,
        }
    }
}

/// The options of [`Store::set_with`].
#[derive(Clone, Copy, Debug)]
pub struct SetOptions {
    /// The condition under which the value is stored.
    pub condition: Condition,
    /// The key's expiry after the call.
    pub expiry: Expiry,
}

/// The minimum length in bytes of a string that is pinned before it is copied. While a string of
/// this length is being copied, another process is likely to commit, which would restart an
/// ordinary read.
const LONG: u64 = 256 << 10;

/// The result of looking up a string.
enum Fetched {
    Nothing,
    /// A string that was copied to the caller's buffer.
    Text,
    /// A string that is too long to be copied in an ordinary read, which can restart.
    Long,
}

/// A caller's buffer that receives a string.
pub trait TextBuffer: Scratch {
    /// Stores `text` in the buffer, which is empty before the call.
    fn fill(&mut self, view: &View<'_>, text: Text) -> Result<(), Error>;

    /// Allocates memory for a string that was too long for the buffer. This function is called
    /// outside of any read and without a lock, so an implementation may call another language's
    /// allocator. Returns whether it allocated memory, in which case the string is read again.
    #[inline(always)]
    fn makes_room(&mut self) -> bool {
        false
    }
}

impl TextBuffer for Vec<u8> {
    #[inline(always)]
    fn fill(&mut self, view: &View<'_>, text: Text) -> Result<(), Error> {
        text.append_to(view, self)
    }
}

impl<B: TextBuffer + ?Sized> TextBuffer for &mut B {
    #[inline(always)]
    fn fill(&mut self, view: &View<'_>, text: Text) -> Result<(), Error> {
        (**self).fill(view, text)
    }

    #[inline(always)]
    fn makes_room(&mut self) -> bool {
        (**self).makes_room()
    }
}

/// The body of a read that copies the string at a key unless the string is long.
struct CopyText<'a> {
    store: &'a Store,
    database: usize,
    key: &'a Key<'a>,
}

impl<B: TextBuffer> Body<B> for CopyText<'_> {
    type Found = Fetched;
    type Error = Error;

    #[inline(always)]
    fn run(&self, view: &View<'_>, out: &mut B) -> Result<Fetched, Error> {
        let store = self.store;
        let Some(entry) = (Reader { store, view }).find(self.database, self.key)? else {
            return Ok(Fetched::Nothing);
        };
        let text = entry.text(view)?;
        if text.length() >= LONG {
            return Ok(Fetched::Long);
        }
        out.fill(view, text)?;
        Ok(Fetched::Text)
    }
}

impl Access<'_> {
    /// Fills `out` with the string at a key, or leaves `out` empty if the key does not exist.
    /// Returns whether the key existed. O(length).
    #[inline(always)]
    pub fn get<B: TextBuffer>(
        &self,
        database: usize,
        key: &[u8],
        out: &mut B,
    ) -> Result<bool, Error> {
        let key = self.key(key);
        let found = self.fetch(database, &key, out)?;
        self.looked_up(database, &key, found);
        Ok(found)
    }

    /// Fills `out` like [`get`](Self::get), but does not record the lookup.
    #[inline(always)]
    fn fetch<B: TextBuffer>(
        &self,
        database: usize,
        key: &Key<'_>,
        out: &mut B,
    ) -> Result<bool, Error> {
        if self.running.is_none() {
            let store = self.store;
            let copy = CopyText {
                store,
                database,
                key,
            };
            match store.segment.read_at_once(key.shard, out, &copy) {
                Some(Fetched::Nothing) => return Ok(false),
                Some(Fetched::Text) if !out.makes_room() => return Ok(true),
                _ => {}
            }
        }
        self.fetch_again(database, key, out)
    }

    /// The slow path of [`fetch`](Self::fetch), for transactions and for reads whose first attempt
    /// did not succeed.
    #[inline(never)]
    fn fetch_again<B: TextBuffer>(
        &self,
        database: usize,
        key: &Key<'_>,
        out: &mut B,
    ) -> Result<bool, Error> {
        let copy = CopyText {
            store: self.store,
            database,
            key,
        };
        loop {
            let fetched = self.read_into(ShardSet::one(key.shard), out, |reader, out| {
                copy.run(reader.view(), out)
            })?;
            let found = match fetched {
                Fetched::Nothing => false,
                Fetched::Text => true,
                Fetched::Long => self.fetch_long(database, key, out)?,
            };
            if !found || !out.makes_room() {
                return Ok(found);
            }
        }
    }

    /// Fetches a long string. The string is pinned and copied only once, even if other processes
    /// write to the shard during the copy (R10).
    #[cold]
    #[inline(never)]
    fn fetch_long<B: TextBuffer>(
        &self,
        database: usize,
        key: &Key<'_>,
        out: &mut B,
    ) -> Result<bool, Error> {
        if self.running.is_none()
            && let Some(pinned) = self.store.pin_string(database, key)
        {
            out.clear();
            let segment = &self.store.segment;
            let filled = segment.read_pinned(&pinned, |view, at| {
                out.fill(view, Text::Bytes(at, pinned.length()))
            });
            segment.unpin(pinned);
            return filled.map(|()| true).inspect_err(|_| out.clear());
        }
        // In a transaction, or if the string cannot be pinned, copy the string in an ordinary read.
        self.read_into(ShardSet::one(key.shard), out, |reader, out| {
            let Some(entry) = reader.find(database, key)? else {
                return Ok(false);
            };
            out.fill(reader.view(), entry.text(reader.view())?)?;
            Ok(true)
        })
    }

    /// Stores a string at a key; see [`Store::set`].
    #[inline]
    pub fn set(&self, database: usize, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if self.running.is_none() {
            return self.store.set(database, key, value);
        }
        let key = self.key(key);
        self.write(ShardSet::one(key.shard), |writer| {
            writer.set(database, &key, value, Expiry::Never)
        })?;
        self.note_use(&key);
        Ok(())
    }

    /// Adds `change` to the integer at a key; see [`Store::increment`].
    pub fn increment(&self, database: usize, key: &[u8], change: i64) -> Result<i64, Error> {
        let key = self.key(key);
        self.check_memory_for(0)?;
        let sum = self.write(ShardSet::one(key.shard), |writer| {
            writer.increment(database, &key, change)
        })?;
        self.note_written(&key);
        Ok(sum)
    }

    /// Removes keys; see [`Store::delete`].
    pub fn delete(&self, database: usize, keys: &[&[u8]]) -> Result<u64, Error> {
        let keys = self.hash_all(keys);
        let _removing = removing();
        self.write(self.shards_of(&keys), |writer| {
            let mut removed = 0;
            for (position, key) in keys.iter().enumerate() {
                writer.warm_ahead(database, &keys, position);
                removed += u64::from(writer.remove(database, key)?);
                writer.transaction.end_of_part()?;
            }
            Ok::<_, Error>(removed)
        })
    }

    /// Counts how many of the keys exist; see [`Store::exists`].
    pub fn exists(&self, database: usize, keys: &[&[u8]]) -> Result<u64, Error> {
        let keys = self.hash_all(keys);
        let missing = self.missing(database, &keys)?;
        Ok((keys.len() - missing.len()) as u64)
    }

    /// Returns the indexes in `keys` of the keys that do not exist.
    fn missing(&self, database: usize, keys: &[Key<'_>]) -> Result<Vec<usize>, Error> {
        let mut missing = Vec::new();
        self.read_into(self.shards_of(keys), &mut missing, |reader, missing| {
            for (position, key) in keys.iter().enumerate() {
                reader.warm_ahead(database, keys, position);
                if reader.find(database, key)?.is_none() {
                    missing.push(position);
                }
            }
            Ok::<_, Error>(())
        })?;
        Ok(missing)
    }

    /// Returns the time at which a key expires; see [`Store::expiry`].
    pub fn expiry(&self, database: usize, key: &[u8]) -> Result<Option<Option<u64>>, Error> {
        let key = self.key(key);
        self.read(ShardSet::one(key.shard), |reader| {
            match reader.find(database, &key)? {
                None => Ok(None),
                Some(entry) => Ok(Some(entry.expiry(reader.view())?)),
            }
        })
    }
}

impl Store {
    /// Fills `out` with the string at a key, or leaves `out` empty if the key does not exist.
    /// Returns whether the key existed. O(length).
    #[inline(always)]
    pub fn get<B: TextBuffer>(
        &self,
        database: usize,
        key: &[u8],
        out: &mut B,
    ) -> Result<bool, Error> {
        let key = self.key(key);
        let found = self.access().fetch(database, &key, out)?;
        self.looked_up(database, &key, found);
        Ok(found)
    }

    /// Stores a string without an expiry at a key. O(length).
    #[inline]
    pub fn set(&self, database: usize, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let key = self.key(key);
        // Prefetch memory that is needed soon, so that its latency overlaps with the work in
        // between.
        let home = self.warm_home(database, &key);
        self.check_memory_for(value.len())?;
        self.prefetch_entry(&key, home);
        if let Some(staged) = self.stage(&key, value)? {
            let options = SetOptions {
                condition: Condition::Always,
                expiry: Expiry::Never,
            };
            self.set_large(database, &key, &staged, options)?;
            staged.adopted();
            return Ok(());
        }
        self.write(ShardSet::one(key.shard), |writer| {
            writer.set_inlined(database, &key, value, Expiry::Never)
        })?;
        self.touch_written(&key);
        Ok(())
    }

    /// Stores a string at a key if the condition in `options` is met. Returns whether the string
    /// was stored.
    pub fn set_with(
        &self,
        database: usize,
        key: &[u8],
        value: &[u8],
        options: SetOptions,
    ) -> Result<bool, Error> {
        let key = self.key(key);
        self.check_memory_for(value.len())?;
        if let Some(staged) = self.stage(&key, value)? {
            let done = self.set_large(database, &key, &staged, options)?;
            if done {
                staged.adopted();
            }
            return Ok(done);
        }
        let done = self.write(ShardSet::one(key.shard), |writer| {
            let found = writer.find_slot(database, &key)?;
            let go = options.condition.met(found.is_some());
            if go {
                writer.set_found(database, &key, found, value, options.expiry)?;
            }
            Ok::<_, Error>(go)
        })?;
        self.touch_written(&key);
        Ok(done)
    }

    /// Adds `change` to the integer at a key, which counts as 0 if the key does not exist. Returns
    /// the sum.
    pub fn increment(&self, database: usize, key: &[u8], change: i64) -> Result<i64, Error> {
        self.access().increment(database, key, change)
    }

    /// Removes keys atomically. Returns how many of them existed.
    pub fn delete(&self, database: usize, keys: &[&[u8]]) -> Result<u64, Error> {
        self.access().delete(database, keys)
    }

    /// Counts how many of the keys exist. A key that occurs several times in `keys` is counted each
    /// time.
    pub fn exists(&self, database: usize, keys: &[&[u8]]) -> Result<u64, Error> {
        let access = self.access();
        let keys = self.hash_all(keys);
        let missing = access.missing(database, &keys)?;
        for &position in &missing {
            access.missed(database, &keys[position]);
        }
        access.end_command();
        Ok((keys.len() - missing.len()) as u64)
    }

    /// Returns the strings at several keys, read atomically. An element is `None` if its key does
    /// not exist or holds a value of another type.
    pub fn get_many(&self, database: usize, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let keys = self.hash_all(keys);
        let mut values = Values::default();
        self.access().read_values(database, &keys, &mut values)?;
        for (key, held) in keys.iter().zip(values.iter()) {
            self.looked_up(database, key, held != Held::Missing);
        }
        let texts = values.iter().map(|held| match held {
            Held::Text(text) => Some(text.to_vec()),
            Held::Missing | Held::Other => None,
        });
        Ok(texts.collect())
    }

    /// Stores strings without an expiry at several keys, atomically.
    pub fn set_many(&self, database: usize, pairs: &[(&[u8], &[u8])]) -> Result<(), Error> {
        let keys: Vec<Key<'_>> = pairs.iter().map(|(key, _)| self.key(key)).collect();
        self.check_memory_for(pairs.iter().map(|(_, value)| value.len()).sum())?;
        self.write(self.shards_of(&keys), |writer| {
            for (position, (key, (_, value))) in keys.iter().zip(pairs).enumerate() {
                self.warm_ahead(database, &keys, position);
                writer.set(database, key, value, Expiry::Never)?;
            }
            Ok::<_, Error>(())
        })?;
        keys.iter().for_each(|key| self.touch_written(key));
        Ok(())
    }

    /// Sets a key's expiry to `at`, in Unix milliseconds. If `at` is not in the future, the key is
    /// removed. Returns whether the key existed.
    pub fn expire_at(&self, database: usize, key: &[u8], at: u64) -> Result<bool, Error> {
        let key = self.key(key);
        let found = self.write(ShardSet::one(key.shard), |writer| {
            if writer.has_passed(at) {
                writer.remove(database, &key)
            } else {
                writer.set_expiry(database, &key, Some(at))
            }
        })?;
        if found {
            self.touch_written(&key);
        }
        Ok(found)
    }

    /// Removes a key's expiry. Returns whether the key existed.
    pub fn persist(&self, database: usize, key: &[u8]) -> Result<bool, Error> {
        let key = self.key(key);
        let found = self.write(ShardSet::one(key.shard), |writer| {
            writer.set_expiry(database, &key, None)
        })?;
        if found {
            self.touch_written(&key);
        }
        Ok(found)
    }

    /// Returns the time at which a key expires, in Unix milliseconds. The result is `None` if the
    /// key does not exist, and `Some(None)` if it has no expiry.
    pub fn expiry(&self, database: usize, key: &[u8]) -> Result<Option<Option<u64>>, Error> {
        let access = self.access();
        let expiry = access.expiry(database, key)?;
        if expiry.is_none() {
            access.missed(database, &self.key(key));
            access.end_command();
        }
        Ok(expiry)
    }
}
