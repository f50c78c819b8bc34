//! The dictionary of a large collection, which contains the fields of a hash or the members of a
//! set. Its root words are in the entry of the collection's key.

use std::collections::HashSet;

use smallvec::SmallVec;
use undercroft_memory::{Block, Fault, Offset, Pool, Transaction, View, block_size};

use crate::error::Error;
use crate::random::Random;
use crate::structures::dictionary::{
    self, BUCKET, Dictionary, RootWords, Table, first_candidate, for_each_in_chain, home,
};
use crate::structures::dictionary_change;
use crate::structures::element::{Element, Value};
use crate::structures::entry::Entry;
use crate::structures::graveyard;
use crate::structures::key::{Key, hash};
use crate::structures::prefetch::{Ahead, TOGETHER};
use crate::structures::roots::{ARENA, ELEMENTS_WORDS, KEYS, NEXT_BITS, NEXT_TABLE};
use crate::structures::walk::scan_bucket;

/// The number of buckets visited between two revalidations of the view (R3).
const RECHECK_EVERY: u64 = 64;
/// The maximum length of chains whose elements are picked uniformly. Elements in longer chains are
/// slightly less likely to be picked.
const CHAIN_TYPICAL: u64 = 16;
/// The number of random buckets tried before the search falls back to the next nonempty bucket.
const TRIES: u64 = 512;
/// The maximum number of positions that one call visits for each requested element, as in Redis.
const EMPTY_FACTOR: u64 = 10;
/// The minimum size in bytes of a collection that gets its own arena, a separate memory area (H4).
pub(crate) const OUTGROWN: u64 = 64 * 1024;
/// The minimum length in bytes of a long element, after which the size of the collection is always
/// measured.
const WIDE: usize = 1024;
/// The distance in bytes from the start of an element to the second cache line to prefetch.
const NEXT_LINE: u64 = 64;

/// A group of keys that are looked up together, in order.
pub(crate) type Group<'k> = SmallVec<[Key<'k>; TOGETHER]>;

/// The dictionary of a large collection, which contains its elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements {
    /// The offset of the dictionary's root words.
    pub(crate) at: Offset,
    /// The pool from which blocks are allocated.
    pub(crate) pool: Pool,
}

impl RootWords for Block<'_> {
    #[inline(always)]
    fn word(&self, word: usize) -> Result<u64, Fault> {
        Block::word(self, word as u64 * 8)
    }
}

impl Dictionary for Elements {
    type Item = Element;
    type Words<'v> = Block<'v>;

    /// The limit is higher than for a database, which saves a fifth of the memory for each element.
    /// In return, a few elements are found only in the second bucket of their chain.
    const FULL: u64 = 8;

    #[inline(always)]
    fn pool(self) -> Pool {
        self.pool
    }

    #[inline(always)]
    fn word(self, view: &View<'_>, word: usize) -> Result<u64, Fault> {
        view.word(self.at.wrapping_add(word as u64 * 8))
    }

    #[inline(always)]
    fn words<'v>(self, view: &View<'v>) -> Result<Block<'v>, Fault> {
        view.block(self.at)
    }

    #[inline(always)]
    fn set_word(
        self,
        transaction: &mut Transaction<'_>,
        word: usize,
        value: u64,
    ) -> Result<(), Error> {
        Ok(transaction.store(self.pool.shard(), self.at + word as u64 * 8, value)?)
    }

    #[inline(always)]
    fn load_if_key(view: &View<'_>, at: Offset, key: &[u8]) -> Result<Option<Element>, Fault> {
        Element::load_if_key(view, at, key)
    }

    fn append_key(view: &View<'_>, at: Offset, out: &mut Vec<u8>) -> Result<(), Error> {
        Element::load(view, at)?.append_key(view, out)
    }
}

/// Returns a key for lookups in a collection's dictionary.
pub(crate) fn element_key(secret: [u64; 2], bytes: &[u8]) -> Key<'_> {
    Key {
        bytes,
        hash: hash(secret, bytes),
        shard: 0,
    }
}

/// Returns the pool in a shard for a new collection of `bytes` bytes.
pub(crate) fn new_pool(
    transaction: &mut Transaction<'_>,
    shard: usize,
    bytes: u64,
) -> Result<Pool, Error> {
    if bytes < OUTGROWN {
        return Ok(shard.into());
    }
    Ok(transaction.create_arena(shard)?)
}

/// Sets the value of an element. Returns whether the element is new.
pub(crate) fn set(
    transaction: &mut Transaction<'_>,
    root: Elements,
    key: &Key<'_>,
    value: Value<'_>,
) -> Result<bool, Error> {
    let pool = root.pool();
    if let Some((slot, element)) = dictionary::find_slot(transaction.view(), root, key)? {
        if let Some(at) = element.change(transaction, pool, key.bytes, value)? {
            dictionary::replace(transaction, pool.shard(), slot, at)?;
        }
        return Ok(false);
    }
    let at = Element::create(transaction, &mut { pool }, key.bytes, value)?;
    dictionary_change::insert(transaction, root, key.hash, at)?;
    Ok(true)
}

/// Adds an element with an empty value. Returns whether the element is new.
pub(crate) fn add(
    transaction: &mut Transaction<'_>,
    root: Elements,
    key: &Key<'_>,
) -> Result<bool, Error> {
    if dictionary::find_slot(transaction.view(), root, key)?.is_some() {
        return Ok(false);
    }
    let at = Element::create(transaction, &mut root.pool(), key.bytes, Value::Text(b""))?;
    dictionary_change::insert(transaction, root, key.hash, at)?;
    Ok(true)
}

impl Elements {
    /// Returns the dictionary of a large collection for reading only, without determining its pool.
    #[inline(always)]
    pub(crate) fn to_read(entry: &Entry) -> Result<Elements, Fault> {
        if entry.header.value_length() != ELEMENTS_WORDS as u64 * 8 {
            return Err(entry.fault());
        }
        Ok(Elements::at(entry.value_at()))
    }

    /// Returns the dictionary with root words at `at`, for reading only.
    pub(crate) fn at(at: Offset) -> Elements {
        Elements {
            at,
            pool: Pool::from(0),
        }
    }

    /// Returns the dictionary of a large collection in a shard, for reading and changing.
    pub(crate) fn to_change(
        view: &View<'_>,
        shard: usize,
        entry: &Entry,
    ) -> Result<Elements, Fault> {
        let mut elements = Elements::to_read(entry)?;
        elements.pool = Pool::new(shard, elements.word(view, ARENA)?);
        Ok(elements)
    }

    /// Queues all elements and tables to be freed later. The collection must not have an arena (a
    /// separate memory area), and the caller must clear or free the root words. O(1).
    pub(crate) fn discard(self, transaction: &mut Transaction<'_>) -> Result<(), Error> {
        graveyard::bury_dictionary(transaction, self, graveyard::ELEMENTS)
    }

    /// Returns whether the collection must move to an arena (a separate memory area); see
    /// [`settle`](Self::settle).
    pub(crate) fn has_outgrown(
        self,
        view: &View<'_>,
        new: bool,
        length: usize,
    ) -> Result<bool, Error> {
        if self.pool.arena() != 0 {
            return Ok(false);
        }
        let due = length >= WIDE || new && self.length(view)?.is_power_of_two();
        Ok(due && self.memory_usage(view, 0)? >= OUTGROWN)
    }

    /// Returns the number of elements.
    #[inline]
    pub(crate) fn length(self, view: &View<'_>) -> Result<u64, Fault> {
        self.word(view, KEYS)
    }

    /// Looks up an element.
    #[inline(always)]
    pub(crate) fn find(self, view: &View<'_>, key: &Key<'_>) -> Result<Option<Element>, Error> {
        dictionary::find(view, self, key)
    }

    /// Hashes a group of up to [`TOGETHER`] names, and prefetches the buckets and blocks of their
    /// elements. Without prefetching, each lookup waits for the bucket and then for the element.
    pub(crate) fn group<'k>(self, transaction: &Transaction<'_>, texts: &[&'k [u8]]) -> Group<'k> {
        let secret = transaction.hash_key();
        let keys: Group<'k> = texts.iter().map(|text| element_key(secret, text)).collect();
        self.warm_ahead(transaction.view(), &keys, 0);
        keys
    }

    /// Prefetches elements for a walk over many keys. Call this at each position of the walk. At
    /// the start of a group of keys, it prefetches the elements of that group.
    #[inline(always)]
    pub(crate) fn warm_ahead(self, view: &View<'_>, keys: &[Key<'_>], position: usize) {
        if position.is_multiple_of(TOGETHER) && keys.len() > 1 {
            self.warm(view, &keys[position..keys.len().min(position + TOGETHER)]);
        }
    }

    fn warm(self, view: &View<'_>, keys: &[Key<'_>]) {
        // Prefetch the bucket without loading it, because a stalled load also stalls the
        // instructions after it. Ignore errors: the lookups report a damaged dictionary.
        let mut homes: SmallVec<[Offset; TOGETHER]> = SmallVec::new();
        for key in keys {
            let home = home(view, self, key).unwrap_or(0);
            view.prefetch(home);
            homes.push(home);
        }
        // Prefetch the elements only after all buckets have been requested.
        for (key, home) in keys.iter().zip(homes) {
            if let Ok(element @ 1..) = first_candidate(view, home, key) {
                view.prefetch(element);
                view.prefetch(element.wrapping_add(NEXT_LINE));
            }
        }
    }

    /// Removes an element. Returns whether the element existed.
    pub(crate) fn remove(
        self,
        transaction: &mut Transaction<'_>,
        key: &Key<'_>,
    ) -> Result<bool, Error> {
        let Some((slot, element)) = dictionary::find_slot(transaction.view(), self, key)? else {
            return Ok(false);
        };
        element.free(transaction, self.pool)?;
        dictionary_change::remove(transaction, self, slot)?;
        Ok(true)
    }

    /// Visits each element once. O(elements).
    pub(crate) fn for_each(
        self,
        view: &View<'_>,
        mut visit: impl FnMut(&Element) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(tables) = self.tables(view)? else {
            return Ok(());
        };
        let (other, moved) = match tables.other {
            Some((other, moved)) => (Some(other), moved),
            None => (None, 0),
        };
        let mut ahead = Ahead::new();
        let mut walk = |table: Table, first: u64| {
            for index in first..table.buckets() {
                if index % RECHECK_EVERY == 0 {
                    view.recheck()?;
                }
                for_each_in_chain(view, table.bucket(index), |at, _| {
                    match ahead.put(view, at) {
                        Some(due) => visit(&Element::load(view, due)?),
                        None => Ok(()),
                    }
                })?;
            }
            Ok::<_, Error>(())
        };
        walk(tables.main, moved)?;
        if let Some(other) = other {
            walk(other, 0)?;
        }
        let mut rest = ahead.rest();
        rest.try_for_each(|at| visit(&Element::load(view, at)?))
    }

    /// Visits the next part of a walk, about `count` elements. A walk starts with cursor 0. Returns
    /// the cursor for the next call, or 0 at the end. An element that exists during the entire walk
    /// is visited at least once.
    pub(crate) fn scan(
        self,
        view: &View<'_>,
        cursor: u64,
        count: u64,
        mut visit: impl FnMut(&Element) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let (mut position, mut visited) = (cursor, 0);
        let mut ahead = Ahead::new();
        for looked_at in 1.. {
            position = scan_bucket(view, self, position, |at| {
                visited += 1;
                match ahead.put(view, at) {
                    Some(due) => visit(&Element::load(view, due)?),
                    None => Ok(()),
                }
            })?;
            let enough = visited >= count || looked_at >= count.saturating_mul(EMPTY_FACTOR);
            if position == 0 || enough {
                break;
            }
            if looked_at % RECHECK_EVERY == 0 {
                view.recheck()?;
            }
        }
        for at in ahead.rest() {
            visit(&Element::load(view, at)?)?;
        }
        Ok(position)
    }

    /// Returns a random element. All elements are approximately equally likely.
    pub(crate) fn random(
        self,
        view: &View<'_>,
        random: &mut Random,
    ) -> Result<Option<Element>, Error> {
        let Some(tables) = self.tables(view)? else {
            return Ok(None);
        };
        let (other, moved) = match tables.other {
            Some((other, moved)) => (Some(other), moved.min(tables.main.buckets())),
            None => (None, 0),
        };
        let main = tables.main.buckets() - moved;
        let all = main + other.map_or(0, Table::buckets);
        let bucket = |number: u64| match other {
            Some(other) if number >= main => other.bucket(number - main),
            _ => tables.main.bucket(moved + number),
        };
        let mut chain: SmallVec<[Offset; 32]> = SmallVec::new();
        let collect = |number: u64, chain: &mut SmallVec<[Offset; 32]>| {
            chain.clear();
            for_each_in_chain(view, bucket(number), |at, _| {
                chain.push(at);
                Ok(())
            })
        };
        for _ in 0..TRIES {
            collect(random.below(all), &mut chain)?;
            // Accept a bucket with a probability proportional to its number of elements.
            let places = CHAIN_TYPICAL.max(chain.len() as u64);
            if let Some(&at) = chain.get(random.below(places) as usize) {
                return Ok(Some(Element::load(view, at)?));
            }
        }
        let start = random.below(all);
        for number in (start..all).chain(0..start) {
            if number % RECHECK_EVERY == 0 {
                view.recheck()?;
            }
            collect(number, &mut chain)?;
            if !chain.is_empty() {
                let place = random.below(chain.len() as u64) as usize;
                return Ok(Some(Element::load(view, chain[place])?));
            }
        }
        Ok(None)
    }

    /// Returns random elements. A positive `count` selects up to `count` distinct elements. A
    /// negative `count` selects `-count` independent elements.
    pub(crate) fn sample(
        self,
        view: &View<'_>,
        random: &mut Random,
        count: i64,
    ) -> Result<Vec<Element>, Error> {
        let length = self.length(view)?;
        let wanted = count.unsigned_abs();
        // If at least a third of the elements are requested, choosing from a list of all elements
        // is cheaper.
        if count >= 0 && wanted.saturating_mul(3) > length {
            let mut all = Vec::new();
            self.for_each(view, |element| {
                all.push(*element);
                Ok(())
            })?;
            let chosen = random.choose(count, all.len());
            return Ok(chosen.into_iter().map(|index| all[index]).collect());
        }
        let (mut chosen, mut seen) = (Vec::new(), HashSet::new());
        let mut tries = 0;
        while (chosen.len() as u64) < wanted {
            tries += 1;
            if tries % RECHECK_EVERY == 0 {
                view.recheck()?;
            }
            // Bound the loop, because a damaged dictionary can count more elements than it
            // contains.
            if tries > wanted.saturating_mul(TRIES) {
                break;
            }
            match self.random(view, random)? {
                Some(element) if count < 0 || seen.insert(element.at) => chosen.push(element),
                Some(_) => {}
                None => break,
            }
        }
        Ok(chosen)
    }

    /// Returns the memory usage in bytes of the dictionary, its elements and their blocks. If the
    /// collection has an arena (a separate memory area), this is the size of the arena. Otherwise,
    /// it is estimated from about `samples` elements, or computed from all elements if `samples` is
    /// 0.
    pub(crate) fn memory_usage(self, view: &View<'_>, samples: u64) -> Result<u64, Error> {
        let arena = self.word(view, ARENA)?;
        if arena != 0 {
            return Ok(view.arena_bytes(arena)?);
        }
        let Some(tables) = self.tables(view)? else {
            return Ok(0);
        };
        let length = self.length(view)?;
        let mut bytes = block_size(tables.main.buckets() * BUCKET);
        if self.word(view, NEXT_TABLE)? != 0 {
            bytes += block_size(BUCKET << self.word(view, NEXT_BITS)?.min(40));
        }
        bytes = bytes.saturating_add(BUCKET.saturating_mul(dictionary::chained(&tables, length)));
        let (mut seen, mut sum) = (0_u64, 0_u64);
        let mut position = 0;
        loop {
            position = self.scan(view, position, 1, |element| {
                seen += 1;
                sum = sum.saturating_add(block_size(element.size()));
                if let Some((_, length)) = element.block(view)? {
                    sum = sum.saturating_add(block_size(length));
                }
                Ok(())
            })?;
            if position == 0 || samples != 0 && seen >= samples {
                break;
            }
        }
        let elements = u128::from(sum) * u128::from(length) / u128::from(seen.max(1));
        Ok(bytes.saturating_add(u64::try_from(elements).unwrap_or(u64::MAX)))
    }
}
