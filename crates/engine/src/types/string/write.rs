//! Sets, increments, appends to and partly overwrites strings.

use undercroft_memory::{Offset, ShardSet, Staged, SuspendedBlock};
use undercroft_numbers::parse_integer;

use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::handle::store::Store;
use crate::structures::dictionary;
use crate::structures::entry::{Entry, Form, Header, INLINE_MAX, Kind, entry_size};
use crate::structures::key::Key;
use crate::structures::roots::{EXPIRES, Root};
use crate::transaction::access::Access;
use crate::transaction::effect::{ChangedPart, Effect};
use crate::transaction::writer::{Expiry, Found, Writer, root};
use crate::types::string::hot::{Condition, SetOptions};
use crate::types::string::text::Text;
use crate::types::value_type::ValueType;

/// The maximum length of a string in bytes.
pub const STRING_MAX: u64 = 512 << 20;
/// The maximum size in bytes of an entry that is overwritten in place. The undo log keeps the old
/// contents.
const IN_PLACE_MAX: u64 = 1024;
/// The minimum length in bytes of a value that is copied into the store before the lock is
/// acquired.
const STAGED_MIN: usize = 256 * 1024;
/// The maximum number of bytes that a change overwrites in place. The undo log has to store
/// overwritten bytes, so a larger change builds a new block instead.
const LOGGED_CHANGE_MAX: u64 = 64 * 1024;
/// The maximum spare room in bytes. A string that outgrows its block gets spare room equal to its
/// length, up to this limit.
pub(crate) const GROWTH_MAX: u64 = 1 << 20;

/// A value in its stored form.
pub(crate) enum Stored<'v> {
    Integer(i64),
    Bytes(&'v [u8]),
    Staged(&'v Staged<'v>),
    /// A packed collection.
    Packed(Kind, &'v [u8]),
    /// The root words of an object.
    Object(Kind, &'v [u8]),
}

impl<'v> Stored<'v> {
    /// Chooses the stored form of a string, which is an integer if the string is the canonical
    /// decimal text of an integer, otherwise bytes.
    #[inline]
    fn of(value: &'v [u8]) -> Result<Stored<'v>, Error> {
        match value.len() {
            1..=20 => Ok(parse_integer(value).map_or(Stored::Bytes(value), Stored::Integer)),
            length if length as u64 > STRING_MAX => Err(Error::TooLong),
            _ => Ok(Stored::Bytes(value)),
        }
    }
}

impl Store {
    /// Copies a large value into the store without holding a lock, for [`Writer::set_staged`].
    /// Returns `None` if the value is too small to benefit from staging.
    #[inline(always)]
    pub fn stage(&self, key: &Key<'_>, value: &[u8]) -> Result<Option<Staged<'_>>, Error> {
        match value.len() {
            0..STAGED_MIN => Ok(None),
            _ => self.stage_large(key, value).map(Some),
        }
    }

    #[cold]
    fn stage_large(&self, key: &Key<'_>, value: &[u8]) -> Result<Staged<'_>, Error> {
        let mut staged = self.stage_room(key, value.len() as u64)?;
        staged.fill(0, value);
        Ok(staged)
    }

    /// Allocates memory for a string of `length` bytes. The caller fills the memory and passes it
    /// to [`set_staged`](Self::set_staged). The memory counts as used immediately, so
    /// [check](Self::check_memory_for) the limit before this call and not again afterwards.
    pub fn stage_room(&self, key: &Key<'_>, length: u64) -> Result<Staged<'_>, Error> {
        if length > STRING_MAX {
            return Err(Error::TooLong);
        }
        loop {
            match self.segment.stage(key.shard, length) {
                Err(undercroft_memory::Error::OutOfMemory)
                    if self.reclaim(|| false)? || self.evict_for_space()? => {}
                staged => return Ok(staged?),
            }
        }
    }

    /// Returns a handle for filling memory that was [put down](Staged::put_down) earlier.
    pub fn take_up(&self, staged: SuspendedBlock) -> Staged<'_> {
        self.segment.take_up(staged)
    }

    /// Stores a string without an expiry at a key. The string must be longer than 20 bytes and must
    /// be in memory that [`stage_room`](Self::stage_room) returned for the same key.
    ///
    /// # Errors
    /// Any error of [`set`](Self::set), together with the staged memory, so that the caller can
    /// retry or free it.
    pub fn set_staged<'s>(
        &self,
        database: usize,
        key: &Key<'_>,
        staged: Staged<'s>,
    ) -> Result<(), (Error, Staged<'s>)> {
        self.set_staged_until(database, key, staged, Expiry::Never)
    }

    /// Stores a staged string with the given expiry at a key; see [`set_staged`](Self::set_staged).
    ///
    /// # Errors
    /// Any error of [`set_staged`](Self::set_staged), together with the staged memory.
    pub fn set_staged_until<'s>(
        &self,
        database: usize,
        key: &Key<'_>,
        staged: Staged<'s>,
        expiry: Expiry,
    ) -> Result<(), (Error, Staged<'s>)> {
        let options = SetOptions {
            condition: Condition::Always,
            expiry,
        };
        match self.set_large(database, key, &staged, options) {
            Ok(_) => {
                staged.adopted();
                Ok(())
            }
            Err(error) => Err((error, staged)),
        }
    }

    /// Stores a large string that was copied into the store outside the lock. Returns whether the
    /// condition was met, in which case the caller must call [`Staged::adopted`].
    #[cold]
    pub(crate) fn set_large(
        &self,
        database: usize,
        key: &Key<'_>,
        staged: &Staged<'_>,
        options: SetOptions,
    ) -> Result<bool, Error> {
        let done = self.write(ShardSet::one(key.shard), |writer| {
            let found = writer.find_slot(database, key)?;
            let go = options.condition.met(found.is_some());
            if go {
                writer.put(database, key, found, Stored::Staged(staged), options.expiry)?;
                writer.tell_set(database, key, options.expiry);
            }
            Ok::<_, Error>(go)
        })?;
        self.touch_written(key);
        Ok(done)
    }
}

impl Writer<'_, '_> {
    /// Stores a string at a key, replacing any existing value.
    pub fn set(
        &mut self,
        database: usize,
        key: &Key<'_>,
        value: &[u8],
        expiry: Expiry,
    ) -> Result<(), Error> {
        self.set_inlined(database, key, value, expiry)
    }

    /// Stores a string like [`set`](Self::set), but is always inlined, because [`Store::set`] is
    /// called frequently.
    #[inline(always)]
    pub(super) fn set_inlined(
        &mut self,
        database: usize,
        key: &Key<'_>,
        value: &[u8],
        expiry: Expiry,
    ) -> Result<(), Error> {
        let found = self.find_slot(database, key)?;
        self.set_found(database, key, found, value, expiry)
    }

    /// Stores either `value` or a string that was staged outside the lock. For a staged string, the
    /// caller must call [`Staged::adopted`] after the commit.
    pub(crate) fn set_or_adopt(
        &mut self,
        database: usize,
        key: &Key<'_>,
        value: &[u8],
        staged: Option<&Staged<'_>>,
        expiry: Expiry,
    ) -> Result<(), Error> {
        let Some(staged) = staged else {
            return self.set(database, key, value, expiry);
        };
        let found = self.find_slot(database, key)?;
        self.put(database, key, found, Stored::Staged(staged), expiry)?;
        self.tell_set(database, key, expiry);
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn set_found(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Option<Found>,
        value: &[u8],
        expiry: Expiry,
    ) -> Result<(), Error> {
        let stored = Stored::of(value)?;
        self.put(database, key, found, stored, expiry)?;
        self.tell_set(database, key, expiry);
        Ok(())
    }

    /// Emits the events for a key that was set, including the expire event if the key has an
    /// expiry.
    #[inline(always)]
    fn tell_set(&mut self, database: usize, key: &Key<'_>, expiry: Expiry) {
        self.tell(KeyEvent::Set, database, key);
        if let Expiry::At(_) = expiry {
            self.tell(KeyEvent::Expire, database, key);
        }
    }

    /// Stores a value that [`Store::stage`] copied into the store for this key. The caller must
    /// call [`Staged::adopted`] after the commit.
    pub fn set_staged(
        &mut self,
        database: usize,
        key: &Key<'_>,
        staged: &Staged<'_>,
        expiry: Expiry,
    ) -> Result<(), Error> {
        let found = self.find_slot(database, key)?;
        self.put(database, key, found, Stored::Staged(staged), expiry)?;
        self.tell_set(database, key, expiry);
        Ok(())
    }

    /// Stores a string as text even if it represents an integer, as INCRBYFLOAT does. Emits no
    /// event.
    pub fn set_text(
        &mut self,
        database: usize,
        key: &Key<'_>,
        value: &[u8],
        expiry: Expiry,
    ) -> Result<(), Error> {
        let found = self.find_slot(database, key)?;
        self.put(database, key, found, Stored::Bytes(value), expiry)
    }

    /// Stores an integer at a key. Emits no event.
    pub fn set_integer(
        &mut self,
        database: usize,
        key: &Key<'_>,
        value: i64,
        expiry: Expiry,
    ) -> Result<(), Error> {
        let found = self.find_slot(database, key)?;
        self.put(database, key, found, Stored::Integer(value), expiry)
    }

    /// Stores a value at a key. Reports a string as changed; for a collection, the caller does.
    #[inline]
    pub(crate) fn put(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Option<Found>,
        stored: Stored<'_>,
        expiry: Expiry,
    ) -> Result<(), Error> {
        let expiry = match (expiry, &found) {
            (Expiry::Never, _) | (Expiry::Keep, None) => None,
            (Expiry::At(time), _) => Some(time),
            (Expiry::Keep, Some(found)) => found.entry.expiry(self.view())?,
        };
        if let Some(expiry) = expiry {
            self.note_deadline(root(database, key), expiry)?;
        }
        let word;
        let string = ValueType::String.kind(0);
        let (kind, form, bytes, length) = match stored {
            Stored::Integer(value) => {
                word = value.to_le_bytes();
                (string, Form::Integer, &word[..], 8)
            }
            Stored::Bytes(bytes) => (string, Form::Inline, bytes, bytes.len() as u64),
            Stored::Staged(staged) => (string, Form::Block, &[][..], staged.length()),
            Stored::Packed(kind, bytes) => (kind, Form::Inline, bytes, bytes.len() as u64),
            Stored::Object(kind, bytes) => (kind, Form::Object, bytes, bytes.len() as u64),
        };
        // The caller that stores a collection reports which part of it changed.
        let is_string = !matches!(stored, Stored::Packed(..) | Stored::Object(..));
        let key_length = key.bytes.len() as u64;
        let mut header = Header::new(kind, form, key_length, length, expiry.is_some());
        let size = entry_size(header, key_length);
        if let Some(found) = &found
            && size <= IN_PLACE_MAX
            && matches!(form, Form::Inline | Form::Integer)
            && self.overwrite(key.shard, &found.entry, header, expiry, bytes, size)?
        {
            if is_string {
                self.changed(database, key, Effect::Changed);
            }
            return Ok(());
        }
        let block = match stored {
            Stored::Staged(staged) => Some(self.transaction.adopt(staged)?),
            // A short value stays inline even if the key alone exceeds the limit.
            Stored::Bytes(bytes) | Stored::Packed(_, bytes) if size > INLINE_MAX && length > 8 => {
                let at = self.transaction.allocate(key.shard, length)?;
                self.transaction.fill(at, bytes)?;
                Some(at)
            }
            _ => None,
        };
        let offset = block.unwrap_or(0).to_le_bytes();
        let inline = match block {
            None => bytes,
            Some(_) => {
                header = Header::new(kind, Form::Block, key_length, length, expiry.is_some());
                &offset
            }
        };
        let at = self.new_entry(key.shard, header, key.bytes, expiry, inline, 0)?;
        let root = root(database, key);
        match is_string {
            true => self.put_entry(root, key, found, at, expiry.is_some()),
            false => self.replace_entry(root, key, found, at, expiry.is_some()),
        }
    }

    /// Points a key to a new entry, frees the old value, and records the key as changed.
    fn put_entry(
        &mut self,
        root: Root,
        key: &Key<'_>,
        found: Option<Found>,
        entry: Offset,
        expires: bool,
    ) -> Result<(), Error> {
        self.changed(root.database, key, Effect::Changed);
        self.replace_entry(root, key, found, entry, expires)
    }

    /// Points a key to a new entry and frees the old value. Unlike [`put_entry`](Self::put_entry),
    /// does not record the key as changed, because the new entry may contain the same value in
    /// another form.
    pub(crate) fn replace_entry(
        &mut self,
        root: Root,
        key: &Key<'_>,
        found: Option<Found>,
        entry: Offset,
        expires: bool,
    ) -> Result<(), Error> {
        let Some(old) = found else {
            self.insert(root, key.hash, entry, expires)?;
            self.tell(KeyEvent::New, root.database, key);
            return Ok(());
        };
        self.discard_value(root.shard, &old.entry)?;
        self.swap_entry(root, &old, entry, expires)
    }

    /// Points a key to a new entry that took over the old value's block.
    fn swap_entry(
        &mut self,
        root: Root,
        old: &Found,
        entry: Offset,
        expires: bool,
    ) -> Result<(), Error> {
        self.transaction.free(root.shard, old.entry.at);
        dictionary::replace(self.transaction, root.shard, old.slot, entry)?;
        match (old.entry.header.expires(), expires) {
            (false, true) => root.add(self.transaction, EXPIRES, 1),
            (true, false) => root.add(self.transaction, EXPIRES, -1),
            _ => Ok(()),
        }
    }

    /// Overwrites a value in place if the new value needs a block of the same size and layout.
    /// Returns whether it was overwritten.
    #[inline]
    fn overwrite(
        &mut self,
        shard: usize,
        old: &Entry,
        header: Header,
        expiry: Option<u64>,
        bytes: &[u8],
        size: u64,
    ) -> Result<bool, Error> {
        if header != old.header {
            // The caller replaces an entry whose block size or layout must change.
            if old.header.expires() != header.expires()
                || !matches!(old.header.form(), Some(Form::Inline | Form::Integer))
                || old.header.raw()
                || undercroft_memory::block_size(old.size()) != undercroft_memory::block_size(size)
            {
                return Ok(false);
            }
            self.transaction.store(shard, old.at, header.0)?;
        }
        if let Some(expiry) = expiry {
            self.transaction.store(shard, old.at + 8, expiry)?;
        }
        self.transaction.write(shard, old.value_at(), bytes)?;
        Ok(true)
    }

    /// Adds `change` to the integer at a key, which counts as 0 if the key does not exist. Returns
    /// the sum.
    pub fn increment(&mut self, database: usize, key: &Key<'_>, change: i64) -> Result<i64, Error> {
        let found = self.find_slot(database, key)?;
        let old = match &found {
            None => 0,
            Some(found) => match found.entry.text(self.view())? {
                Text::Integer(value) => value,
                Text::Bytes(_, length) if length > 20 => return Err(Error::NotAnInteger),
                text => {
                    let mut bytes = Vec::new();
                    text.append_to(self.view(), &mut bytes)?;
                    parse_integer(&bytes).ok_or(Error::NotAnInteger)?
                }
            },
        };
        let sum = old.checked_add(change).ok_or(Error::Overflow)?;
        match found {
            Some(found) if found.entry.header.form() == Some(Form::Integer) => {
                let at = found.entry.value_at();
                self.transaction.store(key.shard, at, sum as u64)?;
                self.changed(database, key, Effect::Changed);
            }
            found => self.put(database, key, found, Stored::Integer(sum), Expiry::Keep)?,
        }
        self.tell(KeyEvent::IncrBy, database, key);
        Ok(sum)
    }

    /// Appends bytes to the string at a key. Returns the new length.
    pub fn append(&mut self, database: usize, key: &Key<'_>, bytes: &[u8]) -> Result<u64, Error> {
        let length = match self.find_slot(database, key)? {
            None => {
                self.put(database, key, None, Stored::of(bytes)?, Expiry::Never)?;
                bytes.len() as u64
            }
            Some(found) => {
                let length = found.entry.text(self.view())?.length();
                self.change(database, key, found, length, bytes)?
            }
        };
        self.tell(KeyEvent::Append, database, key);
        Ok(length)
    }

    /// Overwrites part of the string at a key, starting at `position`. If the string is shorter
    /// than `position`, it is padded with zeros. Returns the new length. Does nothing if `bytes` is
    /// empty.
    pub fn set_range(
        &mut self,
        database: usize,
        key: &Key<'_>,
        position: u64,
        bytes: &[u8],
    ) -> Result<u64, Error> {
        let found = self.find_slot(database, key)?;
        if bytes.is_empty() {
            return match found {
                Some(found) => Ok(found.entry.text(self.view())?.length()),
                None => Ok(0),
            };
        }
        if position > STRING_MAX || position + bytes.len() as u64 > STRING_MAX {
            return Err(Error::TooLong);
        }
        let length = match found {
            Some(found) => self.change(database, key, found, position, bytes)?,
            None => {
                let mut value = vec![0; position as usize];
                value.extend_from_slice(bytes);
                self.replace_raw(database, key, None, &value, 0)?;
                value.len() as u64
            }
        };
        self.tell(KeyEvent::SetRange, database, key);
        Ok(length)
    }

    /// Writes bytes at a position in an existing string. The position can be at or past the end.
    fn change(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Found,
        position: u64,
        bytes: &[u8],
    ) -> Result<u64, Error> {
        let text = found.entry.text(self.view())?;
        let old_length = text.length();
        let end = position + bytes.len() as u64;
        let length = old_length.max(end);
        if length > STRING_MAX {
            return Err(Error::TooLong);
        }
        let changed_old = old_length.saturating_sub(position).min(bytes.len() as u64);
        if let Text::Bytes(at, _) = text
            && changed_old <= LOGGED_CHANGE_MAX
            && length <= self.room(key.shard, &found.entry)?
        {
            self.change_in_place(key.shard, &found.entry, at, old_length, position, bytes)?;
            // The bytes between the old end and the position became zeros.
            let part = ChangedPart::Bytes {
                position: position.min(old_length),
                length: end - position.min(old_length),
            };
            self.changed_parts(database, key, [part]);
            return Ok(length);
        }
        let mut value = Vec::with_capacity(length as usize);
        text.append_to(self.view(), &mut value)?;
        value.resize(length as usize, 0);
        value[position as usize..end as usize].copy_from_slice(bytes);
        let slack = if old_length == 0 {
            0
        } else {
            length.min(GROWTH_MAX)
        };
        self.replace_raw(database, key, Some(found), &value, slack)?;
        Ok(length)
    }

    /// Returns the maximum length in bytes to which the value can grow in its current block, or 0
    /// if the value is pinned (R7).
    pub(crate) fn room(&mut self, shard: usize, entry: &Entry) -> Result<u64, Error> {
        Ok(match entry.block(self.view())? {
            Some(block) if self.transaction.is_pinned(block)? => 0,
            Some(block) => self.transaction.block_size(shard, block)?,
            None => {
                let block = self.transaction.block_size(shard, entry.at)?;
                block - (entry.value_at() - entry.at)
            }
        })
    }

    pub(crate) fn change_in_place(
        &mut self,
        shard: usize,
        entry: &Entry,
        at: Offset,
        old_length: u64,
        position: u64,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let end = position + bytes.len() as u64;
        // Build complete words, from the first changed word to the last. The words consist of the
        // old bytes, zeros up to the position, and the new bytes.
        let first = position.min(old_length) / 8 * 8;
        let last = end.next_multiple_of(8);
        let old_end = old_length.min(last);
        let mut words = Vec::with_capacity((last - first) as usize);
        if old_end > first {
            self.view()
                .append_to(at + first, old_end - first, &mut words)?;
        }
        words.resize((last - first) as usize, 0);
        words[(position - first) as usize..(end - first) as usize].copy_from_slice(bytes);
        // Log only bytes that readers can reach, that is, bytes before the old end (W4).
        if old_end > first {
            self.transaction
                .preserve(shard, at + first, old_end - first)?;
        }
        let length = old_length.max(end);
        let header = entry.header.changed_in_place(length);
        self.transaction.fill(at + first, &words)?;
        if header != entry.header {
            self.transaction.store(shard, entry.at, header.0)?;
        }
        Ok(())
    }

    /// Replaces the value of a key with a string that has `slack` spare bytes, and marks the string
    /// as changed in place.
    fn replace_raw(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Option<Found>,
        value: &[u8],
        slack: u64,
    ) -> Result<(), Error> {
        let expiry = match &found {
            Some(found) => found.entry.expiry(self.view())?,
            None => None,
        };
        let (key_length, length) = (key.bytes.len() as u64, value.len() as u64);
        let header = |form| {
            Header::new(
                ValueType::String.kind(0),
                form,
                key_length,
                length,
                expiry.is_some(),
            )
            .as_raw()
        };
        let inline = header(Form::Inline);
        let at = if entry_size(inline, key_length) + slack > INLINE_MAX && length > 8 {
            let block = self.transaction.allocate(key.shard, length + slack)?;
            self.transaction.fill(block, value)?;
            self.new_entry(
                key.shard,
                header(Form::Block),
                key.bytes,
                expiry,
                &block.to_le_bytes(),
                0,
            )?
        } else {
            self.new_entry(key.shard, inline, key.bytes, expiry, value, slack)?
        };
        self.put_entry(root(database, key), key, found, at, expiry.is_some())
    }
}

impl<'a> Access<'a> {
    /// Copies a large value into the store without holding a lock; see [`Store::stage`]. Returns
    /// `None` within a transaction, because staging itself acquires locks.
    pub fn stage(&self, key: &Key<'_>, value: &[u8]) -> Result<Option<Staged<'a>>, Error> {
        match self.running {
            None => self.store.stage(key, value),
            Some(_) => Ok(None),
        }
    }

    /// Stores a staged string at a key; see [`Store::set_staged`]. Must not be called within a
    /// transaction.
    pub fn set_staged<'s>(
        &self,
        database: usize,
        key: &Key<'_>,
        staged: Staged<'s>,
    ) -> Result<(), (Error, Staged<'s>)> {
        self.store.set_staged(database, key, staged)
    }
}
