//! Reading feeds, optimistically or under a lock.

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

/// Bytes of values that are asked for before a leaf's header was read.
const AHEAD: u64 = 256;

/// Which items a range has.
#[derive(Clone, Copy, Debug)]
pub struct FeedRange {
    /// The first one's position among those that the query sees; from the last one on where negative.
    pub from: i64,
    /// The most items.
    pub count: u64,
    /// From the last one on backwards; positions are counted from there as well.
    pub reverse: bool,
    /// Whether attributes are wanted.
    pub attributes: bool,
}

/// What a feed consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedInfo {
    /// Leaves of its tree.
    pub leaves: u64,
    /// Inner nodes.
    pub nodes: u64,
    /// Bytes that it takes beside its entry.
    pub bytes: u64,
    /// Items that its leaves have room for.
    pub places: u64,
}

impl Reader<'_, '_> {
    /// The feed at a key, where there is one.
    pub fn feed(&self, database: usize, key: &Key<'_>) -> Result<Option<Feed>, Error> {
        match self.find_type(database, key, ValueType::Feed)? {
            Some(entry) => Feed::load(self.view(), key.shard, &entry).map(Some),
            None => Ok(None),
        }
    }
}

/// Between which values of a sorted feed, as bytes of its values' size.
pub(super) type Between<'l> = (Bound<&'l [u8]>, Bound<&'l [u8]>);

impl Feed {
    /// Number of items that a query sees. O(log n) where marks alone decide, or where what some may match in rests and
    /// was counted before ([`Access::make_tallies`]); else nodes and leaves in which some may match are looked into.
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

    /// The same of the items of a sorted feed whose values lie within limits. O(log n) to find them.
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

    /// The positions of the items of a sorted feed whose values lie within limits.
    pub(super) fn positions_between(
        &self,
        view: &View<'_>,
        limits: Between<'_>,
    ) -> Result<Range<u64>, Error> {
        let of = self.schema.order().sorted_by().ok_or(Error::WrongOrder)?;
        self.between(view, of, limits)
    }

    /// Puts the items that a query sees into `out`, with attributes where the range says so.
    pub fn range(
        &self,
        view: &View<'_>,
        selection: &Selection<'_>,
        range: FeedRange,
        out: &mut FoundItems,
    ) -> Result<(), Error> {
        self.range_within(view, selection, 0..u64::MAX, range, out)
    }

    /// The same of the items of a sorted feed whose values lie within limits: positions are counted among them.
    /// O(log n) to find them.
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

    /// The same where all items are seen: counts lead to the first one, and the others lie behind it, leaf after leaf.
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
        // Most leaves begin with their first place: the values are asked for together with the header.
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
            // R3: what is torn must not go on for long.
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

    /// The position of the first item with a value among the items that are seen; none where it is not there, or not
    /// seen. O(n): leaves are searched; O(log n) in a sorted feed.
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

    /// The first item with a value.
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

    /// What it consists of. O(inner nodes).
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
        // R3: what is torn must not go on for long.
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

    /// Appends all items to `out`, as rows behind the one that is the schema.
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

/// The position of the first item that was found in a leaf.
fn position_of(leaf: &Leaf, found: &Found) -> u64 {
    let blocks = found.masks.iter().enumerate();
    let mut places = blocks.filter(|(_, mask)| **mask != 0);
    let (block, mask) = places.next().unwrap_or((0, &1));
    let place = block * 64 + mask.trailing_zeros() as usize;
    let index = place.saturating_sub(leaf.start) as u64;
    found.before.wrapping_add(index)
}
