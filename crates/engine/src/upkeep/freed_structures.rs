//! Defines the kinds of structures that upkeep frees in steps, and frees the leaves of trees.

use undercroft_memory::{Fault, Offset, Pool, Transaction};

use crate::error::Error;
use crate::structures::dictionary::Table;
use crate::structures::graveyard::{CURSOR, ELEMENTS, KEYS, MAIN, PARTS};
use crate::structures::tree::Subtree;
use crate::types::contract::FreeableTree;
use crate::types::value_type::ValueType;

/// The number of freed blocks of long items that counts as the work of one leaf or bucket.
const LIKE_A_LEAF: u64 = 8;

/// The kind of a structure that is being freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreedStructure {
    /// The dictionary of a database, whose tables refer to entries.
    Keys,
    /// The dictionary of a large collection, whose tables refer to elements.
    Elements,
    /// Parts that were cut off the tree of a list or a stream, which is still in use.
    Parts,
    /// The tree of a value of the given type.
    Tree(ValueType),
}

impl FreedStructure {
    pub(crate) fn of(word: u64, record: Offset) -> Result<FreedStructure, Error> {
        let is_its = |value_type: &ValueType| {
            let tree = value_type.tree();
            tree.is_some_and(|tree| tree.number() == word)
        };
        match word {
            KEYS => Ok(FreedStructure::Keys),
            ELEMENTS => Ok(FreedStructure::Elements),
            PARTS => Ok(FreedStructure::Parts),
            _ => match ValueType::ALL.into_iter().find(is_its) {
                Some(value_type) => Ok(FreedStructure::Tree(value_type)),
                None => Err(Fault {
                    at: record,
                    what: "a known kind of structure to free",
                }
                .into()),
            },
        }
    }
}

/// Returns the tree implementation of a type, or an error if values of the type have no tree.
pub(crate) fn tree_of(value_type: ValueType) -> Result<&'static dyn FreeableTree, Error> {
    value_type.tree().ok_or(Error::WrongType)
}

/// Frees up to `leaves` leaves of a tree and subtracts the work done from `leaves`. `tree` is the
/// offset of the root word in the record or part. Blocks of long items also count as work. Returns
/// whether the entire tree has been freed.
pub(crate) fn free_leaves(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    tree: Offset,
    kind: &dyn FreeableTree,
    leaves: &mut u64,
) -> Result<bool, Error> {
    let [root, height, mut progress] = transaction.view().words::<3>(tree)?;
    while *leaves > 0 {
        let subtree = (root, height as usize);
        let (further, blocks) = kind.free_next_leaf(transaction, pool, subtree, progress)?;
        *leaves = leaves.saturating_sub(1 + blocks as u64 / LIKE_A_LEAF);
        match further {
            Some(further) => progress = further,
            None => return Ok(true),
        }
    }
    transaction.store(pool.shard(), tree + (CURSOR - MAIN), progress)?;
    Ok(false)
}

/// The remaining memory of a structure that is being freed.
pub(crate) enum RemainingMemory {
    /// Tables, the kind of data that they refer to, and for each table its first bucket that has
    /// not been freed yet.
    Tables(FreedStructure, Vec<(Table, u64)>),
    /// A tree, and how much of it has been freed.
    Tree(&'static dyn FreeableTree, Subtree, u64),
    /// Blocks that refer to cut-off parts of the tree of a list or a stream, and these parts.
    Parts(Vec<(Offset, RemainingMemory)>),
}
