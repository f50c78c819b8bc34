//! The leaves of a sorted set's tree.
//!
//! ```text
//! a leaf of up to 1024 bytes:
//! | number of items | shift | size |  8 bytes
//! | base                           |  8
//! | digest, offset of an element   |  8 for each item
//! ```
//!
//! An item leads to the element of a member, which has its bytes and its score.
//! The digest, 20 bits above the offset, is what the score is beyond the base,
//! shifted and cut to its limits: it never falls from one item to the next, so
//! that a search looks at elements only where digests are equal.

use smallvec::SmallVec;
use undercroft_memory::{Offset, Pool, Transaction, View, block_size};

use super::order::{Target, order_of};
use crate::error::Error;
use crate::structures::element::Element;
use crate::structures::tree::Child;

/// Bytes of the largest leaf.
const LEAF_MAX: u64 = 1024;
const HEADER: u64 = 16;
/// The most items of a leaf.
pub(crate) const ITEMS_MAX: usize = ((LEAF_MAX - HEADER) / 8) as usize;
/// Bits of an element's offset in units of 8 bytes.
const OFFSET_BITS: u32 = 44;
/// Different digests for each item of a leaf that is good enough to be kept.
const SPREAD: u64 = 16;
const DIGEST_MAX: u64 = (1 << (64 - OFFSET_BITS)) - 1;

/// A member as the tree knows it: its score, as it is ordered, and the offset of
/// its element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ranked {
    pub(crate) order: u64,
    pub(crate) at: Offset,
}

impl Ranked {
    /// Of an element that is there.
    pub(crate) fn load(view: &View<'_>, at: Offset) -> Result<Ranked, Error> {
        let order = order_of(score(view, at)?);
        Ok(Ranked { order, at })
    }

    pub(crate) fn key(&self) -> [u64; 2] {
        [self.order, self.at]
    }
}

/// The score of an element.
#[inline]
pub(crate) fn score(view: &View<'_>, at: Offset) -> Result<f64, Error> {
    Ok(f64::from_bits(Element::load(view, at)?.word(view)?))
}

/// A leaf whose header was read.
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
    /// Asks for the cache lines of a leaf ahead of its use: a search and a
    /// change look at most of them.
    #[inline(always)]
    pub(crate) fn prefetch(view: &View<'_>, at: Offset) {
        view.prefetch_range(at, LEAF_MAX);
    }

    /// Reads the header of a leaf.
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

    /// The offset of an item's element.
    #[inline]
    pub(crate) fn element(&self, view: &View<'_>, index: usize) -> Result<Offset, Error> {
        Ok(offset_of(view.word(self.item_at(index))?))
    }

    /// Number of items that lie before a place.
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

    /// Calls `visit` with the elements of items `from..to`, the last one first
    /// where `reverse`, after having asked for all of them ahead.
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

    /// All items.
    pub(crate) fn items(&self, view: &View<'_>) -> Result<Vec<Ranked>, Error> {
        let mut items = Vec::with_capacity(self.count);
        self.for_each(view, (0, self.count), false, |at| {
            items.push(Ranked::load(view, at)?);
            Ok(())
        })?;
        Ok(items)
    }

    /// Makes a leaf of some items, at least one and at most [`ITEMS_MAX`], with
    /// room for a few more.
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

    /// A leaf that is yet to be put somewhere.
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

    /// Puts the leaf into a block of its own, with these words for its items.
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

    /// Makes leaves of this one's items and one more at an index: one leaf of
    /// those before `middle`, and one of the rest if there is any. This leaf
    /// stays as it is. Digests are kept where they still tell items apart: to
    /// make others, every element would have to be looked at.
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

    /// Whether the digests of some items in order are spread widely enough, and
    /// not cut to their limits.
    fn tells_apart(&self, words: &[u64]) -> bool {
        let digest = |place: usize| words[place] >> OFFSET_BITS;
        let last = words.len() - 1;
        last > 0
            && digest(0) < digest(1)
            && digest(last - 1) < digest(last)
            && digest(last) - digest(0) >= words.len() as u64 * SPREAD
    }

    /// Puts an item in, where there is room. Returns whether there was.
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

    /// Takes items out; at least one stays.
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

    /// Bytes of the leaf's block.
    pub(crate) fn block_size(&self) -> u64 {
        block_size(self.size)
    }

    /// Whether each item's digest is that of its score.
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
