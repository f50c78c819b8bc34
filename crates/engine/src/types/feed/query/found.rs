//! Represents items that were read from a feed, as concatenated values and numeric attributes.

use undercroft_memory::{Block, Scratch, View};

use super::tally::Untallied;
use crate::error::Error;
use crate::structures::ranges::Ranges;
use crate::types::feed::leaves::leaf::{Layout, Leaf};
use crate::types::feed::schema::Schema;

/// The maximum number of attribute bits that are transposed together from bit planes to one word
/// for each item.
const TURNED: usize = 64;

/// The items that a read returned, in reusable buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundItems {
    /// The size of a value in bytes.
    size: usize,
    /// The number of attributes per item, or 0 if attributes were not requested.
    columns: usize,
    values: Vec<u8>,
    attributes: Vec<u32>,
    /// The nodes for which the read found no tally (the counts of visible items by attribute
    /// value).
    pub(in crate::types::feed) untallied: Untallied,
}

impl Scratch for FoundItems {
    fn clear(&mut self) {
        FoundItems::clear(self);
    }
}

impl FoundItems {
    /// Creates an empty list.
    pub const fn new() -> FoundItems {
        FoundItems {
            size: 0,
            columns: 0,
            values: Vec::new(),
            attributes: Vec::new(),
            untallied: Untallied::NONE,
        }
    }

    /// Removes all items without freeing the allocated memory.
    pub fn clear(&mut self) {
        self.values.clear();
        self.attributes.clear();
        self.untallied.clear();
    }

    /// Returns the nodes for which the read found no tally, that is, no counts of visible items by
    /// attribute value.
    pub fn untallied(&self) -> &Untallied {
        &self.untallied
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.values.len().checked_div(self.size).unwrap_or(0)
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the number of bytes that are allocated for items.
    pub fn capacity(&self) -> usize {
        self.values.capacity() + self.attributes.capacity() * size_of::<u32>()
    }

    /// Returns the concatenated values. Each value has the value size of the feed's schema.
    pub fn values(&self) -> &[u8] {
        &self.values
    }

    /// Returns the concatenated attributes of all items. The result is empty if attributes were not
    /// requested.
    pub fn attributes(&self) -> &[u32] {
        &self.attributes
    }

    /// Appends the values to `out`. If `attributes` is set, each value is followed by its
    /// attributes as a text such as `3:0:1`.
    pub fn append_to(&self, attributes: bool, out: &mut Ranges) {
        if !attributes {
            return out.push_equal(&self.values, self.size);
        }
        let mut rows = self.attributes.chunks_exact(self.columns.max(1));
        let mut digits = itoa::Buffer::new();
        for value in self.values.chunks_exact(self.size.max(1)) {
            out.push(value);
            for (index, attribute) in rows.next().unwrap_or_default().iter().enumerate() {
                if index > 0 {
                    out.bytes.push(b':');
                }
                out.bytes
                    .extend_from_slice(digits.format(*attribute).as_bytes());
            }
            out.end_item();
        }
    }

    /// Removes all items and prepares the buffers for items of the given schema.
    pub(in crate::types::feed) fn begin(&mut self, schema: &Schema, attributes: bool) {
        self.clear();
        self.size = schema.value_size();
        self.columns = if attributes { schema.widths().len() } else { 0 };
    }

    /// Appends the items at the given places of a leaf.
    pub(in crate::types::feed) fn append(
        &mut self,
        view: &View<'_>,
        leaf: &Leaf,
        places: std::ops::Range<usize>,
        schema: &Schema,
    ) -> Result<(), Error> {
        let layout = &leaf.layout;
        let (from, to) = (layout.value_at(places.start), layout.value_at(places.end));
        if self.columns > 0 {
            self.append_attributes(view, leaf, places, schema.widths())?;
        }
        view.append_part(leaf.at, from as u64, to as u64, &mut self.values)?;
        Ok(())
    }

    /// Appends the attributes of items, which leaves store in bit planes. Transposes as many
    /// attributes together as fit in one word, for 8 items at a time.
    fn append_attributes(
        &mut self,
        view: &View<'_>,
        leaf: &Leaf,
        places: std::ops::Range<usize>,
        widths: &[u8],
    ) -> Result<(), Error> {
        let block = view.block(leaf.at)?;
        let (done, columns) = (self.attributes.len(), self.columns);
        self.attributes.resize(done + places.len() * columns, 0);
        let rows = &mut self.attributes[done..];
        let (mut plane, mut column) = (1, 0);
        while column < columns {
            let (some, bits) = some_of(&widths[column..]);
            for first in places.clone().step_by(64) {
                let count = (places.end - first).min(64);
                let mut words = [0; TURNED];
                for (bit, word) in words[..bits].iter_mut().enumerate() {
                    *word = bits_from(&block, &leaf.layout, plane + bit, first, count)?;
                }
                turn(&mut words, bits, count);
                let row = (first - places.start) * columns;
                let rows = &mut rows[row..row + count * columns];
                let mut shift = 0;
                for (own, &width) in (column..).zip(some) {
                    let mask = (1 << width) - 1;
                    for (row, word) in rows.chunks_exact_mut(columns).zip(&words) {
                        row[own] = (word >> shift & mask) as u32;
                    }
                    shift += width;
                }
            }
            column += some.len();
            plane += bits;
        }
        Ok(())
    }

    /// Reverses the order of the items after the first `kept` items.
    pub(in crate::types::feed) fn reverse_from(&mut self, kept: usize) {
        reverse(&mut self.values, self.size, kept);
        reverse(&mut self.attributes, self.columns, kept);
    }
}

/// Returns the leading attributes that fit in one word together, and the total number of their
/// bits.
fn some_of(widths: &[u8]) -> (&[u8], usize) {
    let (mut bits, mut some) = (0, 0);
    for &width in widths {
        if bits + usize::from(width) > TURNED {
            break;
        }
        bits += usize::from(width);
        some += 1;
    }
    (&widths[..some], bits)
}

/// Returns one bit of up to 64 items, starting at the given place. Bits past the last of these
/// items are arbitrary.
#[inline(always)]
fn bits_from(
    block: &Block<'_>,
    layout: &Layout,
    plane: usize,
    place: usize,
    count: usize,
) -> Result<u64, Error> {
    let (at, shift) = (layout.word(plane, place / 64) as u64 * 8, place % 64);
    let bits = block.word(at)? >> shift;
    if shift + count <= 64 {
        return Ok(bits);
    }
    Ok(bits | block.word(at + 8)? << (64 - shift))
}

/// Transposes words that each contain one bit of 64 items, so that afterwards each word contains
/// all bits of one item. Only the first `items` items are converted, in groups of 8.
#[inline(always)]
fn turn(words: &mut [u64; TURNED], bits: usize, items: usize) {
    let mut turned = [0; TURNED];
    for first in (0..bits).step_by(8) {
        let rows: [u64; 8] = std::array::from_fn(|bit| words[first + bit]);
        for (group, turned) in turned
            .chunks_exact_mut(8)
            .take(items.div_ceil(8))
            .enumerate()
        {
            let rows = rows.map(|row| (row >> (group * 8)) as u8);
            let columns = transpose(u64::from_le_bytes(rows)).to_le_bytes();
            for (turned, column) in turned.iter_mut().zip(columns) {
                *turned |= u64::from(column) << first;
            }
        }
    }
    *words = turned;
}

/// Transposes an 8-by-8 bit matrix.
#[inline(always)]
fn transpose(mut bits: u64) -> u64 {
    // Swap single bits, then two-by-two squares, and then four-by-four squares.
    for (shift, mask) in [
        (7, 0x00aa_00aa_00aa_00aa),
        (14, 0x0000_cccc_0000_cccc),
        (28, 0x0000_0000_f0f0_f0f0),
    ] {
        let swapped = (bits ^ bits >> shift) & mask;
        bits ^= swapped ^ swapped << shift;
    }
    bits
}

/// Reverses the order of the rows after the first `kept` rows. Each row has `row` elements.
fn reverse<T>(parts: &mut [T], row: usize, kept: usize) {
    if row == 0 {
        return;
    }
    let mut rows = parts[kept * row..].chunks_exact_mut(row);
    while let (Some(first), Some(last)) = (rows.next(), rows.next_back()) {
        first.swap_with_slice(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_bits_become_columns() {
        let mut random = fastrand::Rng::with_seed(8);
        for bits in [0, 1, 7, 8, 9, 33, TURNED] {
            let mut words = [0; TURNED];
            words[..bits]
                .iter_mut()
                .for_each(|word| *word = random.u64(..));
            for items in [1, 8, 50, 64] {
                let mut turned = words;
                turn(&mut turned, bits, items);
                for (item, turned) in turned.into_iter().take(items).enumerate() {
                    let of_item = |bit: usize| (words[bit] >> item & 1) << bit;
                    let naive = (0..TURNED).fold(0, |all, bit| all | of_item(bit));
                    assert_eq!(turned, naive, "{bits} {item}");
                }
            }
        }
    }

    #[test]
    fn items_are_formatted_for_clients() {
        let items = FoundItems {
            size: 2,
            columns: 2,
            values: b"aabbcc".to_vec(),
            attributes: vec![1, 20, 3, u32::MAX, 0, 0],
            untallied: Untallied::NONE,
        };
        let texts = |items: &FoundItems, attributes| {
            let mut out = Ranges::new();
            items.append_to(attributes, &mut out);
            let texts = out
                .iter()
                .map(|item| String::from_utf8_lossy(item).into_owned());
            texts.collect::<Vec<String>>().join(" ")
        };
        let mut turned = items.clone();
        turned.reverse_from(1);
        assert_eq!(texts(&turned, true), "aa 1:20 cc 0:0 bb 3:4294967295");
        assert_eq!(
            (turned.len(), texts(&turned, false)),
            (3, "aa cc bb".into())
        );
        let (columns, attributes) = (0, Vec::new());
        let without = FoundItems {
            columns,
            attributes,
            ..items
        };
        assert_eq!(texts(&without, true), "aa  bb  cc ");
        assert_eq!(texts(&FoundItems::new(), true), "");
    }
}
