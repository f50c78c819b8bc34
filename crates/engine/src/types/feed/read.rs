//! Reads feeds, either optimistically or under a lock.

use std::ops::{Bound, Range};

use undercroft_memory::{Offset, View};

use super::leaves::image::{Image, runs};
use super::leaves::leaf::load_leaf;
use super::leaves::leaf::{HIDDEN, Leaf, fault};
use super::leaves::single::Item;
use super::leaves::summary::NOTE_WORDS;
use super::query::filter::{Filter, Seen, Selection};
use super::query::found::FoundItems;
use super::query::tally::Untallied;
use super::query::walk::{Found, Wanted};
use super::root::Feed;
use crate::error::Error;
use crate::handle::reader::Reader;
use crate::structures::key::Key;
use crate::structures::ranges::Ranges;
use crate::structures::tree::Node;
use crate::types::value_type::ValueType;

/// The number of value bytes that are prefetched before the leaf's header is read.
const AHEAD: u64 = 256;

/// The options of a read that select a range of items.
#[derive(Clone, Copy, Debug)]
pub struct FeedRange {
    /// The position of the first item to return, among the items that the query selects. A negative
    /// position counts from the last item.
    pub from: i64,
    /// The maximum number of items to return.
    pub count: u64,
    /// Whether items are returned in reverse order. If so, `from` counts from the last item.
    pub reverse: bool,
    /// Whether attributes are returned.
    pub attributes: bool,
}

/// Statistics about the structure of a feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedInfo {
    /// The number of leaves.
    pub leaves: u64,
    /// The number of inner nodes.
    pub nodes: u64,
    /// The number of bytes used in addition to the entry.
    pub bytes: u64,
    /// The number of items that fit in the leaves.
    pub places: u64,
}

impl Reader<'_, '_> {
    /// Looks up the feed at a key. Fails if the value has another type.
    pub fn feed(&self, database: usize, key: &Key<'_>) -> Result<Option<Feed>, Error> {
        match self.find_type(database, key, ValueType::Feed)? {
            Some(entry) => Feed::load(self.view(), key.shard, &entry).map(Some),
            None => Ok(None),
        }
    }
}

/// The lower and upper limits of a range of values in a sorted feed. Each limit is a byte string of
/// the value size.
pub(super) type Between<'l> = (Bound<&'l [u8]>, Bound<&'l [u8]>);

impl Feed {
    /// Counts the items that a query selects. O(log n) if the query depends only on whether items
    /// are hidden, or if no subtree with possible matches has changed since
    /// [`Access::make_tallies`]. Otherwise, the nodes and leaves with possible matches are
    /// searched.
    ///
    /// [`Access::make_tallies`]: crate::Access::make_tallies
    pub fn count_of(
        &self,
        view: &View<'_>,
        selection: &Selection<'_>,
        untallied: &mut Untallied,
    ) -> Result<u64, Error> {
        self.count(view, selection, 0..u64::MAX, untallied)
    }

    /// Counts the items of a sorted feed that a query selects and whose values are within limits.
    /// Locating the limits takes O(log n).
    pub fn count_between(
        &self,
        view: &View<'_>,
        selection: &Selection<'_>,
        limits: Between<'_>,
        untallied: &mut Untallied,
    ) -> Result<u64, Error> {
        let positions = self.positions_between(view, limits)?;
        self.count(view, selection, positions, untallied)
    }

    /// Returns the positions of the items in a sorted feed whose values are within limits.
    pub(super) fn positions_between(
        &self,
        view: &View<'_>,
        limits: Between<'_>,
    ) -> Result<Range<u64>, Error> {
        let of = self.schema.order().sorted_by().ok_or(Error::WrongOrder)?;
        self.between(view, of, limits)
    }

    /// Fills `out` with a range of the items that a query selects, including attributes if
    /// requested.
    pub fn range(
        &self,
        view: &View<'_>,
        selection: &Selection<'_>,
        range: FeedRange,
        out: &mut FoundItems,
    ) -> Result<(), Error> {
        self.range_within(view, selection, 0..u64::MAX, range, out)
    }

    /// Fills `out` with a range of the selected items in a sorted feed, considering only items
    /// whose values are within limits. Positions count from the first of these items. Locating the
    /// limits takes O(log n).
    pub fn range_between(
        &self,
        view: &View<'_>,
        selection: &Selection<'_>,
        limits: Between<'_>,
        range: FeedRange,
        out: &mut FoundItems,
    ) -> Result<(), Error> {
        let positions = self.positions_between(view, limits)?;
        self.range_within(view, selection, positions, range, out)
    }

    fn range_within(
        &self,
        view: &View<'_>,
        selection: &Selection<'_>,
        positions: Range<u64>,
        range: FeedRange,
        out: &mut FoundItems,
    ) -> Result<(), Error> {
        out.begin(&self.schema, range.attributes);
        if selection.sees_all(self.tree.count(), self.hidden) {
            return self.range_of_all(view, positions, range, out);
        }
        let mut untallied = Untallied::default();
        let skip = match u64::try_from(range.from) {
            Ok(from) => from,
            Err(_) => {
                let all = self.count(view, selection, positions.clone(), &mut untallied)?;
                all.saturating_sub(range.from.unsigned_abs())
            }
        };
        let wanted = Wanted {
            skip,
            most: range.count,
            reverse: range.reverse,
            ..Wanted::ALL
        };
        let visit = &mut |leaf: &Leaf, found: Found| {
            let mut runs = runs(leaf.start..leaf.end(), &found.masks, true);
            if range.reverse {
                runs.reverse();
            }
            for run in runs {
                let kept = out.len();
                out.append(view, leaf, run, &self.schema)?;
                if range.reverse {
                    out.reverse_from(kept);
                }
            }
            Ok(())
        };
        let wanted = wanted.within(positions);
        self.walk(view, selection, wanted, &mut untallied, visit)?;
        out.untallied = untallied;
        Ok(())
    }

    /// Appends a range of items to `out` for a query that selects all items. The tree's counts
    /// locate the first item, and the rest is read leaf by leaf.
    fn range_of_all(
        &self,
        view: &View<'_>,
        positions: Range<u64>,
        range: FeedRange,
        out: &mut FoundItems,
    ) -> Result<(), Error> {
        let (from, to) = (positions.start, positions.end.min(self.tree.count()));
        let there = to.saturating_sub(from);
        let skip = match u64::try_from(range.from) {
            Ok(from) => from.min(there),
            Err(_) => there.saturating_sub(range.from.unsigned_abs()),
        };
        let mut left = range.count.min(there - skip);
        if left == 0 {
            return Ok(());
        }
        let first = if range.reverse {
            to - skip - left
        } else {
            from + skip
        };
        let mut place = self.tree.find(view, first)?;
        let mut index = first.wrapping_sub(place.before);
        // Prefetch the values together with the header, assuming that the leaf's items start at the
        // first place, as in most leaves.
        let guess = self
            .full
            .value_at(index.min(self.full.places as u64) as usize);
        view.prefetch(place.leaf);
        view.prefetch_range(place.leaf.wrapping_add(guess as u64), AHEAD);
        loop {
            let leaf = load_leaf(view, place.leaf, &self.full, &self.schema, place.count)?;
            if index >= place.count {
                return Err(fault(place.leaf));
            }
            let count = left.min(place.count - index);
            left -= count;
            if left > 0
                && let Some(next) = place.next_leaf(view)
            {
                view.prefetch(next);
            }
            let some = leaf.places(&(index..index + count));
            out.append(view, &leaf, some, &self.schema)?;
            if left == 0 {
                break;
            }
            // Revalidate the view, so that a loop over torn data stops early (R3).
            view.recheck()?;
            if !place.step(view, true)? {
                return Err(fault(place.leaf));
            }
            index = 0;
        }
        if range.reverse {
            out.reverse_from(0);
        }
        Ok(())
    }

    /// Returns the position of the first item with a value, among the items that `seen` selects.
    /// Returns `None` if no item has the value or `seen` excludes that item. O(n), or O(log n) in a
    /// sorted or indexed feed.
    pub fn position(
        &self,
        view: &View<'_>,
        value: &[u8],
        seen: Seen,
    ) -> Result<Option<u64>, Error> {
        let Some(item) = self.first(view, value)? else {
            return Ok(None);
        };
        let (position, hidden) = (item.position(), item.is_hidden());
        if seen == Seen::Visible && hidden || seen == Seen::Hidden && !hidden {
            return Ok(None);
        }
        let selection = Selection::new(seen, Filter::default());
        self.count(view, &selection, 0..position, &mut Untallied::default())
            .map(Some)
    }

    /// Finds the first item with a value.
    pub(super) fn first(&self, view: &View<'_>, value: &[u8]) -> Result<Option<Item>, Error> {
        if let Some(index) = &self.index {
            return self.first_indexed(view, index, value);
        }
        let values = [value];
        let mut wanted = Wanted {
            most: 1,
            ..Wanted::ALL
        };
        let mut selection = Selection::of_values(&values);
        if let Some(of) = self.schema.order().sorted_by() {
            wanted = wanted.within(self.with_value(view, of, value)?);
            selection = Selection::all();
        }
        let (mut first, mut untallied) = (None, Untallied::default());
        self.walk(
            view,
            &selection,
            wanted,
            &mut untallied,
            &mut |leaf, found| {
                first = Some(position_of(leaf, &found));
                Ok(())
            },
        )?;
        first.map(|position| self.item(view, position)).transpose()
    }

    /// Returns statistics about the structure of the feed. O(inner nodes).
    pub fn info(&self, view: &View<'_>) -> Result<FeedInfo, Error> {
        let mut info = FeedInfo {
            bytes: self.memory_usage(view)?,
            ..FeedInfo::default()
        };
        if self.tree.count() > 0 {
            self.count_nodes(view, self.tree.root(), self.tree.height(), &mut info)?;
        }
        info.places = match (self.tree.height(), self.tree.root()) {
            (0, 0) => 0,
            (0, leaf) => {
                Leaf::load(view, leaf, &self.full, &self.schema)?
                    .layout
                    .places as u64
            }
            _ => info.leaves.saturating_mul(self.full.places as u64),
        };
        Ok(info)
    }

    fn count_nodes(
        &self,
        view: &View<'_>,
        at: Offset,
        level: usize,
        info: &mut FeedInfo,
    ) -> Result<(), Error> {
        // Revalidate the view, so that a walk over torn data stops early (R3).
        view.recheck()?;
        if level == 0 {
            info.leaves += 1;
            return Ok(());
        }
        info.nodes += 1;
        let node = Node::<NOTE_WORDS>::load(view, at, level)?;
        if level == 1 {
            info.leaves += node.children() as u64;
            return Ok(());
        }
        for index in 0..node.children() {
            let (child, _) = node.child(view, index)?;
            self.count_nodes(view, child, level - 1, info)?;
        }
        Ok(())
    }

    /// Appends the row of the schema to `out`, followed by a row for each item.
    pub(super) fn append_rows(&self, view: &View<'_>, out: &mut Ranges) -> Result<(), Error> {
        out.push(&self.schema.row());
        self.for_each_leaf(&mut { view }, |_, leaf, _, _| {
            let image = Image::load(view, leaf)?;
            for place in image.places() {
                let attributes = image.attributes(&self.schema, place);
                let (value, hidden) = (image.value(place), image.bit(HIDDEN, place));
                out.push_with(|row| {
                    self.schema.append_item_row(value, attributes, hidden, row);
                    Ok::<_, Error>(())
                })?;
            }
            Ok(())
        })
    }
}

/// Returns the position of the first item that `found` selects in a leaf.
fn position_of(leaf: &Leaf, found: &Found) -> u64 {
    let blocks = found.masks.iter().enumerate();
    let mut places = blocks.filter(|(_, mask)| **mask != 0);
    let (block, mask) = places.next().unwrap_or((0, &1));
    let place = block * 64 + mask.trailing_zeros() as usize;
    let index = place.saturating_sub(leaf.start) as u64;
    found.before.wrapping_add(index)
}
