//! Subtrees (parts) that LTRIM or XTRIM cuts off the tree of a list or a stream that has its own
//! arena (a separate memory area). The parts are freed later in bounded steps, while the rest of
//! the value stays in use.
//!
//! The parts lie in the value's arena, which can move to another shard or be returned to the heap
//! before they are freed. They are therefore linked in a separate list inside the arena, with one
//! block for each subtree. A word in the arena's header (its note) refers to a single record in the
//! shard's graveyard (the queue of structures to free), and the record refers back to the arena.
//! Code that moves or frees the arena first clears that record (H4).
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
/// The offset, within a part, of the subtree's root and levels.
pub(crate) const TREE: u64 = 8;
/// The offset of the value's type number within a record.
pub(crate) const TYPE: u64 = MAIN + 8;
/// The type number of lists in a record, which is 0 because lists were once the only type with
/// parts.
pub(crate) const LIST: u64 = 0;
/// Queues a subtree in an arena (a separate memory area) to be freed later. `number` is the type
/// number of the value. The new part is inserted after the first part, which may already be partly
/// freed. O(1).
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

/// Creates the record of an arena's cut-off parts in the arena's shard.
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

/// Clears the record of an arena's cut-off parts, if the arena has such a record. Returns the type
/// number of the parts, and the first part or 0.
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

/// Moves an arena (a separate memory area), including the cut-off parts in it, to another shard.
/// O(1).
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

/// Frees an arena (a separate memory area), including the cut-off parts in it. O(1).
pub(crate) fn bury_arena(transaction: &mut Transaction<'_>, pool: Pool) -> Result<(), Error> {
    lay_down(transaction, pool)?;
    transaction.bury_arena(pool);
    Ok(())
}

/// Checks that the record of an arena's cut-off parts refers back to the arena.
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
