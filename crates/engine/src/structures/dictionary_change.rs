//! Inserting into a dictionary and removing from it. Each change also performs a bounded part of a
//! pending resize.

use undercroft_memory::layout::EXTENT;
use undercroft_memory::{Fault, Offset, Transaction, View};

use crate::error::Error;
use crate::structures::dictionary::{
    BITS_MAX, BUCKET, CHAIN_MAX, Dictionary, Slot, Table, Tables, chain_fault, create, insert_into,
    load_bucket, root_fault, take_out,
};
use crate::structures::roots::{BITS, KEYS, MOVED, NEXT_BITS, NEXT_TABLE, PREPARED, TABLE};

/// The number of buckets per key above which the table halves.
const SPARSE: u64 = 2;
/// Insertions and removals try to allocate a large table only when the key count is a multiple of
/// this number, because there may not be enough memory yet.
const RETRY: u64 = 64;
/// Memory for a larger table is prepared in advance once the key count is within 1/`EARLY` of the
/// doubling threshold.
const EARLY: u64 = 8;
/// The binary logarithm of the largest factor by which a table grows.
const GROWTH_MAX: u64 = 3;
/// The cost of each part of a resize in tenths of a microsecond: reading a bucket, moving an entry,
/// and zeroing a group of buckets.
const LOOK_WORK: u64 = 1;
const MOVE_WORK: u64 = 3;
const ZERO_WORK: u64 = 10;
/// The number of buckets that one step of a resize zeroes.
const ZERO_STEP: u64 = 64;
/// The number of buckets that one step of a resize moves.
const MOVE_STEP: u64 = 2;

/// Inserts a key's entry, and performs a bounded part of a resize. The dictionary must not contain
/// the key yet.
pub(crate) fn insert<D: Dictionary>(
    transaction: &mut Transaction<'_>,
    root: D,
    hash: u64,
    entry: Offset,
) -> Result<(), Error> {
    insert_expecting(transaction, root, hash, entry, 0)
}

/// Inserts a key's entry like [`insert`]. If the dictionary grows, it grows faster toward the number
/// of keys that are expected.
pub(crate) fn insert_expecting<D: Dictionary>(
    transaction: &mut Transaction<'_>,
    root: D,
    hash: u64,
    entry: Offset,
    expected: u64,
) -> Result<(), Error> {
    let tables = match root.tables(transaction.view())? {
        Some(tables) => tables,
        None => create(transaction, root)?,
    };
    insert_into(transaction, root, tables.home(hash), hash, entry)?;
    root.add_word(transaction, KEYS, 1)?;
    resize(transaction, root, RETRY, expected).map(drop)
}

/// Removes a key's entry from the dictionary, and performs a bounded part of a resize. The caller
/// must free the entry.
pub(crate) fn remove<D: Dictionary>(
    transaction: &mut Transaction<'_>,
    root: D,
    slot: Slot,
) -> Result<(), Error> {
    take_out(transaction, root, slot)?;
    root.add_word(transaction, KEYS, -1)?;
    resize(transaction, root, RETRY, 0).map(drop)
}

/// Returns whether a resize is in progress or the table has so few keys that it must shrink.
pub(crate) fn is_unfit<D: Dictionary>(view: &View<'_>, root: D) -> Result<bool, Error> {
    let bits = root.word(view, BITS)?.min(BITS_MAX);
    let sparse = bits > 0 && root.word(view, KEYS)? < (1 << bits) / SPARSE;
    Ok(sparse || root.word(view, NEXT_TABLE)? != 0)
}

/// Returns the size in bytes of the large table that the dictionary will soon need for doubling, or
/// 0 if it will not need one soon.
pub(crate) fn wanted<D: Dictionary>(view: &View<'_>, root: D) -> Result<u64, Fault> {
    let bits = root.word(view, BITS)?.min(BITS_MAX - 1);
    let bytes = BUCKET << (bits + 1);
    let full = (1 << bits) * D::FULL;
    let soon = root.word(view, KEYS)? > full - full / EARLY;
    let wanted = soon && bytes > EXTENT && root.word(view, NEXT_TABLE)? == 0;
    Ok(if wanted { bytes } else { 0 })
}

/// Starts a resize if it is due, or performs the next bounded part of the resize. Returns the
/// amount of work done, or 0 if no work was due or the new table could not be allocated.
pub(crate) fn resize_step<D: Dictionary>(
    transaction: &mut Transaction<'_>,
    root: D,
) -> Result<u64, Error> {
    resize(transaction, root, 1, 0)
}

/// Like [`resize_step`], but tries to allocate a large table only if the key count is a multiple of
/// `tries`, and grows faster if more than the present keys are `expected`.
fn resize<D: Dictionary>(
    transaction: &mut Transaction<'_>,
    root: D,
    tries: u64,
    expected: u64,
) -> Result<u64, Error> {
    let view = transaction.view();
    let next = root.word(view, NEXT_TABLE)?;
    if next == 0 {
        let bits = root.word(view, BITS)?;
        let buckets = 1_u64 << bits.min(BITS_MAX);
        let keys = root.word(view, KEYS)?;
        let full = buckets.saturating_mul(D::FULL);
        let (bits, is_overdue) = match bits {
            _ if keys > full && bits < BITS_MAX => {
                let is_overdue = keys / 2 > full;
                // A store without room for a large table may have room for a smaller one.
                let growth = if is_overdue {
                    1
                } else {
                    growth(full, expected)
                };
                ((bits + growth).min(BITS_MAX), is_overdue)
            }
            1.. if keys < buckets / SPARSE => (bits - 1, keys * 2 < buckets / SPARSE),
            _ => return Ok(0),
        };
        // A full store has no room for the new table, and searching for room at every change would
        // be slow.
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

/// Returns the binary logarithm of the factor by which a table that is full with `full` keys grows.
/// Growing by a larger factor than two moves each key less often. The factor is limited so that the
/// new table is not sparse, whether or not the expected keys arrive. The last resize moves the most
/// keys, so the first one takes the odd factor and all later ones the largest.
fn growth(full: u64, expected: u64) -> u64 {
    let doublings = expected.div_ceil(full.max(1)).next_power_of_two().ilog2();
    match u64::from(doublings) {
        0 => 1,
        doublings => (doublings - 1) % GROWTH_MAX + 1,
    }
}

fn start_resize<D: Dictionary>(
    transaction: &mut Transaction<'_>,
    root: D,
    bits: u64,
) -> Result<u64, Error> {
    // If there is no memory, postpone the resize: an overfull table merely has longer chains.
    let Some(at) = transaction.allocate_if_ready(root.pool(), BUCKET << bits)? else {
        return Ok(0);
    };
    root.set_word(transaction, NEXT_TABLE, at)?;
    root.set_word(transaction, NEXT_BITS, bits)?;
    root.set_word(transaction, PREPARED, 0)?;
    root.set_word(transaction, MOVED, 0)?;
    Ok(ZERO_WORK)
}

/// Prefetches the entries and buckets that the next step will move.
fn warm_next(view: &View<'_>, main: Table, other: Table, moved: u64) -> Result<(), Error> {
    for index in moved..moved + MOVE_STEP {
        for entry in load_bucket(view, main.bucket(index))?.entries {
            view.prefetch(entry);
        }
        // The entries of this bucket move to one of these two buckets. When the table shrinks, both
        // indexes select the same bucket.
        view.prefetch(other.bucket(index));
        view.prefetch(other.bucket(index + main.buckets()));
    }
    view.prefetch_range(main.bucket(moved + MOVE_STEP), MOVE_STEP * BUCKET);
    Ok(())
}

/// Moves the entries of one home bucket and its chain to the new table. Returns the number of moved
/// entries.
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
        // Leave the home bucket unchanged, because buckets below `MOVED` are never read.
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
    fn large_table_doubles_without_prepared_memory() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let options = Options {
            capacity: Some(256 << 20),
            shards: Some(1),
            ring: None,
        };
        let store = Store::create(&directory.path().join("store"), &options).expect("a store");
        // Leave upkeep to a timer that this test does not have, so that no memory is prepared for
        // the new tables.
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
                // A table may double late, but only slightly.
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

    #[test]
    fn last_growth_toward_the_expected_keys_is_the_largest() {
        for expected in 0..100_000 {
            let (mut full, mut last) = (5_u64, 0);
            while full < expected {
                last = growth(full, expected);
                assert!(full == 5 || last == GROWTH_MAX, "{expected} keys: {full}");
                full <<= last;
            }
            // One doubling less would not suffice.
            assert!(last == 0 || full / 2 < expected, "{expected} keys: {full}");
        }
        assert_eq!(growth(5, 0), 1);
        assert!(growth(5, u64::MAX) <= GROWTH_MAX);
    }

    #[test]
    fn expected_keys_make_a_table_grow_in_fewer_steps_but_never_sparse() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let options = Options {
            capacity: Some(256 << 20),
            shards: Some(1),
            ring: None,
        };
        let root = Root {
            shard: 0,
            database: 0,
        };
        // The announcement can be right, too large, too small or missing.
        let mut sizes_of = Vec::new();
        for expected in [0, 60_000, 1 << 60, 100] {
            let path = directory.path().join(format!("store {expected}"));
            let store = Store::create(&path, &options).expect("a store");
            store.expect_keys(expected);
            let mut sizes = Vec::new();
            for key in 1..=60_000_u64 {
                store.set(0, &key.to_le_bytes(), b"value").expect("room");
                let state = store.read(ShardSet::one(0), |reader| {
                    let view = reader.view();
                    let is_resizing = root.get(view, NEXT_TABLE) != 0;
                    Ok::<_, Error>((root.get(view, BITS), is_resizing, is_unfit(view, root)?))
                });
                let (bits, is_resizing, is_unfit) = state.expect("no lock is held");
                // A table that is unfit without a resize is sparse, and upkeep halves it.
                assert!(
                    !is_unfit || is_resizing,
                    "{key} of {expected} keys: {bits} bits"
                );
                if sizes.last() != Some(&bits) {
                    sizes.push(bits);
                }
            }
            assert!(sizes.is_sorted(), "{expected}: {sizes:?}");
            for key in 1..=60_000_u64 {
                let mut value = Vec::new();
                assert!(store.get(0, &key.to_le_bytes(), &mut value).expect("read"));
            }
            let report = store.check().expect("checked");
            assert!(report.problems.is_empty(), "{:?}", report.problems);
            sizes_of.push(sizes);
        }
        let [none, right, too_large, too_small] = &sizes_of[..] else {
            panic!("four stores");
        };
        assert_eq!(none.last(), right.last());
        assert_eq!(none.last(), too_small.last());
        assert!(right.len() < none.len() / 2 + 2, "{right:?}");
        assert!(too_large.len() < none.len() / 2 + 2, "{too_large:?}");
    }
}
