//! Inserting into a dictionary and removing from it, with the bounded parts of a resize that go along.

use undercroft_memory::layout::EXTENT;
use undercroft_memory::{Fault, Offset, Transaction, View};

use crate::error::Error;
use crate::structures::dictionary::{
    BITS_MAX, BUCKET, CHAIN_MAX, Dictionary, Slot, Table, Tables, chain_fault, create, insert_into,
    load_bucket, root_fault, take_out,
};
use crate::structures::roots::{BITS, KEYS, MOVED, NEXT_BITS, NEXT_TABLE, PREPARED, TABLE};

/// Keys per bucket, as a reciprocal, below which the table halves.
const SPARSE: u64 = 2;
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
    use crate::handle::store::Store;
    use crate::structures::roots::Root;

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
