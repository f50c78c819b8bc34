//! Implements the index of a feed. The index contains a word for each item, in sorted order, so
//! that a search finds the leaves that contain a value.
//!
//! ```text
//! a word: | leaf / 256: 36 bits | hash of the value: 28 bits |
//! a block of 256, 1024 or 4096 bytes:
//! | 0x401, size, words             |  8 bytes
//! | words                          |  8 for each place
//! ```
//!
//! A word identifies the leaf that contains a value, but not the place in the leaf, because items
//! often move within a leaf. Repeated values and values with equal hashes have several words, which
//! can be equal. The blocks are the leaves of a tree that counts words. For each block, the tree
//! stores a lower bound: no word in the block is less, and no word in an earlier block is greater.
//! Only the first block can contain words below its bound.
//!
//! - `block`: the layout of a block, and how to read and create it.
//! - `change`: inserts and removes words.

mod block;
mod change;

use std::collections::HashMap;

use undercroft_memory::{Offset, Pool, Transaction, View, block_size};

use super::leaves::summary::NOTE_WORDS;
use crate::error::Error;
use crate::structures::tree::{Builder, Least, Node, Place, Tree};
use block::{BLOCK, Block, FILL, fault};

/// The number of bits in a word that identify the leaf.
const LEAF_BITS: u32 = 36;
/// The alignment of leaves in bytes.
const LEAF_UNIT: u64 = 256;

type IndexTree = Tree<NOTE_WORDS, Least>;

/// The index of a feed.
#[derive(Debug)]
pub(super) struct Index {
    tree: IndexTree,
    pool: Pool,
}

/// The location of an index word.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordPlace {
    block: Block,
    index: usize,
}

/// Returns the index word for an item in the given leaf.
pub(super) fn word_of(hash: u64, leaf: Offset) -> Result<u64, Error> {
    let leaf_number = leaf / LEAF_UNIT;
    if !leaf.is_multiple_of(LEAF_UNIT) || leaf_number >> LEAF_BITS != 0 {
        return Err(fault(leaf));
    }
    Ok(hash >> LEAF_BITS << LEAF_BITS | leaf_number)
}

/// Returns the leaf to which a word refers.
fn leaf_of(word: u64) -> Offset {
    (word & ((1 << LEAF_BITS) - 1)) * LEAF_UNIT
}

/// Returns whether two words have equal hash bits.
fn same_hash(one: u64, other: u64) -> bool {
    (one ^ other) >> LEAF_BITS == 0
}

impl Index {
    pub(super) fn load(view: &View<'_>, words: Offset, pool: Pool) -> Result<Index, Error> {
        let tree = IndexTree::load(view, words)?;
        Ok(Index { tree, pool })
    }

    /// Returns the number of words in the index.
    pub(super) fn count(&self) -> u64 {
        self.tree.count()
    }

    /// Builds an index from sorted words and returns the root words of the index.
    pub(super) fn build(
        transaction: &mut Transaction<'_>,
        pool: Pool,
        words: &[u64],
    ) -> Result<[u64; 3], Error> {
        let mut builder = Builder::<NOTE_WORDS, Least>::new();
        if words.is_empty() {
            return Ok([0; 3]);
        }
        for some in words.chunks(FILL) {
            let block = Block::create(transaction, pool, some, words.len() > FILL)?;
            builder.push(transaction, pool, block)?;
        }
        builder.finish(transaction, pool)
    }

    /// Finds the first word that is not less than `word`. Returns the word's block and its index in
    /// the block.
    fn seek(
        &self,
        view: &View<'_>,
        word: u64,
    ) -> Result<Option<(Place<NOTE_WORDS>, Block, usize)>, Error> {
        if self.tree.count() == 0 {
            return Ok(None);
        }
        let mut place = self.tree.find_by(view, |note| Ok(note[0] < word))?;
        loop {
            let block = Block::load(view, place.leaf, place.count)?;
            let index = block.lower_bound(view, word)?;
            if index < block.count {
                return Ok(Some((place, block, index)));
            }
            view.recheck()?;
            if !place.step(view, true)? {
                return Ok(None);
            }
        }
    }

    /// Returns the distinct leaves that can contain values with the given hash, and the location of
    /// the first word with that hash. O(log n) for each leaf.
    pub(super) fn leaves(
        &self,
        view: &View<'_>,
        hash: u64,
    ) -> Result<(Vec<Offset>, Option<WordPlace>), Error> {
        let mut leaves = Vec::new();
        let least = hash >> LEAF_BITS << LEAF_BITS;
        let Some((mut place, mut block, mut index)) = self.seek(view, least)? else {
            return Ok((leaves, None));
        };
        let first = Some(WordPlace { block, index });
        loop {
            while index < block.count {
                let word = block.word(view, index)?;
                if !same_hash(word, least) {
                    return Ok((leaves, first));
                }
                if leaves.last() != Some(&leaf_of(word)) {
                    leaves.push(leaf_of(word));
                }
                index += 1;
            }
            // Revalidate the view, so that a loop over torn data stops early (R3).
            view.recheck()?;
            if !place.step(view, true)? {
                return Ok((leaves, first));
            }
            (block, index) = (Block::load(view, place.leaf, place.count)?, 0);
        }
    }

    /// Returns all words of the index in sorted order.
    pub(super) fn words(&self, view: &View<'_>) -> Result<Vec<u64>, Error> {
        let mut all = Vec::new();
        if self.tree.count() == 0 {
            return Ok(all);
        }
        let mut place = self.tree.find_end(view, false)?;
        loop {
            let block = Block::load(view, place.leaf, place.count)?;
            all.extend(block.words(view, 0)?);
            // Revalidate the view, so that a loop over torn data stops early (R3).
            view.recheck()?;
            if !place.step(view, true)? {
                return Ok(all);
            }
        }
    }

    /// Returns all words in sorted order, with each leaf replaced by its new offset in `leaves`.
    pub(super) fn moved(
        &self,
        view: &View<'_>,
        leaves: &HashMap<Offset, Offset>,
    ) -> Result<Vec<u64>, Error> {
        let mut words = self.words(view)?;
        for word in &mut words {
            let leaf = leaves
                .get(&leaf_of(*word))
                .ok_or_else(|| fault(leaf_of(*word)))?;
            *word = word_of(*word, *leaf)?;
        }
        for alike in words.chunk_by_mut(|one, next| same_hash(*one, *next)) {
            alike.sort_unstable();
        }
        Ok(words)
    }

    /// Returns the offset of the tree's root and the height of the tree.
    pub(super) fn root(&self) -> (Offset, usize) {
        (self.tree.root(), self.tree.height())
    }

    /// Returns the total size of all blocks and nodes in bytes. O(blocks).
    pub(super) fn bytes(&self, view: &View<'_>) -> Result<u64, Error> {
        let mut bytes = 0_u64;
        if self.tree.count() == 0 {
            return Ok(bytes);
        }
        let mut place = self.tree.find_end(view, false)?;
        loop {
            let block = Block::load(view, place.leaf, place.count)?;
            bytes = bytes.saturating_add(place.nodes_begun() + block_size(block.size));
            view.recheck()?;
            if !place.step(view, true)? {
                return Ok(bytes);
            }
        }
    }

    /// Verifies that the words are in order. Calls `reach` for every block and node, and `see` for
    /// every word.
    pub(super) fn check(
        &self,
        view: &View<'_>,
        reach: &mut dyn FnMut(Offset),
        see: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        if self.tree.count() == 0 && self.tree.root() == 0 {
            return Ok(());
        }
        let mut last = 0;
        let counted =
            self.check_below(
                view,
                self.root(),
                None,
                &mut last,
                &mut |at, word| match word {
                    None => reach(at),
                    Some(word) => see(word),
                },
            )?;
        if counted == self.tree.count() {
            Ok(())
        } else {
            Err(fault(self.tree.root()))
        }
    }

    fn check_below(
        &self,
        view: &View<'_>,
        (at, level): (Offset, usize),
        least: Option<u64>,
        last: &mut u64,
        visit: &mut dyn FnMut(Offset, Option<u64>),
    ) -> Result<u64, Error> {
        visit(at, None);
        if level == 0 {
            let count = view.word(at)? >> 32;
            let block = Block::load(view, at, count)?;
            if self.tree.height() > 0 && block.size != BLOCK {
                return Err(fault(at));
            }
            // In the first block, words below the bound in its note are valid.
            let is_first = *last == 0;
            for word in block.words(view, 0)? {
                let is_beyond = is_first || least.is_none_or(|least| word >= least);
                if word < *last || !is_beyond {
                    return Err(fault(at));
                }
                visit(at, Some(word));
                *last = word;
            }
            return Ok(count);
        }
        let node = Node::<NOTE_WORDS>::load(view, at, level)?;
        let mut sum = 0_u64;
        for index in 0..node.children() {
            let (child, count) = node.child(view, index)?;
            let noted = node.note(view, index)?[0];
            let before = *last;
            if before > noted && before != 0 {
                return Err(fault(child));
            }
            let counted = self.check_below(view, (child, level - 1), Some(noted), last, visit)?;
            if counted != count {
                return Err(fault(child));
            }
            sum = sum.wrapping_add(count);
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_identify_the_leaf_of_a_value() {
        let word = word_of(!0 << 20, 7 * LEAF_UNIT).expect("a leaf");
        assert_eq!(leaf_of(word), 7 * LEAF_UNIT);
        assert!(same_hash(
            word,
            word_of(!0 << LEAF_BITS, 0).expect("a leaf")
        ));
        assert!(word_of(0, 8).is_err() && word_of(0, LEAF_UNIT << LEAF_BITS).is_err());
    }
}
