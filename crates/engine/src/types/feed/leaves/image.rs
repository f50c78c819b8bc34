//! Represents items outside the store, in the layout of a leaf. A leaf is changed by loading it
//! into an image and changing the image, and new leaves are created from images.

use std::ops::Range;

use undercroft_memory::{Offset, Pool, Transaction, View};

use super::leaf::{HEADER_WORDS, HIDDEN, LABEL_AT, Layout, Leaf, range_mask};
use super::summary::{LABEL, NOTE_WORDS, Note, Span, join, spread};
use crate::error::Error;
use crate::structures::tree::Child;
use crate::types::feed::schema::Schema;

/// A list of items to be inserted into a feed.
#[derive(Clone, Debug)]
pub struct Rows {
    schema: Schema,
    values: Vec<u8>,
    attributes: Vec<u32>,
    /// The indexes of the hidden items.
    hidden: Vec<usize>,
}

impl Rows {
    /// Creates an empty list of items.
    pub fn new(schema: &Schema) -> Rows {
        Rows {
            schema: *schema,
            values: Vec::new(),
            attributes: Vec::new(),
            hidden: Vec::new(),
        }
    }

    /// Appends an item.
    ///
    /// # Panics
    /// Panics if the item does not match the schema.
    pub fn push(&mut self, value: &[u8], attributes: &[u32], hidden: bool) {
        assert!(self.schema.takes(value));
        assert!(self.schema.has_room_for(attributes));
        self.values.extend_from_slice(value);
        self.attributes.extend_from_slice(attributes);
        if hidden {
            self.hidden.push(self.len() - 1);
        }
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.values.len() / self.schema.value_size()
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Converts the items to an image, which has the layout of a leaf.
    pub(in crate::types::feed) fn image(&self) -> Image {
        let mut image = Image::new(Layout::outside(&self.schema, self.len()));
        image.count = self.len();
        let at = image.layout.values;
        image.bytes[at..at + self.values.len()].copy_from_slice(&self.values);
        for &place in &self.hidden {
            image.set_bit(HIDDEN, place, true);
        }
        image.add_attributes(&self.schema, &self.attributes);
        image
    }
}

/// Items in the layout of a leaf, which stores each item at a numbered place.
#[derive(Clone, Debug)]
pub(in crate::types::feed) struct Image {
    pub(in crate::types::feed) layout: Layout,
    /// The place of the first item.
    pub(in crate::types::feed) start: usize,
    pub(in crate::types::feed) count: usize,
    bytes: Vec<u8>,
}

impl Image {
    /// Creates an image without items.
    pub(in crate::types::feed) fn new(layout: Layout) -> Image {
        Image {
            layout,
            start: 0,
            count: 0,
            bytes: vec![0; layout.size as usize],
        }
    }

    /// Creates an image of visible items from the concatenated values and the attributes of all
    /// items. `attributes` can be empty if all attributes are 0. Returns `None` if the items do not
    /// match the schema.
    pub(in crate::types::feed) fn visible(
        schema: &Schema,
        values: &[u8],
        attributes: &[u32],
    ) -> Option<Image> {
        let (size, columns) = (schema.value_size(), schema.widths().len());
        let count = values.len() / size;
        let mut rows = attributes.chunks_exact(columns.max(1));
        let fits = count * size == values.len()
            && [0, count * columns].contains(&attributes.len())
            && values.chunks_exact(size).all(|value| schema.takes(value))
            && rows.all(|row| schema.has_room_for(row));
        fits.then(|| {
            let mut image = Image::new(Layout::outside(schema, count));
            image.count = count;
            let at = image.layout.values;
            image.bytes[at..at + values.len()].copy_from_slice(values);
            image.add_attributes(schema, attributes);
            image
        })
    }

    /// Sets the attributes of new items, whose attribute bits must be 0, starting with the item at
    /// place 0.
    fn add_attributes(&mut self, schema: &Schema, attributes: &[u32]) {
        let rows = attributes.chunks_exact(schema.widths().len().max(1));
        for (place, row) in rows.enumerate() {
            for (first, &attribute) in schema.first_planes().zip(row) {
                let mut left = attribute;
                while left != 0 {
                    let plane = first + left.trailing_zeros() as usize;
                    let index = self.layout.word(plane, place / 64);
                    self.set_word(index, self.word(index) | 1 << (place % 64));
                    left &= left - 1;
                }
            }
        }
    }

    /// Loads the items of a leaf.
    pub(in crate::types::feed) fn load(view: &View<'_>, leaf: &Leaf) -> Result<Image, Error> {
        let mut bytes = Vec::with_capacity(leaf.layout.size as usize);
        view.append_part(leaf.at, 0, leaf.layout.size, &mut bytes)?;
        Ok(Image {
            layout: leaf.layout,
            start: leaf.start,
            count: leaf.count,
            bytes,
        })
    }

    /// Returns the place after the last item's place.
    pub(in crate::types::feed) fn end(&self) -> usize {
        self.start + self.count
    }

    /// Returns the places of the items.
    pub(in crate::types::feed) fn places(&self) -> Range<usize> {
        self.start..self.end()
    }

    /// Returns the word at the given index of the image.
    #[inline(always)]
    pub(in crate::types::feed) fn word(&self, index: usize) -> u64 {
        u64::from_le_bytes(self.bytes.as_chunks::<8>().0[index])
    }

    #[inline(always)]
    pub(in crate::types::feed) fn set_word(&mut self, index: usize, word: u64) {
        self.bytes.as_chunks_mut::<8>().0[index] = word.to_le_bytes();
    }

    /// Returns the value at the given place.
    pub(in crate::types::feed) fn value(&self, place: usize) -> &[u8] {
        let at = self.layout.value_at(place);
        &self.bytes[at..at + self.layout.value]
    }

    /// Returns the concatenated values at the given places.
    pub(in crate::types::feed) fn values(&self, places: &Range<usize>) -> &[u8] {
        &self.bytes[self.layout.value_at(places.start)..self.layout.value_at(places.end)]
    }

    /// Moves the values at `places` so that they start at place `to`. Returns the byte range of the
    /// moved values.
    pub(in crate::types::feed) fn move_values(
        &mut self,
        places: &Range<usize>,
        to: usize,
    ) -> Range<usize> {
        let from = self.layout.value_at(places.start)..self.layout.value_at(places.end);
        let at = self.layout.value_at(to);
        let length = from.len();
        self.bytes.copy_within(from, at);
        at..at + length
    }

    /// Returns a range of the image's bytes.
    pub(in crate::types::feed) fn bytes(&self, bytes: &Range<usize>) -> &[u8] {
        &self.bytes[bytes.clone()]
    }

    /// Returns the place of the first item with a value, which must have the feed's value size.
    pub(in crate::types::feed) fn find(&self, value: &[u8]) -> Option<usize> {
        let mut values = self.values(&self.places()).chunks_exact(self.layout.value);
        // Compare the last 8 bytes first, because values that contain numbers usually differ in
        // them.
        let index = match value.last_chunk::<8>() {
            Some(last) => values.position(|one| one.last_chunk() == Some(last) && one == value),
            None => values.position(|one| one == value),
        };
        index.map(|index| self.start + index)
    }

    /// Returns the bit that the item at the given place has in a bit plane.
    pub(in crate::types::feed) fn bit(&self, plane: usize, place: usize) -> bool {
        self.word(self.layout.word(plane, place / 64)) >> (place % 64) & 1 == 1
    }

    /// Sets the bit that the item at the given place has in a bit plane.
    pub(in crate::types::feed) fn set_bit(&mut self, plane: usize, place: usize, bit: bool) {
        let index = self.layout.word(plane, place / 64);
        let word = self.word(index) & !(1 << (place % 64));
        self.set_word(index, word | u64::from(bit) << (place % 64));
    }

    /// Returns the attributes of the item at the given place.
    pub(in crate::types::feed) fn attributes<'i>(
        &'i self,
        schema: &'i Schema,
        place: usize,
    ) -> impl Iterator<Item = u32> + 'i {
        let attributes = schema.first_planes().zip(schema.widths());
        attributes.map(move |(first, &width)| {
            let bits = 0..usize::from(width);
            bits.fold(0, |all, bit| {
                all | u32::from(self.bit(first + bit, place)) << bit
            })
        })
    }

    /// Sets attributes of the item at the given place. An attribute given as `None` does not
    /// change.
    pub(in crate::types::feed) fn set_attributes(
        &mut self,
        schema: &Schema,
        place: usize,
        attributes: impl Iterator<Item = Option<u32>>,
    ) {
        let spans = schema.first_planes().zip(schema.widths());
        for ((first, &width), attribute) in spans.zip(attributes) {
            if let Some(attribute) = attribute {
                for bit in 0..usize::from(width) {
                    self.set_bit(first + bit, place, attribute >> bit & 1 == 1);
                }
            }
        }
    }

    /// Returns the bits of up to 64 items in a bit plane, starting with the item at `place`.
    #[inline]
    pub(in crate::types::feed) fn bits(&self, plane: usize, place: usize, count: usize) -> u64 {
        let (index, shift) = (self.layout.word(plane, place / 64), place % 64);
        let mut bits = self.word(index) >> shift;
        if shift + count > 64 {
            bits |= self.word(index + 1) << (64 - shift);
        }
        bits & (u64::MAX >> (64 - count))
    }

    /// Copies items from another image with the same schema to this image, starting at place `to`.
    pub(in crate::types::feed) fn put(&mut self, to: usize, from: &Image, places: Range<usize>) {
        if places.is_empty() {
            return;
        }
        let at = self.layout.value_at(to);
        let values = from.values(&places);
        self.bytes[at..at + values.len()].copy_from_slice(values);
        for plane in 0..self.layout.planes() {
            let mut done = 0;
            while done < places.len() {
                let place = to + done;
                let count = (64 - place % 64).min(places.len() - done);
                let bits = from.bits(plane, places.start + done, count);
                let mask = (u64::MAX >> (64 - count)) << (place % 64);
                let index = self.layout.word(plane, place / 64);
                let word = self.word(index) & !mask | bits << (place % 64);
                self.set_word(index, word);
                done += count;
            }
        }
    }

    /// Appends items from another image with the same schema.
    pub(in crate::types::feed) fn append(&mut self, from: &Image, places: Range<usize>) {
        let (end, count) = (self.end(), places.len());
        self.put(end, from, places);
        self.count += count;
    }

    /// Returns a new image with the items at the given places, in that order.
    pub(in crate::types::feed) fn of_places(&self, places: &[usize], schema: &Schema) -> Image {
        let mut image = Image::new(Layout::outside(schema, places.len()));
        for run in places.chunk_by(|one, next| one + 1 == *next) {
            image.append(self, run[0]..run[0] + run.len());
        }
        image
    }

    /// Returns a copy of the image with the items of `rows` inserted before the item at `index`, or
    /// `None` if there is no room. Moves the items on the shorter side of `index` if there is free
    /// space at that end.
    pub(in crate::types::feed) fn with(&self, index: usize, rows: &Image) -> Option<Image> {
        let (more, places) = (rows.count, self.layout.places);
        if self.count + more > places {
            return None;
        }
        let at = self.start + index;
        let (left, right) = (self.start, places - self.end());
        let start = if right >= more && (left < more || self.count - index <= index) {
            self.start
        } else if left >= more {
            self.start - more
        } else {
            (places - self.count - more) / 2
        };
        let mut image = self.clone();
        (image.start, image.count) = (start, self.count + more);
        if start != self.start {
            image.put(start, self, self.start..at);
        }
        image.put(start + index, rows, rows.places());
        if start + more != self.start {
            image.put(start + index + more, self, at..self.end());
        }
        Some(image)
    }

    /// Returns a copy of the image without the items that `masks` select. `masks` contains one mask
    /// for each block of 64 places.
    pub(in crate::types::feed) fn without(&self, masks: &[u64]) -> Image {
        let mut image = self.clone();
        image.count = 0;
        for run in runs(self.places(), masks, false) {
            let moved = run.start != image.end();
            if moved {
                image.append(self, run);
            } else {
                image.count += run.len();
            }
        }
        image
    }

    /// Creates a leaf from the items of this image.
    pub(in crate::types::feed) fn create(
        &self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        schema: &Schema,
        label: u64,
    ) -> Result<Child<NOTE_WORDS>, Error> {
        let at = transaction.allocate(pool, self.layout.size)?;
        transaction.fill(at, &self.bytes)?;
        let header = Leaf::header(self.layout.size, self.start, self.count);
        transaction.fill_word(at, header)?;
        transaction.fill_word(at + LABEL_AT, label)?;
        let mut note = self.note(schema, self.places());
        note[LABEL] = label;
        Ok(Child {
            at,
            count: self.count as u64,
            note,
        })
    }

    /// Returns whether a word of the leaf contains items, and whether it contains nothing else.
    fn use_of(&self, word: usize) -> (bool, bool) {
        let (layout, used) = (&self.layout, self.start..self.end());
        let values = layout.value_at(used.start)..layout.value_at(used.end);
        let bytes = word * 8..word * 8 + 8;
        if bytes.end > layout.value_at(0) {
            let some = bytes.start < values.end && values.start < bytes.end;
            return (some, values.start <= bytes.start && bytes.end <= values.end);
        }
        let is_of =
            |block: usize| (0..layout.planes()).any(|plane| layout.word(plane, block) == word);
        match (used.start / 64..used.end.div_ceil(64)).find(|&block| is_of(block)) {
            None => (false, false),
            Some(block) => (
                true,
                used.start <= block * 64 && block * 64 + 64 <= used.end,
            ),
        }
    }

    /// Overwrites a leaf whose contents are `old`, which must have the same layout. Writes only
    /// words that differ, and words with unused space: that space may have the new contents already,
    /// from a transaction that failed, but a journal does not know them.
    pub(in crate::types::feed) fn overwrite(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        at: Offset,
        old: &Image,
    ) -> Result<(), Error> {
        let (new, before) = (&self.bytes, &old.bytes);
        let words = new.len() / 8;
        let differs = |word: usize| {
            let bytes = word * 8..word * 8 + 8;
            new[bytes.clone()] != before[bytes] || self.use_of(word).0 && !old.use_of(word).1
        };
        let mut word = HEADER_WORDS;
        while word < words {
            if !differs(word) {
                word += 1;
                continue;
            }
            let first = word;
            while word < words && differs(word) {
                word += 1;
            }
            transaction.write(shard, at + first as u64 * 8, &new[first * 8..word * 8])?;
        }
        // The places that items vacated are now unused, but a rollback must restore their contents.
        transaction.note_cut();
        self.store_fill(transaction, shard, at)
    }

    /// Stores the place of the first item and the number of items in a leaf's header.
    pub(in crate::types::feed) fn store_fill(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        at: Offset,
    ) -> Result<(), Error> {
        let header = Leaf::header(self.layout.size, self.start, self.count);
        Ok(transaction.store(shard, at, header)?)
    }
}

/// Returns the ranges of adjacent places whose bit in `masks` equals `set`. `masks` contains one
/// mask for each block of 64 places.
pub(in crate::types::feed) fn runs(
    places: Range<usize>,
    masks: &[u64],
    set: bool,
) -> Vec<Range<usize>> {
    let word = |block: usize| masks.get(block).copied().unwrap_or(0);
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut place = places.start;
    while place < places.end {
        let rest = word(place / 64) >> (place % 64);
        let is_set = rest & 1 == 1;
        let same = if is_set { !rest } else { rest }.trailing_zeros() as usize;
        let end = (place + same.clamp(1, 64 - place % 64)).min(places.end);
        if is_set == set {
            match runs.last_mut() {
                Some(last) if last.end == place => last.end = end,
                _ => runs.push(place..end),
            }
        }
        place = end;
    }
    runs
}

/// Divides items among new leaves. If the feed grows at an end, all leaves except the one at that
/// end are full. Otherwise, all leaves contain about the same number of items.
pub(in crate::types::feed) fn divide(
    schema: &Schema,
    parts: &[(&Image, Range<usize>)],
    grows: Grows,
) -> Vec<Image> {
    let full = Layout::full(schema);
    let mut left: usize = parts.iter().map(|(_, places)| places.len()).sum();
    let leaves = left.div_ceil(full.places);
    let mut images = Vec::with_capacity(leaves);
    let mut parts = parts.iter().cloned();
    let mut part = parts.next();
    for index in 0..leaves {
        let behind = leaves - 1 - index;
        let count = match grows {
            Grows::Right => left.min(full.places),
            Grows::Left => left - behind * full.places,
            Grows::Inside => left.div_ceil(behind + 1),
        };
        let layout = if leaves == 1 {
            Layout::small(schema, left + left / 4)
        } else {
            full
        };
        let mut image = Image::new(layout);
        image.start = match grows {
            Grows::Right => 0,
            Grows::Left => layout.places - count,
            Grows::Inside => (layout.places - count) / 2,
        };
        while image.count < count {
            let Some((from, places)) = &mut part else {
                break;
            };
            let some = places.start..places.end.min(places.start + count - image.count);
            places.start = some.end;
            let is_done = places.start == places.end;
            image.append(from, some);
            if is_done {
                part = parts.next();
            }
        }
        left -= count;
        images.push(image);
    }
    images
}

/// Where a feed is likely to grow next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::types::feed) enum Grows {
    /// The feed grows before the first item.
    Left,
    /// The feed grows after the last item.
    Right,
    /// The feed grows at any position.
    Inside,
}

impl Image {
    /// Returns the note of the items at the given places, that is, their summary for the parent
    /// node.
    pub(in crate::types::feed) fn note(&self, schema: &Schema, places: Range<usize>) -> Note {
        if places.len() == 1 {
            return self.note_of_one(schema, places.start);
        }
        let mut note = Note::default();
        for block in places.start / 64..places.end.div_ceil(64) {
            let mask = range_mask(block, places.start, places.end);
            let hidden = self.word(self.layout.word(HIDDEN, block)) & mask;
            note[0] += u64::from(hidden.count_ones());
            let attributes = schema.first_planes().zip(schema.widths());
            for ((first, &width), span) in attributes.zip(Span::all(schema)) {
                let lowest = first + span.shift;
                let planes = lowest..first + usize::from(width);
                let word = |plane| self.word(self.layout.word(plane, block));
                let mut bits = 0;
                spread(&word, planes, mask, 0, &mut |value, _| bits |= 1 << value);
                note = join(note, span.note(bits));
            }
        }
        note
    }

    /// Returns the note of a single item, its summary for the parent node. This is a fast path,
    /// because most items are added one by one.
    fn note_of_one(&self, schema: &Schema, place: usize) -> Note {
        let mut bits = 0_u128;
        let attributes = schema.first_planes().zip(schema.widths());
        for ((first, &width), span) in attributes.zip(Span::all(schema)) {
            let planes = (first + span.shift..first + usize::from(width)).rev();
            let value = planes.fold(0, |value, plane| {
                value << 1 | usize::from(self.bit(plane, place))
            });
            bits |= 1 << (span.first + value);
        }
        [
            u64::from(self.bit(HIDDEN, place)),
            bits as u64,
            (bits >> 64) as u64,
            0,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::feed::order::Order;

    type Item = (Vec<u8>, Vec<u32>, bool);

    fn items(image: &Image, schema: &Schema) -> Vec<Item> {
        let item = |place| {
            let attributes = image.attributes(schema, place).collect();
            (
                image.value(place).to_vec(),
                attributes,
                image.bit(HIDDEN, place),
            )
        };
        image.places().map(item).collect()
    }

    #[test]
    fn images_match_a_list_of_items() {
        let mut random = fastrand::Rng::with_seed(17);
        for _ in 0..400 {
            let widths: Vec<u8> = (0..random.usize(0..5)).map(|_| random.u8(1..=32)).collect();
            let schema = Schema::new(random.u8(1..30), &widths, Order::List).expect("sound");
            let mut some = |count: usize| {
                let (mut rows, mut list) = (Rows::new(&schema), Vec::new());
                for _ in 0..count {
                    let value: Vec<u8> = (0..schema.value_size()).map(|_| random.u8(..)).collect();
                    let greatest = (0..widths.len()).map(|index| schema.greatest(index));
                    let own: Vec<u32> = greatest.map(|most| random.u32(..=most)).collect();
                    let hidden = random.bool();
                    rows.push(&value, &own, hidden);
                    list.push((value, own, hidden));
                }
                (rows.image(), list)
            };
            let (rows, mut list) = some(90);
            assert_eq!(items(&rows, &schema), list);
            let grows = [Grows::Left, Grows::Right, Grows::Inside];
            let leaf = divide(&schema, &[(&rows, 0..30)], Grows::Inside).remove(0);
            list.truncate(30);
            assert_eq!(items(&leaf, &schema), list);
            let masks: Vec<u64> = (0..leaf.layout.blocks)
                .map(|block| 0x1234_5678_9abc << block)
                .collect();
            let kept = leaf.without(&masks);
            let is_kept = |place: usize| masks[place / 64] >> (place % 64) & 1 == 0;
            let naive = leaf
                .places()
                .zip(&list)
                .filter(|(place, _)| is_kept(*place));
            let naive: Vec<Item> = naive.map(|(_, item)| item.clone()).collect();
            assert_eq!(items(&kept, &schema), naive);
            let (many, list) = some(700);
            for grows in grows {
                let leaves = divide(&schema, &[(&many, 0..123), (&many, 123..700)], grows);
                let all: Vec<Item> = leaves
                    .iter()
                    .flat_map(|leaf| items(leaf, &schema))
                    .collect();
                assert_eq!(all, list, "{grows:?}");
            }
        }
    }
}
