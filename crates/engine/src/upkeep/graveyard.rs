//! Frees the structures in a shard's graveyard, the queue of large structures to free, in bounded
//! steps (W8, W9). These structures are the dictionaries of emptied databases, and the dictionaries
//! and trees of large collections that were removed. `structures/graveyard` documents the layout.

use undercroft_memory::{Offset, Pool, View};

use crate::error::Error;
use crate::structures::dictionary::{CHAIN_MAX, Table, chain_fault, load_bucket};
use crate::structures::element::Element;
use crate::structures::entry::Entry;
use crate::structures::graveyard::{self, CURSOR, MAIN, MAIN_BITS, NEXT, OTHER, is_dying};
use crate::structures::roots::{DATABASE_WORDS, DYING, Root};
use crate::transaction::writer::Writer;
use crate::upkeep::detached;
use crate::upkeep::freed_structures::{FreedStructure, RemainingMemory, free_leaves, tree_of};

/// The number of buckets or leaves that one transaction frees if a caller is waiting for the
/// memory.
pub(crate) const STEP: u64 = 64;

/// Frees up to `buckets` buckets or leaves of the structures in a shard's graveyard (its queue of
/// structures to free).
#[cold]
pub(crate) fn free_a_little(
    writer: &mut Writer<'_, '_>,
    shard: usize,
    mut buckets: u64,
) -> Result<(), Error> {
    while buckets > 0 && is_dying(writer.view(), shard) {
        free_some_of_first(writer, shard, &mut buckets)?;
    }
    Ok(())
}

/// Frees up to `buckets` buckets or leaves of the first structure in the graveyard (the queue of
/// structures to free), and subtracts the work done from `buckets`.
fn free_some_of_first(
    writer: &mut Writer<'_, '_>,
    shard: usize,
    buckets: &mut u64,
) -> Result<(), Error> {
    let record = writer.view().root(shard, DYING);
    let [_, at, bits, cursor, other, other_bits, kind] = writer.view().words::<7>(record)?;
    let kind = FreedStructure::of(kind, record)?;
    let pool = Pool::from(shard);
    let transaction = &mut *writer.transaction;
    let gone = match kind {
        FreedStructure::Keys | FreedStructure::Elements => None,
        FreedStructure::Tree(value_type) => {
            let kind = tree_of(value_type)?;
            let gone = free_leaves(transaction, pool, record + MAIN, kind, buckets)?;
            Some(gone)
        }
        FreedStructure::Parts => Some(detached::free_a_little(
            transaction,
            shard,
            record,
            buckets,
        )?),
    };
    match gone {
        Some(true) => return remove_first(writer, shard, record),
        Some(false) => return Ok(()),
        None => {}
    }
    let table = Table {
        at,
        bits: bits.min(40),
    };
    let end = cursor.saturating_add(*buckets).min(table.buckets());
    // Count an empty table as one bucket, so that the caller's loop ends.
    *buckets -= (end.saturating_sub(cursor)).clamp(1, *buckets);
    for index in cursor..end {
        free_chain(writer, pool, kind, table.bucket(index))?;
    }
    if end < table.buckets() {
        return Ok(writer.transaction.store(shard, record + CURSOR, end)?);
    }
    writer.transaction.free(shard, at);
    if other != 0 {
        writer.transaction.store(shard, record + MAIN, other)?;
        writer
            .transaction
            .store(shard, record + MAIN_BITS, other_bits)?;
        writer.transaction.store(shard, record + CURSOR, 0)?;
        writer.transaction.store(shard, record + OTHER, 0)?;
        return Ok(());
    }
    remove_first(writer, shard, record)
}

/// Removes the first structure from the graveyard, the queue of structures to free.
fn remove_first(writer: &mut Writer<'_, '_>, shard: usize, record: Offset) -> Result<(), Error> {
    // Read the link only now, because freeing may have queued more structures.
    let next = writer.view().word(record + NEXT)?;
    writer.transaction.set_root(shard, DYING, next)?;
    writer.transaction.free(shard, record);
    Ok(())
}

fn free_chain(
    writer: &mut Writer<'_, '_>,
    pool: Pool,
    kind: FreedStructure,
    home: Offset,
) -> Result<(), Error> {
    let mut at = home;
    for _ in 0..CHAIN_MAX {
        let bucket = load_bucket(writer.view(), at)?;
        for item in bucket.entries.into_iter().filter(|&item| item != 0) {
            match kind {
                FreedStructure::Keys => {
                    let entry = Entry::load(writer.view(), item)?;
                    writer.discard_value(pool.shard(), &entry)?;
                    writer.transaction.free(pool, item);
                }
                FreedStructure::Elements => {
                    let element = Element::load(writer.view(), item)?;
                    element.free(writer.transaction, pool)?;
                }
                // Trees have no tables, so this state indicates damage.
                FreedStructure::Tree(_) | FreedStructure::Parts => {
                    return Err(chain_fault(home).into());
                }
            }
        }
        if at != home {
            writer.transaction.free(pool, at);
        }
        if bucket.next == 0 {
            return Ok(());
        }
        at = bucket.next;
    }
    Err(chain_fault(home).into())
}

/// Visits the structures that are being freed, for the structural check.
pub(crate) fn for_each_dying(
    view: &View<'_>,
    shard: usize,
    mut visit: impl FnMut(Offset, RemainingMemory) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut record = view.root(shard, DYING);
    while record != 0 {
        let [next, at, bits, cursor, other, other_bits, kind] = view.words::<7>(record)?;
        let left = match FreedStructure::of(kind, record)? {
            FreedStructure::Tree(value_type) => {
                RemainingMemory::Tree(tree_of(value_type)?, (at, bits as usize), cursor)
            }
            FreedStructure::Parts => RemainingMemory::Parts(detached::all(view, record)?),
            kind @ (FreedStructure::Keys | FreedStructure::Elements) => {
                let table = |at, bits: u64| Table {
                    at,
                    bits: bits.min(40),
                };
                let mut tables = vec![(table(at, bits), cursor)];
                if other != 0 {
                    tables.push((table(other, other_bits), 0));
                }
                RemainingMemory::Tables(kind, tables)
            }
        };
        visit(record, left)?;
        record = next;
    }
    Ok(())
}

/// Moves a dictionary to the graveyard (the queue of structures to free) and clears its root,
/// without reporting a change. The dictionary must be empty or internal, unless the caller has
/// reported the change.
pub(crate) fn detach_unseen(writer: &mut Writer<'_, '_>, root: Root) -> Result<(), Error> {
    graveyard::bury_dictionary(writer.transaction, root, graveyard::KEYS)?;
    clear(writer, root)
}

/// Resets the root words of a database in one shard to their state in a new store.
pub(crate) fn clear(writer: &mut Writer<'_, '_>, root: Root) -> Result<(), Error> {
    for word in 0..DATABASE_WORDS {
        if root.get(writer.view(), word) != 0 {
            root.set(writer.transaction, word, 0)?;
        }
    }
    Ok(())
}
