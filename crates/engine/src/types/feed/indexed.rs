//! Implements feeds with an index: records index changes when items move between leaves, and looks
//! up items by value.

use undercroft_memory::{Offset, Transaction, View};

use super::index::{Index, WordPlace, word_of};
use super::leaves::image::{Image, runs};
use super::leaves::leaf::Leaf;
use super::leaves::leaf::load_leaf;
use super::leaves::single::Item;
use super::query::filter::{Scratch, Selection};
use super::query::walk::Found;
use super::root::{Feed, Words};
use crate::error::Error;
use crate::structures::key::hash;

/// The maximum number of leaves that a lookup by value prefetches.
const ASKED: usize = 2;

/// Appends the index words of the items at the given places of a leaf to `words`.
pub(super) fn words_of(
    secret: [u64; 2],
    image: &Image,
    places: std::ops::Range<usize>,
    leaf: Offset,
    words: &mut Vec<u64>,
) -> Result<(), Error> {
    for place in places {
        words.push(word_of(hash(secret, image.value(place)), leaf)?);
    }
    Ok(())
}

impl Feed {
    /// Records index words for items that were added to a leaf. [`tell_index`](Self::tell_index)
    /// adds these words to the index later.
    pub(super) fn came(
        &mut self,
        transaction: &Transaction<'_>,
        image: &Image,
        places: std::ops::Range<usize>,
        leaf: Offset,
    ) -> Result<(), Error> {
        if self.index.is_none() {
            return Ok(());
        }
        let secret = transaction.hash_key();
        words_of(secret, image, places, leaf, &mut self.words.come)
    }

    /// Records index words for items that were removed from a leaf.
    /// [`tell_index`](Self::tell_index) removes these words from the index later.
    pub(super) fn went(
        &mut self,
        transaction: &Transaction<'_>,
        image: &Image,
        places: std::ops::Range<usize>,
        leaf: Offset,
    ) -> Result<(), Error> {
        if self.index.is_none() {
            return Ok(());
        }
        let secret = transaction.hash_key();
        words_of(secret, image, places, leaf, &mut self.words.gone)
    }

    /// Records index words for the items that `masks` select, which were removed from a leaf. Each
    /// mask covers one block of the leaf's items.
    pub(super) fn went_of(
        &mut self,
        transaction: &Transaction<'_>,
        image: &Image,
        masks: &[u64],
        leaf: Offset,
    ) -> Result<(), Error> {
        if self.index.is_none() {
            return Ok(());
        }
        for run in runs(image.places(), masks, true) {
            self.went(transaction, image, run, leaf)?;
        }
        Ok(())
    }

    /// Applies all recorded changes to the index.
    pub(super) fn tell_index(&mut self, transaction: &mut Transaction<'_>) -> Result<(), Error> {
        let Words { gone, come } = &mut self.words;
        if gone.is_empty() && come.is_empty() {
            return Ok(());
        }
        if let Some(index) = &mut self.index {
            index.change(transaction, gone, come)?;
            gone.clear();
            come.clear();
        }
        Ok(())
    }

    /// Applies the recorded changes for one moved item to the index. If `word` is given, the item's
    /// index word is overwritten in place if possible.
    pub(super) fn tell_index_of_move(
        &mut self,
        transaction: &mut Transaction<'_>,
        word: Option<WordPlace>,
    ) -> Result<(), Error> {
        let Words { gone, come } = &mut self.words;
        if let (Some(index), Some(word), [old], [new]) = (&self.index, word, &gone[..], &come[..])
            && index.replace_at(transaction, word, *old, *new)?
        {
            gone.clear();
            come.clear();
        }
        self.tell_index(transaction)
    }

    /// Uses the index to collect the items that a query by value selects. O(log n) for each leaf
    /// that contains one of the values.
    pub(super) fn collect_indexed(
        &self,
        view: &View<'_>,
        index: &Index,
        values: &[&[u8]],
        selection: &Selection<'_>,
    ) -> Result<Vec<Found>, Error> {
        let mut leaves = Vec::new();
        for value in values {
            leaves.append(&mut index.leaves(view, hash(view.hash_key(), value))?.0);
        }
        leaves.sort_unstable();
        leaves.dedup();
        let (mut found, mut scratch) = (Vec::new(), Scratch::default());
        for at in leaves {
            // Revalidate the view, so that a loop over torn data stops early (R3).
            view.recheck()?;
            let place = self.place_of_leaf(view, at)?;
            let leaf = load_leaf(view, at, &self.full, &self.schema, place.count)?;
            let places = leaf.start..leaf.end();
            let masks = selection.of_leaf(view, &leaf, &places, &mut scratch)?;
            if masks.iter().any(|&mask| mask != 0) {
                let (before, masks) = (place.before, masks.to_vec());
                found.push(Found { before, masks });
            }
        }
        found.sort_unstable_by_key(|found| found.before);
        Ok(found)
    }

    /// Uses the index to find the first item with a value. O(log n) for each preceding leaf that
    /// could contain the value.
    pub(super) fn first_indexed(
        &self,
        view: &View<'_>,
        index: &Index,
        value: &[u8],
    ) -> Result<Option<Item>, Error> {
        let (mut leaves, word) = index.leaves(view, hash(view.hash_key(), value))?;
        for &leaf in leaves.iter().take(ASKED) {
            (0..self.full.size)
                .step_by(64)
                .for_each(|line| view.prefetch(leaf.wrapping_add(line)));
        }
        if leaves.len() > 1 {
            // The labels of the leaves ascend in feed order, so sorting by label restores the order
            // of the leaves.
            let labels = leaves
                .iter()
                .map(|&leaf| Ok((Leaf::label(view, leaf)?, leaf)));
            let mut labels = labels.collect::<Result<Vec<_>, Error>>()?;
            labels.sort_unstable();
            leaves = labels.into_iter().map(|(_, leaf)| leaf).collect();
        }
        for at in leaves {
            // Revalidate the view, so that a loop over torn data stops early (R3).
            view.recheck()?;
            let place = self.place_of_leaf(view, at)?;
            let leaf = load_leaf(view, at, &self.full, &self.schema, place.count)?;
            let image = Image::load(view, &leaf)?;
            if let Some(at) = image.find(value) {
                return Ok(Some(Item {
                    place,
                    leaf,
                    image,
                    at,
                    word,
                }));
            }
        }
        Ok(None)
    }
}
