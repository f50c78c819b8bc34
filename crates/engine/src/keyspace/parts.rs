//! Reads large collections in parts (W9). Reading a part holds no lock, and each part is so short
//! that a conflicting write rarely forces a retry.
//!
//! The keys are watched during the reads. If no key has changed by the last part, all parts belong
//! to one consistent state. A command can then process the items without a lock for as long as it
//! needs. A command that stores its result checks under its locks that the keys are still
//! unchanged.

use std::time::Duration;

use undercroft_memory::{ShardSet, limit_patience};

use crate::error::Error;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::structures::bulk::{Draft, in_order_of_buckets};
use crate::structures::key::Key;
use crate::structures::ranges::Ranges;
use crate::transaction::access::Access;
use crate::transaction::watch::Watch;
use crate::transaction::writer::Writer;
use crate::types::set::SetOperation;
use crate::types::sorted::{Bounds, Limit};
use crate::types::value_type::ValueType;

/// The minimum total number of items in all keys for reading in parts. Fewer items are read in a
/// single step.
const MANY: u64 = 10_000;
/// The number of items in a part.
const PART: u64 = 512;
/// The maximum time to wait for the locks needed to start watching the keys.
const MOMENT: Duration = Duration::from_millis(1);
/// The number of attempts if other clients keep changing the keys during the reads.
const ATTEMPTS: u32 = 2;

/// The items of several keys, read from one consistent state.
pub struct Gathered {
    watches: Vec<Watch>,
    /// The type and the items of each key. The members of a set are distinct and in no particular
    /// order.
    pub collections: Vec<(ValueType, Ranges)>,
}

/// The position at which the next part starts, or `None` after the last part.
type Next = Option<u64>;

impl Reader<'_, '_> {
    /// Returns the type and the number of items of a list, set or sorted set. A missing key counts
    /// as a list of 0 items. Returns `None` for a key of another type.
    fn size_of_collection(
        &self,
        database: usize,
        key: &Key<'_>,
    ) -> Result<Option<(ValueType, u64)>, Error> {
        let Some(entry) = self.find(database, key)? else {
            return Ok(Some((ValueType::List, 0)));
        };
        let value_type = entry.value_type()?;
        let size = match value_type {
            ValueType::List => self.list_length(database, key)?,
            ValueType::Set => match self.set(database, key)? {
                Some(set) => set.length(self.view())?,
                None => 0,
            },
            ValueType::SortedSet => match self.sorted_set(database, key)? {
                Some(set) => set.length(self.view())?,
                None => 0,
            },
            _ => return Ok(None),
        };
        Ok(Some((value_type, size)))
    }

    /// Appends a part of a collection to `out`. Returns the start of the next part.
    fn part_of_collection(
        &self,
        database: usize,
        key: &Key<'_>,
        position: u64,
        out: &mut Ranges,
    ) -> Result<Next, Error> {
        let Some(entry) = self.find(database, key)? else {
            return Ok(None);
        };
        let (first, last) = (position as i64, (position + PART - 1) as i64);
        match entry.value_type()? {
            ValueType::List => {
                self.list_range(database, key, (first, last), out)?;
            }
            ValueType::SortedSet => {
                let bounds = Bounds::Ranks(first, last);
                if let Some(set) = self.sorted_set(database, key)? {
                    set.append_members(self.view(), &bounds, Limit::ALL, false, out)?;
                }
            }
            ValueType::Set => {
                let next = match self.set(database, key)? {
                    Some(set) => set.scan(self.view(), position, PART, out)?,
                    None => 0,
                };
                return Ok((next != 0).then_some(next));
            }
            _ => return Ok(None),
        }
        Ok((out.len() as u64 == PART).then_some(position + PART))
    }
}

impl Access<'_> {
    /// Reads the items of lists, sets and sorted sets in parts. Returns `None` if the caller must
    /// read them directly because there are few items, a transaction is running, a key has another
    /// type, the store is read-only, a lock is held, or other clients keep changing the keys.
    ///
    /// # Errors
    /// Fails if reading the keys or [watching](Self::watch) them fails.
    pub fn gather(&self, database: usize, keys: &[Key<'_>]) -> Result<Option<Gathered>, Error> {
        if self.is_running() || !self.store.writable() {
            return Ok(None);
        }
        for _ in 0..ATTEMPTS {
            let mut sizes = Vec::with_capacity(keys.len());
            for key in keys {
                let size = self.read(ShardSet::one(key.shard), |reader| {
                    reader.size_of_collection(database, key)
                })?;
                match size {
                    Some(size) => sizes.push(size),
                    None => return Ok(None),
                }
            }
            if sizes.iter().map(|(_, size)| size).sum::<u64>() < MANY {
                return Ok(None);
            }
            let watches = match self.watch_soon(database, keys) {
                Ok(watches) => watches,
                Err(error) if error.is_busy() => return Ok(None),
                Err(error) => return Err(error),
            };
            let mut collections = Vec::with_capacity(keys.len());
            for (key, (value_type, size)) in keys.iter().zip(sizes) {
                let Some(items) = self.gather_one(database, key, size)? else {
                    break;
                };
                let items = match value_type {
                    ValueType::Set => self.store.each_once(&[&items]),
                    _ => items,
                };
                collections.push((value_type, items));
            }
            let gathered = Gathered {
                watches,
                collections,
            };
            if gathered.collections.len() == keys.len() && gathered.is_unchanged(self)? {
                return Ok(Some(gathered));
            }
        }
        Ok(None)
    }

    /// Starts watching keys. Gives up after a millisecond if a lock is held, because the lock would
    /// also delay the rest of the command.
    fn watch_soon(&self, database: usize, keys: &[Key<'_>]) -> Result<Vec<Watch>, Error> {
        let _limited = limit_patience(MOMENT);
        self.watch(database, keys.iter().map(|key| key.bytes))
    }

    /// Reads all parts of a collection. Returns `None` if the collection has grown considerably
    /// since its size was read.
    fn gather_one(
        &self,
        database: usize,
        key: &Key<'_>,
        size: u64,
    ) -> Result<Option<Ranges>, Error> {
        let (mut items, mut part, mut position) = (Ranges::new(), Ranges::new(), 0);
        loop {
            let next = self.read_into(ShardSet::one(key.shard), &mut part, |reader, part| {
                reader.part_of_collection(database, key, position, part)
            })?;
            part.iter().for_each(|item| items.push(item));
            match next {
                None => return Ok(Some(items)),
                // A walk over a set can visit members twice during a resize.
                Some(_) if items.len() as u64 > size * 3 + MANY => return Ok(None),
                Some(next) => position = next,
            }
        }
    }
}

impl Gathered {
    fn is_unchanged(&self, access: &Access<'_>) -> Result<bool, Error> {
        for watch in &self.watches {
            if !access.is_unchanged(watch)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether the keys are still unchanged. `writer`'s transaction must have locked the
    /// shards of these keys.
    ///
    /// # Errors
    /// Fails if reading the keys fails.
    pub fn still_holds(&self, writer: &Writer<'_, '_>) -> Result<bool, Error> {
        for watch in &self.watches {
            if !writer.is_unchanged(watch)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Combines the collections as sets. Returns the members in the order in which they can be
    /// stored fastest, or `None` if a collection is not a set.
    pub fn combine(&self, store: &Store, operation: SetOperation) -> Option<Ranges> {
        let is_set = |(value_type, items): &(ValueType, Ranges)| {
            // A missing key counts as an empty set.
            *value_type == ValueType::Set || *value_type == ValueType::List && items.is_empty()
        };
        if !self.collections.iter().all(is_set) {
            return None;
        }
        let mut sets: Vec<&Ranges> = self.collections.iter().map(|(_, items)| items).collect();
        let secret = store.segment.hash_key();
        if operation == SetOperation::Union {
            return Some(in_order_of_buckets(secret, &store.each_once(&sets)));
        }
        if operation == SetOperation::Intersection {
            // Start with the smallest set, so that the fewest members are looked up in the other
            // sets.
            sets.sort_by_key(|set| set.len());
        }
        let (first, others) = sets.split_first()?;
        let others: Vec<Draft<'_>> = others
            .iter()
            .map(|set| {
                let mut draft = Draft::new(secret, set.len());
                draft.add(set.iter());
                draft
            })
            .collect();
        let mut left = Ranges::new();
        for member in first.iter() {
            let key = store.key(member);
            let stays = match operation {
                SetOperation::Difference => !others.iter().any(|other| other.has(&key)),
                _ => others.iter().all(|other| other.has(&key)),
            };
            if stays {
                left.push(member);
            }
        }
        Some(in_order_of_buckets(secret, &left))
    }
}

impl Store {
    /// Returns the items of all `collections`, without duplicates.
    fn each_once(&self, collections: &[&Ranges]) -> Ranges {
        let all = collections.iter().map(|items| items.len()).sum();
        let mut draft = Draft::new(self.segment.hash_key(), all);
        for items in collections {
            draft.add(items.iter());
        }
        let mut once = Ranges::new();
        draft.parts().iter().for_each(|part| once.push(part.key));
        once
    }
}
