//! Defines the schema of a feed: the size of its values, the widths of its attributes, and its
//! order.

use super::order::{FeedType, Order};

/// The maximum number of attributes.
pub const ATTRIBUTES_MAX: usize = 16;
/// The number of root words that encode the schema.
pub(super) const SCHEMA_WORDS: usize = 3;
/// The first byte of the schema's row. The row of an item instead starts with 0, or with 1 if the
/// item is hidden.
pub(super) const SCHEMA_ROW: u8 = 2;
/// The bit of the order byte that is set if the feed has an index.
const INDEXED: u8 = 64;
/// The maximum width of an attribute in bits.
const WIDTH_MAX: u8 = 32;

/// The schema of a feed's items, which never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    size: u8,
    order: Order,
    attributes: u8,
    widths: [u8; ATTRIBUTES_MAX],
    indexed: bool,
}

impl Schema {
    /// Creates a schema with values of `size` bytes and attributes of `widths` bits. Returns `None`
    /// if `size` is 0 or does not match the number type of a sorted order, if a width is not in
    /// 1..=32, or if there are more than [`ATTRIBUTES_MAX`] attributes.
    pub fn new(size: u8, widths: &[u8], order: Order) -> Option<Schema> {
        let number = order.sorted_by().and_then(FeedType::size);
        let sound = size > 0
            && number.is_none_or(|number| number == size)
            && widths.len() <= ATTRIBUTES_MAX
            && widths.iter().all(|width| (1..=WIDTH_MAX).contains(width));
        let mut all = [0; ATTRIBUTES_MAX];
        all.iter_mut()
            .zip(widths)
            .for_each(|(to, &from)| *to = from);
        sound.then_some(Schema {
            size,
            order,
            attributes: widths.len() as u8,
            widths: all,
            indexed: false,
        })
    }

    /// Adds an index that maps values to items. Returns `None` if the feed is sorted, because a
    /// sorted feed looks up values without an index.
    pub fn with_index(self) -> Option<Schema> {
        let indexed = true;
        let sorted = self.order.sorted_by().is_some();
        (!sorted).then_some(Schema { indexed, ..self })
    }

    /// Returns whether the feed has an index that maps values to items.
    pub fn is_indexed(&self) -> bool {
        self.indexed
    }

    /// Returns the size of a value in bytes.
    pub fn value_size(&self) -> usize {
        self.size.into()
    }

    /// Returns the order of the feed.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Returns whether `value` is valid under this schema.
    pub fn takes(&self, value: &[u8]) -> bool {
        let order = self.order.sorted_by();
        value.len() == self.value_size() && order.is_none_or(|of| of.holds(value))
    }

    /// Returns the width of each attribute in bits.
    pub fn widths(&self) -> &[u8] {
        &self.widths[..usize::from(self.attributes)]
    }

    /// Returns the maximum value of an attribute.
    ///
    /// # Panics
    /// Panics if the schema has no such attribute.
    pub fn greatest(&self, attribute: usize) -> u32 {
        u32::MAX >> (32 - self.widths()[attribute])
    }

    /// Returns whether `attributes` has the right length and each attribute fits in its width.
    pub fn has_room_for(&self, attributes: &[u32]) -> bool {
        let mut widths = self.widths().iter().zip(attributes);
        attributes.len() == self.widths().len()
            && widths.all(|(&width, &attribute)| u64::from(attribute) >> width == 0)
    }

    /// Returns the number of bits that an item has in addition to its value: the hidden bit and the
    /// attribute bits.
    pub(super) fn planes(&self) -> usize {
        1 + self
            .widths()
            .iter()
            .map(|&width| usize::from(width))
            .sum::<usize>()
    }

    /// Returns the index of each attribute's first bit among the bits of an item, where bit 0 is
    /// the hidden bit.
    pub(super) fn first_planes(&self) -> impl Iterator<Item = usize> {
        self.widths().iter().scan(1, |next, &width| {
            let first = *next;
            *next += usize::from(width);
            Some(first)
        })
    }

    /// Encodes the schema as root words.
    pub(super) fn words(&self) -> [u64; SCHEMA_WORDS] {
        let halves = self.widths.as_chunks::<8>().0;
        let first = u64::from(self.size)
            | u64::from(self.order_byte()) << 8
            | u64::from(self.attributes) << 16;
        [
            first,
            u64::from_le_bytes(halves[0]),
            u64::from_le_bytes(halves[1]),
        ]
    }

    /// Decodes a schema from root words, or returns `None` if the words are invalid.
    pub(super) fn of_words(words: [u64; SCHEMA_WORDS]) -> Option<Schema> {
        let mut widths = [0; ATTRIBUTES_MAX];
        widths[..8].copy_from_slice(&words[1].to_le_bytes());
        widths[8..].copy_from_slice(&words[2].to_le_bytes());
        let [size, order, attributes, ..] = words[0].to_le_bytes();
        Schema::of_parts(size, order, widths.get(..attributes.into())?)
    }

    fn of_parts(size: u8, order: u8, widths: &[u8]) -> Option<Schema> {
        let schema = Schema::new(size, widths, Order::of_number(order & !INDEXED)?)?;
        match order & INDEXED {
            0 => Some(schema),
            _ => schema.with_index(),
        }
    }

    fn order_byte(&self) -> u8 {
        self.order.number() | if self.indexed { INDEXED } else { 0 }
    }

    /// Returns the first row of a feed's flat list: `2 | size | order | widths`, with one byte for
    /// each number.
    pub fn row(&self) -> Vec<u8> {
        let mut row = vec![SCHEMA_ROW, self.size, self.order_byte()];
        row.extend_from_slice(self.widths());
        row
    }

    /// Decodes a schema from its row, or returns `None` if the row is invalid.
    pub(super) fn of_row(row: &[u8]) -> Option<Schema> {
        match row {
            [SCHEMA_ROW, size, order, widths @ ..] => Schema::of_parts(*size, *order, widths),
            _ => None,
        }
    }

    /// Returns the row of an item: one byte that is 1 if the item is hidden, otherwise 0, followed
    /// by the value and the little-endian bytes of each attribute.
    pub fn item_row(&self, value: &[u8], attributes: &[u32], hidden: bool) -> Vec<u8> {
        let mut row = Vec::new();
        self.append_item_row(value, attributes.iter().copied(), hidden, &mut row);
        row
    }

    /// Appends the [row](Self::item_row) of an item to `row`.
    pub(super) fn append_item_row(
        &self,
        value: &[u8],
        attributes: impl Iterator<Item = u32>,
        hidden: bool,
        row: &mut Vec<u8>,
    ) {
        row.push(u8::from(hidden));
        row.extend_from_slice(value);
        for (&width, attribute) in self.widths().iter().zip(attributes) {
            let bytes = usize::from(width).div_ceil(8);
            row.extend_from_slice(&attribute.to_le_bytes()[..bytes]);
        }
    }

    /// Decodes an item's row into the value, the attributes and whether the item is hidden. Returns
    /// `None` if the row is invalid.
    pub(super) fn of_item_row<'r>(
        &self,
        row: &'r [u8],
        attributes: &mut Vec<u32>,
    ) -> Option<(&'r [u8], bool)> {
        let (&mark, rest) = row.split_first()?;
        let (value, mut rest) = rest.split_at_checked(self.value_size())?;
        attributes.clear();
        for (index, &width) in self.widths().iter().enumerate() {
            let (bytes, behind) = rest.split_at_checked(usize::from(width).div_ceil(8))?;
            let mut word = [0; 4];
            word[..bytes.len()].copy_from_slice(bytes);
            let attribute = u32::from_le_bytes(word);
            if attribute > self.greatest(index) {
                return None;
            }
            attributes.push(attribute);
            rest = behind;
        }
        (mark <= 1 && rest.is_empty() && self.takes(value)).then_some((value, mark == 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_survive_encoding_as_words_and_as_a_row() {
        for widths in [&[][..], &[4, 3, 1], &[32; 16], &[1]] {
            for order in (0..=255).filter_map(Order::of_number) {
                let size = order.sorted_by().and_then(FeedType::size).unwrap_or(12);
                let schema = Schema::new(size, widths, order).expect("a schema");
                assert_eq!(Schema::of_words(schema.words()), Some(schema));
                assert_eq!(Schema::of_row(&schema.row()), Some(schema));
                let bits: usize = widths.iter().map(|&width| usize::from(width)).sum();
                assert_eq!(schema.planes(), 1 + bits);
                let indexed = schema.with_index();
                assert_eq!(indexed.is_some(), order.sorted_by().is_none());
                let Some(indexed) = indexed else { continue };
                assert_ne!(indexed, schema);
                assert_eq!(Schema::of_words(indexed.words()), Some(indexed));
                assert_eq!(Schema::of_row(&indexed.row()), Some(indexed));
            }
        }
        assert!(Schema::new(0, &[], Order::List).is_none());
        assert!(Schema::new(1, &[33], Order::List).is_none());
        assert!(Schema::new(1, &[0], Order::List).is_none());
        assert!(Schema::new(1, &[1; 17], Order::List).is_none());
        assert!(Schema::of_words([12 | 2 << 8, 0, 0]).is_none(), "an order");
        let (of, unique) = (FeedType::Int32, false);
        assert!(Schema::new(8, &[], Order::Sorted { of, unique }).is_none());
        assert!(Schema::of_words([12 | 17 << 16, !0, !0]).is_none());
    }

    #[test]
    fn rows_with_an_invalid_value_are_rejected() {
        let of = FeedType::Text;
        let order = Order::Sorted { of, unique: true };
        let schema = Schema::new(3, &[], order).expect("a schema");
        let item = |row: &[u8]| schema.of_item_row(row, &mut Vec::new()).is_some();
        assert!(item(b"\0ab\0") && !item(b"\0a\0b"));
    }

    #[test]
    fn damaged_item_rows_are_rejected() {
        let schema = Schema::new(3, &[4, 12], Order::List).expect("a schema");
        let row = schema.item_row(b"abc", &[15, 4095], true);
        let mut attributes = Vec::new();
        let item = schema.of_item_row(&row, &mut attributes);
        assert_eq!(item, Some((&b"abc"[..], true)));
        assert_eq!(attributes, [15, 4095]);
        for length in 0..row.len() {
            assert_eq!(schema.of_item_row(&row[..length], &mut attributes), None);
        }
        for (place, byte) in [(0, 2), (4, 16), (6, 16)] {
            let mut bad = row.clone();
            bad[place] = byte;
            assert_eq!(schema.of_item_row(&bad, &mut attributes), None, "{place}");
        }
    }
}
