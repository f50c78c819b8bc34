//! Walks over the items that a query selects, leaf by leaf. Subtrees are skipped if their notes or
//! tallies show that they contain no selected items, or only items to skip.

use std::ops::Range;

use undercroft_memory::{Offset, View};

use super::filter::{Judged, Scratch, Selection};
use super::prefetch::LeafPrefetch;
use super::tally::Untallied;
use crate::error::Error;
use crate::structures::tree::{Node, Subtree};
use crate::types::feed::leaves::leaf::Leaf;
use crate::types::feed::leaves::summary::NOTE_WORDS;
use crate::types::feed::root::Feed;

/// The items of one leaf that a query selects.
#[derive(Clone, Debug)]
pub(in crate::types::feed) struct Found {
    /// The number of items in the feed before the leaf.
    pub(in crate::types::feed) before: u64,
    /// The masks of the selected items, one for each block of 64 places.
    pub(in crate::types::feed) masks: Vec<u64>,
}

impl Found {
    /// Returns the number of selected items.
    pub(in crate::types::feed) fn items(&self) -> u64 {
        self.masks
            .iter()
            .map(|mask| u64::from(mask.count_ones()))
            .sum()
    }
}

/// The selected items that a caller wants to receive.
#[derive(Clone, Copy, Debug)]
pub(in crate::types::feed) struct Wanted {
    /// The number of selected items to skip first.
    pub(in crate::types::feed) skip: u64,
    /// The maximum number of items to return.
    pub(in crate::types::feed) most: u64,
    /// Whether the walk starts at the last item and goes backwards.
    pub(in crate::types::feed) reverse: bool,
    /// The first position in the feed to consider.
    pub(in crate::types::feed) from: u64,
    /// The end (exclusive) of the positions to consider.
    pub(in crate::types::feed) to: u64,
}

impl Wanted {
    /// Requests all selected items.
    pub(in crate::types::feed) const ALL: Wanted = Wanted {
        skip: 0,
        most: u64::MAX,
        reverse: false,
        from: 0,
        to: u64::MAX,
    };

    /// Restricts the wanted items to a range of positions in the feed.
    pub(in crate::types::feed) fn within(self, positions: Range<u64>) -> Wanted {
        Wanted {
            from: positions.start,
            to: positions.end,
            ..self
        }
    }
}

/// The maximum number of a node's leaves that a query can read without recording that the node has
/// no tally.
const LEAVES_FEW: usize = 4;

/// A callback that is called with a leaf and the selected items in the leaf.
type Visit<'v> = dyn FnMut(&Leaf, Found) -> Result<(), Error> + 'v;

struct Walk<'w, 'v> {
    view: &'w View<'v>,
    feed: &'w Feed,
    selection: &'w Selection<'w>,
    wanted: Wanted,
    /// Whether the query selects all items, so that the counts alone locate the wanted items.
    plain: bool,
    ahead: LeafPrefetch<'w>,
    scratch: Scratch,
    untallied: &'w mut Untallied,
}

impl Feed {
    /// Calls `visit` for each leaf that contains wanted items of a query, and passes these items.
    pub(in crate::types::feed) fn walk(
        &self,
        view: &View<'_>,
        selection: &Selection<'_>,
        wanted: Wanted,
        untallied: &mut Untallied,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        let count = self.tree.count();
        let (from, to) = (wanted.from, wanted.to.min(count));
        if from >= to || wanted.most == 0 {
            return Ok(());
        }
        let mut walk = Walk {
            view,
            feed: self,
            selection,
            wanted,
            plain: selection.sees_all(count, self.hidden),
            ahead: LeafPrefetch::new(selection, &self.full),
            scratch: Scratch::default(),
            untallied,
        };
        if walk.plain {
            // Skip the items outside the range that the walk would visit first.
            let Some(left) = (to - from)
                .checked_sub(wanted.skip)
                .filter(|left| *left > 0)
            else {
                return Ok(());
            };
            let outside = if wanted.reverse { count - to } else { from };
            walk.wanted = Wanted {
                skip: wanted.skip + outside,
                most: wanted.most.min(left),
                ..wanted
            }
            .within(0..count);
        }
        walk.below(self.tree.root(), self.tree.height(), 0, count, visit)?;
        Ok(())
    }

    /// Collects all items that a walk visits. For a selection by value in a sorted or indexed feed,
    /// `wanted` is ignored and all matching items are returned.
    pub(in crate::types::feed) fn collect(
        &self,
        view: &View<'_>,
        selection: &Selection<'_>,
        wanted: Wanted,
    ) -> Result<Vec<Found>, Error> {
        if let (Some(of), Some(values)) = (self.schema.order().sorted_by(), selection.values) {
            let rest = Selection::new(selection.seen, selection.filter.clone());
            return self.collect_values(view, of, values, &rest);
        }
        if let (Some(index), Some(values)) = (&self.index, selection.values) {
            return self.collect_indexed(view, index, values, selection);
        }
        let (mut all, mut untallied) = (Vec::new(), Untallied::default());
        self.walk(view, selection, wanted, &mut untallied, &mut |_, found| {
            all.push(found);
            Ok(())
        })?;
        if wanted.reverse {
            all.reverse();
        }
        Ok(all)
    }

    /// Counts the items in a range of positions that a query selects. O(log n) if the query depends
    /// only on visibility, or if tallies decide.
    pub(in crate::types::feed) fn count(
        &self,
        view: &View<'_>,
        selection: &Selection<'_>,
        positions: Range<u64>,
        untallied: &mut Untallied,
    ) -> Result<u64, Error> {
        let positions = positions.start..positions.end.min(self.tree.count());
        if positions.is_empty() {
            return Ok(0);
        }
        if selection.sees_all(self.tree.count(), self.hidden) {
            return Ok(positions.end - positions.start);
        }
        let mut count = Count {
            view,
            feed: self,
            selection,
            ahead: LeafPrefetch::new(selection, &self.full),
            scratch: Scratch::default(),
            leaves: Vec::new(),
            untallied,
        };
        let root = (self.tree.root(), self.tree.height());
        count.below(root, (0, self.tree.count()), positions)
    }
}

/// A count of the items that a query selects.
struct Count<'w, 'v> {
    view: &'w View<'v>,
    feed: &'w Feed,
    selection: &'w Selection<'w>,
    ahead: LeafPrefetch<'w>,
    scratch: Scratch,
    /// The leaves of a node that must be read, each with the range of positions to count.
    leaves: Vec<(Offset, Range<u64>)>,
    untallied: &'w mut Untallied,
}

impl Count<'_, '_> {
    /// Counts the selected items of a subtree within a range of positions. `first` items precede
    /// the subtree, which contains `total` items.
    fn below(
        &mut self,
        (at, level): Subtree,
        (first, total): (u64, u64),
        positions: Range<u64>,
    ) -> Result<u64, Error> {
        // Revalidate the view, so that a walk over torn data stops early (R3).
        self.view.recheck()?;
        if level == 0 {
            return self.leaf(at, &positions);
        }
        let node = Node::<NOTE_WORDS>::load(self.view, at, level)?;
        let is_whole = positions == (0..total);
        if is_whole && let Some(seen) = self.selection.tallied(self.view, &node, total)? {
            return Ok(seen);
        }
        let (mut sum, mut before) = (0_u64, 0_u64);
        self.leaves.clear();
        for index in 0..node.children() {
            if before >= positions.end {
                break;
            }
            let (child, count) = node.child(self.view, index)?;
            let (start, end) = (before, before.saturating_add(count));
            before = end;
            if end <= positions.start {
                continue;
            }
            let inside = positions.start.saturating_sub(start)..count.min(positions.end - start);
            let is_whole = inside == (0..count);
            let note = node.note(self.view, index)?;
            match self.selection.judge(count, &note) {
                Judged::Exactly(0) => {}
                Judged::Exactly(seen) if is_whole => sum = sum.wrapping_add(seen),
                _ if level == 1 => self.leaves.push((child, inside)),
                _ => {
                    let place = (first.wrapping_add(start), count);
                    let below = self.below((child, level - 1), place, inside)?;
                    sum = sum.wrapping_add(below);
                }
            }
        }
        if is_whole && self.leaves.len() > LEAVES_FEW {
            self.untallied.note(&node, self.selection, first);
        }
        let mut leaves = std::mem::take(&mut self.leaves);
        let mut asked = 0;
        for (index, (leaf, inside)) in leaves.iter().enumerate() {
            while asked < leaves.len().min(index + 1 + self.ahead.most()) {
                self.ahead.ask(self.view, leaves[asked].0);
                asked += 1;
            }
            sum = sum.wrapping_add(self.leaf(*leaf, inside)?);
        }
        leaves.clear();
        self.leaves = leaves;
        Ok(sum)
    }

    fn leaf(&mut self, at: Offset, positions: &Range<u64>) -> Result<u64, Error> {
        self.view.recheck()?;
        let leaf = Leaf::load(self.view, at, &self.feed.full, &self.feed.schema)?;
        let places = leaf.places(positions);
        let seen = self
            .selection
            .of_leaf(self.view, &leaf, &places, &mut self.scratch)?;
        Ok(seen.iter().map(|mask| u64::from(mask.count_ones())).sum())
    }
}

impl Walk<'_, '_> {
    /// Walks over a subtree. Returns whether all wanted items were found.
    fn below(
        &mut self,
        at: Offset,
        level: usize,
        before: u64,
        total: u64,
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error> {
        // Revalidate the view, so that a walk over torn data stops early (R3).
        self.view.recheck()?;
        if level == 0 {
            return self.leaf(at, before, visit);
        }
        let node = Node::<NOTE_WORDS>::load(self.view, at, level)?;
        let (children, reverse) = (node.children(), self.wanted.reverse);
        let is_whole = !self.plain
            && self.wanted.from <= before
            && before.saturating_add(total) <= self.wanted.to;
        if is_whole
            && let Some(seen) = self.selection.tallied(self.view, &node, total)?
            && seen <= self.wanted.skip
        {
            self.wanted.skip -= seen;
            return Ok(false);
        }
        let mut leaves = 0;
        // If all items are selected, the counts lead directly to the child.
        let mut first = 0;
        if self.plain && self.wanted.skip > 0 {
            let skip = self.wanted.skip.min(total.saturating_sub(1));
            let position = if reverse { total - 1 - skip } else { skip };
            let (index, start) = node.seek(self.view, total, position)?;
            let (_, count) = node.child(self.view, index)?;
            let passed = if reverse {
                first = children - 1 - index;
                total.saturating_sub(start.saturating_add(count))
            } else {
                first = index;
                start
            };
            self.wanted.skip = self.wanted.skip.saturating_sub(passed);
        }
        self.ahead.begin(first);
        for step in first..children {
            let index = if reverse { children - 1 - step } else { step };
            let (child, count) = node.child(self.view, index)?;
            let start = before.wrapping_add(node.count_before(self.view, index)?);
            if !self.plain {
                let (from, to, end) = (
                    self.wanted.from,
                    self.wanted.to,
                    start.saturating_add(count),
                );
                if end <= from || start >= to {
                    continue;
                }
                let is_whole = from <= start && end <= to;
                match self.selection.judge(count, &node.note(self.view, index)?) {
                    Judged::Exactly(0) => continue,
                    Judged::Exactly(seen) if is_whole && seen <= self.wanted.skip => {
                        self.wanted.skip -= seen;
                        continue;
                    }
                    _ => {}
                }
            }
            if level == 1 && !self.plain {
                self.ahead.ask_behind(self.view, &node, step, reverse)?;
                leaves += 1;
            }
            if self.below(child, level - 1, start, count, visit)? {
                return Ok(true);
            }
        }
        if is_whole && leaves > LEAVES_FEW {
            self.untallied.note(&node, self.selection, before);
        }
        Ok(false)
    }

    fn leaf(&mut self, at: Offset, before: u64, visit: &mut Visit<'_>) -> Result<bool, Error> {
        let leaf = Leaf::load(self.view, at, &self.feed.full, &self.feed.schema)?;
        let mut masks = Vec::new();
        let (from, to) = (self.wanted.from, self.wanted.to);
        let places = leaf.places(&(from.saturating_sub(before)..to.saturating_sub(before)));
        let (view, selection) = (self.view, self.selection);
        let seen = selection.of_leaf(view, &leaf, &places, &mut self.scratch)?;
        let blocks = places.start / 64..places.end.div_ceil(64);
        for step in 0..blocks.len() {
            let reverse = self.wanted.reverse;
            let block = if reverse {
                blocks.end - 1 - step
            } else {
                blocks.start + step
            };
            let mut mask = seen[block];
            let items = u64::from(mask.count_ones());
            if items <= self.wanted.skip {
                self.wanted.skip -= items;
                continue;
            }
            mask = drop_bits(mask, self.wanted.skip, reverse);
            let left = items - self.wanted.skip;
            self.wanted.skip = 0;
            mask = drop_bits(mask, left.saturating_sub(self.wanted.most), !reverse);
            self.wanted.most -= left.min(self.wanted.most);
            if masks.is_empty() {
                masks.resize(leaf.layout.blocks, 0);
            }
            masks[block] = mask;
            if self.wanted.most == 0 {
                break;
            }
        }
        if !masks.is_empty() {
            visit(&leaf, Found { before, masks })?;
        }
        Ok(self.wanted.most == 0)
    }
}

/// Clears the `count` lowest or highest set bits of a mask.
fn drop_bits(mut mask: u64, count: u64, highest: bool) -> u64 {
    for _ in 0..count {
        mask &= if highest {
            !(1_u64 << 63 >> mask.leading_zeros().min(63))
        } else {
            mask.wrapping_sub(1)
        };
    }
    mask
}
