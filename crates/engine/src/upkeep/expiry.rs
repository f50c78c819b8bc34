//! Removes expired keys that no client accesses (M1, M8).
//!
//! For each database, each shard stores a time before which no key expires. Setting an expiry
//! lowers that time. A sweep that has visited all buckets raises it to the earliest expiry that it
//! saw. As a result, a sweep searches only if a key may have expired, and finds every expired key.

use undercroft_memory::{Offset, ShardSet};

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::dictionary::{
    self, CHAIN_MAX, Dictionary, Slot, Tables, chain_fault, load_bucket,
};
use crate::structures::entry::Entry;
use crate::structures::roots::{EXPIRES, KEYS, NEXT_TABLE, Root, SEEN, SOONEST, SWEEP, expiring};
use crate::transaction::writer::Writer;
use crate::upkeep::graveyard;

/// The number of buckets that one transaction sweeps.
const BUCKETS: u64 = 16;
/// The number of removed keys after which a sweep transaction ends.
const REMOVED: u64 = 64;
/// The lowest bit of the table size in a sweep position. The size is stored as its binary
/// logarithm, above the bucket number.
const BITS_SHIFT: u32 = 48;

/// The result of a sweep.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SweepResult {
    /// The number of buckets examined.
    pub(crate) buckets: u64,
    /// The number of visited keys with an expiry, including keys that had expired.
    pub(crate) seen: u64,
    /// The number of keys removed.
    pub(crate) removed: u64,
    /// Whether the dictionary is being resized, which moves buckets to another table.
    pub(crate) moving: bool,
}

impl SweepResult {
    pub(crate) fn add(&mut self, other: SweepResult) {
        self.buckets += other.buckets;
        self.seen += other.seen;
        self.removed += other.removed;
        self.moving = other.moving;
    }
}

/// Sweeps one bucket of a dictionary in which a key may have expired. Spares the entry that was
/// just inserted, even if it has already expired, because its writer still uses it.
pub(crate) fn sweep_a_little(
    writer: &mut Writer<'_, '_>,
    root: Root,
    inserted: Offset,
) -> Result<(), Error> {
    sweep(writer, root, 1, inserted).map(drop)
}

/// Removes expired keys from the next few buckets. Examines no buckets if no key can have expired.
/// Allocates no memory, so it works in a full store.
pub(crate) fn sweep_buckets(writer: &mut Writer<'_, '_>, root: Root) -> Result<SweepResult, Error> {
    sweep(writer, root, BUCKETS, 0)
}

fn sweep(
    writer: &mut Writer<'_, '_>,
    root: Root,
    count: u64,
    spared: Offset,
) -> Result<SweepResult, Error> {
    let mut swept = SweepResult::default();
    let now = writer.now();
    let Some(tables) = root.tables(writer.view())? else {
        return Ok(swept);
    };
    if root.get(writer.view(), SOONEST) > now {
        return Ok(swept);
    }
    let (bits, length) = (tables.main.bits, tables.main.buckets());
    let place = root.get(writer.view(), SWEEP);
    let mut bucket = place & ((1 << BITS_SHIFT) - 1);
    if place >> BITS_SHIFT != bits || bucket >= length {
        bucket = 0;
    }
    // The sweep may miss buckets that move between tables during a resize.
    let moving = root.get(writer.view(), NEXT_TABLE) != 0;
    swept.moving = moving;
    let mut soonest = match bucket {
        _ if moving => 0,
        0 => u64::MAX,
        _ => root.get(writer.view(), SEEN),
    };
    if count > 1 {
        prefetch(writer, &tables, bucket, count)?;
    }
    while swept.buckets < count.min(length) && swept.removed < REMOVED && bucket < length {
        let place = (&tables, bucket);
        sweep_bucket(writer, root, place, spared, (&mut swept, &mut soonest))?;
        swept.buckets += 1;
        bucket += 1;
    }
    if swept.removed > 0 {
        let removed = swept.removed as i64;
        root.add(writer.transaction, EXPIRES, -removed)?;
        root.add(writer.transaction, KEYS, -removed)?;
        if root.get(writer.view(), KEYS) == 0 {
            // The dictionary contains no more keys, so detach its tables.
            graveyard::detach_unseen(writer, root)?;
            return Ok(swept);
        }
    }
    if bucket == length {
        if soonest != 0 {
            root.set(writer.transaction, SOONEST, soonest)?;
        }
        (bucket, soonest) = (0, 0);
    }
    root.set(writer.transaction, SEEN, soonest)?;
    root.set(writer.transaction, SWEEP, bits << BITS_SHIFT | bucket)?;
    Ok(swept)
}

/// Prefetches the entries in the next buckets. Without prefetching, each entry causes a cache miss.
fn prefetch(writer: &Writer<'_, '_>, tables: &Tables, first: u64, count: u64) -> Result<(), Error> {
    for bucket in first..(first + count).min(tables.main.buckets()) {
        for entry in load_bucket(writer.view(), tables.main.bucket(bucket))?.entries {
            writer.view().prefetch(entry);
        }
    }
    Ok(())
}

/// Removes expired keys from one bucket of the main table. If the bucket's entries have moved,
/// sweeps the buckets of the new table instead.
fn sweep_bucket(
    writer: &mut Writer<'_, '_>,
    root: Root,
    (tables, number): (&Tables, u64),
    spared: Offset,
    (swept, soonest): (&mut SweepResult, &mut u64),
) -> Result<(), Error> {
    match tables.other {
        Some((other, moved)) if number < moved => {
            sweep_chain(writer, root, other.bucket(number), spared, (swept, soonest))?;
            if other.bits > tables.main.bits {
                let second = other.bucket(number + tables.main.buckets());
                sweep_chain(writer, root, second, spared, (swept, soonest))?;
            }
            Ok(())
        }
        _ => {
            let home = tables.main.bucket(number);
            sweep_chain(writer, root, home, spared, (swept, soonest))
        }
    }
}

/// Removes expired keys from one bucket and its overflow chain. The caller must update the
/// dictionary's key count.
fn sweep_chain(
    writer: &mut Writer<'_, '_>,
    root: Root,
    home: u64,
    spared: Offset,
    (swept, soonest): (&mut SweepResult, &mut u64),
) -> Result<(), Error> {
    let now = writer.now();
    let (mut at, mut parent) = (home, 0);
    for _ in 0..CHAIN_MAX {
        let bucket = load_bucket(writer.view(), at)?;
        let mut left = false;
        for (index, offset) in bucket.entries.into_iter().enumerate() {
            if offset == 0 {
                continue;
            }
            let entry = Entry::load(writer.view(), offset)?;
            let Some(deadline) = entry.expiry(writer.view())? else {
                continue;
            };
            swept.seen += 1;
            if deadline > now || offset == spared {
                *soonest = (*soonest).min(deadline);
                continue;
            }
            swept.removed += 1;
            let slot = Slot {
                bucket: at,
                parent,
                index,
            };
            left |= writer.remove_expired_at(root, slot, &entry)?;
        }
        if bucket.next == 0 {
            return Ok(());
        }
        if !left {
            parent = at;
        }
        at = bucket.next;
    }
    Err(chain_fault(home).into())
}

impl Writer<'_, '_> {
    /// Removes an expired key from its bucket, without updating the key count. Returns whether the
    /// bucket was unlinked from its chain.
    fn remove_expired_at(&mut self, root: Root, slot: Slot, entry: &Entry) -> Result<bool, Error> {
        self.expired_at(root, entry)?;
        self.discard_value(root.shard, entry)?;
        self.transaction.free(root.shard, entry.at);
        dictionary::take_out(self.transaction, root, slot)
    }
}

impl Store {
    /// Returns the databases of a shard in which a key may have expired, as a bit mask.
    pub(crate) fn expiry_is_due(&self, shard: usize) -> Result<u64, Error> {
        let now = self.now();
        self.read(ShardSet::one(shard), |reader| {
            let view = reader.view();
            let is_due = |database: &usize| {
                let root = Root {
                    shard,
                    database: *database,
                };
                root.get(view, EXPIRES) != 0 && root.get(view, SOONEST) <= now
            };
            let due = expiring().filter(is_due);
            Ok::<_, Error>(due.fold(0, |bits, database| bits | 1 << database))
        })
    }

    /// Returns the number of buckets in a dictionary's main table.
    pub(crate) fn buckets(&self, root: Root) -> Result<u64, Error> {
        self.read(ShardSet::one(root.shard), |reader| {
            let tables = root.tables(reader.view())?;
            Ok::<_, Error>(tables.map_or(0, |tables| tables.main.buckets()))
        })
    }

    /// Removes expired keys from the next few buckets of a dictionary, in one transaction of
    /// bounded length (W9).
    pub(crate) fn sweep_some(&self, root: Root) -> Result<SweepResult, Error> {
        self.write(ShardSet::one(root.shard), |writer| {
            sweep_buckets(writer, root)
        })
    }
}
