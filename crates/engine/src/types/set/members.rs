//! Reads, adds, removes and combines the members of sets.
//!
//! A small set of integers is sorted and packed in one block. Any other small set is packed in
//! insertion order. A large set is a dictionary whose elements have no values.

use std::collections::BTreeSet;

use undercroft_memory::{ShardSet, View, removing};
use undercroft_numbers::parse_integer;

use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::random::Random;
use crate::structures::bulk::{self, Draft, Part};
use crate::structures::elements::{self, Elements, Group};
use crate::structures::entry::{Entry, Form, Kind};
use crate::structures::key::Key;
use crate::structures::packed;
use crate::structures::prefetch::TOGETHER;
use crate::structures::ranges::Ranges;
use crate::structures::removal_method::{RemovalMethod, copy_without};
use crate::transaction::effect::{ChangedPart, Effect};
use crate::transaction::writer::{Found, Writer, root};
use crate::types::hash::PACKED_MAX;
use crate::types::limits::PackedLimits;
use crate::types::set::intset::{self, IntSet};
use crate::types::string::write::STRING_MAX;
use crate::types::value_type::ValueType;

/// The kind of a set that contains only integers.
const INTEGERS: Kind = ValueType::Set.kind(0);
/// The kind of every set that is not an integer set. Like a Redis hash table, such a set never
/// becomes an integer set again.
const TEXTS: Kind = ValueType::Set.kind(1);
/// The maximum size of a set of texts that stays packed.
const SMALL: PackedLimits = PackedLimits {
    entries: 128,
    value: 64,
};

/// A set found by a lookup. The set can be read only through the view that the lookup used.
#[derive(Debug)]
pub struct Set(Body);

#[derive(Debug)]
enum Body {
    Integers(Vec<u8>),
    Texts(Vec<u8>),
    Elements(Elements),
}

/// An operation that combines several sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperation {
    /// Selects the members that are in all sets.
    Intersection,
    /// Selects the members that are in at least one set.
    Union,
    /// Selects the members of the first set that are in no other set.
    Difference,
}

impl Set {
    pub(crate) fn of(view: &View<'_>, entry: &Entry) -> Result<Set, Error> {
        if entry.header.form() == Some(Form::Object) {
            return Ok(Set(Body::Elements(Elements::to_read(entry)?)));
        }
        let mut bytes = Vec::new();
        entry.append_packed(view, &mut bytes)?;
        Ok(Set(if entry.header.detail() == INTEGERS.detail {
            Body::Integers(bytes)
        } else {
            Body::Texts(bytes)
        }))
    }

    /// Returns whether the set is packed in one block.
    pub fn is_small(&self) -> bool {
        !matches!(self.0, Body::Elements(_))
    }

    /// Returns the number of members. O(1) for a large set.
    pub fn length(&self, view: &View<'_>) -> Result<u64, Error> {
        match &self.0 {
            Body::Integers(bytes) => Ok(IntSet::of(bytes)?.length() as u64),
            Body::Texts(bytes) => Ok(packed::count(bytes)?),
            Body::Elements(elements) => Ok(elements.length(view)?),
        }
    }

    /// Returns whether the set contains a member.
    pub fn contains(&self, view: &View<'_>, member: &Key<'_>) -> Result<bool, Error> {
        Ok(match &self.0 {
            Body::Integers(bytes) => {
                let value = parse_integer(member.bytes);
                let set = IntSet::of(bytes)?;
                value.is_some_and(|value| set.contains(value))
            }
            Body::Texts(bytes) => packed::find(bytes, &packed::form(member.bytes))?.is_some(),
            Body::Elements(elements) => elements.find(view, member)?.is_some(),
        })
    }

    /// Prefetches the members that follow `position`. The caller passes each position in turn while
    /// iterating over `members`.
    #[inline(always)]
    pub fn warm_ahead(&self, view: &View<'_>, members: &[Key<'_>], position: usize) {
        if let Body::Elements(elements) = &self.0 {
            elements.warm_ahead(view, members, position);
        }
    }

    /// Appends all members to `out`. O(members).
    pub fn append_all(&self, view: &View<'_>, out: &mut Ranges) -> Result<(), Error> {
        match &self.0 {
            Body::Integers(bytes) => {
                for value in IntSet::of(bytes)?.iter() {
                    out.push(itoa::Buffer::new().format(value).as_bytes());
                }
                Ok(())
            }
            Body::Texts(bytes) => append_packed(bytes, out),
            Body::Elements(elements) => elements.for_each(view, |element| {
                out.push_with(|out| element.append_key(view, out))
            }),
        }
    }

    /// Appends the next batch of a scan over the set to `out`; see [`Store::scan`]. A small set is
    /// returned in a single batch.
    pub fn scan(
        &self,
        view: &View<'_>,
        cursor: u64,
        count: u64,
        out: &mut Ranges,
    ) -> Result<u64, Error> {
        match &self.0 {
            Body::Elements(elements) => elements.scan(view, cursor, count, |element| {
                out.push_with(|out| element.append_key(view, out))
            }),
            _ => {
                self.append_all(view, out)?;
                Ok(0)
            }
        }
    }

    /// Appends randomly chosen members to `out`. A positive `count` selects up to `count` distinct
    /// members. A negative `count` selects exactly `-count` members, possibly with repetitions.
    pub fn sample(
        &self,
        view: &View<'_>,
        random: &mut Random,
        count: i64,
        out: &mut Ranges,
    ) -> Result<(), Error> {
        if let Body::Elements(elements) = &self.0 {
            for element in elements.sample(view, random, count)? {
                out.push_with(|out| element.append_key(view, out))?;
            }
            return Ok(());
        }
        let mut all = Ranges::new();
        self.append_all(view, &mut all)?;
        for index in random.choose(count, all.len()) {
            out.push(all.get(index));
        }
        Ok(())
    }
}

/// Appends the members of a packed set of texts to `out`.
fn append_packed(bytes: &[u8], out: &mut Ranges) -> Result<(), Error> {
    for item in packed::items(bytes) {
        let item = item?;
        out.push_with(|out| {
            item.append_to(out);
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}

/// Returns the union of several sets in ascending order if all of them are packed integer sets,
/// otherwise `None`. Redis returns the union of integer sets in ascending order.
fn integers_of(sets: &[&Set]) -> Result<Option<BTreeSet<i64>>, Error> {
    let mut all = BTreeSet::new();
    for set in sets {
        let Body::Integers(bytes) = &set.0 else {
            return Ok(None);
        };
        all.extend(IntSet::of(bytes)?.iter());
    }
    Ok(Some(all))
}

/// Returns whether Redis encodes a difference as a hash table even if only integers remain. If the
/// other sets have few members, Redis removes these members from a copy of the first set, and the
/// copy keeps its encoding (`sunionDiffGenericCommand` in t_set.c).
fn leaves_texts(view: &View<'_>, sets: &[Option<Set>], integers: u64) -> Result<bool, Error> {
    let Some(Some(first)) = sets.first() else {
        return Ok(false);
    };
    let length = first.length(view)?;
    let (mut looked_up, mut taken_out) = (0, 0);
    for set in sets.iter().flatten() {
        looked_up += length;
        taken_out += set.length(view)?;
    }
    if looked_up / 2 <= taken_out {
        return Ok(false);
    }
    if length > integers {
        return Ok(true);
    }
    let mut members = Ranges::new();
    first.append_all(view, &mut members)?;
    Ok(members.iter().any(|member| parse_integer(member).is_none()))
}

/// Appends the result of a set operation to `out`, up to `limit` members. A missing set counts as
/// empty.
fn combine(
    store: &Store,
    view: &View<'_>,
    sets: &[Option<Set>],
    operation: SetOperation,
    limit: usize,
    out: &mut Ranges,
) -> Result<(), Error> {
    let mut others: Vec<&Set> = sets.iter().flatten().collect();
    if operation == SetOperation::Union {
        if let Some(all) = integers_of(&others)? {
            for value in all {
                out.push(itoa::Buffer::new().format(value).as_bytes());
            }
            return Ok(());
        }
        let mut all = Ranges::new();
        for set in others {
            set.append_all(view, &mut all)?;
        }
        let mut draft = Draft::new(store.segment.hash_key(), all.len());
        draft.add(all.iter());
        draft.parts().iter().for_each(|part| out.push(part.key));
        return Ok(());
    }
    let first = match operation {
        // Start with the smallest set, because it has the fewest members to look up in the other
        // sets.
        SetOperation::Intersection if others.len() == sets.len() => {
            let mut sized = Vec::with_capacity(others.len());
            for set in others {
                sized.push((set.length(view)?, set));
            }
            sized.sort_by_key(|(length, _)| *length);
            others = sized.into_iter().map(|(_, set)| set).collect();
            others.remove(0)
        }
        SetOperation::Difference if sets.first().is_some_and(Option::is_some) => others.remove(0),
        _ => return Ok(()),
    };
    let wanted = operation == SetOperation::Intersection;
    let mut few = Ranges::new();
    if operation == SetOperation::Difference {
        // Collect the members of all packed sets in a hash table, because each lookup in a packed
        // set is a linear search.
        for small in others.iter().filter(|other| other.is_small()) {
            small.append_all(view, &mut few)?;
        }
        others.retain(|other| !other.is_small());
    }
    let mut gone = Draft::new(store.segment.hash_key(), few.len());
    gone.add(few.iter());
    let mut members = Ranges::new();
    first.append_all(view, &mut members)?;
    let mut members = members.iter();
    while out.len() < limit {
        // Look up a batch of members in each of the other sets, so that the batch's lookups are
        // prefetched together.
        let mut left: Group<'_> = members
            .by_ref()
            .take(TOGETHER)
            .map(|member| store.key(member))
            .collect();
        if left.is_empty() {
            break;
        }
        left.retain(|key| !gone.has(key));
        for other in &others {
            other.warm_ahead(view, &left, 0);
            let mut kept = Group::new();
            for key in &left {
                if other.contains(view, key)? == wanted {
                    kept.push(*key);
                }
            }
            left = kept;
        }
        left.iter()
            .take(limit - out.len())
            .for_each(|key| out.push(key.bytes));
    }
    Ok(())
}

impl Reader<'_, '_> {
    /// Looks up the set at a key. Returns `None` if the key does not exist.
    pub fn set(&self, database: usize, key: &Key<'_>) -> Result<Option<Set>, Error> {
        match self.find_type(database, key, ValueType::Set)? {
            Some(entry) => Ok(Some(Set::of(self.view, &entry)?)),
            None => Ok(None),
        }
    }

    /// Appends the result of a set operation on several keys to `out`, up to `limit` members. A
    /// missing key counts as an empty set. O(members of all sets).
    pub fn combine_sets(
        &self,
        database: usize,
        keys: &[Key<'_>],
        operation: SetOperation,
        limit: usize,
        out: &mut Ranges,
    ) -> Result<(), Error> {
        let sets = keys.iter().map(|key| self.set(database, key));
        let sets = sets.collect::<Result<Vec<_>, _>>()?;
        combine(self.store, self.view, &sets, operation, limit, out)
    }
}

/// Distinct members for a new set, prepared as far as possible before a lock is acquired.
pub struct NewMembers<'m> {
    parts: Vec<Part<'m>>,
}

impl<'m> NewMembers<'m> {
    /// Prepares `members`, which must be distinct.
    pub fn of(store: &Store, members: &'m Ranges) -> NewMembers<'m> {
        let parts = bulk::parts_of(store.segment.hash_key(), members);
        NewMembers { parts }
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl Writer<'_, '_> {
    /// Looks up the set at a key. Returns `None` if the key does not exist. The name is not `set`,
    /// because [`set`](Self::set) stores a string.
    pub fn find_set(&mut self, database: usize, key: &Key<'_>) -> Result<Option<Set>, Error> {
        match self.find_type(database, key, ValueType::Set)? {
            Some(found) => Ok(Some(Set::of(self.view(), &found.entry)?)),
            None => Ok(None),
        }
    }

    /// Appends the result of a set operation on several keys to `out`, like
    /// [`Reader::combine_sets`]. `integers` is the maximum length of an integer set. Returns the
    /// limit to pass when storing the result: `integers`, or 0 if Redis stores the result as a hash
    /// table.
    pub fn combine_sets(
        &mut self,
        database: usize,
        keys: &[Key<'_>],
        operation: SetOperation,
        integers: u64,
        out: &mut Ranges,
    ) -> Result<u64, Error> {
        let sets = self.find_sets(database, keys)?;
        combine(self.store, self.view(), &sets, operation, usize::MAX, out)?;
        self.integers_left(&sets, operation, integers)
    }

    /// Returns the limit that [`combine_sets`](Self::combine_sets) returns, for a caller that
    /// already knows the combined members.
    pub fn combined_sets(
        &mut self,
        database: usize,
        keys: &[Key<'_>],
        operation: SetOperation,
        integers: u64,
    ) -> Result<u64, Error> {
        let sets = self.find_sets(database, keys)?;
        self.integers_left(&sets, operation, integers)
    }

    fn find_sets(&mut self, database: usize, keys: &[Key<'_>]) -> Result<Vec<Option<Set>>, Error> {
        keys.iter()
            .map(|key| self.find_set(database, key))
            .collect()
    }

    fn integers_left(
        &self,
        sets: &[Option<Set>],
        operation: SetOperation,
        integers: u64,
    ) -> Result<u64, Error> {
        let is_difference = operation == SetOperation::Difference;
        let has_texts = is_difference && leaves_texts(self.view(), sets, integers)?;
        Ok(if has_texts { 0 } else { integers })
    }

    /// Adds members to a set, creating the key if it does not exist. `integers` is the maximum
    /// length of an integer set. Returns the number of new members.
    pub fn set_add(
        &mut self,
        database: usize,
        key: &Key<'_>,
        members: &[&[u8]],
        integers: u64,
    ) -> Result<u64, Error> {
        if members.iter().any(|text| text.len() as u64 > STRING_MAX) {
            return Err(Error::TooLong);
        }
        let found = self.find_type(database, key, ValueType::Set)?;
        let mut bytes = Vec::new();
        let new = match &found {
            Some(found) if !found.entry.append_packed(self.view(), &mut bytes)? => {
                let mut elements = Elements::to_change(self.view(), key.shard, &found.entry)?;
                let mut new = 0;
                for group in members.chunks(TOGETHER) {
                    for member in &elements.group(self.transaction, group) {
                        let is_new = elements::add(self.transaction, elements, member)?;
                        let length = member.bytes.len();
                        elements = elements.settle(self.transaction, is_new, length)?;
                        new += u64::from(is_new);
                    }
                }
                new
            }
            Some(Found { entry, .. }) if entry.header.detail() == TEXTS.detail => {
                self.add_texts(database, key, found, bytes, members)?
            }
            _ => self.add_integers(database, key, found, bytes, members, integers)?,
        };
        if new > 0 {
            self.free_along(key.shard, members.len())?;
            let parts = members.iter().map(|member| ChangedPart::Member(member));
            self.changed_parts(database, key, parts);
            self.tell(KeyEvent::SAdd, database, key);
        }
        Ok(new)
    }

    /// Adds members to an integer set, and converts the set to another encoding if necessary.
    fn add_integers(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Option<Found>,
        mut bytes: Vec<u8>,
        members: &[&[u8]],
        integers: u64,
    ) -> Result<u64, Error> {
        let leading = members.iter().map_while(|member| parse_integer(member));
        let values: Vec<i64> = leading.collect();
        let rest = &members[values.len()..];
        let new = intset::insert_all(&mut bytes, values)?;
        let set = IntSet::of(&bytes)?;
        if rest.is_empty() && set.length() as u64 <= integers && bytes.len() <= PACKED_MAX {
            if new > 0 {
                self.put_packed(database, key, found, INTEGERS, &bytes)?;
            }
            return Ok(new);
        }
        let mut digits = itoa::Buffer::new();
        if set.length() as u64 > SMALL.entries {
            let mut old = Ranges::new();
            for value in set.iter() {
                old.push(digits.format(value).as_bytes());
            }
            return Ok(new + self.make_set(database, key, found, &old, rest)?);
        }
        let mut texts = Vec::new();
        for value in set.iter() {
            packed::push(&mut texts, digits.format(value).as_bytes());
        }
        // `new` is the number of integers that were added, and `add_texts` returns the number of
        // new members in `rest`.
        Ok(new + self.add_texts(database, key, found, texts, rest)?)
    }

    /// Adds members to a packed set of texts, and converts the set to a dictionary if it outgrows
    /// the limits.
    fn add_texts(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Option<Found>,
        mut bytes: Vec<u8>,
        members: &[&[u8]],
    ) -> Result<u64, Error> {
        let (mut new, mut rest) = (0, members);
        let mut count = packed::count(&bytes)?;
        // For a batch that can stay packed, a linear search for each member is faster than building
        // a hash table. A larger batch does not fit in a packed set.
        if !SMALL.too_long(members) && members.len() as u64 <= SMALL.entries {
            bytes.reserve(packed::size_at_most(members));
            for member in members {
                let form = packed::form(member);
                if packed::find(&bytes, &form)?.is_none() {
                    bytes.extend_from_slice(&form);
                    new += 1;
                }
            }
            count += new;
            if count <= SMALL.entries {
                let was_texts =
                    matches!(&found, Some(found) if found.entry.header.detail() == TEXTS.detail);
                if new > 0 || !was_texts {
                    self.put_packed(database, key, found, TEXTS, &bytes)?;
                }
                return Ok(new);
            }
            rest = &[];
        }
        let mut old = Ranges::new();
        append_packed(&bytes, &mut old)?;
        Ok(new + self.make_set(database, key, found, &old, rest)?)
    }

    /// Stores a large set at a key. The members in `old` must be distinct. Returns the number of
    /// members in `more` that are new.
    fn make_set(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Option<Found>,
        old: &Ranges,
        more: &[&[u8]],
    ) -> Result<u64, Error> {
        let mut draft = Draft::new(self.transaction.hash_key(), old.len() + more.len());
        draft.add(old.iter());
        draft.add(more.iter().copied());
        let words = draft.make(self.transaction, key.shard)?;
        self.put_object(database, key, found, TEXTS, &words)?;
        Ok((draft.parts().len() - old.len()) as u64)
    }

    /// Removes members from a set, and removes the key if no members are left. Returns the number
    /// of members removed.
    pub fn set_remove(
        &mut self,
        database: usize,
        key: &Key<'_>,
        members: &[&[u8]],
    ) -> Result<u64, Error> {
        self.set_take(database, key, members, KeyEvent::SRem)
    }

    fn set_take(
        &mut self,
        database: usize,
        key: &Key<'_>,
        members: &[&[u8]],
        event: KeyEvent,
    ) -> Result<u64, Error> {
        let _removing = removing();
        let Some(found) = self.find_type(database, key, ValueType::Set)? else {
            return Ok(0);
        };
        let mut bytes = Vec::new();
        let mut removed = 0;
        let empty = if found.entry.append_packed(self.view(), &mut bytes)? {
            let integers = found.entry.header.detail() == INTEGERS.detail;
            for member in members {
                let there = if integers {
                    match parse_integer(member) {
                        Some(value) => intset::remove(&mut bytes, value)?,
                        None => false,
                    }
                } else {
                    let place = packed::find(&bytes, &packed::form(member))?;
                    place.map(|place| bytes.drain(place)).is_some()
                };
                removed += u64::from(there);
            }
            let empty = if integers {
                IntSet::of(&bytes)?.length() == 0
            } else {
                bytes.is_empty()
            };
            if removed > 0 && !empty {
                let kind = if integers { INTEGERS } else { TEXTS };
                self.put_packed(database, key, Some(found), kind, &bytes)?;
            }
            empty
        } else {
            let elements = Elements::to_change(self.view(), key.shard, &found.entry)?;
            match RemovalMethod::of(elements, self.transaction, members)? {
                RemovalMethod::All(all) => {
                    removed = all;
                    true
                }
                RemovalMethod::Most(gone) => {
                    let words = copy_without(self.transaction, elements, &gone)?;
                    self.put_object(database, key, Some(found), TEXTS, &words)?;
                    self.free_along(key.shard, 0)?;
                    removed = gone.count();
                    false
                }
                RemovalMethod::Each => {
                    self.expect_parts(database, key)?;
                    for group in members.chunks(TOGETHER) {
                        for member in &elements.group(self.transaction, group) {
                            removed += u64::from(elements.remove(self.transaction, member)?);
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
            let parts = members.iter().map(|member| ChangedPart::Member(member));
            self.taken_parts(database, key, empty, parts);
            self.tell_taken(event, database, key, empty);
        }
        Ok(removed)
    }

    /// Removes up to `count` randomly chosen members and appends them to `out`. Removes the key if
    /// no members are left. Returns whether the key existed.
    pub fn set_pop(
        &mut self,
        database: usize,
        key: &Key<'_>,
        random: &mut Random,
        count: u64,
        out: &mut Ranges,
    ) -> Result<bool, Error> {
        let Some(set) = self.find_set(database, key)? else {
            return Ok(false);
        };
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        set.sample(self.view(), random, count, out)?;
        if out.len() as u64 == set.length(self.view())? {
            self.remove_quietly(database, key)?;
            self.tell_taken(KeyEvent::SPop, database, key, true);
        } else {
            let members: Vec<&[u8]> = out.iter().collect();
            self.set_take(database, key, &members, KeyEvent::SPop)?;
        }
        Ok(true)
    }

    /// Replaces the value of a key with a set that contains exactly the given members and has no
    /// expiry. If `members` is empty, removes the key.
    pub fn set_store(
        &mut self,
        database: usize,
        key: &Key<'_>,
        members: &NewMembers<'_>,
        integers: u64,
    ) -> Result<(), Error> {
        self.remove(database, key)?;
        if members.len() as u64 <= integers.max(SMALL.entries) {
            let members: Vec<&[u8]> = members.parts.iter().map(|part| part.key).collect();
            if !members.is_empty() {
                self.set_add(database, key, &members, integers)?;
            }
            return Ok(());
        }
        let words = bulk::make_in(self.transaction, key.shard, &members.parts)?;
        self.put_object(database, key, None, TEXTS, &words)?;
        self.changed(database, key, Effect::Changed);
        self.tell(KeyEvent::SAdd, database, key);
        Ok(())
    }
}

impl Store {
    /// Adds a member to a set, creating the key if it does not exist. Returns whether the member is
    /// new. O(1) for a large set, O(members) for a small set.
    pub fn set_add(
        &self,
        database: usize,
        key: &[u8],
        member: &[u8],
        integers: u64,
    ) -> Result<bool, Error> {
        let key = self.key(key);
        self.check_memory_for(member.len())?;
        let new = self.write(ShardSet::one(key.shard), |writer| {
            let new = writer.set_add(database, &key, &[member], integers)?;
            Ok::<_, Error>(new == 1)
        })?;
        self.touch_written(&key);
        Ok(new)
    }

    /// Returns whether a set contains a member. O(1) for a large set, O(members) for a small set.
    pub fn set_contains(&self, database: usize, key: &[u8], member: &[u8]) -> Result<bool, Error> {
        let (key, member) = (self.key(key), self.key(member));
        let found = self.read(ShardSet::one(key.shard), |reader| {
            match reader.set(database, &key)? {
                None => Ok::<_, Error>(None),
                Some(set) => Ok(Some(set.contains(reader.view(), &member)?)),
            }
        })?;
        self.looked_up(database, &key, found.is_some());
        Ok(found == Some(true))
    }
}
