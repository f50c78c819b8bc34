//! Builds list leaves and modifies them in place.

use undercroft_memory::{Offset, Pool, Transaction};

use super::items::{INLINE_ITEM_MAX, ListItem, ListItems};
use super::leaf::{
    HEADER, INTEGERS_HEADER, ITEMS_MAX, LEAF_MAX, Leaf, Packing, SIZES, mask, within,
};
use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::structures::tree::Child;

/// One end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The head of the list.
    Left,
    /// The tail of the list.
    Right,
}

impl End {
    /// Returns the keyspace event for a push at this end.
    pub(super) fn push_event(self) -> KeyEvent {
        match self {
            End::Left => KeyEvent::LPush,
            End::Right => KeyEvent::RPush,
        }
    }

    /// Returns the keyspace event for a pop at this end.
    pub(super) fn pop_event(self) -> KeyEvent {
        match self {
            End::Left => KeyEvent::LPop,
            End::Right => KeyEvent::RPop,
        }
    }
}

/// Statistics about a sequence of items, which determine how the items are packed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    count: u64,
    bytes: u64,
    longest: u64,
    /// Whether all items have the same length and none is a reference.
    one_length: bool,
    /// The smallest and the largest integer, if all items are integers.
    integers: Option<(i64, i64)>,
    /// The value of the last item, or 0 if it is not an integer.
    last: i64,
}

impl Shape {
    pub(crate) fn new() -> Shape {
        Shape {
            count: 0,
            bytes: 0,
            longest: 0,
            one_length: true,
            integers: None,
            last: 0,
        }
    }

    pub(crate) fn add(&mut self, element: &ListItem<'_>) {
        let length = element.bytes.len() as u64;
        let first = self.count == 0;
        self.one_length &= !element.reference && (first || length == self.longest);
        self.integers = match (element.integer, self.integers) {
            (Some(value), None) if first => Some((value, value)),
            (Some(value), Some((least, greatest))) => Some((least.min(value), greatest.max(value))),
            _ => None,
        };
        self.last = element.integer.unwrap_or(0);
        if !element.reference {
            self.longest = self.longest.max(length);
        }
        self.bytes += length;
        self.count += 1;
    }

    fn integer_width(least: i64, greatest: i64) -> u64 {
        let distance = greatest.wrapping_sub(least) as u64;
        u64::from(64 - distance.leading_zeros()).div_ceil(8).max(1)
    }

    /// Returns a base from which all integers can be encoded, leaving spare range for integers that
    /// are added later. Most of the spare range is below the smallest integer if the last integer
    /// is the smallest, and above the largest integer if the last integer is the largest.
    fn base(&self, least: i64, greatest: i64, width: u64) -> i64 {
        let spare = mask(width) - greatest.wrapping_sub(least) as u64;
        let below = match (self.last == least, self.last == greatest) {
            (true, false) => spare / 4 * 3,
            (false, true) => spare / 8,
            _ => spare / 2,
        };
        least.saturating_sub_unsigned(below)
    }

    fn length_width(&self) -> u64 {
        if self.longest < 0xff { 1 } else { 2 }
    }

    /// Returns the most compact packing and the size of the leaf in bytes. The boundary of a text
    /// packing is returned as 0, and the caller must set it.
    pub(crate) fn best(&self) -> (Packing, u64) {
        let width = self.length_width();
        let boundary = 0;
        let texts = HEADER + self.bytes + self.count * width;
        let mut best = (Packing::Texts { width, boundary }, texts);
        if self.one_length {
            let width = self.longest;
            best = (Packing::Fixed { width }, HEADER + self.bytes);
        }
        if let Some((least, greatest)) = self.integers {
            let width = Shape::integer_width(least, greatest);
            let base = self.base(least, greatest, width);
            let bytes = INTEGERS_HEADER + self.count * width;
            // Prefer integers even if they need up to 8 more bytes, the size of the base. The next
            // integer can have one more digit, which does not fit in a leaf of fixed-width texts.
            if bytes <= best.1 + 8 {
                best = (Packing::Integers { width, base }, bytes);
            }
        }
        best
    }

    /// Returns whether the items fit in a leaf of the largest size.
    pub(crate) fn fits(&self) -> bool {
        self.count <= ITEMS_MAX && self.best().1 <= LEAF_MAX
    }
}

impl ListItems {
    /// Returns the statistics of the items at `indexes`. The last index must be that of the item at
    /// the growing end of the list.
    pub(crate) fn shape(&self, indexes: impl Iterator<Item = usize>) -> Shape {
        let mut shape = Shape::new();
        indexes.for_each(|index| shape.add(&self.get(index)));
        shape
    }

    /// Builds a leaf from the items in `range`, which must fit in a single leaf. Leaves free space
    /// at the end given by `grows`. Set `alone` if the leaf is the list's only leaf, because only a
    /// list's only leaf can be smaller than [`LEAF_MAX`].
    pub(crate) fn make_leaf(
        &self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        range: std::ops::Range<usize>,
        grows: End,
        alone: bool,
    ) -> Result<Child<0>, Error> {
        let left = grows == End::Left;
        let shape = if left {
            self.shape(range.clone().rev())
        } else {
            self.shape(range.clone())
        };
        let (packing, used) = shape.best();
        let wanted = if alone { used + used / 4 } else { LEAF_MAX };
        let size = SIZES.into_iter().find(|&size| wanted <= size);
        let size = size.unwrap_or(LEAF_MAX);
        let mut leaf = Leaf {
            at: 0,
            size,
            packing,
            start: packing.header(),
            end: 0,
            count: range.len() as u64,
            lengths: 0,
        };
        let spare = size - used;
        if let Packing::Texts { width, .. } = packing {
            let lengths = leaf.count * width;
            // Divide the free space in proportion to the used space, so that the length area and
            // the data area fill up at the same time.
            let spare_lengths = spare * lengths / (used - HEADER).max(1);
            let boundary = HEADER + lengths + spare_lengths;
            leaf.packing = Packing::Texts { width, boundary };
            leaf.lengths = if left { boundary - lengths } else { HEADER };
            let data = used - HEADER - lengths;
            leaf.start = if left { size - data } else { boundary };
        } else if left {
            leaf.start += spare;
        }
        let mut image = vec![0; size as usize];
        let (mut at, mut length_at) = (leaf.start as usize, leaf.lengths as usize);
        for index in range {
            let element = self.get(index);
            match (leaf.packing, element.integer) {
                (Packing::Integers { width, base }, Some(value)) => {
                    let distance = value.wrapping_sub(base).to_le_bytes();
                    let width = width as usize;
                    image[at..at + width].copy_from_slice(&distance[..width]);
                    at += width;
                }
                (packing, _) => {
                    if let Packing::Texts { width, .. } = packing {
                        let code = length_code(&element, width).to_le_bytes();
                        let width = width as usize;
                        image[length_at..length_at + width].copy_from_slice(&code[..width]);
                        length_at += width;
                    }
                    let end = at + element.bytes.len();
                    image[at..end].copy_from_slice(element.bytes);
                    at = end;
                }
            }
        }
        leaf.end = at as u64;
        leaf.at = transaction.allocate(pool, size)?;
        let [shape, fill] = leaf.header();
        image[..8].copy_from_slice(&shape.to_le_bytes());
        image[8..16].copy_from_slice(&fill.to_le_bytes());
        if let Packing::Integers { base, .. } = leaf.packing {
            image[16..24].copy_from_slice(&base.to_le_bytes());
        }
        let header = packing.header();
        for (from, to) in [
            (0, header),
            (leaf.lengths, length_at as u64),
            (leaf.start, leaf.end),
        ] {
            let (from, to) = (from & !7, to.next_multiple_of(8).min(size));
            if from < to {
                transaction.fill(leaf.at + from, &image[from as usize..to as usize])?;
            }
        }
        Ok(Child {
            at: leaf.at,
            count: leaf.count,
            note: [],
        })
    }
}

fn length_code(element: &ListItem<'_>, width: u64) -> u64 {
    if element.reference {
        Packing::reference_code(width)
    } else {
        element.bytes.len() as u64
    }
}

/// The maximum length in bytes of a write that uses the small stack buffer.
const SHORT: usize = 64;

/// Writes bytes at any position in a block, preserving the other bytes of the words that it
/// overwrites. If `log` is set, the undo log saves the old words.
pub(crate) fn write_part(
    transaction: &mut Transaction<'_>,
    shard: usize,
    block: Offset,
    position: u64,
    bytes: &[u8],
    log: bool,
) -> Result<(), Error> {
    let (first, end) = (position & !7, position + bytes.len() as u64);
    let whole = (end.next_multiple_of(8) - first) as usize;
    if whole == 0 {
        return Ok(());
    }
    let skip = (position - first) as usize;
    // Use a small buffer for short items, because most items are short and zeroing the large buffer
    // takes longer.
    let (mut short, mut long);
    let words = if whole <= SHORT {
        short = [0; SHORT];
        &mut short[..whole]
    } else {
        long = [0; INLINE_ITEM_MAX + 16];
        &mut long[..whole]
    };
    let view = transaction.view();
    words[..8].copy_from_slice(&view.word(block + first)?.to_le_bytes());
    if whole > 8 {
        let last = view.word(block + first + whole as u64 - 8)?;
        words[whole - 8..].copy_from_slice(&last.to_le_bytes());
    }
    words[skip..skip + bytes.len()].copy_from_slice(bytes);
    if log {
        transaction.write(shard, block + first, words)?;
    } else {
        transaction.fill_slack(shard, block + first, words)?;
    }
    Ok(())
}

impl Leaf {
    /// Encodes an item in the packing of this leaf and returns the encoded length, or `None` if the
    /// packing cannot represent the item.
    fn code(&self, element: &ListItem<'_>, buffer: &mut [u8; 8]) -> Option<usize> {
        match self.packing {
            Packing::Fixed { width } => {
                let fits = !element.reference && element.bytes.len() as u64 == width;
                fits.then_some(element.bytes.len())
            }
            Packing::Integers { width, base } => {
                let distance = within(element.integer?, base, width)?;
                *buffer = distance.to_le_bytes();
                Some(width as usize)
            }
            Packing::Texts { width, .. } => {
                let fits = element.reference
                    || (element.bytes.len() as u64) < Packing::reference_code(width);
                fits.then_some(element.bytes.len())
            }
        }
    }

    /// Returns whether the packing of this leaf can represent the item, regardless of how much
    /// space is free.
    pub(crate) fn accepts(&self, element: &ListItem<'_>) -> bool {
        self.code(element, &mut [0; 8]).is_some()
    }

    /// Adds an item at one end of the leaf. Returns `false` if the item does not fit. The caller
    /// must call [`store_fill`](Self::store_fill) after the last item.
    #[inline]
    pub(crate) fn push(
        &mut self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        end: End,
        element: &ListItem<'_>,
    ) -> Result<bool, Error> {
        let mut buffer = [0; 8];
        let Some(length) = self.code(element, &mut buffer) else {
            return Ok(false);
        };
        let bytes = match self.packing {
            Packing::Integers { .. } => &buffer[..length],
            _ => element.bytes,
        };
        let length = length as u64;
        let low = match self.packing {
            Packing::Texts { boundary, .. } => boundary,
            _ => self.packing.header(),
        };
        let room = match end {
            End::Left => self.start - low,
            End::Right => self.size - self.end,
        };
        if length > room || self.count >= ITEMS_MAX {
            return Ok(false);
        }
        if let Packing::Texts { width, boundary } = self.packing {
            let lengths_end = self.lengths + self.count * width;
            let at = match end {
                End::Left if self.lengths >= HEADER + width => self.lengths - width,
                End::Right if lengths_end + width <= boundary => lengths_end,
                _ => return Ok(false),
            };
            let code = length_code(element, width).to_le_bytes();
            write_part(
                transaction,
                shard,
                self.at,
                at,
                &code[..width as usize],
                false,
            )?;
            if end == End::Left {
                self.lengths = at;
            }
        }
        let at = match end {
            End::Left => {
                self.start -= length;
                self.start
            }
            End::Right => {
                self.end += length;
                self.end - length
            }
        };
        write_part(transaction, shard, self.at, at, bytes, false)?;
        self.count += 1;
        Ok(true)
    }

    /// Removes items from one end of the leaf. Does not free the blocks to which the items refer.
    /// The caller must call [`store_fill`](Self::store_fill) afterwards.
    pub(crate) fn drop_items(
        &mut self,
        transaction: &mut Transaction<'_>,
        end: End,
        items: u64,
    ) -> Result<(), Error> {
        let view = transaction.view();
        match end {
            End::Left => {
                let bytes = self.offset_of(view, items)?;
                self.start += bytes;
                if let Packing::Texts { width, .. } = self.packing {
                    self.lengths += items * width;
                }
            }
            End::Right => self.end -= self.bytes_behind(view, items)?,
        }
        self.count -= items;
        transaction.note_cut();
        Ok(())
    }

    /// Stores the header fields that `push` and `drop_items` changed.
    #[inline]
    pub(crate) fn store_fill(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
    ) -> Result<(), Error> {
        let [_, fill] = self.header();
        Ok(transaction.store(shard, self.at + 8, fill)?)
    }

    /// Overwrites an item with another item of the same size. Returns `false` if the sizes differ
    /// or either item is a reference to a block.
    pub(crate) fn overwrite(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        index: u64,
        element: &ListItem<'_>,
    ) -> Result<bool, Error> {
        let mut buffer = [0; 8];
        let Some(length) = self.code(element, &mut buffer) else {
            return Ok(false);
        };
        let view = transaction.view();
        let start = self.offset_of(view, index)?;
        let end = self.offset_of(view, index + 1)?;
        let mut is_reference = element.reference;
        self.for_each_block(view, index, index + 1, |_, _, _| is_reference = true)?;
        if is_reference || end - start != length as u64 {
            return Ok(false);
        }
        let bytes = match self.packing {
            Packing::Integers { .. } => &buffer[..length],
            _ => element.bytes,
        };
        write_part(transaction, shard, self.at, self.start + start, bytes, true)?;
        Ok(true)
    }
}

const _: () = assert!(mask(8) == u64::MAX);
