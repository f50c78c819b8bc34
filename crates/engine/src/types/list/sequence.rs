//! Implements large lists as trees whose leaves contain the items.

use undercroft_memory::{Offset, Pool, Transaction, View};

use super::fill::{End, Shape};
use super::items::{INLINE_ITEM_MAX, ListItem, ListItems, REFERENCE};
use super::leaf::{LEAF_MAX, Leaf, Packing};
use crate::error::Error;
use crate::structures::element::Blocks;
use crate::structures::ranges::Ranges;
use crate::structures::tree::{Builder, Child, Place, Tree};

/// The number of root words of a list.
pub(super) const WORDS: usize = 4;

/// The tree of a large list.
pub(crate) type Sequence = Tree<0>;

/// An iterator over the values being pushed to a list, in push order.
pub(crate) struct PushedValues<'v> {
    values: &'v [&'v [u8]],
    next: usize,
    /// The reference to the next value, set once the value is stored in a block.
    reference: Option<[u8; REFERENCE]>,
}

impl<'v> PushedValues<'v> {
    pub(crate) fn new(values: &'v [&'v [u8]]) -> PushedValues<'v> {
        PushedValues {
            values,
            next: 0,
            reference: None,
        }
    }

    /// Returns the next value as an item for `leaf`. A long value is first stored in a separate
    /// block.
    #[inline]
    fn peek_for(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        leaf: &Leaf,
    ) -> Result<Option<ListItem<'_>>, Error> {
        match (self.values.get(self.next), leaf.packing) {
            // Skip parsing, because a text leaf stores integers as text.
            (Some(bytes), Packing::Fixed { .. } | Packing::Texts { .. })
                if bytes.len() <= INLINE_ITEM_MAX =>
            {
                Ok(Some(ListItem {
                    bytes,
                    integer: None,
                    reference: false,
                }))
            }
            _ => self.peek(transaction, pool),
        }
    }

    /// Returns the next value as an item. A long value is first stored in a separate block.
    #[inline]
    fn peek(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
    ) -> Result<Option<ListItem<'_>>, Error> {
        let Some(value) = self.values.get(self.next) else {
            return Ok(None);
        };
        if value.len() <= INLINE_ITEM_MAX {
            return Ok(Some(ListItem::text(value)));
        }
        if self.reference.is_none() {
            self.reference = Some(put_in_block(transaction, &mut { pool }, value)?);
        }
        Ok(self.reference.as_ref().map(ListItem::reference))
    }

    fn advance(&mut self) {
        self.next += 1;
        self.reference = None;
    }

    fn is_done(&self) -> bool {
        self.next == self.values.len()
    }
}

/// Stores a long item in a separate block and returns a reference to the block.
fn put_in_block(
    transaction: &mut Transaction<'_>,
    blocks: &mut impl Blocks,
    value: &[u8],
) -> Result<[u8; REFERENCE], Error> {
    let at = blocks.block(transaction, value.len() as u64)?;
    transaction.fill(at, value)?;
    let mut reference = [0; REFERENCE];
    reference[..8].copy_from_slice(&at.to_le_bytes());
    reference[8..].copy_from_slice(&(value.len() as u64).to_le_bytes());
    Ok(reference)
}

/// Frees a leaf and the blocks to which its items refer. Returns the number of blocks freed in
/// addition to the leaf.
pub(crate) fn free_leaf(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    at: Offset,
) -> Result<usize, Error> {
    let leaf = Leaf::load(transaction.view(), at)?;
    let blocks = free_blocks(transaction, pool, &leaf, 0, leaf.count)?;
    transaction.free(pool, at);
    Ok(blocks)
}

/// Frees the blocks to which the items at indexes `from..to` of a leaf refer. Returns the number of
/// blocks freed.
pub(super) fn free_blocks(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    leaf: &Leaf,
    from: u64,
    to: u64,
) -> Result<usize, Error> {
    let mut blocks = Vec::new();
    leaf.for_each_block(transaction.view(), from, to, |at, _, _| blocks.push(at))?;
    blocks.iter().for_each(|&at| transaction.free(pool, at));
    Ok(blocks.len())
}

impl Sequence {
    /// Appends the items at positions `from..to` to `out`. Descends the tree once, and then walks
    /// from leaf to leaf.
    #[inline]
    pub(super) fn append_range(
        &self,
        view: &View<'_>,
        from: u64,
        to: u64,
        out: &mut Ranges,
    ) -> Result<(), Error> {
        if from >= to {
            return Ok(());
        }
        let mut place = self.find(view, from)?;
        let mut position = from;
        let mut skip = from.wrapping_sub(place.before);
        Leaf::prefetch(view, place.leaf, skip, to - from, place.count);
        loop {
            let take = place.count.saturating_sub(skip).min(to - position);
            if position + take < to
                && let Some(next) = place.next_leaf(view)
            {
                Leaf::prefetch(view, next, 0, to - position - take, place.count);
            }
            let leaf = Leaf::load(view, place.leaf)?;
            leaf.append_range(view, skip, skip + take, out)?;
            position += take;
            if position >= to {
                return Ok(());
            }
            skip = 0;
            // Revalidate the view, so that a loop over a torn list stops early (R3).
            view.recheck()?;
            if !place.step(view, true)? {
                return Ok(());
            }
        }
    }

    /// Pushes values at one end of the list.
    pub(super) fn push(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        end: End,
        values: &[&[u8]],
    ) -> Result<(), Error> {
        let shard = pool.shard();
        let mut values = PushedValues::new(values);
        loop {
            let place = self.find_end(transaction.view(), end == End::Right)?;
            let mut leaf = Leaf::load(transaction.view(), place.leaf)?;
            let before = leaf.count;
            while let Some(element) = values.peek_for(transaction, pool, &leaf)? {
                if !leaf.push(transaction, shard, end, &element)? {
                    break;
                }
                values.advance();
            }
            if leaf.count != before {
                leaf.store_fill(transaction, shard)?;
                let added = (leaf.count - before) as i64;
                self.add(transaction, shard, &place.path, added)?;
            }
            if values.is_done() {
                return Ok(());
            }
            self.make_room(transaction, pool, end, &place, &leaf, &mut values)?;
        }
    }

    /// Adds at least one value if the leaf at the end of the list has no room. Either rebuilds the
    /// leaf with more values or adds a new leaf next to it.
    #[cold]
    fn make_room(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        end: End,
        place: &Place<0>,
        leaf: &Leaf,
        values: &mut PushedValues<'_>,
    ) -> Result<(), Error> {
        let Some(element) = values.peek(transaction, pool)? else {
            return Ok(());
        };
        // Do not rebuild a full leaf. If a leaf has free space only at the wrong end, rebuild it
        // only when at least a quarter of the leaf is free.
        let moved = leaf.accepts(&element) && !matches!(leaf.packing, Packing::Texts { .. });
        let limit = match moved {
            _ if leaf.size < LEAF_MAX => LEAF_MAX,
            true => LEAF_MAX / 4 * 3,
            false => LEAF_MAX / 16 * 15,
        };
        let mut items = ListItems::new();
        let mut shape = Shape::new();
        let mut remade = leaf.used() + element.bytes.len() as u64 <= limit;
        if remade {
            items = leaf.items(transaction.view())?;
            shape = items.shape(0..items.len());
            let mut with = shape;
            with.add(&element);
            remade = with.fits();
            if !remade {
                (items, shape) = (ListItems::new(), Shape::new());
            }
        }
        let kept = items.len();
        while let Some(element) = values.peek(transaction, pool)? {
            let mut with = shape;
            with.add(&element);
            if !with.fits() {
                break;
            }
            shape = with;
            items.push(element);
            values.advance();
        }
        if end == End::Left {
            items.turn(kept);
        }
        let alone = remade && self.height() == 0;
        let new = items.make_leaf(transaction, pool, 0..items.len(), end, alone)?;
        let old = Child {
            at: leaf.at,
            count: leaf.count,
            note: [],
        };
        if remade {
            transaction.free(pool, leaf.at);
            return self.splice(transaction, pool, &place.path, 1, &[new]);
        }
        let both = match end {
            End::Left => [new, old],
            End::Right => [old, new],
        };
        self.splice(transaction, pool, &place.path, 1, &both)
    }

    /// Builds a tree from `items`, which must be in list order. Returns the root words of the list.
    pub(super) fn build(
        transaction: &mut Transaction<'_>,
        pool: Pool,
        items: &ListItems,
        end: End,
    ) -> Result<[u64; WORDS], Error> {
        let mut builder: Builder<0> = Builder::new();
        let mut start = 0;
        while start < items.len() {
            let mut shape = Shape::new();
            let mut stop = start;
            while stop < items.len() {
                let mut with = shape;
                with.add(&items.get(stop));
                if !with.fits() {
                    break;
                }
                shape = with;
                stop += 1;
            }
            let alone = stop - start == items.len();
            let leaf = items.make_leaf(transaction, pool, start..stop, end, alone)?;
            builder.push(transaction, pool, leaf)?;
            start = stop;
        }
        let tree = builder.finish(transaction, pool)?;
        Ok(root_words(tree, pool))
    }

    /// Returns a value as an item for the leaves of a list. A long value is first stored in a
    /// separate block.
    pub(super) fn element<'e>(
        transaction: &mut Transaction<'_>,
        blocks: &mut impl Blocks,
        value: &'e [u8],
        reference: &'e mut [u8; REFERENCE],
    ) -> Result<ListItem<'e>, Error> {
        if value.len() <= INLINE_ITEM_MAX {
            return Ok(ListItem::text(value));
        }
        *reference = put_in_block(transaction, blocks, value)?;
        Ok(ListItem::reference(reference))
    }
}

/// Combines the root words of a tree with the arena of `pool`, and returns the list's root words.
pub(super) fn root_words([root, count, height]: [u64; 3], pool: Pool) -> [u64; WORDS] {
    [root, count, height, pool.arena()]
}
