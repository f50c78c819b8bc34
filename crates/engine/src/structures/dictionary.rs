//! The dictionary: cache-line buckets with one-byte tags and overflow chains.
//!
//! ```text
//! bucket, 64 bytes:
//! | tag 0 | tag 1 | ... | tag 6 | flags |   tags are 1..=255; 0 is an empty slot
//! | slot 0: offset of an entry          |
//! |   ...                               |
//! | slot 6: offset of an entry, or, if chained, of the next bucket |
//! ```
//!
//! A key lies in its home bucket or that bucket's chain and nowhere else. The
//! table doubles and halves: the other table is zeroed in bounded steps, then
//! buckets are moved one by one, in order; a key whose bucket has been moved is
//! looked up in the other table.
//!
//! A database is one dictionary a shard, whose slots refer to entries; a large
//! collection has one, too, whose slots refer to elements. The code is the same
//! for both, see [`Dictionary`].

use undercroft_memory::layout::EXTENT;
use undercroft_memory::{Fault, Offset, Pool, Roots, Transaction, View};

use crate::error::Error;
use crate::structures::entry::Entry;
use crate::structures::key::Key;
use crate::structures::roots::{
    BITS, KEYS, MOVED, NEXT_BITS, NEXT_TABLE, PREPARED, Root, TABLE, TABLE_WORDS,
};

/// Slots in a bucket.
pub(crate) const SLOTS: usize = 7;
/// Bytes of a bucket.
pub(crate) const BUCKET: u64 = 64;
/// The bucket's last slot refers to another bucket.
pub(crate) const CHAINED: u64 = 1 << 56;
/// A chain longer than this is a cycle: the longest possible one at the fill
/// factor is far shorter.
pub(crate) const CHAIN_MAX: usize = 1 << 16;
/// Keys per bucket, as a reciprocal, below which the table halves.
const SPARSE: u64 = 2;
/// Keys of one home bucket up to which [`chained`] counts: more are never there.
const CHAINED_MEAN_MAX: usize = 64;
/// Who adds or removes keys tries to get a long table, for which there may be no
/// memory yet, whenever there are so many keys more or fewer.
const RETRY: u64 = 64;
/// Memory for a longer table is looked for where a table lacks less than one in
/// so many of the keys at which it doubles.
const EARLY: u64 = 8;
/// What the steps of a resize are as work, in tenths of a microsecond: a look at
/// a bucket, an entry that is moved, some buckets zeroed.
const LOOK_WORK: u64 = 1;
const MOVE_WORK: u64 = 3;
const ZERO_WORK: u64 = 10;
/// Buckets zeroed in one step of a resize.
const ZERO_STEP: u64 = 64;
/// Buckets moved in one step of a resize.
const MOVE_STEP: u64 = 2;
/// Binary logarithm of the largest table.
const BITS_MAX: u64 = 40;

/// The two tables of a dictionary, as one look at its root shows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    pub(crate) main: Table,
    /// The other table, where it is in use, and how many buckets of the main
    /// one have been moved to it.
    pub(crate) other: Option<(Table, u64)>,
}

/// A table of buckets.
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
        // What a torn read made of the table is not looked at before the check.
        self.at
            .wrapping_add((index & (self.buckets() - 1)) * BUCKET)
    }
}

/// Bytes of a dictionary's tables, without the buckets that others are chained to.
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

/// About how many buckets are chained to others where there are so many keys:
/// hashes are keyed, so that keys fall into home buckets as chance has it.
pub(crate) fn chained(tables: &Tables, keys: u64) -> u64 {
    let of = |table: Table, buckets: f64| {
        // A bucket holds 7, and all but the last of a chain 6.
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

/// A slot of a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) bucket: Offset,
    /// The bucket whose chain leads to this one, or 0.
    pub(crate) parent: Offset,
    pub(crate) index: usize,
}

/// Root words of a dictionary, as a view found them.
pub(crate) trait RootWords {
    /// One of those that describe the tables.
    fn word(&self, word: usize) -> Result<u64, Fault>;
}

impl RootWords for Roots<'_, TABLE_WORDS> {
    #[inline(always)]
    fn word(&self, word: usize) -> Result<u64, Fault> {
        Ok(Roots::word(self, word))
    }
}

/// Where a dictionary's root words lie, and what its slots refer to.
pub(crate) trait Dictionary: Copy {
    /// What a slot refers to, as it was found.
    type Item: Copy;
    /// How its root words are read.
    type Words<'v>: RootWords;

    /// Keys per bucket above which the table doubles.
    const FULL: u64;

    /// The memory that its tables come from.
    fn pool(self) -> Pool;

    /// A root word.
    fn word(self, view: &View<'_>, word: usize) -> Result<u64, Fault>;

    /// The root words that describe the tables, for reading several of them.
    fn words<'v>(self, view: &View<'v>) -> Result<Self::Words<'v>, Fault>;

    /// Changes a root word.
    fn set_word(
        self,
        transaction: &mut Transaction<'_>,
        word: usize,
        value: u64,
    ) -> Result<(), Error>;

    /// What lies at an offset, if its key is the given one.
    fn load_if_key(view: &View<'_>, at: Offset, key: &[u8]) -> Result<Option<Self::Item>, Fault>;

    /// Appends the key of what lies at an offset to `out`.
    fn append_key(view: &View<'_>, at: Offset, out: &mut Vec<u8>) -> Result<(), Error>;

    /// Changes a word of a bucket.
    #[inline(always)]
    fn store(self, transaction: &mut Transaction<'_>, at: Offset, value: u64) -> Result<(), Error> {
        Ok(transaction.store(self.pool().shard(), at, value)?)
    }

    /// Adds to a root word.
    fn add_word(
        self,
        transaction: &mut Transaction<'_>,
        word: usize,
        change: i64,
    ) -> Result<(), Error> {
        let old = self.word(transaction.view(), word)?;
        self.set_word(transaction, word, old.wrapping_add_signed(change))
    }

    /// The tables, if there is one.
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

fn root_fault() -> Fault {
    Fault {
        at: 0,
        what: "a dictionary's root with sound tables",
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
    // From bits that choose neither shard nor bucket; never 0.
    (hash >> 48 & 0xff).max(1)
}

/// Marks, in its high bit, each byte of `tags` that equals `tag`; may also mark
/// a byte above a true match, so a match must be verified.
#[inline(always)]
fn matches(tags: u64, tag: u64) -> u64 {
    const LOW: u64 = 0x0001_0101_0101_0101;
    const HIGH: u64 = 0x0080_8080_8080_8080;
    let difference = tags ^ (LOW * tag);
    difference.wrapping_sub(LOW) & !difference & HIGH
}

impl Tables {
    /// The bucket where a key with this hash lies.
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

/// Looks a key up.
#[inline(always)]
pub(crate) fn find<D: Dictionary>(
    view: &View<'_>,
    root: D,
    key: &Key<'_>,
) -> Result<Option<D::Item>, Error> {
    Ok(find_slot(view, root, key)?.map(|(_, item)| item))
}

/// Looks a key up, with the slot that refers to it.
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
        // R3: a torn chain may lead in circles; an unchanged one does not.
        view.recheck()?;
    }
    Err(chain_fault(bucket).into())
}

/// The bucket where a key lies if it is there; 0 where there is no table.
#[inline(always)]
pub(crate) fn home<D: Dictionary>(
    view: &View<'_>,
    root: D,
    key: &Key<'_>,
) -> Result<Offset, Fault> {
    Ok(root.tables(view)?.map_or(0, |tables| tables.home(key.hash)))
}

/// The first entry of a key's home bucket that may be the key's, by its tag; 0 where none is.
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

/// One bucket as read: its entries and the next bucket of its chain, or 0.
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

/// Calls `visit` with the entries of a bucket and its chain, and the bucket of the chain that each lies in: 0 for the home
/// bucket, which is part of the table.
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

/// Lets a slot refer to another entry of the same key.
#[inline(always)]
pub(crate) fn replace(
    transaction: &mut Transaction<'_>,
    shard: usize,
    slot: Slot,
    entry: Offset,
) -> Result<(), Error> {
    Ok(transaction.store(shard, slot.bucket + 8 + slot.index as u64 * 8, entry)?)
}

/// Puts a key's entry into the dictionary; the key must not be there. Does a
/// bounded part of a resize.
pub(crate) fn insert<D: Dictionary>(
    transaction: &mut Transaction<'_>,
    root: D,
    hash: u64,
    entry: Offset,
) -> Result<(), Error> {
    let tables = match root.tables(transaction.view())? {
        Some(tables) => tables,
        None => create(transaction, root)?,
    };
    insert_into(transaction, root, tables.home(hash), hash, entry)?;
    root.add_word(transaction, KEYS, 1)?;
    resize(transaction, root, RETRY).map(drop)
}

/// Binary logarithm of the buckets that so many keys need.
pub(crate) fn bits_for<D: Dictionary>(keys: u64) -> u64 {
    let buckets = keys.div_ceil(D::FULL).next_power_of_two();
    u64::from(buckets.ilog2()).min(BITS_MAX)
}

/// Makes the table of an empty dictionary.
fn create<D: Dictionary>(transaction: &mut Transaction<'_>, root: D) -> Result<Tables, Error> {
    let at = transaction.allocate(root.pool(), BUCKET)?;
    transaction.fill_zero(at, BUCKET)?;
    root.set_word(transaction, TABLE, at)?;
    root.set_word(transaction, BITS, 0)?;
    let main = Table { at, bits: 0 };
    Ok(Tables { main, other: None })
}

fn insert_into<D: Dictionary>(
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
        // The last entry moves to a new bucket, and its slot leads there.
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

/// Takes a key's entry out of the dictionary; the entry itself stays for the
/// caller. Does a bounded part of a resize.
pub(crate) fn remove<D: Dictionary>(
    transaction: &mut Transaction<'_>,
    root: D,
    slot: Slot,
) -> Result<(), Error> {
    take_out(transaction, root, slot)?;
    root.add_word(transaction, KEYS, -1)?;
    resize(transaction, root, RETRY).map(drop)
}

/// Takes a key's entry out of its bucket; the caller counts the keys, and
/// resizes. Returns whether the bucket has left its chain.
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
        // An empty overflow bucket leaves the chain.
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

/// Whether a resize is under way, or due for want of keys.
pub(crate) fn is_unfit<D: Dictionary>(view: &View<'_>, root: D) -> Result<bool, Error> {
    let bits = root.word(view, BITS)?.min(BITS_MAX);
    let sparse = bits > 0 && root.word(view, KEYS)? < (1 << bits) / SPARSE;
    Ok(sparse || root.word(view, NEXT_TABLE)? != 0)
}

/// Bytes of the long table that a dictionary will soon double to; 0 where it will
/// not.
pub(crate) fn wanted<D: Dictionary>(view: &View<'_>, root: D) -> Result<u64, Fault> {
    let bits = root.word(view, BITS)?.min(BITS_MAX - 1);
    let bytes = BUCKET << (bits + 1);
    let full = (1 << bits) * D::FULL;
    let soon = root.word(view, KEYS)? > full - full / EARLY;
    let wanted = soon && bytes > EXTENT && root.word(view, NEXT_TABLE)? == 0;
    Ok(if wanted { bytes } else { 0 })
}

/// Starts a resize where one is due, or does the next bounded part of one.
/// Returns how much work that was; 0 is that nothing was to be done, or that
/// there was no memory yet.
pub(crate) fn resize_step<D: Dictionary>(
    transaction: &mut Transaction<'_>,
    root: D,
) -> Result<u64, Error> {
    resize(transaction, root, 1)
}

/// [`resize_step`] that tries to get a long table only at every so many keys.
fn resize<D: Dictionary>(
    transaction: &mut Transaction<'_>,
    root: D,
    tries: u64,
) -> Result<u64, Error> {
    let view = transaction.view();
    let next = root.word(view, NEXT_TABLE)?;
    if next == 0 {
        let bits = root.word(view, BITS)?;
        let buckets = 1_u64 << bits.min(BITS_MAX);
        let keys = root.word(view, KEYS)?;
        let full = buckets.saturating_mul(D::FULL);
        let (bits, is_overdue) = match bits {
            _ if keys > full && bits < BITS_MAX => (bits + 1, keys / 2 > full),
            1.. if keys < buckets / SPARSE => (bits - 1, keys * 2 < buckets / SPARSE),
            _ => return Ok(0),
        };
        // A full store has no room for it, and would be searched at every key.
        if (BUCKET << bits > EXTENT || is_overdue) && !keys.is_multiple_of(tries) {
            return Ok(0);
        }
        return start_resize(transaction, root, bits);
    }
    let Some(Tables { main, .. }) = root.tables(view)? else {
        return Err(root_fault().into());
    };
    let other = Table {
        at: next,
        bits: root.word(view, NEXT_BITS)?,
    };
    let prepared = root.word(view, PREPARED)?;
    if prepared < other.buckets() {
        let count = ZERO_STEP.min(other.buckets() - prepared);
        transaction.fill_zero(other.at + prepared * BUCKET, count * BUCKET)?;
        root.set_word(transaction, PREPARED, prepared + count)?;
        return Ok(ZERO_WORK);
    }
    let (mut moved, mut work) = (root.word(view, MOVED)?, 0);
    for _ in 0..MOVE_STEP {
        if moved < main.buckets() {
            let entries = move_bucket(transaction, root, main.bucket(moved), other)?;
            work += LOOK_WORK + entries * MOVE_WORK;
            moved += 1;
        }
    }
    if moved < main.buckets() {
        root.set_word(transaction, MOVED, moved)?;
        warm_next(transaction.view(), main, other, moved)?;
        return Ok(work);
    }
    root.set_word(transaction, TABLE, other.at)?;
    root.set_word(transaction, BITS, other.bits)?;
    root.set_word(transaction, NEXT_TABLE, 0)?;
    root.set_word(transaction, PREPARED, 0)?;
    root.set_word(transaction, MOVED, 0)?;
    transaction.free(root.pool(), main.at);
    Ok(work + LOOK_WORK)
}

fn start_resize<D: Dictionary>(
    transaction: &mut Transaction<'_>,
    root: D,
    bits: u64,
) -> Result<u64, Error> {
    // A table that is fuller than it should be only makes chains longer.
    let Some(at) = transaction.allocate_if_ready(root.pool(), BUCKET << bits)? else {
        return Ok(0);
    };
    root.set_word(transaction, NEXT_TABLE, at)?;
    root.set_word(transaction, NEXT_BITS, bits)?;
    root.set_word(transaction, PREPARED, 0)?;
    root.set_word(transaction, MOVED, 0)?;
    Ok(ZERO_WORK)
}

/// Asks for what the next step will move, which lies anywhere in memory: it comes into the caches until then.
fn warm_next(view: &View<'_>, main: Table, other: Table, moved: u64) -> Result<(), Error> {
    for index in moved..moved + MOVE_STEP {
        for entry in load_bucket(view, main.bucket(index))?.entries {
            view.prefetch(entry);
        }
        // Where its entries go: one of these two, or both are one.
        view.prefetch(other.bucket(index));
        view.prefetch(other.bucket(index + main.buckets()));
    }
    view.prefetch_range(main.bucket(moved + MOVE_STEP), MOVE_STEP * BUCKET);
    Ok(())
}

/// Moves the entries of one bucket and its chain to the other table. Returns how
/// many.
fn move_bucket<D: Dictionary>(
    transaction: &mut Transaction<'_>,
    root: D,
    from: Offset,
    other: Table,
) -> Result<u64, Error> {
    let (mut at, mut entries, mut key) = (from, 0, Vec::new());
    for _ in 0..CHAIN_MAX {
        let bucket = load_bucket(transaction.view(), at)?;
        for entry in bucket.entries.into_iter().filter(|&entry| entry != 0) {
            key.clear();
            D::append_key(transaction.view(), entry, &mut key)?;
            let hash = crate::structures::key::hash(transaction.hash_key(), &key);
            insert_into(transaction, root, other.bucket(hash), hash, entry)?;
            entries += 1;
        }
        // The home bucket stays as it is: nobody looks below MOVED.
        if at != from {
            transaction.free(root.pool(), at);
        }
        if bucket.next == 0 {
            return Ok(entries);
        }
        at = bucket.next;
    }
    Err(chain_fault(from).into())
}

#[cfg(test)]
mod tests {
    use undercroft_memory::{Options, ShardSet};

    use super::*;
    use crate::store::Store;

    #[test]
    fn tags_that_are_there_are_found() {
        for position in 0..SLOTS {
            for tag in 1..=255_u64 {
                let tags = tag << (position * 8) | CHAINED;
                let hits = matches(tags, tag);
                assert!(hits >> (position * 8 + 7) & 1 == 1, "{tag} at {position}");
            }
        }
        assert_eq!(matches(0, 7), 0);
    }

    #[test]
    fn a_long_table_doubles_though_its_memory_comes_in_parts() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let options = Options {
            capacity: Some(256 << 20),
            shards: Some(1),
            ring: None,
        };
        let store = Store::create(&directory.path().join("store"), &options).expect("a store");
        // Nobody prepares anything.
        store.leave_upkeep_to_a_timer();
        let root = Root {
            shard: 0,
            database: 0,
        };
        let buckets = |store: &Store| {
            let bits = store.read(ShardSet::one(0), |reader| {
                let view = reader.view();
                Ok::<_, Error>(root.get(view, BITS).max(root.get(view, NEXT_BITS)))
            });
            1_u64 << bits.expect("no lock is held")
        };
        for key in 1..=180_000_u64 {
            let before = store.statistics().reserved;
            store.set(0, &key.to_le_bytes(), b"value").expect("room");
            let backed = (store.statistics().reserved - before) / EXTENT;
            assert!(backed <= 8, "{backed} extents for the key {key}");
            if key.is_multiple_of(1000) {
                // Some are late, but not by much.
                assert!(key < buckets(&store) * (Root::FULL + 1), "{key} keys");
            }
        }
        for key in 1..=180_000_u64 {
            let mut value = Vec::new();
            assert!(store.get(0, &key.to_le_bytes(), &mut value).expect("read"));
        }
        let report = store.check().expect("checked");
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}
