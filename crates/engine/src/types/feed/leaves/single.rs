//! Finds, removes and moves single items.

use std::ops::Range;

use undercroft_memory::{Transaction, View};

use super::image::Image;
use super::leaf::load_leaf;
use super::leaf::{HIDDEN, Layout, Leaf, fault, range_mask};
use super::summary::{NOTE_WORDS, Note, Span};
use crate::error::Error;
use crate::structures::tree::Place;
use crate::types::feed::index::WordPlace;
use crate::types::feed::root::Feed;
use crate::types::feed::schema::Schema;

/// The result of finding an item.
pub(in crate::types::feed) struct Item {
    /// The path to the leaf that contains the item.
    pub(in crate::types::feed) place: Place<NOTE_WORDS>,
    pub(in crate::types::feed) leaf: Leaf,
    pub(in crate::types::feed) image: Image,
    /// The place of the item in the leaf.
    pub(in crate::types::feed) at: usize,
    /// The location of the item's index word, if the index was used to find the item.
    pub(in crate::types::feed) word: Option<WordPlace>,
}

impl Item {
    /// Returns the item's position in the feed.
    pub(in crate::types::feed) fn position(&self) -> u64 {
        let index = self.at.saturating_sub(self.leaf.start) as u64;
        self.place.before.wrapping_add(index)
    }

    /// Returns whether the item is hidden.
    pub(in crate::types::feed) fn is_hidden(&self) -> bool {
        self.image.bit(HIDDEN, self.at)
    }
}

impl Feed {
    /// Loads the item at a position.
    pub(in crate::types::feed) fn item(
        &self,
        view: &View<'_>,
        position: u64,
    ) -> Result<Item, Error> {
        let place = self.tree.find(view, position)?;
        let leaf = load_leaf(view, place.leaf, &self.full, &self.schema, place.count)?;
        let image = Image::load(view, &leaf)?;
        let index = position.wrapping_sub(place.before);
        if index >= place.count {
            return Err(fault(leaf.at));
        }
        let at = leaf.start + index as usize;
        Ok(Item {
            place,
            leaf,
            image,
            at,
            word: None,
        })
    }

    /// Moves an item to a position among the other items. Overwrites the item's index word in place
    /// if possible.
    pub(in crate::types::feed) fn move_item(
        &mut self,
        transaction: &mut Transaction<'_>,
        item: Item,
        to: u64,
    ) -> Result<(), Error> {
        let mut one = Image::new(Layout::outside(&self.schema, 1));
        one.append(&item.image, item.at..item.at + 1);
        let hidden = u64::from(item.is_hidden());
        let Item {
            place,
            leaf,
            image,
            at,
            word,
        } = item;
        if self.keeps_its_leaf(image.count) {
            self.set_hidden(transaction, self.hidden.wrapping_sub(hidden))?;
            self.went(transaction, &image, at..at + 1, leaf.at)?;
            self.take_one(transaction, &place, (&leaf, image), at)?;
        } else {
            let mut masks = vec![0; leaf.layout.blocks];
            masks[at / 64] = 1 << (at % 64);
            self.take(transaction, place, (&leaf, image), &masks, true)?;
        }
        let more = one.note(&self.schema, one.places());
        self.insert_step(transaction, to, (&one, one.places()), more)?;
        // Restore the number of hidden items, which the removal of the item reduced.
        self.set_hidden(transaction, self.hidden.wrapping_add(hidden))?;
        self.tell_index_of_move(transaction, word)
    }

    /// Returns whether a leaf with this many items does not need to be merged when one item is
    /// removed.
    pub(in crate::types::feed) fn keeps_its_leaf(&self, items: usize) -> bool {
        items > self.full.places / 4
    }

    /// Removes one item from a leaf that does not need to be merged. The items on the shorter side
    /// of the removed item move to close the gap.
    pub(in crate::types::feed) fn take_one(
        &mut self,
        transaction: &mut Transaction<'_>,
        place: &Place<NOTE_WORDS>,
        (leaf, mut image): (&Leaf, Image),
        at: usize,
    ) -> Result<(), Error> {
        let shard = self.pool.shard();
        let note = match place.note(transaction.view())? {
            Some(note) => Some(image.note_without(&self.schema, at, note)),
            None => None,
        };
        image.close_gap(at, &mut |image, words| {
            if words.is_empty() {
                return Ok(());
            }
            let bytes = image.bytes(&(words.start * 8..words.end * 8));
            transaction.write(shard, leaf.at + words.start as u64 * 8, bytes)?;
            Ok(())
        })?;
        // The place that an item vacated is now unused, but a rollback must restore its contents.
        transaction.note_cut();
        image.store_fill(transaction, shard, leaf.at)?;
        self.tree.add(transaction, shard, &place.path, -1)?;
        match note {
            Some(note) => self.tree.set_note(transaction, shard, &place.path, &note),
            None => Ok(()),
        }
    }
}

/// The maximum gap, in words, between two changed ranges that are written together.
const NEAR: usize = 8;

/// A callback that is called with an image and a range of its words that changed.
type Changed<'c> = dyn FnMut(&Image, Range<usize>) -> Result<(), Error> + 'c;

impl Image {
    /// Removes the item at place `at`. The items on the shorter side move to close the gap.
    fn close_gap(&mut self, at: usize, changed: &mut Changed<'_>) -> Result<(), Error> {
        let moves_right = at - self.start < self.end() - 1 - at;
        let (from, to) = if moves_right {
            (self.start..at, self.start + 1)
        } else {
            (at + 1..self.end(), at)
        };
        if !from.is_empty() {
            let bytes = self.move_values(&from, to);
            let places = if moves_right {
                self.start..at + 1
            } else {
                at..self.end()
            };
            let mut all = 0..0;
            for plane in 0..self.layout.planes() {
                let Some(words) = self.move_bits(plane, &places, moves_right) else {
                    continue;
                };
                if all.is_empty() {
                    all = words;
                } else if words.start <= all.end + NEAR {
                    all.end = words.end;
                } else {
                    changed(self, std::mem::replace(&mut all, words))?;
                }
            }
            changed(self, all)?;
            changed(self, bytes.start / 8..bytes.end.div_ceil(8))?;
        }
        self.start += usize::from(moves_right);
        self.count -= 1;
        Ok(())
    }

    /// Moves the bits of the items at the given places in a bit plane by one place, to the right or
    /// to the left. The bit that leaves the range is lost. Returns the range of words that changed.
    fn move_bits(
        &mut self,
        plane: usize,
        places: &Range<usize>,
        to_right: bool,
    ) -> Option<Range<usize>> {
        let blocks = places.start / 64..places.end.div_ceil(64);
        let (mut first, mut end, mut carry) = (usize::MAX, 0, 0);
        for step in 0..blocks.len() {
            let block = if to_right {
                blocks.start + step
            } else {
                blocks.end - 1 - step
            };
            let index = self.layout.word(plane, block);
            let word = self.word(index);
            let shifted = if to_right {
                word << 1 | carry
            } else {
                word >> 1 | carry << 63
            };
            carry = if to_right { word >> 63 } else { word & 1 };
            let mask = range_mask(block, places.start, places.end);
            let new = word & !mask | shifted & mask;
            if new != word {
                self.set_word(index, new);
                (first, end) = (first.min(index), end.max(index + 1));
            }
        }
        (first < end).then_some(first..end)
    }

    /// Returns `note`, the summary of a leaf, without the item at a place. Clears the bits of
    /// attribute values that no other item has.
    fn note_without(&self, schema: &Schema, at: usize, mut note: Note) -> Note {
        note[0] = note[0].wrapping_sub(u64::from(self.bit(HIDDEN, at)));
        let attributes = schema.first_planes().zip(schema.widths());
        for ((first, &width), span) in attributes.zip(Span::all(schema)) {
            let planes = first + span.shift..first + usize::from(width);
            if self.is_alone(planes.clone(), at) {
                let bits = planes.rev();
                let value = bits.fold(0, |value, plane| {
                    value << 1 | u64::from(self.bit(plane, at))
                });
                let gone = span.note(1 << value);
                note[1] &= !gone[1];
                note[2] &= !gone[2];
            }
        }
        note
    }

    /// Returns whether no other item has the same bits as the item at `at` in the given bit planes.
    fn is_alone(&self, planes: Range<usize>, at: usize) -> bool {
        (self.start / 64..self.end().div_ceil(64)).all(|block| {
            let mut others = range_mask(block, self.start, self.end());
            others &= !range_mask(block, at, at + 1);
            for plane in planes.clone() {
                let word = self.word(self.layout.word(plane, block));
                others &= if self.bit(plane, at) { word } else { !word };
            }
            others == 0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::image::{Grows, Rows, divide};
    use super::*;
    use crate::types::feed::order::Order;

    #[test]
    fn removing_one_item_matches_a_leaf_built_without_it() {
        let mut random = fastrand::Rng::with_seed(23);
        for _ in 0..300 {
            let widths: Vec<u8> = (0..random.usize(0..5)).map(|_| random.u8(1..=9)).collect();
            let schema = Schema::new(random.u8(1..30), &widths, Order::List).expect("sound");
            let mut rows = Rows::new(&schema);
            for _ in 0..random.usize(2..200) {
                let value: Vec<u8> = (0..schema.value_size()).map(|_| random.u8(..)).collect();
                let greatest = (0..widths.len()).map(|index| schema.greatest(index));
                let own: Vec<u32> = greatest.map(|most| random.u32(..=most)).collect();
                rows.push(&value, &own, random.bool());
            }
            let rows = rows.image();
            let mut leaf = divide(&schema, &[(&rows, rows.places())], Grows::Inside).remove(0);
            while leaf.count > 1 {
                let at = random.usize(leaf.places());
                let mut masks = vec![0; leaf.layout.blocks];
                masks[at / 64] = 1 << (at % 64);
                let (expected, mut before) = (leaf.without(&masks), leaf.clone());
                let note = leaf.note(&schema, leaf.places());
                let note = leaf.note_without(&schema, at, note);
                let noted = leaf.close_gap(at, &mut |now, words| {
                    for word in words {
                        before.set_word(word, now.word(word));
                    }
                    Ok(())
                });
                noted.expect("no error");
                (before.start, before.count) = (leaf.start, leaf.count);
                for image in [&leaf, &before] {
                    assert_eq!(image.count, expected.count);
                    let items = image.places().zip(expected.places());
                    for (one, other) in items {
                        assert_eq!(image.value(one), expected.value(other));
                        assert_eq!(image.bit(HIDDEN, one), expected.bit(HIDDEN, other));
                        let attributes = image.attributes(&schema, one);
                        assert!(attributes.eq(expected.attributes(&schema, other)));
                    }
                }
                assert_eq!(note, expected.note(&schema, expected.places()));
            }
        }
    }
}
