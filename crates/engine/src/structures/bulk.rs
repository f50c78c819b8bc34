//! Builds the complete dictionary of a collection in one step (W10). The sizes of all elements are
//! known before the first element is created, so their blocks are allocated in batches ([`BlockStock`]),
//! and each bucket of the table is written once. Elements need neither individual undo log entries
//! nor individual searches for free blocks.

use std::convert::Infallible;

use smallvec::SmallVec;
use undercroft_memory::{BlockStock, Offset, Pool, Transaction, block_size, prefetch};

use crate::error::Error;
use crate::structures::dictionary::Dictionary;
use crate::structures::dictionary::{BUCKET, CHAINED, SLOTS, bits_for, tag_of};
use crate::structures::element::{Element, Value, sizes};
use crate::structures::elements::{Elements, OUTGROWN};
use crate::structures::key::{Key, hash};
use crate::structures::prefetch::TOGETHER;
use crate::structures::ranges::Ranges;
use crate::structures::roots::{ARENA, BITS, ELEMENTS_WORDS, KEYS, TABLE};

/// An element that is yet to be created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'p> {
    pub(crate) key: &'p [u8],
    pub(crate) value: Value<'p>,
    hash: u64,
}

impl<'p> Part<'p> {
    pub(crate) fn new(secret: [u64; 2], key: &'p [u8], value: Value<'p>) -> Part<'p> {
        let hash = hash(secret, key);
        Part { key, value, hash }
    }
}

/// Sorts distinct keys by their buckets in a dictionary of these keys. Building the dictionary in
/// this order reads and writes memory sequentially.
pub(crate) fn in_order_of_buckets(secret: [u64; 2], keys: &Ranges) -> Ranges {
    let buckets = 1_u64 << bits_for::<Elements>(keys.len() as u64);
    let mut order: Vec<(u64, u32)> = keys
        .iter()
        .zip(0..)
        .map(|(key, index)| (hash(secret, key) & (buckets - 1), index))
        .collect();
    order.sort_unstable();
    let mut sorted = Ranges::new();
    order
        .iter()
        .for_each(|&(_, index)| sorted.push(keys.get(index as usize)));
    sorted
}

/// Converts distinct keys to elements with empty values.
pub(crate) fn parts_of(secret: [u64; 2], keys: &Ranges) -> Vec<Part<'_>> {
    let part = |key| Part::new(secret, key, Value::Text(b""));
    keys.iter().map(part).collect()
}

/// The hash and the offset of a newly created element.
pub(crate) type Placed = (u64, Offset);

/// The elements of a planned collection, in process memory. Each key occurs once, in the order of
/// first insertion.
pub(crate) struct Draft<'d> {
    secret: [u64; 2],
    parts: Vec<Part<'d>>,
    /// A hash table that maps each key to the index of its part plus 1, with the [`MARK`] bits of
    /// the hash above the index. 0 marks an empty place. At most half of the places are used.
    places: Vec<u64>,
}

/// The hash bits that are stored in a place of the hash table, which rule out most mismatches
/// without reading the element.
const MARK: u64 = !0 << 40;

impl<'d> Draft<'d> {
    /// Creates an empty draft with room for `parts` elements.
    pub(crate) fn new(secret: [u64; 2], parts: usize) -> Draft<'d> {
        Draft {
            secret,
            parts: Vec::with_capacity(parts),
            places: vec![0; (parts * 2).next_power_of_two()],
        }
    }

    /// Returns the place of a key in the hash table, and the index of the key's part, or `None` if
    /// the key is not in the draft.
    fn place(&self, key: &[u8], hash: u64) -> (usize, Option<usize>) {
        let mask = self.places.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            let found = self.places[place];
            if found == 0 {
                return (place, None);
            }
            if found & MARK == hash & MARK {
                let index = (found & !MARK) as usize - 1;
                let part = &self.parts[index];
                if part.hash == hash && part.key == key {
                    return (place, Some(index));
                }
            }
            place = (place + 1) & mask;
        }
    }

    /// Sets each item's key to the value that `decide` chooses. `decide` receives the number of
    /// elements, the key, the key's current value, and the item's data. It returns the new value,
    /// or `None` to leave the key unchanged.
    pub(crate) fn merge<T: Copy, E>(
        &mut self,
        mut items: impl Iterator<Item = (&'d [u8], T)>,
        mut decide: impl FnMut(usize, &'d [u8], Option<Value<'d>>, T) -> Result<Option<Value<'d>>, E>,
    ) -> Result<(), E> {
        let mut group: SmallVec<[(u64, &'d [u8], T); TOGETHER]> = SmallVec::new();
        loop {
            group.clear();
            for (key, item) in items.by_ref().take(TOGETHER) {
                group.push((hash(self.secret, key), key, item));
            }
            if group.is_empty() {
                return Ok(());
            }
            // The places are scattered in memory, so prefetch those of the entire group before
            // reading the first place.
            for (hash, ..) in &group {
                prefetch(&self.places[*hash as usize & (self.places.len() - 1)]);
            }
            for &(hash, key, item) in &group {
                let (place, index) = self.place(key, hash);
                let had = index.map(|index| self.parts[index].value);
                let Some(value) = decide(self.parts.len(), key, had, item)? else {
                    continue;
                };
                match index {
                    Some(index) => self.parts[index].value = value,
                    None => self.push(Part { key, value, hash }, place),
                }
            }
        }
    }

    fn push(&mut self, part: Part<'d>, place: usize) {
        self.parts.push(part);
        self.places[place] = self.parts.len() as u64 | part.hash & MARK;
        if self.parts.len() * 2 > self.places.len() {
            self.spread();
        }
    }

    /// Sets the values of keys. Returns the number of new keys.
    pub(crate) fn set_all(&mut self, items: impl Iterator<Item = (&'d [u8], Value<'d>)>) -> u64 {
        let before = self.parts.len();
        let Ok(()) = self.merge(items, |_, _, _, value| Ok::<_, Infallible>(Some(value)));
        (self.parts.len() - before) as u64
    }

    /// Adds keys with empty values. Returns the number of new keys.
    pub(crate) fn add(&mut self, keys: impl Iterator<Item = &'d [u8]>) -> u64 {
        self.set_all(keys.map(|key| (key, Value::Text(b""))))
    }

    /// Doubles the size of the hash table.
    #[cold]
    fn spread(&mut self) {
        self.places = vec![0; self.places.len() * 2];
        for index in 0..self.parts.len() {
            let Part { key, hash, .. } = self.parts[index];
            let (place, _) = self.place(key, hash);
            self.places[place] = (index + 1) as u64 | hash & MARK;
        }
    }

    /// Returns whether the draft contains `key`.
    pub(crate) fn has(&self, key: &Key<'_>) -> bool {
        self.place(key.bytes, key.hash).1.is_some()
    }

    /// Returns the elements in order of insertion.
    pub(crate) fn parts(&self) -> &[Part<'d>] {
        &self.parts
    }

    /// Creates the draft's elements and their dictionary in a shard. Returns the root words of the
    /// dictionary.
    pub(crate) fn make(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
    ) -> Result<[u64; ELEMENTS_WORDS], Error> {
        make_in(transaction, shard, &self.parts)
    }
}

/// Creates elements with distinct keys and their dictionary in a shard. Returns the root words of
/// the dictionary.
pub(crate) fn make_in(
    transaction: &mut Transaction<'_>,
    shard: usize,
    parts: &[Part<'_>],
) -> Result<[u64; ELEMENTS_WORDS], Error> {
    let pool = pool_for(transaction, shard, parts)?;
    Ok(make(transaction, pool, parts)?.0)
}

/// Returns the pool in a shard for a collection of these elements. A collection that is too large
/// for the shard's slabs gets its own arena, a separate memory area (H4).
pub(crate) fn pool_for(
    transaction: &mut Transaction<'_>,
    shard: usize,
    parts: &[Part<'_>],
) -> Result<Pool, Error> {
    let mut bytes = BUCKET << bits_for::<Elements>(parts.len() as u64);
    for part in parts {
        if bytes >= OUTGROWN {
            return Ok(transaction.create_arena(shard)?);
        }
        let (element, block) = sizes(part.key.len(), part.value);
        bytes += block_size(element) + block.map_or(0, block_size);
    }
    if bytes >= OUTGROWN {
        return Ok(transaction.create_arena(shard)?);
    }
    Ok(shard.into())
}

/// Creates elements with distinct keys and their dictionary. Returns the root words of the
/// dictionary, and the created elements in the order of `parts`.
pub(crate) fn make(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    parts: &[Part<'_>],
) -> Result<([u64; ELEMENTS_WORDS], Vec<Placed>), Error> {
    let mut stock = BlockStock::new(pool);
    for part in parts {
        let (element, block) = sizes(part.key.len(), part.value);
        stock.expect(element);
        block.into_iter().for_each(|bytes| stock.expect(bytes));
    }
    let mut placed = Vec::with_capacity(parts.len());
    for part in parts {
        let at = Element::create(transaction, &mut stock, part.key, part.value)?;
        placed.push((part.hash, at));
    }
    finish(transaction, stock, placed)
}

/// Copies elements of another dictionary and builds a dictionary of the copies. Returns the root
/// words of the new dictionary, and the copies in the order of `elements`.
pub(crate) fn copy(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    elements: &[Element],
) -> Result<([u64; ELEMENTS_WORDS], Vec<Placed>), Error> {
    let mut stock = BlockStock::new(pool);
    for element in elements {
        stock.expect(element.size());
        if let Some((_, length)) = element.block(transaction.view())? {
            stock.expect(length);
        }
    }
    let mut placed = Vec::with_capacity(elements.len());
    let mut key = Vec::new();
    for element in elements {
        key.clear();
        element.append_key(transaction.view(), &mut key)?;
        let at = element.copy(transaction, &mut stock)?;
        placed.push((hash(transaction.hash_key(), &key), at));
    }
    finish(transaction, stock, placed)
}

fn finish(
    transaction: &mut Transaction<'_>,
    mut stock: BlockStock,
    placed: Vec<Placed>,
) -> Result<([u64; ELEMENTS_WORDS], Vec<Placed>), Error> {
    let mut words = [0; ELEMENTS_WORDS];
    words[BITS] = bits_for::<Elements>(placed.len() as u64);
    words[TABLE] = fill_table(transaction, &mut stock, words[BITS], &placed)?;
    words[KEYS] = placed.len() as u64;
    words[ARENA] = stock.pool().arena();
    stock.close(transaction);
    Ok((words, placed))
}

/// Creates a table of 2^`bits` buckets that contains all elements. Returns the offset of the table.
fn fill_table(
    transaction: &mut Transaction<'_>,
    stock: &mut BlockStock,
    bits: u64,
    placed: &[Placed],
) -> Result<Offset, Error> {
    let buckets = 1_usize << bits;
    let bucket_of = |hash: u64| hash as usize & (buckets - 1);
    // Counting sort by bucket: compute the start of each bucket, then sort the elements.
    let mut starts = vec![0; buckets + 1];
    for (hash, _) in placed {
        starts[bucket_of(*hash)] += 1;
    }
    let mut end = 0;
    for start in &mut starts {
        let count: usize = *start;
        // The last bucket of a chain has room for seven entries, every other bucket for six.
        let chained = count.saturating_sub(SLOTS).div_ceil(SLOTS - 1);
        stock.expect_many(BUCKET, chained as u64);
        end += count;
        *start = end;
    }
    let mut sorted = vec![(0, 0); placed.len()];
    for one in placed.iter().rev() {
        let start = &mut starts[bucket_of(one.0)];
        *start -= 1;
        sorted[*start] = *one;
    }
    let table = stock.take(transaction, BUCKET << bits)?;
    for (index, range) in starts.windows(2).enumerate() {
        let at = table + index as u64 * BUCKET;
        fill_chain(transaction, stock, at, &sorted[range[0]..range[1]])?;
    }
    Ok(table)
}

/// Fills a home bucket and its overflow buckets.
fn fill_chain(
    transaction: &mut Transaction<'_>,
    stock: &mut BlockStock,
    mut at: Offset,
    mut placed: &[Placed],
) -> Result<(), Error> {
    loop {
        let mut words = [0; SLOTS + 1];
        let mut next = 0;
        let mut here = placed.len();
        if here > SLOTS {
            here = SLOTS - 1;
            next = stock.take(transaction, BUCKET)?;
            words[0] = CHAINED;
            words[SLOTS] = next;
        }
        for (index, (hash, entry)) in placed[..here].iter().enumerate() {
            words[0] |= tag_of(*hash) << (index * 8);
            words[index + 1] = *entry;
        }
        let mut bytes = [0; BUCKET as usize];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        transaction.fill(at, &bytes)?;
        placed = &placed[here..];
        if next == 0 {
            return Ok(());
        }
        at = next;
    }
}

/// Copies a dictionary to another pool and returns the root words of the copy. O(elements).
pub(crate) fn copy_of(
    transaction: &mut Transaction<'_>,
    from: Elements,
    pool: Pool,
) -> Result<[u64; ELEMENTS_WORDS], Error> {
    let mut all = Vec::new();
    from.for_each(transaction.view(), |element| {
        all.push(*element);
        Ok(())
    })?;
    let (words, _) = copy(transaction, pool, &all)?;
    Ok(words)
}

impl Elements {
    /// Moves the collection to an arena (a separate memory area) if it has outgrown its shard's
    /// slabs. A collection in an arena can move to another shard, and be freed, in one step. Call
    /// this after setting an element, with the element's length and whether the element is new. The
    /// total size is measured after a long element, and otherwise only when the number of elements
    /// is a power of two. As a result, at most about twice [`OUTGROWN`] bytes are moved.
    pub(crate) fn settle(
        self,
        transaction: &mut Transaction<'_>,
        new: bool,
        length: usize,
    ) -> Result<Elements, Error> {
        if !self.has_outgrown(transaction.view(), new, length)? {
            return Ok(self);
        }
        let pool = transaction.create_arena(self.pool.shard())?;
        let words = copy_of(transaction, self, pool)?;
        self.discard(transaction)?;
        let settled = Elements { pool, ..self };
        for (word, value) in words.into_iter().enumerate() {
            settled.set_word(transaction, word, value)?;
        }
        Ok(settled)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn draft_is_a_map_in_insertion_order() {
        let keys: Vec<Vec<u8>> = (0..3000_u32)
            .map(|n| (n % 1777).to_string().into_bytes())
            .collect();
        for room in [0, 1, 100, 10_000] {
            let mut draft = Draft::new([1, 2], room);
            let mut model = BTreeMap::new();
            let numbered = || (0_i64..).zip(&keys).map(|(number, key)| (&key[..], number));
            // Keep the current value of a key if the value is divisible by three.
            let merged = draft.merge(numbered(), |parts, key, had, number| {
                let had = had.map(number_of);
                assert_eq!((parts, had), (model.len(), model.get(key).copied()));
                if had.is_some_and(|had| had % 3 == 0) {
                    return Ok::<_, Infallible>(None);
                }
                model.insert(key.to_vec(), number);
                Ok(Some(Value::Integer(number)))
            });
            assert_eq!(merged, Ok(()));
            assert_eq!(draft.parts().len(), model.len());
            assert!(
                draft
                    .parts()
                    .iter()
                    .zip(&keys)
                    .all(|(part, key)| part.key == key)
            );
            for part in draft.parts() {
                assert_eq!(number_of(part.value), model[part.key]);
            }
            assert_eq!(draft.add([&b"none"[..], b"none"].into_iter()), 1);
        }
    }

    #[test]
    fn keys_are_sorted_by_bucket() {
        let secret = [3, 4];
        let mut keys = Ranges::new();
        (0..1000_u32).for_each(|n| keys.push(n.to_string().as_bytes()));
        let sorted = in_order_of_buckets(secret, &keys);
        let mask = (1 << bits_for::<Elements>(1000)) - 1;
        let buckets: Vec<u64> = sorted.iter().map(|key| hash(secret, key) & mask).collect();
        assert!(buckets.is_sorted(), "{buckets:?}");
        let all = |keys: &Ranges| keys.iter().map(<[u8]>::to_vec).collect::<BTreeSet<_>>();
        assert_eq!((sorted.len(), all(&sorted)), (1000, all(&keys)));
    }

    fn number_of(value: Value<'_>) -> i64 {
        match value {
            Value::Integer(number) => number,
            Value::Text(text) => panic!("{text:?}"),
        }
    }
}
