//! The graveyard: a queue of structures that are freed later, in bounded steps (W8, W9). These
//! structures are the dictionaries of emptied databases, and the dictionaries and trees of large
//! collections that were removed. Each shard has its own graveyard, a linked list. An arena is a
//! separate memory area for one large value.
//!
//! ```text
//! a structure that is being freed, 64 bytes; a dictionary:
//! | next record | table | its bits | next bucket | other table | its bits | kind | unused |
//! a tree:
//! | next record | root | levels | progress | unused | unused | kind | unused |
//! parts cut off a list or a stream that has an arena:
//! | next record | arena | type, or 0 for lists | first part | unused | unused | kind | unused |
//! ```
//!
//! This module adds structures to the list, and `upkeep/graveyard` frees them.

use undercroft_memory::{Offset, Transaction, View};

use crate::error::Error;
use crate::structures::dictionary::Dictionary;
use crate::structures::roots::{
    BITS, DYING, KEYS as COUNT, MOVED, NEXT_BITS, NEXT_TABLE, PREPARED, TABLE,
};

/// The number that marks a graveyard record as a database's dictionary, whose tables refer to
/// entries.
pub(crate) const KEYS: u64 = 0;
/// The number that marks a graveyard record as a large collection's dictionary, whose tables refer
/// to elements.
pub(crate) const ELEMENTS: u64 = 1;
/// The number that marks a graveyard record as parts that were cut off a tree whose value stays in
/// use. Any other number is the type number of a value whose tree is being freed.
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

/// Queues the tables of a dictionary, and all entries or elements that they refer to, to be freed
/// later. The caller must make the dictionary unreachable. O(1).
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
    // A new table that is not in use yet contains no entries, so it can be freed immediately.
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

/// Adds a structure to a shard's list and returns its record. The record is inserted after the
/// first record, whose structure may already be partly freed. O(1).
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
