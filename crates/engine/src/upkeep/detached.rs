//! What LTRIM cuts off a list that has an arena: subtrees that are freed later,
//! in bounded steps, while the list lives on.
//!
//! They lie in the list's arena, which may go to another shard or to the heap
//! before they are freed. So they are on a list of their own in the arena, of
//! blocks that each refer to one; the arena's note leads to the one record of
//! that list among the dying of its shard, and the record to the arena. Whoever
//! moves the arena, or buries it, takes the record's task away from it (H4).
//!
//! ```text
//! a part, 32 bytes:
//! | next one | root | levels | progress |
//! ```

use undercroft_memory::{Fault, Offset, Pool, Transaction, View};

use crate::error::Error;
use crate::structures::tree::Subtree;
use crate::types::contract::DyingTree;
use crate::types::list::Lists;
use crate::upkeep::graveyard::{self, CURSOR, Dying, Left, MAIN};

const PART: u64 = 32;
/// Where a part's tree is described.
const TREE: u64 = 8;
/// The trees whose parts they are.
const TREES: &'static dyn DyingTree = &Lists;
/// Parts of one list that the check follows.
const PARTS_MAX: usize = 1 << 20;

/// Lets part of a tree in an arena be freed later. O(1).
pub(crate) fn bury(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    (root, height): Subtree,
) -> Result<(), Error> {
    let record = transaction.view().arena_note(pool.arena())?;
    let next = match record {
        0 => 0,
        record => transaction.view().word(record + CURSOR)?,
    };
    let part = transaction.allocate(pool, PART)?;
    for (word, value) in [next, root, height as u64, 0].into_iter().enumerate() {
        transaction.fill_word(part + word as u64 * 8, value)?;
    }
    match record {
        0 => take_up(transaction, pool, part),
        record => Ok(transaction.store(pool.shard(), record + CURSOR, part)?),
    }
}

/// Makes a record of parts in the shard of their arena.
fn take_up(transaction: &mut Transaction<'_>, pool: Pool, first: Offset) -> Result<(), Error> {
    let words = [pool.arena(), 0, first, 0, 0];
    let record = graveyard::bury(transaction, pool.shard(), Dying::Parts, words)?;
    Ok(transaction.set_arena_note(pool, record)?)
}

/// Takes the task away from the record of an arena's parts, if there is one.
/// Returns the first part, or 0.
fn lay_down(transaction: &mut Transaction<'_>, pool: Pool) -> Result<Offset, Error> {
    let record = transaction.view().arena_note(pool.arena())?;
    if record == 0 {
        return Ok(0);
    }
    let first = transaction.view().word(record + CURSOR)?;
    transaction.store(pool.shard(), record + MAIN, 0)?;
    transaction.store(pool.shard(), record + CURSOR, 0)?;
    transaction.set_arena_note(pool, 0)?;
    Ok(first)
}

/// Gives an arena to another shard, with the parts in it. O(1).
pub(crate) fn transfer_arena(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    to: usize,
) -> Result<(), Error> {
    let first = lay_down(transaction, pool)?;
    let moved = transaction.transfer_arena(pool, to)?;
    if first == 0 {
        return Ok(());
    }
    take_up(transaction, moved, first)
}

/// Frees an arena, with the parts in it. O(1).
pub(crate) fn bury_arena(transaction: &mut Transaction<'_>, pool: Pool) -> Result<(), Error> {
    lay_down(transaction, pool)?;
    transaction.bury_arena(pool);
    Ok(())
}

/// Frees up to so many leaves of the first part that a record leads to, and
/// counts them down. Returns whether the record has done its task.
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
    if !graveyard::free_leaves(transaction, pool, part + TREE, TREES, leaves)? {
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

/// The parts that a record leads to, for the check.
pub(crate) fn all(view: &View<'_>, record: Offset) -> Result<Vec<(Offset, Left)>, Error> {
    let [arena, _, mut part] = view.words::<3>(record + MAIN)?;
    let mut parts = Vec::new();
    if arena == 0 && part == 0 {
        return Ok(parts);
    }
    if part == 0 || view.arena_note(arena)? != record {
        return Err(fault(record));
    }
    while part != 0 {
        let [next, root, height, progress] = view.words::<4>(part)?;
        let left = Left::Tree(TREES, (root, height as usize), progress);
        parts.push((part, left));
        if parts.len() > PARTS_MAX {
            return Err(fault(record));
        }
        part = next;
    }
    Ok(parts)
}

/// Checks that an arena's note leads back to it.
pub(crate) fn check_note(view: &View<'_>, arena: Offset) -> Result<(), Error> {
    let record = view.arena_note(arena)?;
    if record != 0 && view.word(record + MAIN)? != arena {
        return Err(fault(arena));
    }
    Ok(())
}

fn fault(at: Offset) -> Error {
    Fault {
        at,
        what: "parts of a list and an arena that lead to each other",
    }
    .into()
}
