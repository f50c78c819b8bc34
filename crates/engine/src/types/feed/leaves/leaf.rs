//! Defines the layout of a feed leaf, and reads leaves.
//!
//! ```text
//! a leaf of 256 bytes to 16 KiB:
//! | 0x400, size, first place, items |  8 bytes
//! | label                      |  8
//! | bits                       |  8 for each 64 places, for each bit of an item
//! | values                     |  the value size, for each place
//! ```
//!
//! Each item occupies a place. The places before the first item and after the last item are unused,
//! so a leaf can grow at either end. The bits of an item in addition to its value are stored in bit
//! planes, in which a word contains one bit from each of 64 items. The first plane contains the
//! hidden bits. The planes of each attribute follow, lowest bit first. An attribute of 64 items can
//! therefore be compared in a few word operations.

use undercroft_memory::{Fault, Offset, View};

use crate::error::Error;
use crate::types::feed::schema::Schema;

/// The possible sizes of a leaf in bytes. If a feed has only one leaf, the leaf is as small as its
/// items allow. Otherwise, all leaves have the size that suits the items best.
const SIZES: [u64; 7] = [256, 512, 1024, 2048, LEAF_USUAL, 8192, LEAF_MAX];
/// The usual size of a leaf in bytes.
const LEAF_USUAL: u64 = 4096;
/// The maximum size of a leaf in bytes, used if smaller leaves waste too much space.
pub(in crate::types::feed) const LEAF_MAX: u64 = 16_384;
/// The number of words that precede the bit planes.
pub(in crate::types::feed) const HEADER_WORDS: usize = 2;
const HEADER: u64 = HEADER_WORDS as u64 * 8;
const MAGIC: u64 = 0x400;
/// The offset of the label in a leaf.
pub(in crate::types::feed) const LABEL_AT: u64 = 8;
/// The index of the bit plane that contains the hidden bits.
pub(in crate::types::feed) const HIDDEN: usize = 0;

pub(in crate::types::feed) fn fault(at: Offset) -> Error {
    Fault {
        at,
        what: "a leaf of a feed whose items fit in it",
    }
    .into()
}

/// The layout of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::types::feed) struct Layout {
    /// The size of the leaf in bytes.
    pub(in crate::types::feed) size: u64,
    /// The number of places for items.
    pub(in crate::types::feed) places: usize,
    /// The number of words in each bit plane, one for each block of 64 places.
    pub(in crate::types::feed) blocks: usize,
    /// The offset of the values in the leaf.
    pub(in crate::types::feed) values: usize,
    /// The size of a value in bytes.
    pub(in crate::types::feed) value: usize,
}

impl Layout {
    /// Returns the layout of a leaf of `size` bytes.
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
        // Choose between a full last block and a last block that is truncated by the end of the
        // leaf.
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

    /// Returns the layout for feeds with several leaves. The leaves have the usual size, or a
    /// larger size if the usual size wastes more than a thirtieth of the space.
    pub(in crate::types::feed) fn full(schema: &Schema) -> Layout {
        let bits = schema.value_size() * 8 + schema.planes();
        let layouts = SIZES.into_iter().filter(|&size| size >= LEAF_USUAL);
        let mut layouts = layouts.map(|size| Layout::of(schema, size));
        let tight = |layout: &Layout| (layout.places * bits / 8) as u64 * 30 >= layout.size * 29;
        layouts
            .find(tight)
            .unwrap_or_else(|| Layout::of(schema, LEAF_MAX))
    }

    /// Returns the layout of the smallest leaf with at least `places` places, or of a full-size
    /// leaf if no smaller leaf has enough places.
    pub(in crate::types::feed) fn small(schema: &Schema, places: usize) -> Layout {
        let full = Layout::full(schema);
        let sizes = SIZES.into_iter().take_while(|&size| size < full.size);
        let mut layouts = sizes.map(|size| Layout::of(schema, size));
        layouts
            .find(|layout| layout.places >= places)
            .unwrap_or(full)
    }

    /// Returns a layout for items outside the store, with room for any number of items.
    pub(in crate::types::feed) fn outside(schema: &Schema, places: usize) -> Layout {
        let blocks = places.div_ceil(64);
        let mut layout = Layout::with(schema, 0, blocks, places);
        layout.size = (layout.values + places * layout.value).next_multiple_of(8) as u64;
        layout
    }

    /// Returns the number of bits that an item has in addition to its value.
    pub(in crate::types::feed) fn planes(&self) -> usize {
        (self.values / 8 - HEADER_WORDS) / self.blocks.max(1)
    }

    /// Returns the index of the word that a bit plane contains for a block of 64 places.
    #[inline(always)]
    pub(in crate::types::feed) fn word(&self, plane: usize, block: usize) -> usize {
        HEADER_WORDS + plane * self.blocks + block
    }

    /// Returns the offset of the value at the given place.
    #[inline(always)]
    pub(in crate::types::feed) fn value_at(&self, place: usize) -> usize {
        self.values + place * self.value
    }
}

/// Returns a mask of the places in a block that are within `from..to`.
#[inline(always)]
pub(in crate::types::feed) fn range_mask(block: usize, from: usize, to: usize) -> u64 {
    let below = |place: usize| match place.saturating_sub(block * 64) {
        0 => 0,
        bits @ 1..64 => u64::MAX >> (64 - bits),
        _ => u64::MAX,
    };
    below(to) & !below(from)
}

/// A leaf whose header has been read.
#[derive(Clone, Copy, Debug)]
pub(in crate::types::feed) struct Leaf {
    pub(in crate::types::feed) at: Offset,
    pub(in crate::types::feed) layout: Layout,
    /// The place of the first item.
    pub(in crate::types::feed) start: usize,
    pub(in crate::types::feed) count: usize,
    /// The leaf's label, which is used only if the feed has an index.
    pub(in crate::types::feed) label: u64,
}

impl Leaf {
    /// Reads the header and verifies that it describes items inside the leaf.
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

    /// Returns the first word of a leaf's header.
    pub(in crate::types::feed) fn header(size: u64, start: usize, count: usize) -> u64 {
        MAGIC | size << 16 | (start as u64) << 32 | (count as u64) << 48
    }

    /// Reads the label of the leaf at an offset.
    pub(in crate::types::feed) fn label(view: &View<'_>, at: Offset) -> Result<u64, Error> {
        let block = view.block(at)?;
        if block.word(0)? & 0xffff != MAGIC {
            return Err(fault(at));
        }
        Ok(block.word(LABEL_AT)?)
    }

    /// Returns the place after the last item's place.
    pub(in crate::types::feed) fn end(&self) -> usize {
        self.start + self.count
    }

    /// Returns the places of the items at the given positions, where 0 is the position of the
    /// leaf's first item.
    #[inline]
    pub(in crate::types::feed) fn places(
        &self,
        positions: &std::ops::Range<u64>,
    ) -> std::ops::Range<usize> {
        let place = |position: u64| self.start + position.min(self.count as u64) as usize;
        place(positions.start)..place(positions.end)
    }
}

/// Loads a leaf and verifies that it contains the number of items that its parent node counts.
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
    fn range_masks_select_exactly_the_range() {
        for (from, to) in [(0, 64), (3, 5), (60, 130), (64, 128), (7, 7), (100, 190)] {
            for block in 0..4 {
                let naive = (0..64).filter(|bit| (from..to).contains(&(block * 64 + bit)));
                let naive = naive.fold(0, |mask, bit| mask | 1_u64 << bit);
                assert_eq!(range_mask(block, from, to), naive, "{from} {to} {block}");
            }
        }
    }
}
