//! The index of a feed: for each item a word, in order, so that the leaves with a value are found by a search.
//!
//! ```text
//! a word: | leaf / 256: 36 bits | hash of the value: 28 bits |
//! a block of 256, 1024 or 4096 bytes:
//! | 0x401, size, words             |  8 bytes
//! | words                          |  8 for each place
//! ```
//!
//! A word says in which leaf a value is, and not where in it: within a leaf items move all the time. Values that share a
//! hash, or that are there several times, have several words, also equal ones. The blocks are the leaves of a counted
//! tree, whose nodes note for each a word that none in it is less than, and none before it greater; the first block
//! may have lesser ones.

use std::collections::HashMap;

use undercroft_memory::{Fault, Offset, Pool, Transaction, View, block_size};

use super::summary::NOTE_WORDS;
use crate::error::Error;
use crate::structures::tree::{Builder, Child, Least, Node, Place, Tree};

/// Sizes of blocks: a small index is one small block.
const SIZES: [u64; 3] = [256, 1024, BLOCK];
const BLOCK: u64 = 4096;
const HEADER: u64 = 8;
const MAGIC: u64 = 0x401;
/// Words of a block when many are made at once: it has room for some more.
const FILL: usize = room(BLOCK) / 8 * 7;
/// Blocks that one splice puts in at most.
const STEP_BLOCKS: usize = 32;
/// Bits of a word that say which leaf.
const LEAF_BITS: u32 = 36;
/// Leaves begin at multiples of so many bytes.
const LEAF_UNIT: u64 = 256;

type IndexTree = Tree<NOTE_WORDS, Least>;

/// The index of a feed.
#[derive(Debug)]
pub(super) struct Index {
    tree: IndexTree,
    pool: Pool,
}

const fn room(size: u64) -> usize {
    ((size - HEADER) / 8) as usize
}

fn fault(at: Offset) -> Error {
    Fault {
        at,
        what: "an index that names every item of its feed",
    }
    .into()
}

/// The word of an item in a leaf.
pub(super) fn word_of(hash: u64, leaf: Offset) -> Result<u64, Error> {
    let leaf_number = leaf / LEAF_UNIT;
    if !leaf.is_multiple_of(LEAF_UNIT) || leaf_number >> LEAF_BITS != 0 {
        return Err(fault(leaf));
    }
    Ok(hash >> LEAF_BITS << LEAF_BITS | leaf_number)
}

/// The leaf of a word.
fn leaf_of(word: u64) -> Offset {
    (word & ((1 << LEAF_BITS) - 1)) * LEAF_UNIT
}

/// Whether two words are of values with the same hash, as far as words tell.
fn same_hash(one: u64, other: u64) -> bool {
    (one ^ other) >> LEAF_BITS == 0
}

/// A block whose header was read.
#[derive(Clone, Copy, Debug)]
struct Block {
    at: Offset,
    size: u64,
    count: usize,
}

impl Block {
    fn load(view: &View<'_>, at: Offset, expected: u64) -> Result<Block, Error> {
        let header = view.word(at)?;
        let (size, count) = (header >> 16 & 0xffff, header >> 32);
        if header & 0xffff != MAGIC || !SIZES.contains(&size) || count != expected {
            return Err(fault(at));
        }
        let count = count as usize;
        if count == 0 || count > room(size) {
            return Err(fault(at));
        }
        view.check(at, size)?;
        Ok(Block { at, size, count })
    }

    fn header(size: u64, count: usize) -> u64 {
        MAGIC | size << 16 | (count as u64) << 32
    }

    fn word_at(&self, index: usize) -> Offset {
        self.at + HEADER + index as u64 * 8
    }

    fn word(&self, view: &View<'_>, index: usize) -> Result<u64, Error> {
        Ok(view.word(self.word_at(index))?)
    }

    /// Words from one on.
    fn words(&self, view: &View<'_>, from: usize) -> Result<Vec<u64>, Error> {
        let mut bytes = vec![0; (self.count - from) * 8];
        view.copy_to(self.word_at(from), &mut bytes)?;
        let words = bytes.as_chunks::<8>().0.iter();
        Ok(words.map(|word| u64::from_le_bytes(*word)).collect())
    }

    /// How many words are less than one. Hashes lie evenly, so that the first look is close to it.
    fn lower_bound(&self, view: &View<'_>, word: u64) -> Result<usize, Error> {
        let (first, last) = (self.word(view, 0)?, self.word(view, self.count - 1)?);
        if word <= first {
            return Ok(0);
        }
        if word > last {
            return Ok(self.count);
        }
        let (mut low, mut high) = (1, self.count - 1);
        let share = u128::from(word - first) * self.count as u128 / u128::from(last - first);
        let mut middle = (share as usize).clamp(low, high);
        // Less at `low - 1`, not less at `high`; the stride doubles until both are beside each other.
        let mut stride = 8;
        while low < high {
            if self.word(view, middle.min(high - 1))? < word {
                low = middle.min(high - 1) + 1;
                middle = low + stride;
            } else {
                high = middle.min(high - 1);
                middle = high.saturating_sub(stride).max(low);
            }
            stride *= 2;
            if stride > 64 {
                middle = (low + high) / 2;
            }
        }
        Ok(low)
    }

    /// Makes a block of some words, as small as they allow.
    fn create(
        transaction: &mut Transaction<'_>,
        pool: Pool,
        words: &[u64],
        full: bool,
    ) -> Result<Child<NOTE_WORDS>, Error> {
        let mut sizes = SIZES.into_iter().filter(|&size| !full || size == BLOCK);
        let size = sizes.find(|&size| room(size) >= words.len());
        let (Some(size), Some(&least)) = (size, words.first()) else {
            return Err(fault(0));
        };
        let at = transaction.allocate(pool, size)?;
        transaction.fill_word(at, Block::header(size, words.len()))?;
        transaction.fill(at + HEADER, &bytes(words))?;
        Ok(Child {
            at,
            count: words.len() as u64,
            note: note(least),
        })
    }
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn note(least: u64) -> [u64; NOTE_WORDS] {
    let mut note = [0; NOTE_WORDS];
    note[0] = least;
    note
}

impl Index {
    pub(super) fn load(view: &View<'_>, words: Offset, pool: Pool) -> Result<Index, Error> {
        let tree = IndexTree::load(view, words)?;
        Ok(Index { tree, pool })
    }

    /// Number of words.
    pub(super) fn count(&self) -> u64 {
        self.tree.count()
    }

    /// Root words of an index of some words in order.
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

    /// The first block in which a word may be that is not less than this one, and its place there.
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

    /// The leaves that may hold values with a hash, each once. O(log n) for each.
    pub(super) fn leaves(&self, view: &View<'_>, hash: u64) -> Result<Vec<Offset>, Error> {
        let mut leaves = Vec::new();
        let least = hash >> LEAF_BITS << LEAF_BITS;
        let Some((mut place, mut block, mut index)) = self.seek(view, least)? else {
            return Ok(leaves);
        };
        loop {
            while index < block.count {
                let word = block.word(view, index)?;
                if !same_hash(word, least) {
                    return Ok(leaves);
                }
                if leaves.last() != Some(&leaf_of(word)) {
                    leaves.push(leaf_of(word));
                }
                index += 1;
            }
            // R3: what is torn must not go on for long.
            view.recheck()?;
            if !place.step(view, true)? {
                return Ok(leaves);
            }
            (block, index) = (Block::load(view, place.leaf, place.count)?, 0);
        }
    }

    /// Takes words out and puts others in. What has the same hash before and behind is changed where it is: an item
    /// that only came to another leaf. O((words + words) * log n).
    pub(super) fn change(
        &mut self,
        transaction: &mut Transaction<'_>,
        gone: &mut [u64],
        come: &mut [u64],
    ) -> Result<(), Error> {
        gone.sort_unstable();
        come.sort_unstable();
        // What came and went again was never there.
        let (gone, come) = without_common(gone, come);
        let mut new = Vec::new();
        let mut come = come.into_iter().peekable();
        for old in gone {
            let is_before = |word: &u64| *word < old && !same_hash(*word, old);
            while let Some(word) = come.next_if(is_before) {
                new.push(word);
            }
            match come.next_if(|word| same_hash(*word, old)) {
                Some(word) => self.replace(transaction, old, word)?,
                None => self.remove(transaction, old)?,
            }
        }
        new.extend(come);
        self.insert(transaction, &new)
    }

    /// The block and the place of a word that is there.
    fn find(&self, view: &View<'_>, word: u64) -> Result<(Place<NOTE_WORDS>, Block, usize), Error> {
        let (place, block, index) = self.seek(view, word)?.ok_or_else(|| fault(0))?;
        if block.word(view, index)? == word {
            Ok((place, block, index))
        } else {
            Err(fault(block.at))
        }
    }

    fn replace(
        &mut self,
        transaction: &mut Transaction<'_>,
        old: u64,
        new: u64,
    ) -> Result<(), Error> {
        let view = transaction.view();
        let (_, block, index) = self.find(view, old)?;
        // Others with the same hash are rare, and most words have neighbours in their block.
        if index > 0
            && index + 1 < block.count
            && block.word(view, index - 1)? <= new
            && block.word(view, index + 1)? >= new
        {
            return Ok(transaction.store(self.pool.shard(), block.word_at(index), new)?);
        }
        self.remove(transaction, old)?;
        self.insert(transaction, &[new])
    }

    fn remove(&mut self, transaction: &mut Transaction<'_>, word: u64) -> Result<(), Error> {
        let (place, block, index) = self.find(transaction.view(), word)?;
        if block.count == 1 {
            transaction.free(self.pool, block.at);
            return self
                .tree
                .splice(transaction, self.pool, &place.path, 1, &[]);
        }
        let left = block.count - 1;
        if left < room(BLOCK) / 4 && self.join(transaction, &place, &block, index)? {
            return Ok(());
        }
        let behind = block.words(transaction.view(), index)?;
        self.put(transaction, &block, index, &behind[1..])?;
        self.tree
            .add(transaction, self.pool.shard(), &place.path, -1)
    }

    /// Joins a block without one of its words and the one behind it under the same node. Returns whether it did.
    fn join(
        &mut self,
        transaction: &mut Transaction<'_>,
        place: &Place<NOTE_WORDS>,
        block: &Block,
        without: usize,
    ) -> Result<bool, Error> {
        let view = transaction.view();
        let Some((at, count)) = place.sibling(view, true)? else {
            return Ok(false);
        };
        let beside = Block::load(view, at, count)?;
        if block.count + beside.count > room(BLOCK) / 4 * 3 {
            return Ok(false);
        }
        let mut words = block.words(view, 0)?;
        words.remove(without);
        words.extend(beside.words(view, 0)?);
        transaction.free(self.pool, block.at);
        transaction.free(self.pool, at);
        self.splice(transaction, place, 2, &[&words])?;
        Ok(true)
    }

    /// Puts words in, in order. O(words * log n), less where they are many beside each other.
    fn insert(&mut self, transaction: &mut Transaction<'_>, words: &[u64]) -> Result<(), Error> {
        let mut rest = words;
        while let Some(&first) = rest.first() {
            if self.tree.count() == 0 {
                let some = rest.len().min(STEP_BLOCKS * FILL);
                let blocks: Vec<&[u64]> = rest[..some].chunks(FILL).collect();
                let place = self.tree.find(transaction.view(), 0)?;
                self.splice(transaction, &place, 1, &blocks)?;
                rest = &rest[some..];
                continue;
            }
            let view = transaction.view();
            let place = self.tree.find_by(view, |note| Ok(note[0] <= first))?;
            let mut next = place.clone();
            let some = if next.step(view, true)? {
                let end = next.note(view)?.map_or(u64::MAX, |note| note[0]);
                rest.partition_point(|&word| word < end).max(1)
            } else {
                rest.len()
            };
            let (some, behind) = rest.split_at(some.min(STEP_BLOCKS * FILL / 2));
            rest = behind;
            self.insert_in(transaction, &place, some)?;
        }
        Ok(())
    }

    /// Puts words into the block to which they belong, in order.
    fn insert_in(
        &mut self,
        transaction: &mut Transaction<'_>,
        place: &Place<NOTE_WORDS>,
        new: &[u64],
    ) -> Result<(), Error> {
        let view = transaction.view();
        let block = Block::load(view, place.leaf, place.count)?;
        if block.count + new.len() <= room(block.size) {
            let from = block.lower_bound(view, new[0])?;
            let words = merge(&block.words(view, from)?, new);
            self.put(transaction, &block, from, &words)?;
            let (shard, more) = (self.pool.shard(), new.len() as i64);
            return self.tree.add(transaction, shard, &place.path, more);
        }
        let words = merge(&block.words(view, 0)?, new);
        let most = if words.len() <= room(BLOCK) {
            room(BLOCK)
        } else {
            FILL
        };
        let each = words.len().div_ceil(words.len().div_ceil(most));
        transaction.free(self.pool, block.at);
        let blocks: Vec<&[u64]> = words.chunks(each).collect();
        self.splice(transaction, place, 1, &blocks)
    }

    /// Lets a block end with some words from a place on.
    fn put(
        &self,
        transaction: &mut Transaction<'_>,
        block: &Block,
        from: usize,
        words: &[u64],
    ) -> Result<(), Error> {
        let (shard, count) = (self.pool.shard(), from + words.len());
        transaction.write(shard, block.word_at(from), &bytes(words))?;
        let header = Block::header(block.size, count);
        Ok(transaction.store(shard, block.at, header)?)
    }

    /// Replaces blocks by others.
    fn splice(
        &mut self,
        transaction: &mut Transaction<'_>,
        place: &Place<NOTE_WORDS>,
        remove: usize,
        blocks: &[&[u64]],
    ) -> Result<(), Error> {
        let several = blocks.len() > 1 || self.tree.height() > 0;
        let mut children = Vec::with_capacity(blocks.len());
        for words in blocks {
            children.push(Block::create(transaction, self.pool, words, several)?);
        }
        // What is before the first block's note may only be in the first block of all.
        if let (Some(first), Some(old)) = (children.first_mut(), place.note(transaction.view())?) {
            first.note[0] = first.note[0].min(old[0]);
        }
        self.tree
            .splice(transaction, self.pool, &place.path, remove, &children)
    }

    /// All words in order.
    pub(super) fn words(&self, view: &View<'_>) -> Result<Vec<u64>, Error> {
        let mut all = Vec::new();
        if self.tree.count() == 0 {
            return Ok(all);
        }
        let mut place = self.tree.find_end(view, false)?;
        loop {
            let block = Block::load(view, place.leaf, place.count)?;
            all.extend(block.words(view, 0)?);
            // R3: what is torn must not go on for long.
            view.recheck()?;
            if !place.step(view, true)? {
                return Ok(all);
            }
        }
    }

    /// All words in order, where leaves have come elsewhere.
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

    /// The tree: its root and its levels.
    pub(super) fn root(&self) -> (Offset, usize) {
        (self.tree.root(), self.tree.height())
    }

    /// Bytes of its blocks and nodes. O(blocks).
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

    /// Calls `reach` for every block and node, `see` for every word, and checks that the words are in order.
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
            // Before the first block of all nothing is noted that would count.
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

/// Words in order that are in one of two runs, each as often as it is there more often than in the other.
fn without_common(one: &[u64], other: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let (mut only, mut only_other) = (Vec::new(), Vec::new());
    let mut others = other.iter().copied().peekable();
    for &word in one {
        while let Some(other) = others.next_if(|other| *other < word) {
            only_other.push(other);
        }
        if others.next_if_eq(&word).is_none() {
            only.push(word);
        }
    }
    only_other.extend(others);
    (only, only_other)
}

/// Two runs of words in order as one.
fn merge(one: &[u64], other: &[u64]) -> Vec<u64> {
    let mut all = Vec::with_capacity(one.len() + other.len());
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    while let (Some(&&left), Some(&&right)) = (one.peek(), other.peek()) {
        if left <= right {
            all.push(left);
            one.next();
        } else {
            all.push(right);
            other.next();
        }
    }
    all.extend(one);
    all.extend(other);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_runs_share_is_in_neither() {
        let (one, other) = without_common(&[1, 2, 2, 5, 7], &[2, 3, 5, 5, 9]);
        assert_eq!((one, other), (vec![1, 2, 7], vec![3, 5, 9]));
        assert_eq!(merge(&[1, 4, 4], &[0, 4, 6]), [0, 1, 4, 4, 4, 6]);
    }

    #[test]
    fn a_word_says_where_a_value_is() {
        let word = word_of(!0 << 20, 7 * LEAF_UNIT).expect("a leaf");
        assert_eq!(leaf_of(word), 7 * LEAF_UNIT);
        assert!(same_hash(word, word_of(!0 << 40, 0).expect("a leaf")));
        assert!(word_of(0, 8).is_err() && word_of(0, LEAF_UNIT << LEAF_BITS).is_err());
    }
}
