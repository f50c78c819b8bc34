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
use crate::structures::graveyard::{self, CURSOR, MAIN, PARTS};
use crate::structures::tree::Subtree;

const PART: u64 = 32;
/// Where a part's tree is described.
pub(crate) const TREE: u64 = 8;
/// Where a record says what type the arena's value is: its number, as lists once were the only ones.
pub(crate) const TYPE: u64 = MAIN + 8;
/// The number of lists.
pub(crate) const LIST: u64 = 0;
/// Lets part of a tree in an arena, of a value whose parts have this number, be freed later: behind the first part, which may be the one
/// that is being freed just now. O(1).
pub(crate) fn bury(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    number: u64,
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
        0 => take_up(transaction, pool, number, part),
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
    let record = graveyard::bury(transaction, pool.shard(), PARTS, words)?;
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

/// Checks that an arena's note leads back to it.
pub(crate) fn check_note(view: &View<'_>, arena: Offset) -> Result<(), Error> {
    let record = view.arena_note(arena)?;
    if record != 0 && view.word(record + MAIN)? != arena {
        return Err(fault(arena));
    }
    Ok(())
}

pub(crate) fn fault(at: Offset) -> Error {
    Fault {
        at,
        what: "parts of a value and an arena that lead to each other",
    }
    .into()
}
