//! What is freed later, in bounded steps (W8, W9): the dictionaries of emptied
//! databases, and the dictionaries and trees of large collections that were
//! removed. Each shard has a list of them.
//!
//! ```text
//! a structure that is being freed, 64 bytes; a dictionary:
//! | next one | table | its bits | next bucket | other table | its bits | kind | unused |
//! a tree:
//! | next one | root | levels | progress | unused | unused | kind | unused |
//! what was cut off a list or a stream that has an arena:
//! | next one | arena | type, or 0 of lists | first part | unused | unused | kind | unused |
//! ```
//!
//! Here they are put on the list; `upkeep/graveyard` frees them.

use undercroft_memory::{Offset, Transaction, View};

use crate::error::Error;
use crate::structures::dictionary::Dictionary;
use crate::structures::roots::{
    BITS, DYING, KEYS as COUNT, MOVED, NEXT_BITS, NEXT_TABLE, PREPARED, TABLE,
};

/// Kinds of structures: the dictionary of a database: tables that refer to entries.
pub(crate) const KEYS: u64 = 0;
/// The dictionary of a large collection: tables that refer to elements.
pub(crate) const ELEMENTS: u64 = 1;
/// Parts of a tree whose value lives on in its arena. All other numbers are those of trees, which types have.
pub(crate) const PARTS: u64 = 4;

const RECORD: u64 = 64;
pub(crate) const NEXT: u64 = 0;
pub(crate) const MAIN: u64 = 8;
pub(crate) const MAIN_BITS: u64 = 16;
pub(crate) const CURSOR: u64 = 24;
pub(crate) const OTHER: u64 = 32;

pub(crate) fn is_dying(view: &View<'_>, shard: usize) -> bool {
    view.root(shard, DYING) != 0
}

/// Lets the tables of a dictionary and what they refer to be freed later; the
/// caller sees to it that nobody reaches them any more. O(1).
pub(crate) fn bury_dictionary<D: Dictionary>(
    transaction: &mut Transaction<'_>,
    root: D,
    kind: u64,
) -> Result<(), Error> {
    let view = transaction.view();
    let (pool, table) = (root.pool(), root.word(view, TABLE)?);
    if table == 0 {
        return Ok(());
    }
    let bits = root.word(view, BITS)?;
    let next = root.word(view, NEXT_TABLE)?;
    let next_bits = root.word(view, NEXT_BITS)?;
    // An other table that is not yet in use holds nothing but may be freed.
    let in_use = next != 0 && root.word(view, PREPARED)? == 1 << next_bits.min(63);
    let cursor = if in_use { root.word(view, MOVED)? } else { 0 };
    if root.word(view, COUNT)? == 0 {
        transaction.free(pool, table);
        if next != 0 {
            transaction.free(pool, next);
        }
        return Ok(());
    }
    let other = if in_use { next } else { 0 };
    if next != 0 && !in_use {
        transaction.free(pool, next);
    }
    let words = [table, bits, cursor, other, next_bits];
    bury(transaction, pool.shard(), kind, words).map(drop)
}

/// Puts a structure on a shard's list, behind the first, which may be the one
/// that is being freed just now. Returns its record. O(1).
pub(crate) fn bury(
    transaction: &mut Transaction<'_>,
    shard: usize,
    kind: u64,
    words: [u64; 5],
) -> Result<Offset, Error> {
    let record = transaction.allocate(shard, RECORD)?;
    let first = transaction.view().root(shard, DYING);
    let next = match first {
        0 => 0,
        first => transaction.view().word(first + NEXT)?,
    };
    let [table, bits, cursor, other, other_bits] = words;
    let fields = [next, table, bits, cursor, other, other_bits, kind, 0];
    for (word, value) in fields.into_iter().enumerate() {
        transaction.fill_word(record + word as u64 * 8, value)?;
    }
    match first {
        0 => transaction.set_root(shard, DYING, record)?,
        first => transaction.store(shard, first + NEXT, record)?,
    }
    Ok(record)
}
