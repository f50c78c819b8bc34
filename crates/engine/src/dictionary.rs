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

use undercroft_memory::{Fault, Offset, Transaction, View};

use crate::entry::Entry;
use crate::error::Error;
use crate::roots::{BITS, KEYS, MOVED, NEXT_BITS, NEXT_TABLE, PREPARED, Root, TABLE};
use crate::store::Key;

/// Slots in a bucket.
pub(crate) const SLOTS: usize = 7;
/// Bytes of a bucket.
pub(crate) const BUCKET: u64 = 64;
/// The bucket's last slot refers to another bucket.
const CHAINED: u64 = 1 << 56;
/// A chain longer than this is a cycle: the longest possible one at the fill
/// factor is far shorter.
pub(crate) const CHAIN_MAX: usize = 1 << 16;
/// Keys per bucket above which the table doubles.
const FULL: u64 = 5;
/// Keys per bucket, as a reciprocal, below which the table halves.
const SPARSE: u64 = 2;
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
        self.at + (index & (self.buckets() - 1)) * BUCKET
    }
}

/// A slot of a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) bucket: Offset,
    /// The bucket whose chain leads to this one, or 0.
    parent: Offset,
    index: usize,
}

#[inline(always)]
fn tag_of(hash: u64) -> u64 {
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

impl Root {
    /// The tables, if there is one.
    #[inline(always)]
    pub(crate) fn tables(self, view: &View<'_>) -> Result<Option<Tables>, Fault> {
        let at = self.get(view, TABLE);
        if at == 0 {
            return Ok(None);
        }
        let main = Table {
            at,
            bits: self.get(view, BITS),
        };
        let mut other = None;
        let next = self.get(view, NEXT_TABLE);
        if next != 0 {
            let table = Table {
                at: next,
                bits: self.get(view, NEXT_BITS),
            };
            if table.bits > BITS_MAX {
                return Err(self.fault());
            }
            if self.get(view, PREPARED) == table.buckets() {
                other = Some((table, self.get(view, MOVED)));
            }
        }
        if main.bits > BITS_MAX {
            return Err(self.fault());
        }
        Ok(Some(Tables { main, other }))
    }

    fn fault(self) -> Fault {
        Fault {
            at: 0,
            what: "a dictionary's root with sound tables",
        }
    }
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
pub(crate) fn find(view: &View<'_>, root: Root, key: &Key<'_>) -> Result<Option<Entry>, Error> {
    Ok(find_slot(view, root, key)?.map(|(_, entry)| entry))
}

/// Looks a key up, with the slot that refers to it.
#[inline(always)]
pub(crate) fn find_slot(
    view: &View<'_>,
    root: Root,
    key: &Key<'_>,
) -> Result<Option<(Slot, Entry)>, Error> {
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
            if let Some(entry) = Entry::load_if_key(view, at, key.bytes)? {
                let slot = Slot {
                    bucket,
                    parent,
                    index,
                };
                return Ok(Some((slot, entry)));
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
pub(crate) fn home(view: &View<'_>, root: Root, key: &Key<'_>) -> Result<Offset, Fault> {
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

/// Calls `visit` with the entries of a bucket and its chain.
pub(crate) fn for_each_in_chain(
    view: &View<'_>,
    bucket: Offset,
    mut visit: impl FnMut(Offset) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut at = bucket;
    for _ in 0..CHAIN_MAX {
        let bucket = load_bucket(view, at)?;
        for entry in bucket.entries.into_iter().filter(|&entry| entry != 0) {
            visit(entry)?;
        }
        if bucket.next == 0 {
            return Ok(());
        }
        view.recheck()?;
        at = bucket.next;
    }
    Err(chain_fault(bucket).into())
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
pub(crate) fn insert(
    transaction: &mut Transaction<'_>,
    root: Root,
    hash: u64,
    entry: Offset,
) -> Result<(), Error> {
    let tables = match root.tables(transaction.view())? {
        Some(tables) => tables,
        None => create(transaction, root)?,
    };
    insert_into(transaction, root.shard, tables.home(hash), hash, entry)?;
    root.add(transaction, KEYS, 1)?;
    resize_step(transaction, root)
}

fn create(transaction: &mut Transaction<'_>, root: Root) -> Result<Tables, Error> {
    let at = transaction.allocate(root.shard, BUCKET)?;
    transaction.fill_zero(at, BUCKET)?;
    root.set(transaction, TABLE, at)?;
    root.set(transaction, BITS, 0)?;
    let main = Table { at, bits: 0 };
    Ok(Tables { main, other: None })
}

fn insert_into(
    transaction: &mut Transaction<'_>,
    shard: usize,
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
            transaction.store(shard, bucket + 8 + index as u64 * 8, entry)?;
            transaction.store(shard, bucket, tags | tag << (index * 8))?;
            return Ok(());
        }
        if chained {
            bucket = words[SLOTS];
            continue;
        }
        // The last entry moves to a new bucket, and its slot leads there.
        let last = (SLOTS - 1) * 8;
        let new = transaction.allocate(shard, BUCKET)?;
        transaction.fill_zero(new, BUCKET)?;
        transaction.fill_word(new, (tags >> last & 0xff) | tag << 8)?;
        transaction.fill_word(new + 8, words[SLOTS])?;
        transaction.fill_word(new + 16, entry)?;
        transaction.store(shard, bucket + SLOTS as u64 * 8, new)?;
        transaction.store(shard, bucket, tags & !(0xff << last) | CHAINED)?;
        return Ok(());
    }
    Err(chain_fault(home).into())
}

/// Takes a key's entry out of the dictionary; the entry itself stays for the
/// caller. Does a bounded part of a resize.
pub(crate) fn remove(
    transaction: &mut Transaction<'_>,
    root: Root,
    slot: Slot,
) -> Result<(), Error> {
    let shard = root.shard;
    let tags = transaction.view().word(slot.bucket)? & !(0xff << (slot.index * 8));
    transaction.store(shard, slot.bucket, tags)?;
    transaction.store(shard, slot.bucket + 8 + slot.index as u64 * 8, 0)?;
    let entries_left = tags & (CHAINED - 1) != 0;
    if slot.parent != 0 && !entries_left {
        // An empty overflow bucket leaves the chain.
        let link = slot.parent + SLOTS as u64 * 8;
        let next = transaction.view().word(slot.bucket + SLOTS as u64 * 8)?;
        if tags & CHAINED != 0 {
            transaction.store(shard, link, next)?;
        } else {
            let parent_tags = transaction.view().word(slot.parent)?;
            transaction.store(shard, slot.parent, parent_tags & !CHAINED)?;
            transaction.store(shard, link, 0)?;
        }
        transaction.free(shard, slot.bucket);
    }
    root.add(transaction, KEYS, -1)?;
    resize_step(transaction, root)
}

/// Starts a resize where one is due, or does the next bounded part of one.
pub(crate) fn resize_step(transaction: &mut Transaction<'_>, root: Root) -> Result<(), Error> {
    let view = transaction.view();
    let next = root.get(view, NEXT_TABLE);
    if next == 0 {
        let buckets = 1_u64 << root.get(view, BITS).min(BITS_MAX);
        let keys = root.get(view, KEYS);
        let bits = root.get(view, BITS);
        if keys > buckets.saturating_mul(FULL) && bits < BITS_MAX {
            return start_resize(transaction, root, bits + 1);
        }
        if bits > 0 && keys < buckets / SPARSE {
            return start_resize(transaction, root, bits - 1);
        }
        return Ok(());
    }
    let Some(Tables { main, .. }) = root.tables(view)? else {
        return Err(root.fault().into());
    };
    let other = Table {
        at: next,
        bits: root.get(view, NEXT_BITS),
    };
    let prepared = root.get(view, PREPARED);
    if prepared < other.buckets() {
        let count = ZERO_STEP.min(other.buckets() - prepared);
        transaction.fill_zero(other.at + prepared * BUCKET, count * BUCKET)?;
        return root.set(transaction, PREPARED, prepared + count);
    }
    let mut moved = root.get(view, MOVED);
    for _ in 0..MOVE_STEP {
        if moved < main.buckets() {
            move_bucket(transaction, root.shard, main.bucket(moved), other)?;
            moved += 1;
        }
    }
    if moved < main.buckets() {
        return root.set(transaction, MOVED, moved);
    }
    root.set(transaction, TABLE, other.at)?;
    root.set(transaction, BITS, other.bits)?;
    root.set(transaction, NEXT_TABLE, 0)?;
    root.set(transaction, PREPARED, 0)?;
    root.set(transaction, MOVED, 0)?;
    transaction.free(root.shard, main.at);
    Ok(())
}

fn start_resize(transaction: &mut Transaction<'_>, root: Root, bits: u64) -> Result<(), Error> {
    let at = transaction.allocate(root.shard, BUCKET << bits)?;
    root.set(transaction, NEXT_TABLE, at)?;
    root.set(transaction, NEXT_BITS, bits)?;
    root.set(transaction, PREPARED, 0)?;
    root.set(transaction, MOVED, 0)
}

/// Moves the entries of one bucket and its chain to the other table.
fn move_bucket(
    transaction: &mut Transaction<'_>,
    shard: usize,
    from: Offset,
    other: Table,
) -> Result<(), Error> {
    let mut at = from;
    for _ in 0..CHAIN_MAX {
        let bucket = load_bucket(transaction.view(), at)?;
        for entry in bucket.entries.into_iter().filter(|&entry| entry != 0) {
            let hash = hash_of(transaction, entry)?;
            insert_into(transaction, shard, other.bucket(hash), hash, entry)?;
        }
        // The home bucket stays as it is: nobody looks below MOVED.
        if at != from {
            transaction.free(shard, at);
        }
        if bucket.next == 0 {
            return Ok(());
        }
        at = bucket.next;
    }
    Err(chain_fault(from).into())
}

fn hash_of(transaction: &Transaction<'_>, entry: Offset) -> Result<u64, Error> {
    let view = transaction.view();
    let entry = Entry::load(view, entry)?;
    let mut key = Vec::new();
    entry.append_key(view, &mut key)?;
    Ok(crate::store::hash(transaction.hash_key(), &key))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
