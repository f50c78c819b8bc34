//! Represents list items outside the store, either decoded from a leaf or not yet encoded.

use undercroft_numbers::parse_integer;

/// The maximum length in bytes of an item that is stored inline in a leaf or packed list. A longer
/// item is stored in a separate block.
pub(crate) const INLINE_ITEM_MAX: usize = 512;
/// The size in bytes of a reference to an item in a separate block. The reference consists of the
/// block's offset and the item's length.
pub(crate) const REFERENCE: usize = 16;

/// A list item, or a reference to the block in which the item is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListItem<'e> {
    /// The bytes of the item or of the reference.
    pub(crate) bytes: &'e [u8],
    /// The integer that the item represents in decimal, if known.
    pub(crate) integer: Option<i64>,
    pub(crate) reference: bool,
}

impl<'e> ListItem<'e> {
    /// Creates a list item that is stored inline in the leaf.
    #[inline]
    pub(crate) fn text(bytes: &'e [u8]) -> ListItem<'e> {
        ListItem {
            bytes,
            integer: parse_integer(bytes),
            reference: false,
        }
    }

    /// Creates a list item that is stored in a separate block.
    pub(crate) fn reference(bytes: &'e [u8; REFERENCE]) -> ListItem<'e> {
        ListItem {
            bytes,
            integer: None,
            reference: true,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    length: usize,
    integer: Option<i64>,
    reference: bool,
}

/// A sequence of list items.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListItems {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl ListItems {
    pub(crate) fn new() -> ListItems {
        ListItems::default()
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub(crate) fn get(&self, index: usize) -> ListItem<'_> {
        let span = self.spans[index];
        ListItem {
            bytes: &self.bytes[span.start..span.start + span.length],
            integer: span.integer,
            reference: span.reference,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ListItem<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }

    pub(crate) fn push(&mut self, element: ListItem<'_>) {
        self.insert(self.len(), element);
    }

    /// Appends an integer as decimal text.
    pub(crate) fn push_with(&mut self, integer: i64) {
        let start = self.bytes.len();
        self.bytes
            .extend_from_slice(itoa::Buffer::new().format(integer).as_bytes());
        self.spans.push(Span {
            start,
            length: self.bytes.len() - start,
            integer: Some(integer),
            reference: false,
        });
    }

    pub(crate) fn insert(&mut self, index: usize, element: ListItem<'_>) {
        let span = Span {
            start: self.bytes.len(),
            length: element.bytes.len(),
            integer: element.integer,
            reference: element.reference,
        };
        self.bytes.extend_from_slice(element.bytes);
        self.spans.insert(index, span);
    }

    pub(crate) fn replace(&mut self, index: usize, element: ListItem<'_>) {
        self.insert(index, element);
        self.spans.remove(index + 1);
    }

    pub(crate) fn remove(&mut self, index: usize) {
        self.spans.remove(index);
    }

    pub(crate) fn keep(&mut self, range: std::ops::Range<usize>) {
        self.spans.truncate(range.end);
        self.spans.drain(..range.start);
    }

    /// Moves all items except the first `kept` items to the front, in reverse order.
    pub(crate) fn turn(&mut self, kept: usize) {
        self.spans[kept..].reverse();
        self.spans.rotate_left(kept);
    }

    pub(crate) fn append(&mut self, other: &ListItems) {
        for element in other.iter() {
            self.push(element);
        }
    }

    /// Returns the index of the first inline item equal to `text`, searching from index `from`.
    pub(crate) fn find(&self, text: &[u8], from: usize) -> Option<usize> {
        (from..self.len()).find(|&index| {
            let element = self.get(index);
            !element.reference && element.bytes == text
        })
    }
}
