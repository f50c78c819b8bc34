//! What the types that are not strings share: finding a key that holds one,
//! storing one, and getting rid of it.

use undercroft_memory::View;

use crate::entry::{Entry, Form, Kind, ValueType};
use crate::error::Error;
use crate::list::{self, Ranges};
use crate::store::{Key, Reader};
use crate::strings::Stored;
use crate::writer::{Expiry, Found, Writer};

impl Entry {
    /// Appends the bytes of a collection in one piece to `out`; false where it
    /// is an object.
    pub(crate) fn append_packed(&self, view: &View<'_>, out: &mut Vec<u8>) -> Result<bool, Error> {
        let at = match self.header.form() {
            Some(Form::Inline) => self.value_at(),
            Some(Form::Block) => view.word(self.value_at())?,
            Some(Form::Object) => return Ok(false),
            _ => return Err(self.fault().into()),
        };
        // R3: a torn length must not make us allocate.
        view.recheck()?;
        view.append_to(at, self.header.value_length(), out)?;
        Ok(true)
    }

    /// Appends the whole value to `out`, as a flat list: the string; the items
    /// of a list. O(value).
    pub fn append_items(&self, view: &View<'_>, out: &mut Ranges) -> Result<(), Error> {
        match self.value_type()? {
            ValueType::String => {
                self.text(view)?.append_to(view, &mut out.bytes)?;
                out.end_item();
                Ok(())
            }
            ValueType::List => list::append_all(view, self, out),
            _ => Err(self.fault().into()),
        }
    }

    fn expect(self, value_type: ValueType) -> Result<Entry, Error> {
        if self.value_type()? == value_type {
            Ok(self)
        } else {
            Err(Error::WrongType)
        }
    }
}

impl Reader<'_, '_> {
    /// Looks up a key that must hold a value of one type.
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
    /// Looks up a key that must hold a value of one type.
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

    /// Lets a key hold a collection in one piece; its expiry stays. What it
    /// held before is discarded.
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

    /// Lets a key hold an object with these root words; its expiry stays. What
    /// it held before is discarded.
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

    /// Frees what an entry refers to; the entry itself is the caller's.
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

    /// Lets what an object consists of be freed later, in small steps (W8).
    #[cold]
    fn discard_object(&mut self, shard: usize, entry: &Entry) -> Result<(), Error> {
        match entry.value_type()? {
            ValueType::List => list::discard(self.transaction, shard.into(), entry),
            _ => Err(entry.fault().into()),
        }
    }
}

/// The root words with which another key takes over an object (`take`), or
/// those of a copy of it. O(1) where it stays in its shard, else O(elements).
pub(crate) fn hand_over(
    writer: &mut Writer<'_, '_>,
    entry: &Entry,
    from: usize,
    to: usize,
    take: bool,
) -> Result<Vec<u8>, Error> {
    if take && from == to {
        let mut words = Vec::new();
        let length = entry.header.value_length();
        writer
            .view()
            .append_to(entry.value_at(), length, &mut words)?;
        return Ok(words);
    }
    let words = match entry.value_type()? {
        ValueType::List => list::copy(writer.transaction, entry, to.into())?,
        _ => return Err(entry.fault().into()),
    };
    if take {
        writer.discard_value(from, entry)?;
    }
    Ok(to_bytes(&words))
}

/// Root words as they lie in an entry.
fn to_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
