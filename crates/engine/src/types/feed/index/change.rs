//! Inserts and removes index words, changing each affected block only once.

use undercroft_memory::{Transaction, View};

use super::block::{BLOCK, Block, FILL, bytes, fault, room};
use super::{Index, WordPlace, same_hash};
use crate::error::Error;
use crate::structures::tree::Place;
use crate::types::feed::leaves::summary::NOTE_WORDS;

/// The maximum number of blocks that one splice inserts into the tree.
const STEP_BLOCKS: usize = 32;

/// The sorted words to remove and the sorted words to insert.
type Changes<'w> = (&'w [u64], &'w [u64]);

impl Index {
    /// Removes the words `gone` and inserts the words `come`. If an item only moved to another
    /// leaf, its word is overwritten in place if possible. O(words * log n), or less if many of the
    /// words are adjacent.
    pub(in crate::types::feed) fn change(
        &mut self,
        transaction: &mut Transaction<'_>,
        gone: &mut [u64],
        come: &mut [u64],
    ) -> Result<(), Error> {
        gone.sort_unstable();
        come.sort_unstable();
        // A word that is both removed and inserted does not change the index.
        let (gone, come) = without_common(gone, come);
        let (gone, come) = self.replace(transaction, &gone, &come)?;
        let (mut gone, mut come) = (&gone[..], &come[..]);
        while !gone.is_empty() || !come.is_empty() {
            (gone, come) = self.change_block(transaction, (gone, come))?;
        }
        Ok(())
    }

    /// Overwrites old words with new words that have the same hash. Returns the words that must
    /// still be removed and the words that must still be inserted.
    fn replace(
        &self,
        transaction: &mut Transaction<'_>,
        gone: &[u64],
        come: &[u64],
    ) -> Result<(Vec<u64>, Vec<u64>), Error> {
        let (mut left_gone, mut left_come) = (Vec::new(), Vec::new());
        let mut come = come.iter().copied().peekable();
        for &old in gone {
            let is_before = |word: &u64| *word < old && !same_hash(*word, old);
            while let Some(word) = come.next_if(is_before) {
                left_come.push(word);
            }
            let new = come.next_if(|word| same_hash(*word, old));
            if let Some(new) = new
                && self.replace_word(transaction, old, new)?
            {
                continue;
            }
            left_gone.push(old);
            left_come.extend(new);
        }
        left_come.extend(come);
        Ok((left_gone, left_come))
    }

    /// Overwrites a word in place if the words of its block stay in order. Returns whether the word
    /// was overwritten. This usually succeeds, because equal hashes are rare and most words have
    /// neighbors in their block.
    fn replace_word(
        &self,
        transaction: &mut Transaction<'_>,
        old: u64,
        new: u64,
    ) -> Result<bool, Error> {
        let (_, block, index) = self.find(transaction.view(), old)?;
        self.replace_at(transaction, WordPlace { block, index }, old, new)
    }

    /// Overwrites the word at a location that was determined before any change, like
    /// [`replace_word`](Self::replace_word). Does nothing if another word is now at the location.
    pub(in crate::types::feed) fn replace_at(
        &self,
        transaction: &mut Transaction<'_>,
        WordPlace { block, index }: WordPlace,
        old: u64,
        new: u64,
    ) -> Result<bool, Error> {
        let view = transaction.view();
        let stays = same_hash(old, new)
            && block.word(view, index)? == old
            && index > 0
            && index + 1 < block.count
            && block.word(view, index - 1)? <= new
            && block.word(view, index + 1)? >= new;
        if stays {
            transaction.store(self.pool.shard(), block.word_at(index), new)?;
        }
        Ok(stays)
    }

    /// Applies all changes that affect the same block as the first change. Returns the remaining
    /// changes.
    fn change_block<'w>(
        &mut self,
        transaction: &mut Transaction<'_>,
        (gone, come): Changes<'w>,
    ) -> Result<Changes<'w>, Error> {
        let view = transaction.view();
        let (place, block, from) = match (gone.first(), come.first()) {
            (Some(&old), new) if new.is_none_or(|&new| old < new) => self.find(view, old)?,
            (_, Some(&new)) if self.tree.count() > 0 => {
                let place = self.tree.find_by(view, |note| Ok(note[0] <= new))?;
                let block = Block::load(view, place.leaf, place.count)?;
                let from = block.lower_bound(view, new)?;
                (place, block, from)
            }
            _ => {
                let place = self.tree.find(view, 0)?;
                let (some, come) = come.split_at(come.len().min(STEP_BLOCKS * FILL));
                let blocks: Vec<&[u64]> = some.chunks(FILL).collect();
                self.splice(transaction, &place, 1, &blocks)?;
                return Ok((gone, come));
            }
        };
        let mut behind = place.clone();
        let end = match behind.step(view, true)? {
            true => behind.note(view)?.map(|note| note[0]),
            false => None,
        };
        let is_here = |word: u64| end.is_none_or(|end| word < end);
        let some = come.partition_point(|&word| is_here(word));
        let (some, come) = come.split_at(some.min(STEP_BLOCKS * FILL / 2));
        let old = block.words(view, from)?;
        let (kept, gone) = without(&old, gone);
        // In an intact index, the block contains every word to remove, and at least one change
        // applies to it.
        let is_missing = gone.first().is_some_and(|&word| is_here(word));
        if is_missing || kept.len() == old.len() && some.is_empty() {
            return Err(fault(block.at));
        }
        self.renew(
            transaction,
            &place,
            &block,
            (from, &old, &merge(&kept, some)),
        )?;
        Ok((gone, come))
    }

    /// Replaces the words `old`, which extend from some index of a block to the block's end, with
    /// `new`. Splits or merges blocks if necessary.
    fn renew(
        &mut self,
        transaction: &mut Transaction<'_>,
        place: &Place<NOTE_WORDS>,
        block: &Block,
        (from, old, new): (usize, &[u64], &[u64]),
    ) -> Result<(), Error> {
        let (view, count) = (transaction.view(), from + new.len());
        let shrinks = count < block.count && count < room(BLOCK) / 4;
        let fits = count <= room(block.size);
        if count > 0 && fits && !shrinks {
            return self.put(transaction, place, block, (from, old, new));
        }
        let mut words = block.words(view, 0)?;
        words.truncate(from);
        words.extend(new);
        let mut remove = 1;
        if let Some((at, count)) = place.sibling(view, true)?
            && shrinks
            && words.len() + count as usize <= room(BLOCK) / 4 * 3
        {
            words.extend(Block::load(view, at, count)?.words(view, 0)?);
            transaction.free(self.pool, at);
            remove = 2;
        } else if count > 0 && fits {
            return self.put(transaction, place, block, (from, old, new));
        }
        transaction.free(self.pool, block.at);
        let most = if words.len() <= room(BLOCK) {
            room(BLOCK)
        } else {
            FILL
        };
        let each = words.len().div_ceil(words.len().div_ceil(most).max(1));
        let blocks: Vec<&[u64]> = words.chunks(each.max(1)).collect();
        self.splice(transaction, place, remove, &blocks)
    }

    /// Replaces the words of a block in place, writing only words that differ.
    fn put(
        &mut self,
        transaction: &mut Transaction<'_>,
        place: &Place<NOTE_WORDS>,
        block: &Block,
        (from, old, new): (usize, &[u64], &[u64]),
    ) -> Result<(), Error> {
        let shard = self.pool.shard();
        let same = |(one, other): &(&u64, &u64)| one == other;
        let before = old.iter().zip(new).take_while(same).count();
        let mut changed = &new[before..];
        if old.len() == new.len() {
            let pairs = old[before..].iter().rev().zip(changed.iter().rev());
            let behind = pairs.take_while(same).count();
            changed = &changed[..changed.len() - behind];
        }
        if !changed.is_empty() {
            transaction.write(shard, block.word_at(from + before), &bytes(changed))?;
        }
        let count = from + new.len();
        if count == block.count {
            return Ok(());
        }
        transaction.store(shard, block.at, Block::header(block.size, count))?;
        let more = count as i64 - block.count as i64;
        self.tree.add(transaction, shard, &place.path, more)
    }

    /// Replaces `remove` blocks of the tree with new blocks.
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
        // Keep the old lower bound, because only the first block of an index can contain words
        // below the bound in its note.
        if let (Some(first), Some(old)) = (children.first_mut(), place.note(transaction.view())?) {
            first.note[0] = first.note[0].min(old[0]);
        }
        self.tree
            .splice(transaction, self.pool, &place.path, remove, &children)
    }

    /// Returns the block and the index of a word that must exist.
    fn find(&self, view: &View<'_>, word: u64) -> Result<(Place<NOTE_WORDS>, Block, usize), Error> {
        let (place, block, index) = self.seek(view, word)?.ok_or_else(|| fault(0))?;
        if block.word(view, index)? == word {
            Ok((place, block, index))
        } else {
            Err(fault(block.at))
        }
    }
}

/// Removes the words that two sorted lists have in common, and returns the remaining words of each
/// list. If a word is repeated, each list loses only as many copies as occur in both lists.
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

/// Removes the words of a sorted list from another sorted list. Returns the remaining words of both
/// lists.
fn without<'w>(words: &[u64], mut gone: &'w [u64]) -> (Vec<u64>, &'w [u64]) {
    let mut kept = Vec::with_capacity(words.len());
    for &word in words {
        match gone.split_first() {
            Some((&first, rest)) if first == word => gone = rest,
            _ => kept.push(word),
        }
    }
    (kept, gone)
}

/// Merges two sorted lists of words.
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
    fn common_words_of_two_lists_cancel_out() {
        let (one, other) = without_common(&[1, 2, 2, 5, 7], &[2, 3, 5, 5, 9]);
        assert_eq!((one, other), (vec![1, 2, 7], vec![3, 5, 9]));
        assert_eq!(merge(&[1, 4, 4], &[0, 4, 6]), [0, 1, 4, 4, 4, 6]);
        let (kept, left) = without(&[1, 2, 2, 2, 5], &[2, 2, 5, 8]);
        assert_eq!((kept, left), (vec![1, 2], &[8][..]));
    }
}
