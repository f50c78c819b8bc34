//! Provides the operations that all types share, such as looking up a key of a given type, storing
//! a value, and discarding a value.

use undercroft_memory::{Offset, Report, Transaction, View};

use crate::error::Error;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::structures::check::Check;
use crate::structures::detached;
use crate::structures::entry::{Entry, Form, Kind};
use crate::structures::key::Key;
use crate::structures::ranges::Ranges;
use crate::transaction::writer::{Expiry, Found, Writer};
use crate::types::contract::Object;
use crate::types::limits::Limits;
use crate::types::string::write::Stored;
use crate::types::value_type::ValueType;

impl Entry {
    /// Appends the bytes of a packed collection to `out`. Returns `false` if the value is an
    /// object.
    pub(crate) fn append_packed(&self, view: &View<'_>, out: &mut Vec<u8>) -> Result<bool, Error> {
        let at = match self.header.form() {
            Some(Form::Inline) => self.value_at(),
            Some(Form::Block) => view.word(self.value_at())?,
            Some(Form::Object) => return Ok(false),
            _ => return Err(self.fault().into()),
        };
        // Revalidate the view first, because a torn length could cause a huge allocation (R3).
        view.recheck()?;
        view.append_to(at, self.header.value_length(), out)?;
        Ok(true)
    }

    /// Appends the complete value to `out` as a flat list. The list consists of the string itself,
    /// the items of a list, the alternating fields and values of a hash, the members of a set, or
    /// the members of a sorted set in order, each followed by its score as text. O(value).
    pub fn append_items(&self, view: &View<'_>, out: &mut Ranges) -> Result<(), Error> {
        self.value_type()?.contract().append_items(view, self, out)
    }

    /// Returns the object operations for this value's type. The value must be stored as an object.
    pub(crate) fn object(&self) -> Result<&'static dyn Object, Error> {
        let object = self.value_type()?.contract().object();
        object.ok_or_else(|| self.fault().into())
    }

    pub(crate) fn expect(self, value_type: ValueType) -> Result<Entry, Error> {
        if self.value_type()? == value_type {
            Ok(self)
        } else {
            Err(Error::WrongType)
        }
    }
}

impl Reader<'_, '_> {
    /// Looks up a key. Fails with [`Error::WrongType`] if the key exists and its value has a
    /// different type.
    pub(crate) fn find_type(
        &self,
        database: usize,
        key: &Key<'_>,
        value_type: ValueType,
    ) -> Result<Option<Entry>, Error> {
        match self.find(database, key)? {
            Some(entry) => entry.expect(value_type).map(Some),
            None => Ok(None),
        }
    }
}

impl Writer<'_, '_> {
    /// Looks up a key. Fails with [`Error::WrongType`] if the key exists and its value has a
    /// different type.
    pub(crate) fn find_type(
        &mut self,
        database: usize,
        key: &Key<'_>,
        value_type: ValueType,
    ) -> Result<Option<Found>, Error> {
        match self.find_slot(database, key)? {
            Some(found) => found.entry.expect(value_type).map(|_| Some(found)),
            None => Ok(None),
        }
    }

    /// Replaces the value of a key with the flat list `items`, in the format of
    /// [`Entry::append_items`]. If the type is a collection and `items` is empty, the key is
    /// removed. O(value).
    ///
    /// # Panics
    /// Panics if the last field of a hash has no value.
    pub fn put_items(
        &mut self,
        database: usize,
        key: &Key<'_>,
        value_type: ValueType,
        items: &Ranges,
        expiry: Option<u64>,
        limits: &Limits,
    ) -> Result<(), Error> {
        self.remove(database, key)?;
        self.add_items(database, key, value_type, items, limits)?;
        if expiry.is_some() {
            self.set_expiry(database, key, expiry)?;
        }
        Ok(())
    }

    /// Adds `items`, part of a flat list, to the collection at a key, creating the key if it does
    /// not exist. If the type is a string, its value is replaced instead. O(items).
    ///
    /// # Panics
    /// Panics if the last field of a hash has no value.
    pub fn add_items(
        &mut self,
        database: usize,
        key: &Key<'_>,
        value_type: ValueType,
        items: &Ranges,
        limits: &Limits,
    ) -> Result<(), Error> {
        let all: Vec<&[u8]> = items.iter().collect();
        if all.is_empty() && value_type != ValueType::String {
            return Ok(());
        }
        let place = (database, key);
        value_type.contract().add_items(self, place, &all, limits)
    }

    /// Stores a packed collection at a key and discards the old value. Keeps the expiry.
    pub(crate) fn put_packed(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Option<Found>,
        kind: Kind,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let stored = Stored::Packed(kind, bytes);
        self.put(database, key, found, stored, Expiry::Keep)
    }

    /// Stores an object with the root words `words` at a key and discards the old value. Keeps the
    /// expiry.
    pub(crate) fn put_object(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Option<Found>,
        kind: Kind,
        words: &[u64],
    ) -> Result<(), Error> {
        let bytes = to_bytes(words);
        let stored = Stored::Object(kind, &bytes);
        self.put(database, key, found, stored, Expiry::Keep)
    }
}

/// Queues the memory of an object, so that it is freed later in small steps (W8). If the object has
/// an arena, the arena is queued as one unit.
pub(crate) fn discard_object(
    transaction: &mut Transaction<'_>,
    shard: usize,
    entry: &Entry,
) -> Result<(), Error> {
    let object = entry.object()?;
    let pool = object.pool(transaction.view(), shard, entry)?;
    if pool.arena() != 0 {
        return detached::bury_arena(transaction, pool);
    }
    object.discard(transaction, pool, entry)
}

/// Returns the root words for another key that takes over an object (if `take` is set) or receives
/// a copy. O(1) if the key takes over the object and the object either stays in its shard or has an
/// arena, otherwise O(elements).
pub(crate) fn hand_over(
    writer: &mut Writer<'_, '_>,
    entry: &Entry,
    from: usize,
    to: usize,
    take: bool,
) -> Result<Vec<u8>, Error> {
    if take && from == to {
        return words_of(writer.view(), entry);
    }
    let object = entry.object()?;
    let source = object.pool(writer.view(), from, entry)?;
    if take && source.arena() != 0 {
        // The root words stay valid because they refer to the arena, not to its shard.
        detached::transfer_arena(writer.transaction, source, to)?;
        return words_of(writer.view(), entry);
    }
    let pool = if source.arena() == 0 {
        to.into()
    } else {
        writer.transaction.create_arena(to)?
    };
    let words = object.copy(writer.transaction, from, entry, pool)?;
    if take {
        writer.discard_value(from, entry)?;
    }
    Ok(to_bytes(&words))
}

/// Returns the bytes of an object's root words.
fn words_of(view: &View<'_>, entry: &Entry) -> Result<Vec<u8>, Error> {
    let mut words = Vec::new();
    view.append_to(entry.value_at(), entry.header.value_length(), &mut words)?;
    Ok(words)
}

/// Converts root words to the byte layout of an entry.
fn to_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Calls `reach` with every block of an object that has no arena, except the blocks of its entry.
/// The caller must hold the shard's lock, because the walk does not detect concurrent changes. The
/// blocks total at most 64 KiB, because a larger object has an arena.
///
/// # Errors
/// Fails if the object is damaged.
pub(crate) fn for_each_block(
    store: &Store,
    view: &View<'_>,
    shard: usize,
    entry: &Entry,
    reach: &mut dyn FnMut(Offset),
) -> Result<(), Error> {
    let mut check = Check {
        view,
        shard,
        reach,
        report: &mut Report::default(),
        secret: store.segment.hash_key(),
    };
    entry.object()?.check(&mut check, entry)
}
