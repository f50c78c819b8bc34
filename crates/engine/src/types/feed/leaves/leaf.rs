//! A leaf of a feed: its layout, reading it.
//!
//! ```text
//! a leaf of 256 bytes to 16 KiB:
//! | 0x400, size, first place, items |  8 bytes
//! | label                      |  8
//! | bits                       |  8 for each 64 places, for each bit of an item
//! | values                     |  as many bytes as a value has, for each place
//! ```
//!
//! An item has a place; those before the first item and behind the last one are free, so that a leaf fills up at
//! either end. What an item has beside its value lies bit by bit: a word holds one bit of 64 items, first the one that
//! says that an item is hidden, then those of each attribute from the lowest on. So a few operations on words compare
//! an attribute of 64 items.

use undercroft_memory::{Fault, Offset, View};

use crate::error::Error;
use crate::types::feed::schema::Schema;

/// Sizes of leaves: a feed's only leaf is as small as its items allow, all others are as large as suits their items.
const SIZES: [u64; 7] = [256, 512, 1024, 2048, LEAF_USUAL, 8192, LEAF_MAX];
/// The size of most leaves.
const LEAF_USUAL: u64 = 4096;
/// The largest leaf, for items that would leave much of a smaller one empty.
pub(in crate::types::feed) const LEAF_MAX: u64 = 16_384;
/// Words before the bits.
pub(in crate::types::feed) const HEADER_WORDS: usize = 2;
const HEADER: u64 = HEADER_WORDS as u64 * 8;
const MAGIC: u64 = 0x400;
/// Where a leaf's label stands.
pub(in crate::types::feed) const LABEL_AT: u64 = 8;
/// The bit that says that an item is hidden.
pub(in crate::types::feed) const HIDDEN: usize = 0;

pub(in crate::types::feed) fn fault(at: Offset) -> Error {
    Fault {
        at,
        what: "a leaf of a feed whose items fit in it",
    }
    .into()
}

/// Where in a leaf everything lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::types::feed) struct Layout {
    /// Bytes.
    pub(in crate::types::feed) size: u64,
    /// Places for items.
    pub(in crate::types::feed) places: usize,
    /// Words of one bit of all places.
    pub(in crate::types::feed) blocks: usize,
    /// Where the values lie.
    pub(in crate::types::feed) values: usize,
    /// Bytes of a value.
    pub(in crate::types::feed) value: usize,
}

impl Layout {
    /// A leaf of so many bytes.
    fn of(schema: &Schema, size: u64) -> Layout {
        let (room, value, planes) = (
            (size - HEADER) as usize,
            schema.value_size(),
            schema.planes(),
        );
        let with = |blocks: usize| {
            let left = room.saturating_sub(blocks * planes * 8) & !7;
            (blocks, (blocks * 64).min(left / value))
        };
        // Either the last block is full, or it is cut short by the leaf's end.
        let whole = room * 8 / (value * 8 + planes) / 64;
        let (fewer, more) = (with(whole), with(whole + 1));
        let (blocks, places) = if more.1 > fewer.1 { more } else { fewer };
        Layout::with(schema, size, blocks, places)
    }

    fn with(schema: &Schema, size: u64, blocks: usize, places: usize) -> Layout {
        Layout {
            size,
            places,
            blocks,
            values: (HEADER_WORDS + blocks * schema.planes()) * 8,
            value: schema.value_size(),
        }
    }

    /// The leaves of a feed that has several: the usual size, or a larger one where that would leave more than a
    /// thirtieth unused.
    pub(in crate::types::feed) fn full(schema: &Schema) -> Layout {
        let bits = schema.value_size() * 8 + schema.planes();
        let layouts = SIZES.into_iter().filter(|&size| size >= LEAF_USUAL);
        let mut layouts = layouts.map(|size| Layout::of(schema, size));
        let tight = |layout: &Layout| (layout.places * bits / 8) as u64 * 30 >= layout.size * 29;
        layouts
            .find(tight)
            .unwrap_or_else(|| Layout::of(schema, LEAF_MAX))
    }

    /// The smallest leaf with so many places, or a full one.
    pub(in crate::types::feed) fn small(schema: &Schema, places: usize) -> Layout {
        let full = Layout::full(schema);
        let sizes = SIZES.into_iter().take_while(|&size| size < full.size);
        let mut layouts = sizes.map(|size| Layout::of(schema, size));
        layouts
            .find(|layout| layout.places >= places)
            .unwrap_or(full)
    }

    /// No leaf: room for any number of items outside the store.
    pub(in crate::types::feed) fn outside(schema: &Schema, places: usize) -> Layout {
        let blocks = places.div_ceil(64);
        let mut layout = Layout::with(schema, 0, blocks, places);
        layout.size = (layout.values + places * layout.value).next_multiple_of(8) as u64;
        layout
    }

    /// Bits of an item beside its value.
    pub(in crate::types::feed) fn planes(&self) -> usize {
        (self.values / 8 - HEADER_WORDS) / self.blocks.max(1)
    }

    /// Where the word with a bit of 64 places stands, in words.
    #[inline(always)]
    pub(in crate::types::feed) fn word(&self, plane: usize, block: usize) -> usize {
        HEADER_WORDS + plane * self.blocks + block
    }

    /// Where the value at a place lies.
    #[inline(always)]
    pub(in crate::types::feed) fn value_at(&self, place: usize) -> usize {
        self.values + place * self.value
    }
}

/// The bits of a block that stand for places of a range.
#[inline(always)]
pub(in crate::types::feed) fn range_mask(block: usize, from: usize, to: usize) -> u64 {
    let below = |place: usize| match place.saturating_sub(block * 64) {
        0 => 0,
        bits @ 1..64 => u64::MAX >> (64 - bits),
        _ => u64::MAX,
    };
    below(to) & !below(from)
}

/// A leaf whose header was read.
#[derive(Clone, Copy, Debug)]
pub(in crate::types::feed) struct Leaf {
    pub(in crate::types::feed) at: Offset,
    pub(in crate::types::feed) layout: Layout,
    /// The place of the first item.
    pub(in crate::types::feed) start: usize,
    pub(in crate::types::feed) count: usize,
    /// Its label, in a feed that has an index.
    pub(in crate::types::feed) label: u64,
}

impl Leaf {
    /// Reads the header; what it says is within the leaf.
    #[inline]
    pub(in crate::types::feed) fn load(
        view: &View<'_>,
        at: Offset,
        full: &Layout,
        schema: &Schema,
    ) -> Result<Leaf, Error> {
        let block = view.block(at)?;
        let (header, label) = (block.word(0)?, block.word(LABEL_AT)?);
        let size = header >> 16 & 0xffff;
        let layout = match size {
            _ if header & 0xffff != MAGIC || !SIZES.contains(&size) => return Err(fault(at)),
            size if size == full.size => *full,
            size => Layout::of(schema, size),
        };
        let (start, count) = ((header >> 32 & 0xffff) as usize, (header >> 48) as usize);
        if count == 0 || start + count > layout.places {
            return Err(fault(at));
        }
        view.check(at, size)?;
        Ok(Leaf {
            at,
            layout,
            start,
            count,
            label,
        })
    }

    /// The first word of a header.
    pub(in crate::types::feed) fn header(size: u64, start: usize, count: usize) -> u64 {
        MAGIC | size << 16 | (start as u64) << 32 | (count as u64) << 48
    }

    /// The label of the leaf at an offset.
    pub(in crate::types::feed) fn label(view: &View<'_>, at: Offset) -> Result<u64, Error> {
        let block = view.block(at)?;
        if block.word(0)? & 0xffff != MAGIC {
            return Err(fault(at));
        }
        Ok(block.word(LABEL_AT)?)
    }

    /// Behind the place of the last item.
    pub(in crate::types::feed) fn end(&self) -> usize {
        self.start + self.count
    }

    /// The places of the items at some positions, counted from its first item.
    #[inline]
    pub(in crate::types::feed) fn places(
        &self,
        positions: &std::ops::Range<u64>,
    ) -> std::ops::Range<usize> {
        let place = |position: u64| self.start + position.min(self.count as u64) as usize;
        place(positions.start)..place(positions.end)
    }
}

/// A leaf with as many items as the node above it counts.
pub(in crate::types::feed) fn load_leaf(
    view: &View<'_>,
    at: Offset,
    full: &Layout,
    schema: &Schema,
    count: u64,
) -> Result<Leaf, Error> {
    let leaf = Leaf::load(view, at, full, schema)?;
    if leaf.count as u64 == count {
        Ok(leaf)
    } else {
        Err(fault(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::feed::order::Order;

    #[test]
    fn layouts_fit_their_leaves_and_waste_little() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..3000 {
            let widths: Vec<u8> = (0..random.usize(..=16))
                .map(|_| random.u8(1..=32))
                .collect();
            let schema = Schema::new(random.u8(1..=255), &widths, Order::List).expect("sound");
            for size in SIZES {
                let layout = Layout::of(&schema, size);
                assert!(layout.places <= layout.blocks * 64, "{schema:?} {layout:?}");
                let end = layout.value_at(layout.places).next_multiple_of(8);
                assert!(
                    layout.places == 0 || end as u64 <= size,
                    "{schema:?} {layout:?}"
                );
            }
            let full = Layout::full(&schema);
            let used = (full.places * (schema.value_size() * 8 + schema.planes()) / 8) as u64;
            let tight = used * 30 >= full.size * 29 || full.size == LEAF_MAX;
            assert!(tight && full.places >= 15, "{schema:?} {full:?}");
            assert!(Layout::small(&schema, 1).places >= 1);
        }
        let schema = Schema::new(12, &[4, 3, 1], Order::List).expect("sound");
        let full = Layout::full(&schema);
        assert_eq!((full.size, full.places), (4096, 310));
    }

    #[test]
    fn masks_are_of_the_places_of_a_range() {
        for (from, to) in [(0, 64), (3, 5), (60, 130), (64, 128), (7, 7), (100, 190)] {
            for block in 0..4 {
                let naive = (0..64).filter(|bit| (from..to).contains(&(block * 64 + bit)));
                let naive = naive.fold(0, |mask, bit| mask | 1_u64 << bit);
                assert_eq!(range_mask(block, from, to), naive, "{from} {to} {block}");
            }
        }
    }
}
