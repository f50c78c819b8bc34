//! Implements hashes, which map fields to values.
//!
//! In a small hash, which is packed in one block, fields and values alternate in insertion order. A
//! large hash is a dictionary.

use smallvec::SmallVec;
use undercroft_memory::{ShardSet, View, removing};

use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::random::Random;
use crate::structures::bulk::Draft;
use crate::structures::element::Value;
use crate::structures::elements::{self, Elements};
use crate::structures::entry::{Entry, Form, Kind};
use crate::structures::key::Key;
use crate::structures::packed;
use crate::structures::prefetch::TOGETHER;
use crate::structures::ranges::Ranges;
use crate::structures::removal_method::{RemovalMethod, copy_without};
use crate::transaction::effect::ChangedPart;
use crate::transaction::writer::{Found, Writer, root};
use crate::types::limits::PackedLimits;
use crate::types::string::write::STRING_MAX;
use crate::types::value_type::ValueType;

const HASH: Kind = ValueType::Hash.kind(0);
/// The maximum length of a packed collection in bytes, regardless of the configured limits.
pub(crate) const PACKED_MAX: usize = 64 * 1024;
/// The maximum number of items to add to a packed collection one at a time. A larger batch rebuilds
/// the collection, so that each item is visited only once.
pub(crate) const FEW: usize = 16;

/// The parts of a hash to return, as in HKEYS, HVALS and HGETALL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Returns only the fields.
    Fields,
    /// Returns only the values.
    Values,
    /// Returns each field, followed by its value.
    Both,
}

impl Parts {
    fn fields(self) -> bool {
        self != Parts::Values
    }

    fn values(self) -> bool {
        self != Parts::Fields
    }
}

/// A hash found by a lookup. The hash can be read only through the view that the lookup used.
#[derive(Debug)]
pub struct Hash(Body);

#[derive(Debug)]
enum Body {
    Packed(Vec<u8>),
    Elements(Elements),
}

impl Hash {
    pub(crate) fn of(view: &View<'_>, entry: &Entry) -> Result<Hash, Error> {
        if entry.header.form() == Some(Form::Object) {
            return Ok(Hash(Body::Elements(Elements::to_read(entry)?)));
        }
        let mut bytes = Vec::new();
        entry.append_packed(view, &mut bytes)?;
        Ok(Hash(Body::Packed(bytes)))
    }

    /// Returns the number of fields. O(1) for a large hash.
    pub fn length(&self, view: &View<'_>) -> Result<u64, Error> {
        match &self.0 {
            Body::Packed(bytes) => Ok(packed::count(bytes)? / 2),
            Body::Elements(elements) => Ok(elements.length(view)?),
        }
    }

    /// Returns whether the hash has this field.
    pub fn contains(&self, view: &View<'_>, field: &Key<'_>) -> Result<bool, Error> {
        match &self.0 {
            Body::Packed(bytes) => {
                let place = packed::find_paired(bytes, &packed::form(field.bytes))?;
                Ok(place.is_some())
            }
            Body::Elements(elements) => Ok(elements.find(view, field)?.is_some()),
        }
    }

    /// Prefetches the fields that follow `position`. The caller passes each position in turn while
    /// iterating over `fields`.
    #[inline(always)]
    pub fn warm_ahead(&self, view: &View<'_>, fields: &[Key<'_>], position: usize) {
        if let Body::Elements(elements) = &self.0 {
            elements.warm_ahead(view, fields, position);
        }
    }

    /// Appends the value of a field to `out`. Returns whether the field exists.
    pub fn get(&self, view: &View<'_>, field: &Key<'_>, out: &mut Vec<u8>) -> Result<bool, Error> {
        match &self.0 {
            Body::Packed(bytes) => {
                let place = packed::find_paired(bytes, &packed::form(field.bytes))?;
                if let Some(place) = &place {
                    packed::item_at(bytes, place.end)?.0.append_to(out);
                }
                Ok(place.is_some())
            }
            Body::Elements(elements) => match elements.find(view, field)? {
                Some(element) => {
                    element.append_value(view, out)?;
                    Ok(true)
                }
                None => Ok(false),
            },
        }
    }

    /// Returns the length of a field's value in bytes, or 0 if the field does not exist.
    pub fn value_length(&self, view: &View<'_>, field: &Key<'_>) -> Result<u64, Error> {
        match &self.0 {
            Body::Packed(bytes) => match packed::find_paired(bytes, &packed::form(field.bytes))? {
                Some(place) => Ok(packed::item_at(bytes, place.end)?.0.length() as u64),
                None => Ok(0),
            },
            Body::Elements(elements) => match elements.find(view, field)? {
                Some(element) => element.value_length(view),
                None => Ok(0),
            },
        }
    }

    /// Appends the requested parts of all fields to `out`. O(fields).
    pub fn append_all(&self, view: &View<'_>, parts: Parts, out: &mut Ranges) -> Result<(), Error> {
        match &self.0 {
            Body::Packed(bytes) => append_packed(bytes, parts, out),
            Body::Elements(elements) => elements.for_each(view, |element| {
                if parts.fields() {
                    out.push_with(|out| element.append_key(view, out))?;
                }
                if parts.values() {
                    out.push_with(|out| element.append_value(view, out))?;
                }
                Ok(())
            }),
        }
    }

    /// Appends the next batch of a scan over the hash to `out`, as alternating fields and values;
    /// see [`Store::scan`]. A small hash is returned in a single batch.
    pub fn scan(
        &self,
        view: &View<'_>,
        cursor: u64,
        count: u64,
        out: &mut Ranges,
    ) -> Result<u64, Error> {
        match &self.0 {
            Body::Packed(bytes) => {
                append_packed(bytes, Parts::Both, out)?;
                Ok(0)
            }
            Body::Elements(elements) => elements.scan(view, cursor, count, |element| {
                out.push_with(|out| element.append_key(view, out))?;
                out.push_with(|out| element.append_value(view, out))
            }),
        }
    }

    /// Appends randomly chosen fields, each followed by its value, to `out`. A positive `count`
    /// selects up to `count` distinct fields. A negative `count` selects exactly `-count` fields,
    /// possibly with repetitions.
    pub fn sample(
        &self,
        view: &View<'_>,
        random: &mut Random,
        count: i64,
        out: &mut Ranges,
    ) -> Result<(), Error> {
        match &self.0 {
            Body::Packed(bytes) => {
                let mut all = Ranges::new();
                append_packed(bytes, Parts::Both, &mut all)?;
                for index in random.choose(count, all.len() / 2) {
                    out.push(all.get(index * 2));
                    out.push(all.get(index * 2 + 1));
                }
            }
            Body::Elements(elements) => {
                for element in elements.sample(view, random, count)? {
                    out.push_with(|out| element.append_key(view, out))?;
                    out.push_with(|out| element.append_value(view, out))?;
                }
            }
        }
        Ok(())
    }
}

fn append_packed(bytes: &[u8], parts: Parts, out: &mut Ranges) -> Result<(), Error> {
    let mut push = |item: packed::PackedItem<'_>| {
        out.push_with(|out| {
            item.append_to(out);
            Ok::<_, Error>(())
        })
    };
    let mut items = packed::items(bytes);
    while let Some(field) = items.next() {
        let (field, value) = (field?, items.next().ok_or(packed::DAMAGED)??);
        if parts.fields() {
            push(field)?;
        }
        if parts.values() {
            push(value)?;
        }
    }
    Ok(())
}

impl Reader<'_, '_> {
    /// Looks up the hash at a key. Returns `None` if the key does not exist.
    pub fn hash(&self, database: usize, key: &Key<'_>) -> Result<Option<Hash>, Error> {
        match self.find_type(database, key, ValueType::Hash)? {
            Some(entry) => Ok(Some(Hash::of(self.view, &entry)?)),
            None => Ok(None),
        }
    }

    /// Appends the value of a hash field to `out`. Returns whether the field exists, or `None` if
    /// the key does not exist.
    pub fn hash_get(
        &self,
        database: usize,
        key: &Key<'_>,
        field: &Key<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<bool>, Error> {
        let Some(entry) = self.find_type(database, key, ValueType::Hash)? else {
            return Ok(None);
        };
        if entry.header.form() == Some(Form::Object) {
            let elements = Elements::to_read(&entry)?;
            let found = elements.find(self.view, field)?;
            if let Some(element) = &found {
                element.append_value(self.view, out)?;
            }
            return Ok(Some(found.is_some()));
        }
        // Copy the complete packed hash to the end of `out`, and then trim the copy to the field's
        // value.
        let start = out.len();
        entry.append_packed(self.view, out)?;
        let place = packed::find_paired(&out[start..], &packed::form(field.bytes))?;
        let Some(place) = place else {
            out.truncate(start);
            return Ok(Some(false));
        };
        match packed::item_at(out, start + place.end)? {
            (packed::PackedItem::Text(text), end) => {
                let length = text.len();
                out.copy_within(end - length..end, start);
                out.truncate(start + length);
            }
            (packed::PackedItem::Integer(value), _) => {
                out.truncate(start);
                out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
            }
        }
        Ok(Some(true))
    }
}

impl Writer<'_, '_> {
    /// Looks up the hash at a key. Returns `None` if the key does not exist.
    pub fn hash(&mut self, database: usize, key: &Key<'_>) -> Result<Option<Hash>, Error> {
        match self.find_type(database, key, ValueType::Hash)? {
            Some(found) => Ok(Some(Hash::of(self.view(), &found.entry)?)),
            None => Ok(None),
        }
    }

    /// Sets fields in a hash, creating the key if it does not exist. `pairs` contains alternating
    /// fields and values. Returns the number of new fields.
    ///
    /// # Panics
    /// Panics if the last field has no value.
    pub fn hash_set(
        &mut self,
        database: usize,
        key: &Key<'_>,
        pairs: &[&[u8]],
        limits: &PackedLimits,
    ) -> Result<u64, Error> {
        let (pairs, []) = pairs.as_chunks::<2>() else {
            panic!(
                "expected alternating fields and values, got an odd number: {}",
                pairs.len()
            );
        };
        if pairs
            .as_flattened()
            .iter()
            .any(|text| text.len() as u64 > STRING_MAX)
        {
            return Err(Error::TooLong);
        }
        let found = self.find_type(database, key, ValueType::Hash)?;
        let mut bytes = Vec::new();
        let new = match &found {
            Some(found) if !found.entry.append_packed(self.view(), &mut bytes)? => {
                let mut elements = Elements::to_change(self.view(), key.shard, &found.entry)?;
                let mut new = 0;
                for pairs in pairs.chunks(TOGETHER) {
                    let fields: SmallVec<[&[u8]; TOGETHER]> =
                        pairs.iter().map(|[field, _]| *field).collect();
                    for (field, [_, value]) in
                        elements.group(self.transaction, &fields).iter().zip(pairs)
                    {
                        let length = field.bytes.len() + value.len();
                        let value = Value::of(value);
                        let is_new = elements::set(self.transaction, elements, field, value)?;
                        elements = elements.settle(self.transaction, is_new, length)?;
                        new += u64::from(is_new);
                    }
                }
                new
            }
            _ => self.set_packed(database, key, found, bytes, pairs, limits)?,
        };
        self.free_along(key.shard, pairs.len())?;
        let fields = pairs.iter().map(|[field, _]| ChangedPart::Member(field));
        self.changed_parts(database, key, fields);
        self.tell(KeyEvent::HSet, database, key);
        Ok(new)
    }

    /// Sets fields in a packed hash, and converts the hash to a dictionary if it outgrows the
    /// limits.
    fn set_packed(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Option<Found>,
        mut bytes: Vec<u8>,
        pairs: &[[&[u8]; 2]],
        limits: &PackedLimits,
    ) -> Result<u64, Error> {
        let mut new = 0;
        let mut rest = pairs;
        let long = limits.too_long(pairs.as_flattened());
        if pairs.len() <= FEW && !long {
            bytes.reserve(packed::size_at_most(pairs.as_flattened()));
            for [field, value] in pairs {
                new += u64::from(replace(&mut bytes, field, value)?);
            }
            let fields = packed::count(&bytes)? / 2;
            if fields <= limits.entries && bytes.len() <= PACKED_MAX {
                self.put_packed(database, key, found, HASH, &bytes)?;
                return Ok(new);
            }
            rest = &[];
        }
        let mut all = Ranges::new();
        append_packed(&bytes, Parts::Both, &mut all)?;
        let mut draft = Draft::new(self.transaction.hash_key(), all.len() / 2 + rest.len());
        let fields = 0..all.len() / 2;
        draft.set_all(fields.map(|index| (all.get(index * 2), Value::of(all.get(index * 2 + 1)))));
        new += draft.set_all(rest.iter().map(|[field, value]| (*field, Value::of(value))));
        if !rest.is_empty() && !long && draft.parts().len() as u64 <= limits.entries {
            bytes.clear();
            for part in draft.parts() {
                packed::push(&mut bytes, part.key);
                match part.value {
                    Value::Text(text) => packed::push(&mut bytes, text),
                    Value::Integer(value) => packed::push_integer(&mut bytes, value),
                }
            }
            if bytes.len() <= PACKED_MAX {
                self.put_packed(database, key, found, HASH, &bytes)?;
                return Ok(new);
            }
        }
        let words = draft.make(self.transaction, key.shard)?;
        self.put_object(database, key, found, HASH, &words)?;
        Ok(new)
    }

    /// Removes fields from a hash, and removes the key if no fields are left. Returns the number of
    /// fields removed.
    pub fn hash_delete(
        &mut self,
        database: usize,
        key: &Key<'_>,
        fields: &[&[u8]],
    ) -> Result<u64, Error> {
        let _removing = removing();
        let Some(found) = self.find_type(database, key, ValueType::Hash)? else {
            return Ok(0);
        };
        let mut bytes = Vec::new();
        let mut removed = 0;
        let empty = if found.entry.append_packed(self.view(), &mut bytes)? {
            for field in fields {
                if let Some(place) = packed::find_paired(&bytes, &packed::form(field))? {
                    let (_, end) = packed::item_at(&bytes, place.end)?;
                    bytes.drain(place.start..end);
                    removed += 1;
                }
            }
            if removed > 0 && !bytes.is_empty() {
                self.put_packed(database, key, Some(found), HASH, &bytes)?;
            }
            bytes.is_empty()
        } else {
            let elements = Elements::to_change(self.view(), key.shard, &found.entry)?;
            match RemovalMethod::of(elements, self.transaction, fields)? {
                RemovalMethod::All(all) => {
                    removed = all;
                    true
                }
                RemovalMethod::Most(gone) => {
                    let words = copy_without(self.transaction, elements, &gone)?;
                    self.put_object(database, key, Some(found), HASH, &words)?;
                    self.free_along(key.shard, 0)?;
                    removed = gone.count();
                    false
                }
                RemovalMethod::Each => {
                    self.expect_parts(database, key)?;
                    for group in fields.chunks(TOGETHER) {
                        for field in &elements.group(self.transaction, group) {
                            removed += u64::from(elements.remove(self.transaction, field)?);
                            self.transaction.end_of_part()?;
                        }
                    }
                    elements.length(self.view())? == 0
                }
            }
        };
        if empty {
            self.remove_found(root(database, key), found)?;
        }
        if removed > 0 {
            let parts = fields.iter().map(|field| ChangedPart::Member(field));
            self.taken_parts(database, key, empty, parts);
            self.tell_taken(KeyEvent::HDel, database, key, empty);
        }
        Ok(removed)
    }
}

/// Sets a field in a packed hash. Returns whether the field is new.
fn replace(bytes: &mut Vec<u8>, field: &[u8], value: &[u8]) -> Result<bool, Error> {
    let form = packed::form(field);
    match packed::find_paired(bytes, &form)? {
        Some(place) => {
            let (_, end) = packed::item_at(bytes, place.end)?;
            bytes.splice(place.end..end, packed::form(value));
            Ok(false)
        }
        None => {
            bytes.extend_from_slice(&form);
            packed::push(bytes, value);
            Ok(true)
        }
    }
}

impl Store {
    /// Fills `out` with the value of a hash field, or leaves `out` empty if the field does not
    /// exist. Returns whether the field exists. O(length) for a large hash, O(fields) for a small
    /// hash.
    pub fn hash_get(
        &self,
        database: usize,
        key: &[u8],
        field: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let (key, field) = (self.key(key), self.key(field));
        let found = self.read_into(ShardSet::one(key.shard), out, |reader, out| {
            reader.hash_get(database, &key, &field, out)
        })?;
        self.looked_up(database, &key, found.is_some());
        Ok(found == Some(true))
    }

    /// Sets a field in a hash, creating the key if it does not exist. Returns whether the field is
    /// new. O(1) for a large hash, O(fields) for a small hash.
    pub fn hash_set(
        &self,
        database: usize,
        key: &[u8],
        field: &[u8],
        value: &[u8],
        limits: &PackedLimits,
    ) -> Result<bool, Error> {
        let key = self.key(key);
        self.check_memory_for(field.len() + value.len())?;
        let new = self.write(ShardSet::one(key.shard), |writer| {
            let new = writer.hash_set(database, &key, &[field, value], limits)?;
            Ok::<_, Error>(new == 1)
        })?;
        self.touch_written(&key);
        Ok(new)
    }
}
