//! Rebuilds a leaf with new items. Merges it with a neighbor if both have few items, and splits it
//! if the items do not fit.

use undercroft_memory::{Pool, Transaction};

use super::fill::End;
use super::items::ListItems;
use super::leaf::{LEAF_MAX, Leaf};
use super::sequence::Sequence;
use crate::error::Error;
use crate::structures::tree::Place;

impl Sequence {
    /// Rebuilds a leaf with new items. Merges it with a neighbor if both have few items, and splits
    /// it if the items do not fit.
    pub(super) fn put_items(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        mut place: Place<0>,
        mut items: ListItems,
    ) -> Result<(), Error> {
        transaction.free(pool, place.leaf);
        let mut remove = 1;
        let used = items.shape(0..items.len()).best().1;
        if !items.is_empty() && used < LEAF_MAX / 4 {
            for forward in [true, false] {
                let view = transaction.view();
                let Some((at, _)) = place.sibling(view, forward)? else {
                    continue;
                };
                let neighbour = Leaf::load(view, at)?;
                if neighbour.used() + used > LEAF_MAX / 4 * 3 {
                    continue;
                }
                let mut joined = neighbour.items(view)?;
                if forward {
                    items.append(&joined);
                } else {
                    joined.append(&items);
                    items = joined;
                    place.step(view, false)?;
                }
                transaction.free(pool, at);
                remove = 2;
                break;
            }
        }
        let mut leaves = Vec::new();
        let alone = self.height() == 0;
        for range in items.split() {
            leaves.push(items.make_leaf(transaction, pool, range, End::Right, alone)?);
        }
        self.splice(transaction, pool, &place.path, remove, &leaves)
    }
}

impl ListItems {
    /// Splits the items into ranges of similar size, each of which fits in a leaf.
    fn split(&self) -> Vec<std::ops::Range<usize>> {
        let mut ranges = Vec::new();
        let all = 0..self.len();
        let mut todo = vec![all];
        while let Some(range) = todo.pop() {
            if range.is_empty() {
                continue;
            }
            if range.len() == 1 || self.shape(range.clone()).fits() {
                ranges.push(range);
                continue;
            }
            let bytes = |range: std::ops::Range<usize>| -> usize {
                range.map(|index| self.get(index).bytes.len() + 1).sum()
            };
            let half = bytes(range.clone()) / 2;
            let (mut middle, mut sum) = (range.start, 0);
            while middle + 1 < range.end && sum < half {
                sum += self.get(middle).bytes.len() + 1;
                middle += 1;
            }
            let middle = middle.max(range.start + 1);
            todo.push(middle..range.end);
            todo.push(range.start..middle);
        }
        ranges
    }
}
