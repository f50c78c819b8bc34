//! Implements the leaves of a sorted set's tree.
//!
//! ```text
//! a leaf of up to 1024 bytes:
//! | number of items | shift | size |  8 bytes
//! | base                           |  8
//! | digest, offset of an element   |  8 for each item
//! ```
//!
//! An item refers to the dictionary element that contains a member and its score. The 20 bits above
//! the offset are a digest, which is the difference between the score and the base, shifted right
//! and clamped. Digests never decrease from one item to the next, so a search reads an element only
//! if its digest equals the digest of the target.

use smallvec::SmallVec;
use undercroft_memory::{Offset, Pool, Transaction, View, block_size};

use super::order::{Target, order_of};
use crate::error::Error;
use crate::structures::element::Element;
use crate::structures::tree::Child;

/// The size of the largest leaf in bytes.
const LEAF_MAX: u64 = 1024;
const HEADER: u64 = 16;
/// The maximum number of items in a leaf.
pub(crate) const ITEMS_MAX: usize = ((LEAF_MAX - HEADER) / 8) as usize;
/// The number of bits in an element's offset, which is stored in units of 8 bytes.
const OFFSET_BITS: u32 = 44;
/// The minimum number of digest values per item that the digests of a divided leaf must span. If
/// they span fewer, the digests are recomputed.
const SPREAD: u64 = 16;
const DIGEST_MAX: u64 = (1 << (64 - OFFSET_BITS)) - 1;

/// A tree item, which consists of a member's score, mapped to an integer by `order_of`, and the
/// offset of the member's element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ranked {
    pub(crate) order: u64,
    pub(crate) at: Offset,
}

impl Ranked {
    /// Loads the score of an existing element and maps it with `order_of`.
    pub(crate) fn load(view: &View<'_>, at: Offset) -> Result<Ranked, Error> {
        let order = order_of(score(view, at)?);
        Ok(Ranked { order, at })
    }

    pub(crate) fn key(&self) -> [u64; 2] {
        [self.order, self.at]
    }
}

/// Returns the score stored in an element.
#[inline]
pub(crate) fn score(view: &View<'_>, at: Offset) -> Result<f64, Error> {
    Ok(f64::from_bits(Element::load(view, at)?.word(view)?))
}

/// A leaf with its decoded header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf {
    pub(crate) at: Offset,
    pub(crate) count: usize,
    shift: u32,
    size: u64,
    base: u64,
}

fn fault(at: Offset) -> Error {
    undercroft_memory::Fault {
        at,
        what: "a leaf of a sorted set",
    }
    .into()
}

impl Leaf {
    /// Prefetches all cache lines of a leaf, because a search or a change accesses most of them.
    #[inline(always)]
    pub(crate) fn prefetch(view: &View<'_>, at: Offset) {
        view.prefetch_range(at, LEAF_MAX);
    }

    /// Decodes and verifies the header of a leaf.
    #[inline]
    pub(crate) fn load(view: &View<'_>, at: Offset) -> Result<Leaf, Error> {
        let [header, base] = view.words::<2>(at)?;
        let leaf = Leaf {
            at,
            count: (header & 0xffff) as usize,
            shift: (header >> 16 & 0xff) as u32,
            size: header >> 32,
            base,
        };
        let sound = leaf.size <= LEAF_MAX
            && leaf.size >= HEADER
            && leaf.shift < 64
            && (1..=leaf.room()).contains(&leaf.count);
        if !sound {
            return Err(fault(at));
        }
        view.check(at, leaf.size)?;
        Ok(leaf)
    }

    fn room(&self) -> usize {
        ((self.size - HEADER) / 8) as usize
    }

    fn header(&self) -> u64 {
        self.count as u64 | u64::from(self.shift) << 16 | self.size << 32
    }

    fn item_at(&self, index: usize) -> Offset {
        self.at + HEADER + index as u64 * 8
    }

    fn digest(&self, order: u64) -> u64 {
        (order.saturating_sub(self.base) >> self.shift).min(DIGEST_MAX)
    }

    fn item(&self, ranked: Ranked) -> u64 {
        (self.digest(ranked.order) << OFFSET_BITS) | (ranked.at / 8)
    }

    /// Returns the offset of the element to which an item refers.
    #[inline]
    pub(crate) fn element(&self, view: &View<'_>, index: usize) -> Result<Offset, Error> {
        Ok(offset_of(view.word(self.item_at(index))?))
    }

    /// Returns the number of items in the leaf that precede the target position.
    #[inline]
    pub(crate) fn search(
        &self,
        view: &View<'_>,
        target: &Target<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<usize, Error> {
        let (mut low, mut high) = (0, self.count);
        let wanted = target.order().map(|order| self.digest(order));
        let block = view.block(self.at)?;
        while low < high {
            let middle = (low + high) / 2;
            let item = block.word(HEADER + middle as u64 * 8)?;
            let digest = item >> OFFSET_BITS;
            let before = match wanted {
                Some(wanted) if digest != wanted => digest < wanted,
                _ => {
                    let at = offset_of(item);
                    let order = order_of(score(view, at)?);
                    target.is_behind_element(view, order, at, scratch)?
                }
            };
            if before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Calls `visit` with the elements of the items at indexes `from..to`, from the last to the
    /// first if `reverse` is set. All of these elements are prefetched first.
    #[inline]
    pub(crate) fn for_each(
        &self,
        view: &View<'_>,
        (from, to): (usize, usize),
        reverse: bool,
        mut visit: impl FnMut(Offset) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let to = to.min(self.count);
        let count = to.saturating_sub(from);
        let mut items = [0; ITEMS_MAX];
        for (place, item) in items[..count].iter_mut().enumerate() {
            let index = if reverse {
                to - 1 - place
            } else {
                from + place
            };
            *item = offset_of(view.word(self.item_at(index))?);
            view.prefetch(*item);
        }
        items[..count].iter().try_for_each(|&at| visit(at))
    }

    /// Returns all items, each with its score mapped by `order_of`.
    pub(crate) fn items(&self, view: &View<'_>) -> Result<Vec<Ranked>, Error> {
        let mut items = Vec::with_capacity(self.count);
        self.for_each(view, (0, self.count), false, |at| {
            items.push(Ranked::load(view, at)?);
            Ok(())
        })?;
        Ok(items)
    }

    /// Creates a leaf from 1 to [`ITEMS_MAX`] items, with room for a few more items.
    pub(crate) fn create(
        transaction: &mut Transaction<'_>,
        pool: Pool,
        items: &[Ranked],
    ) -> Result<Child<2>, Error> {
        let (Some(first), Some(last)) = (items.first(), items.last()) else {
            return Err(fault(0));
        };
        let distance = last.order.saturating_sub(first.order);
        let shift = (64 - distance.leading_zeros()).saturating_sub(64 - OFFSET_BITS);
        let leaf = Leaf::new(items.len(), shift, first.order);
        let words = items.iter().map(|item| leaf.item(*item));
        leaf.put(transaction, pool, words, first)
    }

    /// Creates the header of a leaf whose block has not been allocated yet.
    fn new(count: usize, shift: u32, base: u64) -> Leaf {
        let wanted = count + count / 8 + 2;
        Leaf {
            at: 0,
            count,
            shift,
            size: block_size(HEADER + wanted as u64 * 8).min(LEAF_MAX),
            base,
        }
    }

    /// Allocates the leaf's block and writes the header and the item words to the block.
    fn put(
        mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        words: impl Iterator<Item = u64>,
        first: &Ranked,
    ) -> Result<Child<2>, Error> {
        if self.count > self.room() {
            return Err(fault(self.at));
        }
        self.at = transaction.allocate(pool, self.size)?;
        let mut bytes = Vec::with_capacity(LEAF_MAX as usize);
        bytes.extend_from_slice(&self.header().to_le_bytes());
        bytes.extend_from_slice(&self.base.to_le_bytes());
        words.for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        transaction.fill(self.at, &bytes)?;
        Ok(Child {
            at: self.at,
            count: self.count as u64,
            note: first.key(),
        })
    }

    /// Creates new leaves with an additional item at `index`. The first leaf contains the items
    /// before `middle`, and a second leaf contains the remaining items, if any. The original leaf
    /// does not change. The digests are copied if they still distinguish the items, because
    /// recomputing digests requires reading every element.
    pub(crate) fn divide(
        &self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        (index, ranked): (usize, Ranked),
        middle: usize,
    ) -> Result<SmallVec<[Child<2>; 2]>, Error> {
        let mut words = Vec::with_capacity(self.count + 1);
        let block = transaction.view().block(self.at)?;
        for index in 0..self.count {
            words.push(block.word(HEADER + index as u64 * 8)?);
        }
        words.insert(index, self.item(ranked));
        let mut leaves = SmallVec::new();
        let (left, right) = words.split_at(middle);
        for (before, words) in [(0, left), (middle, right)] {
            if words.is_empty() {
                continue;
            }
            let load = |place: usize| {
                if before + place == index {
                    Ok(ranked)
                } else {
                    Ranked::load(transaction.view(), offset_of(words[place]))
                }
            };
            if self.tells_apart(words) {
                let (first, leaf) = (load(0)?, Leaf::new(words.len(), self.shift, self.base));
                leaves.push(leaf.put(transaction, pool, words.iter().copied(), &first)?);
            } else {
                for &word in words {
                    transaction.view().prefetch(offset_of(word));
                }
                let items: Result<Vec<Ranked>, Error> = (0..words.len()).map(load).collect();
                leaves.push(Leaf::create(transaction, pool, &items?)?);
            }
        }
        Ok(leaves)
    }

    /// Returns whether the digests of the items, which must be in order, are widely spread and not
    /// clamped.
    fn tells_apart(&self, words: &[u64]) -> bool {
        let digest = |place: usize| words[place] >> OFFSET_BITS;
        let last = words.len() - 1;
        last > 0
            && digest(0) < digest(1)
            && digest(last - 1) < digest(last)
            && digest(last) - digest(0) >= words.len() as u64 * SPREAD
    }

    /// Inserts an item. Returns `false` if the leaf is full.
    pub(crate) fn insert(
        &mut self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        index: usize,
        ranked: Ranked,
    ) -> Result<bool, Error> {
        if self.count >= self.room() {
            return Ok(false);
        }
        let mut bytes = [0; LEAF_MAX as usize];
        let (new, behind) = bytes[..(self.count - index + 1) * 8].split_at_mut(8);
        new.copy_from_slice(&self.item(ranked).to_le_bytes());
        transaction.view().copy_to(self.item_at(index), behind)?;
        let bytes = &bytes[..(self.count - index + 1) * 8];
        transaction.write(shard, self.item_at(index), bytes)?;
        self.set_count(transaction, shard, self.count + 1)?;
        Ok(true)
    }

    /// Removes items from the leaf. At least one item must remain.
    pub(crate) fn remove(
        &mut self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        index: usize,
        items: usize,
    ) -> Result<(), Error> {
        let mut bytes = [0; LEAF_MAX as usize];
        let behind = &mut bytes[..(self.count - index - items) * 8];
        if !behind.is_empty() {
            let from = self.item_at(index + items);
            transaction.view().copy_to(from, behind)?;
            transaction.write(shard, self.item_at(index), behind)?;
        }
        self.set_count(transaction, shard, self.count - items)
    }

    fn set_count(
        &mut self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        count: usize,
    ) -> Result<(), Error> {
        self.count = count;
        Ok(transaction.store(shard, self.at, self.header())?)
    }

    /// Returns the size of the block that contains the leaf, in bytes.
    pub(crate) fn block_size(&self) -> u64 {
        block_size(self.size)
    }

    /// Returns whether every item has the expected offset and the correct digest for its score.
    pub(crate) fn digests_are_true(
        &self,
        view: &View<'_>,
        items: &[Ranked],
    ) -> Result<bool, Error> {
        for (index, item) in items.iter().enumerate() {
            if view.word(self.item_at(index))? != self.item(*item) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn offset_of(item: u64) -> Offset {
    (item & ((1 << OFFSET_BITS) - 1)) * 8
}
