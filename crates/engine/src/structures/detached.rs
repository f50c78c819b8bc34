//! Parts that LTRIM or XTRIM cuts off the tree of a list or a stream with an arena: subtrees that
//! are freed later, in bounded steps, while the value lives on.
//!
//! The parts are in the value's arena, which may move to another shard or be returned to the heap
//! before they are freed. They are therefore linked in a separate list inside the arena, with one
//! block per subtree. The note of the arena refers to a single record in the graveyard of the
//! shard, and the record refers back to the arena. Code that moves or frees the arena first clears
//! that record (H4).
//!
//! ```text
//! a part, 32 bytes:
//! | next part | root | levels | progress |
//! ```

use undercroft_memory::{Fault, Offset, Pool, Transaction, View};

use crate::error::Error;
use crate::structures::graveyard::{self, CURSOR, MAIN, PARTS};
use crate::structures::tree::Subtree;

const PART: u64 = 32;
/// The offset of the tree's description within a part.
pub(crate) const TREE: u64 = 8;
/// The offset of the number of the value's type within a record.
pub(crate) const TYPE: u64 = MAIN + 8;
/// The type number of lists. It is 0 because lists were once the only type with parts.
pub(crate) const LIST: u64 = 0;
/// Queues a part of a tree in an arena to be freed later. `number` is the type number of the value.
/// The new part goes after the first one, which may be in the middle of being freed. O(1).
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

/// Creates the record of parts in the shard of their arena.
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

/// Clears the record of an arena's parts, if there is one. Returns the type number of the parts and
/// the first part, or 0 if there is none.
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

/// Moves an arena to another shard, including the parts in it. O(1).
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

/// Frees an arena, including the parts in it. O(1).
pub(crate) fn bury_arena(transaction: &mut Transaction<'_>, pool: Pool) -> Result<(), Error> {
    lay_down(transaction, pool)?;
    transaction.bury_arena(pool);
    Ok(())
}

/// Checks that the record in the note of an arena refers back to the arena.
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
        what: "an arena and parts of a value that refer to each other",
    }
    .into()
}
