//! Deferred freeing of subtrees that LTRIM or XTRIM cut off a list or a stream that has its own
//! arena (a separate memory area). The subtrees are freed later in bounded steps, while the rest of
//! the value stays in use.
//!
//! The subtrees lie in the value's arena, which can move to another shard or be returned to the
//! heap before they are freed. Each arena therefore has a list of small blocks, called parts, each
//! of which refers to one subtree. A word in the arena's header (its note) refers to the record of
//! that list in the shard's graveyard (the queue of structures to free), and the record refers back
//! to the arena. Code that moves or frees the arena clears the record first (H4).
//!
//! ```text
//! a part, 32 bytes:
//! | next part | root | levels | progress |
//! ```

use undercroft_memory::{Offset, Pool, Transaction, View};

use crate::error::Error;
use crate::structures::detached::{LIST, TREE, TYPE, fault};
use crate::structures::graveyard::{CURSOR, MAIN};
use crate::types::contract::FreeableTree;
use crate::types::value_type::ValueType;
use crate::upkeep::freed_structures::{RemainingMemory, free_leaves, tree_of};

/// The maximum number of parts of one value that the structural check follows.
const PARTS_MAX: usize = 1 << 20;

/// Returns the tree implementation for the cut-off parts that a record refers to.
fn trees(view: &View<'_>, record: Offset) -> Result<&'static dyn FreeableTree, Error> {
    match view.word(record + TYPE)? {
        LIST => tree_of(ValueType::List),
        number => match ValueType::of_number(number) {
            Some(value_type) => tree_of(value_type),
            None => Err(fault(record)),
        },
    }
}

/// Frees up to `leaves` leaves of a record's first part, and subtracts the freed leaves from
/// `leaves`. Returns whether no parts are left, so that the record can be removed.
pub(crate) fn free_a_little(
    transaction: &mut Transaction<'_>,
    shard: usize,
    record: Offset,
    leaves: &mut u64,
) -> Result<bool, Error> {
    let [arena, _, part] = transaction.view().words::<3>(record + MAIN)?;
    if arena == 0 {
        return Ok(true);
    }
    let pool = Pool::new(shard, arena);
    let trees = trees(transaction.view(), record)?;
    if !free_leaves(transaction, pool, part + TREE, trees, leaves)? {
        return Ok(false);
    }
    let next = transaction.view().word(part)?;
    transaction.free(pool, part);
    transaction.store(shard, record + CURSOR, next)?;
    if next == 0 {
        transaction.set_arena_note(pool, 0)?;
    }
    Ok(next == 0)
}

/// Returns all cut-off parts that a record refers to, for the structural check.
pub(crate) fn all(
    view: &View<'_>,
    record: Offset,
) -> Result<Vec<(Offset, RemainingMemory)>, Error> {
    let [arena, _, mut part] = view.words::<3>(record + MAIN)?;
    let mut parts = Vec::new();
    if arena == 0 && part == 0 {
        return Ok(parts);
    }
    let trees = trees(view, record)?;
    if part == 0 || view.arena_note(arena)? != record {
        return Err(fault(record));
    }
    while part != 0 {
        let [next, root, height, progress] = view.words::<4>(part)?;
        let left = RemainingMemory::Tree(trees, (root, height as usize), progress);
        parts.push((part, left));
        if parts.len() > PARTS_MAX {
            return Err(fault(record));
        }
        part = next;
    }
    Ok(parts)
}
