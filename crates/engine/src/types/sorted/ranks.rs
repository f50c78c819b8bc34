//! Implements the tree of a large sorted set, which orders the members by rank.

use undercroft_memory::{Offset, Pool, Transaction, View};

use super::leaf::{ITEMS_MAX, Leaf, Ranked};
use super::order::Target;
use crate::error::Error;
use crate::structures::element::Element;
use crate::structures::tree::{Builder, Place, Tree};

/// The number of items below which a leaf is merged with a neighbor that has room.
const FEW: usize = ITEMS_MAX / 4;

/// The tree of a large sorted set.
pub(crate) type Ranks = Tree<2>;

impl Ranks {
    /// Returns the leaf that contains the target position, and the index of this position in the
    /// leaf.
    fn seek(&self, view: &View<'_>, target: &Target<'_>) -> Result<(Place<2>, usize), Error> {
        let mut scratch = Vec::new();
        let place = self.find_by(view, |[order, at]| {
            target.is_behind_element(view, order, at, &mut scratch)
        })?;
        Leaf::prefetch(view, place.leaf);
        let index = Leaf::load(view, place.leaf)?.search(view, target, &mut scratch)?;
        Ok((place, index))
    }

    /// Returns the number of members that precede the target position. O(log n).
    pub(super) fn count_before(&self, view: &View<'_>, target: &Target<'_>) -> Result<u64, Error> {
        let (place, index) = self.seek(view, target)?;
        Ok(place.before.wrapping_add(index as u64))
    }

    /// Visits the elements with ranks `from..to`, from the last to the first if `reverse` is set.
    /// Descends the tree once, and then walks from leaf to leaf.
    pub(super) fn for_each(
        &self,
        view: &View<'_>,
        (from, to): (u64, u64),
        reverse: bool,
        mut visit: impl FnMut(Offset) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut left = to.min(self.count()).saturating_sub(from);
        if left == 0 {
            return Ok(());
        }
        let first = if reverse { from + left - 1 } else { from };
        let mut place = self.find(view, first)?;
        let mut index = first.wrapping_sub(place.before) as usize;
        loop {
            let leaf = Leaf::load(view, place.leaf)?;
            let most = left.min(ITEMS_MAX as u64) as usize;
            let range = if reverse {
                let end = index.saturating_add(1).min(leaf.count);
                (end.saturating_sub(most), end)
            } else {
                let end = index.saturating_add(most);
                (index.min(leaf.count), end.min(leaf.count))
            };
            leaf.for_each(view, range, reverse, &mut visit)?;
            left -= (range.1 - range.0) as u64;
            if left == 0 {
                return Ok(());
            }
            // Revalidate the view, so that a loop over a torn tree stops early (R3).
            view.recheck()?;
            if !place.step(view, !reverse)? {
                return Ok(());
            }
            index = if reverse { ITEMS_MAX } else { 0 };
        }
    }

    /// Inserts a member that is not in the tree yet. O(log n).
    pub(super) fn insert(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        member: &[u8],
        ranked: Ranked,
    ) -> Result<(), Error> {
        let target = Target::Member {
            order: ranked.order,
            member,
            behind: false,
        };
        if self.count() == 0 {
            let place = self.find(transaction.view(), 0)?;
            let leaf = Leaf::create(transaction, pool, &[ranked])?;
            return self.splice(transaction, pool, &place.path, 1, &[leaf]);
        }
        let (place, index) = self.seek(transaction.view(), &target)?;
        let mut leaf = Leaf::load(transaction.view(), place.leaf)?;
        let shard = pool.shard();
        if leaf.insert(transaction, shard, index, ranked)? {
            self.add(transaction, shard, &place.path, 1)?;
            if index == 0 {
                self.set_note(transaction, shard, &place.path, &ranked.key())?;
            }
            return Ok(());
        }
        let items = leaf.count + 1;
        // If the item is inserted at either end of the tree, leave a full leaf, so that sequential
        // inserts fill leaves densely.
        let middle = match place.before + index as u64 {
            _ if items <= ITEMS_MAX => items,
            0 => 1,
            rank if rank == self.count() => items - 1,
            _ => items / 2,
        };
        let leaves = leaf.divide(transaction, pool, (index, ranked), middle)?;
        transaction.free(pool, leaf.at);
        self.splice(transaction, pool, &place.path, 1, &leaves)
    }

    /// Removes a member. The member's element must not have changed since the member was inserted.
    /// O(log n).
    pub(super) fn remove(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        member: &[u8],
        ranked: Ranked,
    ) -> Result<(), Error> {
        let target = Target::Member {
            order: ranked.order,
            member,
            behind: true,
        };
        let (place, behind) = self.seek(transaction.view(), &target)?;
        let leaf = Leaf::load(transaction.view(), place.leaf)?;
        let index = behind.checked_sub(1);
        match index {
            Some(index) if leaf.element(transaction.view(), index)? == ranked.at => {
                self.take(transaction, pool, &place, leaf, (index, 1))
            }
            _ => Err(undercroft_memory::Fault {
                at: leaf.at,
                what: "a member at the rank of its score",
            }
            .into()),
        }
    }

    /// Removes the members with ranks `from..to`. O(log n + leaves).
    pub(super) fn remove_range(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        (from, to): (u64, u64),
    ) -> Result<(), Error> {
        let mut left = to.min(self.count()).saturating_sub(from);
        while left > 0 {
            let place = self.find(transaction.view(), from)?;
            let leaf = Leaf::load(transaction.view(), place.leaf)?;
            let index = from.saturating_sub(place.before) as usize;
            let items = leaf.count.saturating_sub(index);
            let items = items.min(left.min(ITEMS_MAX as u64) as usize);
            if items == 0 {
                return Err(undercroft_memory::Fault {
                    at: leaf.at,
                    what: "a leaf with as many members as its parent counts",
                }
                .into());
            }
            self.take(transaction, pool, &place, leaf, (index, items))?;
            left -= items as u64;
        }
        Ok(())
    }

    /// Removes items from a single leaf, and merges the leaf with a neighbor if few items remain.
    fn take(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        place: &Place<2>,
        mut leaf: Leaf,
        (index, items): (usize, usize),
    ) -> Result<(), Error> {
        let shard = pool.shard();
        let rest = leaf.count - items;
        if rest == 0 {
            transaction.free(pool, leaf.at);
            return self.splice(transaction, pool, &place.path, 1, &[]);
        }
        if rest < FEW && self.join(transaction, pool, place, &leaf, (index, items))? {
            return Ok(());
        }
        leaf.remove(transaction, shard, index, items)?;
        self.add(transaction, shard, &place.path, -(items as i64))?;
        if index == 0 {
            let at = leaf.element(transaction.view(), 0)?;
            let least = Ranked::load(transaction.view(), at)?;
            self.set_note(transaction, shard, &place.path, &least.key())?;
        }
        Ok(())
    }

    /// Merges the remaining items of a leaf into a neighbor that has room. Returns whether the leaf
    /// was merged.
    fn join(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        place: &Place<2>,
        leaf: &Leaf,
        (index, items): (usize, usize),
    ) -> Result<bool, Error> {
        let view = transaction.view();
        for forward in [true, false] {
            let Some((at, _)) = place.sibling(view, forward)? else {
                continue;
            };
            let neighbour = Leaf::load(view, at)?;
            if neighbour.count + leaf.count - items > ITEMS_MAX / 4 * 3 {
                continue;
            }
            let mut joined = leaf.items(view)?;
            joined.drain(index..index + items);
            let mut place = place.clone();
            if forward {
                joined.extend(neighbour.items(view)?);
            } else {
                joined.splice(0..0, neighbour.items(view)?);
                place.step(view, false)?;
            }
            let joined = Leaf::create(transaction, pool, &joined)?;
            transaction.free(pool, leaf.at);
            transaction.free(pool, at);
            self.splice(transaction, pool, &place.path, 2, &[joined])?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Verifies that the smallest keys in the inner nodes match the leaves. A search for the first
    /// or last member of a leaf must lead to that leaf. O(leaves * log n).
    pub(super) fn check_least(&self, view: &View<'_>) -> Result<(), Error> {
        let mut place = self.find(view, 0)?;
        let mut member = Vec::new();
        loop {
            let leaf = Leaf::load(view, place.leaf)?;
            for index in [0, leaf.count - 1] {
                let ranked = Ranked::load(view, leaf.element(view, index)?)?;
                member.clear();
                Element::load(view, ranked.at)?.append_key(view, &mut member)?;
                let target = Target::Member {
                    order: ranked.order,
                    member: &member,
                    behind: true,
                };
                let (found, behind) = self.seek(view, &target)?;
                if found.leaf != leaf.at || behind != index + 1 || found.before != place.before {
                    return Err(undercroft_memory::Fault {
                        at: leaf.at,
                        what: "a leaf that a search for its smallest key finds",
                    }
                    .into());
                }
            }
            if !place.step(view, true)? {
                return Ok(());
            }
        }
    }

    /// Builds a tree from at least one member. The members must be in order. Returns the tree's
    /// root words.
    pub(super) fn build(
        transaction: &mut Transaction<'_>,
        pool: Pool,
        members: &[Ranked],
    ) -> Result<[u64; 3], Error> {
        // Leave room in every leaf for later inserts, and distribute the members evenly, so that
        // the last leaf is not nearly empty.
        let leaves = members.len().div_ceil(ITEMS_MAX / 8 * 7).max(1);
        let mut builder: Builder<2> = Builder::new();
        for members in members.chunks(members.len().div_ceil(leaves).max(1)) {
            let leaf = Leaf::create(transaction, pool, members)?;
            builder.push(transaction, pool, leaf)?;
        }
        builder.finish(transaction, pool)
    }
}
