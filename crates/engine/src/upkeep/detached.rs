//! What is cut off the tree of a list or a stream that has an arena (LTRIM, XTRIM): subtrees that are freed later,
//! in bounded steps, while the rest lives on.
//!
//! They lie in the value's arena, which may go to another shard or to the heap
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
use crate::types::registry::ValueType;
use crate::upkeep::graveyard::{self, CURSOR, Dying, Left, MAIN, tree_of};

const PART: u64 = 32;
/// Where a part's tree is described.
const TREE: u64 = 8;
/// Where a record says what type the arena's value is: its number, as lists once were the only ones.
const TYPE: u64 = MAIN + 8;
const LIST: u64 = 0;
/// Parts of one value that the check follows.
const PARTS_MAX: usize = 1 << 20;

/// What answers for the trees of the parts that a record leads to.
fn trees(view: &View<'_>, record: Offset) -> Result<&'static dyn DyingTree, Error> {
    match view.word(record + TYPE)? {
        LIST => tree_of(ValueType::List),
        number => match ValueType::of_number(number) {
            Some(value_type) => tree_of(value_type),
            None => Err(fault(record)),
        },
    }
}

/// Lets part of a tree in an arena, of a value of a type, be freed later: behind the first part, which may be the one
/// that is being freed just now. O(1).
pub(crate) fn bury(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    value_type: ValueType,
    (root, height): Subtree,
) -> Result<(), Error> {
    let record = transaction.view().arena_note(pool.arena())?;
    let first = match record {
        0 => 0,
        record => transaction.view().word(record + CURSOR)?,
    };
    let next = match first {
        0 => 0,
        first => transaction.view().word(first)?,
    };
    let part = transaction.allocate(pool, PART)?;
    for (word, value) in [next, root, height as u64, 0].into_iter().enumerate() {
        transaction.fill_word(part + word as u64 * 8, value)?;
    }
    match first {
        0 => {
            let number = match value_type {
                ValueType::List => LIST,
                other => other.number(),
            };
            take_up(transaction, pool, number, part)
        }
        first => Ok(transaction.store(pool.shard(), first, part)?),
    }
}

/// Makes a record of parts in the shard of their arena.
fn take_up(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    number: u64,
    first: Offset,
) -> Result<(), Error> {
    let words = [pool.arena(), number, first, 0, 0];
    let record = graveyard::bury(transaction, pool.shard(), Dying::Parts, words)?;
    Ok(transaction.set_arena_note(pool, record)?)
}

/// Takes the task away from the record of an arena's parts, if there is one.
/// Returns what they are and the first part, or 0.
fn lay_down(transaction: &mut Transaction<'_>, pool: Pool) -> Result<(u64, Offset), Error> {
    let record = transaction.view().arena_note(pool.arena())?;
    if record == 0 {
        return Ok((LIST, 0));
    }
    let [number, first] = transaction.view().words::<2>(record + TYPE)?;
    transaction.store(pool.shard(), record + MAIN, 0)?;
    transaction.store(pool.shard(), record + CURSOR, 0)?;
    transaction.set_arena_note(pool, 0)?;
    Ok((number, first))
}

/// Gives an arena to another shard, with the parts in it. O(1).
pub(crate) fn transfer_arena(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    to: usize,
) -> Result<(), Error> {
    let (number, first) = lay_down(transaction, pool)?;
    let moved = transaction.transfer_arena(pool, to)?;
    if first == 0 {
        return Ok(());
    }
    take_up(transaction, moved, number, first)
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
    let trees = trees(transaction.view(), record)?;
    if !graveyard::free_leaves(transaction, pool, part + TREE, trees, leaves)? {
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
    let trees = trees(view, record)?;
    if part == 0 || view.arena_note(arena)? != record {
        return Err(fault(record));
    }
    while part != 0 {
        let [next, root, height, progress] = view.words::<4>(part)?;
        let left = Left::Tree(trees, (root, height as usize), progress);
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
        what: "parts of a value and an arena that lead to each other",
    }
    .into()
}
