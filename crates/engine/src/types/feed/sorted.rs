//! Implements sorted feeds: lookups by value, and insertion in order.
//!
//! The inner nodes do not contain values, so they are as small as in other feeds. Instead, the
//! first value of a subtree is read from its first leaf, which costs a few cache misses. A lookup
//! reads O(log n) such values.

use std::cmp::Ordering;
use std::ops::{Bound, Range};

use undercroft_memory::{Offset, Pool, Transaction, View};

use super::edit::Packer;
use super::leaves::image::Image;
use super::leaves::leaf::Leaf;
use super::leaves::summary::NOTE_WORDS;
use super::order::{FeedType, Order};
use super::query::filter::Selection;
use super::query::tally::Untallied;
use super::query::walk::{Found, Wanted};
use super::root::Feed;
use crate::error::Error;
use crate::structures::tree::Node;

impl Feed {
    /// Counts the items whose values satisfy `before`. These items must be the first items of the
    /// feed. Calls `before` O(log n) times.
    fn items_before(
        &self,
        view: &View<'_>,
        mut before: impl FnMut(&[u8]) -> bool,
    ) -> Result<u64, Error> {
        if self.tree.count() == 0 {
            return Ok(0);
        }
        let (mut at, mut skipped) = (self.tree.root(), 0_u64);
        let mut value = Vec::with_capacity(self.full.value);
        for level in (1..=self.tree.height()).rev() {
            let node = Node::<NOTE_WORDS>::load(view, at, level)?;
            let (mut low, mut high) = (0, node.children());
            while high - low > 1 {
                let middle = (low + high) / 2;
                let (child, _) = node.child(view, middle)?;
                self.first_value(view, child, level - 1, &mut value)?;
                if before(&value) {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            skipped = skipped.wrapping_add(node.count_before(view, low)?);
            (at, _) = node.child(view, low)?;
        }
        let leaf = Leaf::load(view, at, &self.full, &self.schema)?;
        let (mut low, mut high) = (leaf.start, leaf.end());
        while low < high {
            let middle = (low + high) / 2;
            load_value(view, &leaf, middle, &mut value)?;
            if before(&value) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(skipped.wrapping_add((low - leaf.start) as u64))
    }

    /// Loads the first value of a subtree.
    fn first_value(
        &self,
        view: &View<'_>,
        mut at: Offset,
        level: usize,
        value: &mut Vec<u8>,
    ) -> Result<(), Error> {
        for level in (1..=level).rev() {
            let node = Node::<NOTE_WORDS>::load(view, at, level)?;
            (at, _) = node.child(view, 0)?;
        }
        let leaf = Leaf::load(view, at, &self.full, &self.schema)?;
        load_value(view, &leaf, leaf.start, value)
    }

    /// Returns the positions of the items in a sorted feed whose values are within limits.
    pub(super) fn between(
        &self,
        view: &View<'_>,
        of: FeedType,
        (low, high): (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Result<Range<u64>, Error> {
        let less = |value: &[u8], limit: &[u8]| of.compare(value, limit) == Ordering::Less;
        let from = match low {
            Bound::Unbounded => 0,
            Bound::Included(low) => self.items_before(view, |value| less(value, low))?,
            Bound::Excluded(low) => self.items_before(view, |value| !less(low, value))?,
        };
        let to = match high {
            Bound::Unbounded => self.tree.count(),
            Bound::Included(high) => self.items_before(view, |value| !less(high, value))?,
            Bound::Excluded(high) => self.items_before(view, |value| less(value, high))?,
        };
        Ok(from..to.max(from))
    }

    /// Returns the positions of the items with the given value.
    pub(super) fn with_value(
        &self,
        view: &View<'_>,
        of: FeedType,
        value: &[u8],
    ) -> Result<Range<u64>, Error> {
        let only = Bound::Included(value);
        self.between(view, of, (only, only))
    }

    /// Collects the items that have one of `values` and that a query selects, grouped by leaf.
    /// O(values * log n + items).
    pub(super) fn collect_values(
        &self,
        view: &View<'_>,
        of: FeedType,
        values: &[&[u8]],
        selection: &Selection<'_>,
    ) -> Result<Vec<Found>, Error> {
        let mut values = values.to_vec();
        values.sort_unstable_by(|one, other| of.compare(one, other));
        values.dedup_by(|one, other| of.compare(one, other) == Ordering::Equal);
        let mut found: Vec<Found> = Vec::new();
        for value in values {
            let wanted = Wanted::ALL.within(self.with_value(view, of, value)?);
            let untallied = &mut Untallied::default();
            self.walk(view, selection, wanted, untallied, &mut |_, more| {
                match found.last_mut() {
                    // Merge the masks if the item is in the same leaf as the previous one.
                    Some(last) if last.before == more.before => {
                        let masks = last.masks.iter_mut().zip(&more.masks);
                        masks.for_each(|(all, more)| *all |= more);
                    }
                    _ => found.push(more),
                }
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// Returns items sorted by value. If values are unique in the feed, omits duplicates and values
    /// that the feed already contains.
    pub(super) fn in_order(
        &self,
        view: &View<'_>,
        (of, unique): (FeedType, bool),
        rows: &Image,
    ) -> Result<Image, Error> {
        let mut places: Vec<usize> = rows.places().collect();
        let compare = |&one: &usize, &other: &usize| of.compare(rows.value(one), rows.value(other));
        places.sort_by(compare);
        if unique {
            places.dedup_by(|one, other| compare(one, other) == Ordering::Equal);
            let mut missing = Vec::with_capacity(places.len());
            for place in places {
                if self.with_value(view, of, rows.value(place))?.is_empty() {
                    missing.push(place);
                }
            }
            places = missing;
        }
        Ok(rows.of_places(&places, &self.schema))
    }

    /// Inserts items, which must be sorted by value, at the positions that their values determine.
    /// O(items * log n).
    pub(super) fn insert_sorted(
        &mut self,
        transaction: &mut Transaction<'_>,
        of: FeedType,
        rows: &Image,
    ) -> Result<(), Error> {
        let mut rest = rows.places();
        while !rest.is_empty() {
            let (gap, end) = self.gap(transaction.view(), of, rows, rest.clone())?;
            self.insert(transaction, gap, (rows, rest.start..end))?;
            rest.start = end;
        }
        Ok(())
    }

    /// Returns the position in the feed at which the first of the sorted items must be inserted,
    /// and the end of the range of items that must be inserted at the same position.
    pub(super) fn gap(
        &self,
        view: &View<'_>,
        of: FeedType,
        rows: &Image,
        places: Range<usize>,
    ) -> Result<(u64, usize), Error> {
        let first = Bound::Included(rows.value(places.start));
        let gap = self.between(view, of, (Bound::Unbounded, first))?.end;
        if gap >= self.tree.count() {
            return Ok((gap, places.end));
        }
        let place = self.tree.find(view, gap)?;
        let leaf = super::leaves::leaf::load_leaf(
            view,
            place.leaf,
            &self.full,
            &self.schema,
            place.count,
        )?;
        let mut next = Vec::with_capacity(self.full.value);
        load_value(
            view,
            &leaf,
            leaf.start + (gap - place.before) as usize,
            &mut next,
        )?;
        let mut end = places.start + 1;
        while end < places.end && of.compare(rows.value(end), &next) == Ordering::Less {
            end += 1;
        }
        Ok((gap, end))
    }

    /// Merges sorted items with a copy of the feed in another memory pool, and returns the copy's
    /// root words. The leaves of the copy are full. O(n + items).
    pub(super) fn merge_anew(
        &self,
        transaction: &mut Transaction<'_>,
        to: Pool,
        of: FeedType,
        rows: &Image,
    ) -> Result<Vec<u64>, Error> {
        let mut packer = Packer::new(&self.schema, to);
        let mut next = rows.start;
        self.for_each_leaf(transaction, |transaction, leaf, _, _| {
            let image = Image::load(transaction.view(), leaf)?;
            let mut done = image.start;
            while next < rows.end() && done < image.end() {
                // Existing items precede new items with an equal value.
                let is_before = |place: &usize| {
                    of.compare(image.value(*place), rows.value(next)) != Ordering::Greater
                };
                let run = done..done + (done..image.end()).take_while(is_before).count();
                done = run.end;
                packer.add(transaction, &image, run)?;
                if done == image.end() {
                    break;
                }
                let is_before = |place: &usize| {
                    of.compare(rows.value(*place), image.value(done)) == Ordering::Less
                };
                let run = next..next + (next..rows.end()).take_while(is_before).count();
                next = run.end;
                packer.add(transaction, rows, run)?;
            }
            packer.add(transaction, &image, done..image.end())
        })?;
        packer.add(transaction, rows, next..rows.end())?;
        let made = packer.finish(transaction)?;
        let hidden = self.hidden + rows.note(&self.schema, rows.places())[0];
        Ok(Feed::root_words(&self.schema, made, hidden, to))
    }
}

impl Order {
    /// Returns whether `value` can directly follow `before` in a feed with this order.
    pub(super) fn may_follow(self, before: &[u8], value: &[u8]) -> bool {
        match self {
            Order::List | Order::Queue => true,
            Order::Sorted { of, unique } => match of.compare(before, value) {
                Ordering::Less => true,
                Ordering::Equal => !unique,
                Ordering::Greater => false,
            },
        }
    }
}

/// Loads the value at the given place of a leaf.
fn load_value(
    view: &View<'_>,
    leaf: &Leaf,
    place: usize,
    value: &mut Vec<u8>,
) -> Result<(), Error> {
    value.clear();
    let (from, to) = (leaf.layout.value_at(place), leaf.layout.value_at(place + 1));
    Ok(view.append_part(leaf.at, from as u64, to as u64, value)?)
}
