//! The dictionary: a hash table of cache-line buckets with one-byte tags and overflow chains.
//!
//! ```text
//! bucket, 64 bytes:
//! | tag 0 | tag 1 | ... | tag 6 | flags |   tags are 1..=255; 0 is an empty slot
//! | slot 0: offset of an entry          |
//! |   ...                               |
//! | slot 6: offset of an entry, or, if chained, of the next bucket |
//! ```
//!
//! A key is always in its home bucket or in that bucket's overflow chain. The table doubles and
//! halves incrementally: the new table is zeroed in bounded steps, and the buckets are then moved
//! one by one, in order. A key whose bucket has been moved is looked up in the new table.
//!
//! A database has one dictionary for each shard, whose slots refer to entries. A large collection
//! has a dictionary whose slots refer to elements. Both kinds share this code through the
//! [`Dictionary`] trait.

use undercroft_memory::{Fault, Offset, Pool, Roots, Transaction, View};

use crate::error::Error;
use crate::structures::entry::Entry;
use crate::structures::key::Key;
use crate::structures::roots::{
    BITS, MOVED, NEXT_BITS, NEXT_TABLE, PREPARED, Root, TABLE, TABLE_WORDS,
};

/// The number of slots in a bucket.
pub(crate) const SLOTS: usize = 7;
/// The size of a bucket in bytes.
pub(crate) const BUCKET: u64 = 64;
/// The flag of a bucket whose last slot refers to the next bucket in its chain.
pub(crate) const CHAINED: u64 = 1 << 56;
/// The maximum length of a chain. A longer chain must be a cycle, because the fill limit keeps
/// valid chains far shorter.
pub(crate) const CHAIN_MAX: usize = 1 << 16;
/// The maximum number of keys in a home bucket and its chain that [`chained`] considers. More keys
/// are practically impossible.
const CHAINED_MEAN_MAX: usize = 64;
/// The binary logarithm of the number of buckets in the largest table.
pub(super) const BITS_MAX: u64 = 40;

/// The two tables of a dictionary, read from its root words in a single consistent read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    pub(crate) main: Table,
    /// The new table, once entries are being moved to it, and the number of main table buckets
    /// moved so far.
    pub(crate) other: Option<(Table, u64)>,
}

/// A table of buckets, given by its offset and the binary logarithm of its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    pub(crate) at: Offset,
    pub(crate) bits: u64,
}

impl Table {
    #[inline(always)]
    pub(crate) fn buckets(self) -> u64 {
        1 << self.bits
    }

    #[inline(always)]
    pub(crate) fn bucket(self, index: u64) -> Offset {
        // A torn read can make this offset invalid, so the offset is checked when the bucket is
        // read.
        self.at
            .wrapping_add((index & (self.buckets() - 1)) * BUCKET)
    }
}

/// Returns the size in bytes of a dictionary's tables, excluding overflow buckets.
pub(crate) fn table_bytes<D: Dictionary>(view: &View<'_>, root: D) -> Result<u64, Fault> {
    let Some(tables) = root.tables(view)? else {
        return Ok(0);
    };
    let other = tables.other.map_or(0, |(other, _)| other.buckets());
    Ok(tables
        .main
        .buckets()
        .saturating_add(other)
        .saturating_mul(BUCKET))
}

/// Estimates the number of overflow buckets for `keys` keys. Hashes are keyed, so keys are
/// distributed randomly over the home buckets.
pub(crate) fn chained(tables: &Tables, keys: u64) -> u64 {
    let of = |table: Table, buckets: f64| {
        // The last bucket of a chain has room for seven entries, every other bucket for six.
        let mean = keys as f64 / table.buckets() as f64;
        let (mut fewer, mut exactly) = (0.0, (-mean).exp());
        let mut chained = 0.0;
        for held in 0..CHAINED_MEAN_MAX {
            if held >= SLOTS && (held - SLOTS).is_multiple_of(SLOTS - 1) {
                chained += 1.0 - fewer - exactly;
            }
            fewer += exactly;
            exactly *= mean / (held + 1) as f64;
        }
        chained * buckets
    };
    let main = tables.main.buckets() as f64;
    let (moved, other) = match tables.other {
        None => (0.0, 0.0),
        Some((other, moved)) => {
            let moved = moved as f64 / main;
            (moved, of(other, other.buckets() as f64 * moved))
        }
    };
    (of(tables.main, main * (1.0 - moved)) + other) as u64
}

/// The location of a slot: its bucket and its index in the bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) bucket: Offset,
    /// The previous bucket in the chain, or 0 if `bucket` is the home bucket.
    pub(crate) parent: Offset,
    pub(crate) index: usize,
}

/// The root words of a dictionary, as read through a view.
pub(crate) trait RootWords {
    /// Returns one of the root words that describe the tables.
    fn word(&self, word: usize) -> Result<u64, Fault>;
}

impl RootWords for Roots<'_, TABLE_WORDS> {
    #[inline(always)]
    fn word(&self, word: usize) -> Result<u64, Fault> {
        Ok(Roots::word(self, word))
    }
}

/// A kind of dictionary, which defines where its root words are and which items its slots refer to.
pub(crate) trait Dictionary: Copy {
    /// The decoded form of an item that a slot refers to.
    type Item: Copy;
    /// The type through which root words are read.
    type Words<'v>: RootWords;

    /// The number of keys per bucket above which the table doubles.
    const FULL: u64;

    /// Returns the pool from which the tables are allocated.
    fn pool(self) -> Pool;

    /// Returns the root word with the given index.
    fn word(self, view: &View<'_>, word: usize) -> Result<u64, Fault>;

    /// Returns the root words that describe the tables, for reading several of them together.
    fn words<'v>(self, view: &View<'v>) -> Result<Self::Words<'v>, Fault>;

    /// Sets the root word with the given index.
    fn set_word(
        self,
        transaction: &mut Transaction<'_>,
        word: usize,
        value: u64,
    ) -> Result<(), Error>;

    /// Loads the item at an offset if its key equals `key`.
    fn load_if_key(view: &View<'_>, at: Offset, key: &[u8]) -> Result<Option<Self::Item>, Fault>;

    /// Appends the key of the item at an offset to `out`.
    fn append_key(view: &View<'_>, at: Offset, out: &mut Vec<u8>) -> Result<(), Error>;

    /// Sets a word of a bucket.
    #[inline(always)]
    fn store(self, transaction: &mut Transaction<'_>, at: Offset, value: u64) -> Result<(), Error> {
        Ok(transaction.store(self.pool().shard(), at, value)?)
    }

    /// Adds a number to the root word with the given index.
    fn add_word(
        self,
        transaction: &mut Transaction<'_>,
        word: usize,
        change: i64,
    ) -> Result<(), Error> {
        let old = self.word(transaction.view(), word)?;
        self.set_word(transaction, word, old.wrapping_add_signed(change))
    }

    /// Returns the tables, or `None` if the dictionary has no tables yet.
    #[inline(always)]
    fn tables(self, view: &View<'_>) -> Result<Option<Tables>, Fault> {
        let words = self.words(view)?;
        let at = words.word(TABLE)?;
        if at == 0 {
            return Ok(None);
        }
        let main = Table {
            at,
            bits: words.word(BITS)?,
        };
        let mut other = None;
        let next = words.word(NEXT_TABLE)?;
        if next != 0 {
            let table = Table {
                at: next,
                bits: words.word(NEXT_BITS)?,
            };
            if table.bits > BITS_MAX {
                return Err(root_fault());
            }
            if words.word(PREPARED)? == table.buckets() {
                other = Some((table, words.word(MOVED)?));
            }
        }
        if main.bits > BITS_MAX {
            return Err(root_fault());
        }
        Ok(Some(Tables { main, other }))
    }
}

pub(super) fn root_fault() -> Fault {
    Fault {
        at: 0,
        what: "a dictionary root with valid tables",
    }
}

impl Dictionary for Root {
    type Item = Entry;
    type Words<'v> = Roots<'v, TABLE_WORDS>;

    const FULL: u64 = 5;

    #[inline(always)]
    fn pool(self) -> Pool {
        self.shard.into()
    }

    #[inline(always)]
    fn word(self, view: &View<'_>, word: usize) -> Result<u64, Fault> {
        Ok(self.get(view, word))
    }

    #[inline(always)]
    fn words<'v>(self, view: &View<'v>) -> Result<Roots<'v, TABLE_WORDS>, Fault> {
        Ok(self.table_words(view))
    }

    #[inline(always)]
    fn set_word(
        self,
        transaction: &mut Transaction<'_>,
        word: usize,
        value: u64,
    ) -> Result<(), Error> {
        self.set(transaction, word, value)
    }

    #[inline(always)]
    fn load_if_key(view: &View<'_>, at: Offset, key: &[u8]) -> Result<Option<Entry>, Fault> {
        Entry::load_if_key(view, at, key)
    }

    fn append_key(view: &View<'_>, at: Offset, out: &mut Vec<u8>) -> Result<(), Error> {
        Entry::load(view, at)?.append_key(view, out)
    }
}

#[inline(always)]
pub(crate) fn tag_of(hash: u64) -> u64 {
    // The tag consists of hash bits that select neither the shard nor the bucket, and is never 0.
    (hash >> 48 & 0xff).max(1)
}

/// Sets the high bit of each byte of `tags` that equals `tag`. The byte above a true match can be a
/// false match, so the caller must verify each match.
#[inline(always)]
fn matches(tags: u64, tag: u64) -> u64 {
    const LOW: u64 = 0x0001_0101_0101_0101;
    const HIGH: u64 = 0x0080_8080_8080_8080;
    let difference = tags ^ (LOW * tag);
    difference.wrapping_sub(LOW) & !difference & HIGH
}

impl Tables {
    /// Returns the home bucket of a key with the given hash.
    #[inline(always)]
    pub(crate) fn home(&self, hash: u64) -> Offset {
        if let Some((other, moved)) = self.other
            && hash & (self.main.buckets() - 1) < moved
        {
            return other.bucket(hash);
        }
        self.main.bucket(hash)
    }
}

/// Looks up a key. Returns its item.
#[inline(always)]
pub(crate) fn find<D: Dictionary>(
    view: &View<'_>,
    root: D,
    key: &Key<'_>,
) -> Result<Option<D::Item>, Error> {
    Ok(find_slot(view, root, key)?.map(|(_, item)| item))
}

/// Looks up a key. Returns its item and the slot that refers to the item.
#[inline(always)]
pub(crate) fn find_slot<D: Dictionary>(
    view: &View<'_>,
    root: D,
    key: &Key<'_>,
) -> Result<Option<(Slot, D::Item)>, Error> {
    let Some(tables) = root.tables(view)? else {
        return Ok(None);
    };
    let tag = tag_of(key.hash);
    let mut bucket = tables.home(key.hash);
    let mut parent = 0;
    for _ in 0..CHAIN_MAX {
        let slots = view.block(bucket)?;
        let tags = slots.word(0)?;
        let mut hits = matches(tags, tag);
        while hits != 0 {
            let index = hits.trailing_zeros() as usize / 8;
            hits &= hits - 1;
            let at = slots.word(8 + index as u64 * 8)?;
            if tags & CHAINED != 0 && index == SLOTS - 1 || at == 0 {
                continue;
            }
            if let Some(item) = D::load_if_key(view, at, key.bytes)? {
                let slot = Slot {
                    bucket,
                    parent,
                    index,
                };
                return Ok(Some((slot, item)));
            }
        }
        if tags & CHAINED == 0 {
            return Ok(None);
        }
        parent = bucket;
        bucket = slots.word(SLOTS as u64 * 8)?;
        // A torn chain can contain a cycle, so revalidate the view (R3).
        view.recheck()?;
    }
    Err(chain_fault(bucket).into())
}

/// Returns the home bucket of a key, or 0 if the dictionary has no table.
#[inline(always)]
pub(crate) fn home<D: Dictionary>(
    view: &View<'_>,
    root: D,
    key: &Key<'_>,
) -> Result<Offset, Fault> {
    Ok(root.tables(view)?.map_or(0, |tables| tables.home(key.hash)))
}

/// Returns the first entry in a key's home bucket whose tag matches the key, or 0 if no tag
/// matches.
#[inline(always)]
pub(crate) fn first_candidate(
    view: &View<'_>,
    home: Offset,
    key: &Key<'_>,
) -> Result<Offset, Fault> {
    let slots = view.block(home)?;
    match matches(slots.word(0)?, tag_of(key.hash)) {
        0 => Ok(0),
        hits => slots.word(8 + u64::from(hits.trailing_zeros() / 8) * 8),
    }
}

pub(crate) fn chain_fault(at: Offset) -> Fault {
    Fault {
        at,
        what: "a chain of buckets that ends",
    }
}

/// The content of a bucket: its entries, and the next bucket in its chain or 0.
pub(crate) struct Bucket {
    pub(crate) entries: [Offset; SLOTS],
    pub(crate) next: Offset,
}

pub(crate) fn load_bucket(view: &View<'_>, at: Offset) -> Result<Bucket, Fault> {
    let words = view.words::<8>(at)?;
    let chained = words[0] & CHAINED != 0;
    let mut entries: [Offset; SLOTS] = std::array::from_fn(|index| {
        let used = words[0] >> (index * 8) & 0xff != 0;
        if used { words[index + 1] } else { 0 }
    });
    let mut next = 0;
    if chained {
        entries[SLOTS - 1] = 0;
        next = words[SLOTS];
    }
    Ok(Bucket { entries, next })
}

/// Calls `visit` for each entry in a home bucket and its chain. The second argument is the overflow
/// bucket that contains the entry, or 0 for the home bucket.
pub(crate) fn for_each_in_chain(
    view: &View<'_>,
    home: Offset,
    mut visit: impl FnMut(Offset, Offset) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut at = home;
    for _ in 0..CHAIN_MAX {
        let bucket = load_bucket(view, at)?;
        let overflow = if at == home { 0 } else { at };
        for entry in bucket.entries.into_iter().filter(|&entry| entry != 0) {
            visit(entry, overflow)?;
        }
        if bucket.next == 0 {
            return Ok(());
        }
        view.recheck()?;
        at = bucket.next;
    }
    Err(chain_fault(home).into())
}

/// Changes a slot to refer to a different entry of the same key.
#[inline(always)]
pub(crate) fn replace(
    transaction: &mut Transaction<'_>,
    shard: usize,
    slot: Slot,
    entry: Offset,
) -> Result<(), Error> {
    Ok(transaction.store(shard, slot.bucket + 8 + slot.index as u64 * 8, entry)?)
}

/// Returns the binary logarithm of the number of buckets that `keys` keys need.
pub(crate) fn bits_for<D: Dictionary>(keys: u64) -> u64 {
    let buckets = keys.div_ceil(D::FULL).next_power_of_two();
    u64::from(buckets.ilog2()).min(BITS_MAX)
}

/// Creates the table of an empty dictionary.
pub(super) fn create<D: Dictionary>(
    transaction: &mut Transaction<'_>,
    root: D,
) -> Result<Tables, Error> {
    let at = transaction.allocate(root.pool(), BUCKET)?;
    transaction.fill_zero(at, BUCKET)?;
    root.set_word(transaction, TABLE, at)?;
    root.set_word(transaction, BITS, 0)?;
    let main = Table { at, bits: 0 };
    Ok(Tables { main, other: None })
}

pub(super) fn insert_into<D: Dictionary>(
    transaction: &mut Transaction<'_>,
    root: D,
    home: Offset,
    hash: u64,
    entry: Offset,
) -> Result<(), Error> {
    let tag = tag_of(hash);
    let mut bucket = home;
    for _ in 0..CHAIN_MAX {
        let words = transaction.view().words::<8>(bucket)?;
        let tags = words[0];
        let chained = tags & CHAINED != 0;
        let slots = if chained { SLOTS - 1 } else { SLOTS };
        let empty = (0..slots).find(|&index| tags >> (index * 8) & 0xff == 0);
        if let Some(index) = empty {
            root.store(transaction, bucket + 8 + index as u64 * 8, entry)?;
            root.store(transaction, bucket, tags | tag << (index * 8))?;
            return Ok(());
        }
        if chained {
            bucket = words[SLOTS];
            continue;
        }
        // Move the last entry to a new bucket, and use the freed slot to link that bucket.
        let last = (SLOTS - 1) * 8;
        let new = transaction.allocate(root.pool(), BUCKET)?;
        transaction.fill_zero(new, BUCKET)?;
        transaction.fill_word(new, (tags >> last & 0xff) | tag << 8)?;
        transaction.fill_word(new + 8, words[SLOTS])?;
        transaction.fill_word(new + 16, entry)?;
        root.store(transaction, bucket + SLOTS as u64 * 8, new)?;
        root.store(transaction, bucket, tags & !(0xff << last) | CHAINED)?;
        return Ok(());
    }
    Err(chain_fault(home).into())
}

/// Removes a key's entry from its bucket. The caller must update the key count and resize the
/// table. Returns whether an overflow bucket was freed.
pub(crate) fn take_out<D: Dictionary>(
    transaction: &mut Transaction<'_>,
    root: D,
    slot: Slot,
) -> Result<bool, Error> {
    let tags = transaction.view().word(slot.bucket)? & !(0xff << (slot.index * 8));
    root.store(transaction, slot.bucket, tags)?;
    root.store(transaction, slot.bucket + 8 + slot.index as u64 * 8, 0)?;
    let entries_left = tags & (CHAINED - 1) != 0;
    if slot.parent != 0 && !entries_left {
        // Free the overflow bucket if it is now empty.
        let link = slot.parent + SLOTS as u64 * 8;
        let next = transaction.view().word(slot.bucket + SLOTS as u64 * 8)?;
        if tags & CHAINED != 0 {
            root.store(transaction, link, next)?;
        } else {
            let parent_tags = transaction.view().word(slot.parent)?;
            root.store(transaction, slot.parent, parent_tags & !CHAINED)?;
            root.store(transaction, link, 0)?;
        }
        transaction.free(root.pool(), slot.bucket);
        return Ok(true);
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_tags_are_always_found() {
        for position in 0..SLOTS {
            for tag in 1..=255_u64 {
                let tags = tag << (position * 8) | CHAINED;
                let hits = matches(tags, tag);
                assert!(hits >> (position * 8 + 7) & 1 == 1, "{tag} at {position}");
            }
        }
        assert_eq!(matches(0, 7), 0);
    }
}
