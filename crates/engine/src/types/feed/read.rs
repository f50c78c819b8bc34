//! Reading feeds, optimistically or under a lock.

use std::io::Write as _;
use std::ops::{Bound, Range};

use undercroft_memory::{Offset, View};

use super::filter::{Filter, Seen, Selection};
use super::image::{Image, runs};
use super::leaf::{HIDDEN, Leaf};
use super::single::Item;
use super::summary::NOTE_WORDS;
use super::walk::{Found, Wanted};
use super::whole::Feed;
use crate::error::Error;
use crate::store::{Key, Reader};
use crate::structures::ranges::Ranges;
use crate::structures::tree::Node;
use crate::types::registry::ValueType;

/// Which items a range has.
#[derive(Clone, Copy, Debug)]
pub struct FeedRange {
    /// The first one's position among those that the query sees; from the last one on where negative.
    pub from: i64,
    /// The most items.
    pub count: u64,
    /// From the last one on backwards; positions are counted from there as well.
    pub reverse: bool,
    /// Whether each value is followed by its attributes.
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

impl Feed {
    /// Number of items that a query sees. O(log n) where marks alone decide; else nodes and leaves in which some may
    /// match are looked into.
    pub fn count_of(&self, view: &View<'_>, selection: &Selection<'_>) -> Result<u64, Error> {
        self.count(view, selection, 0..u64::MAX)
    }

    /// Appends values of items that a query sees to `out`, each followed by its attributes where the range says so.
    pub fn range(
        &self,
        view: &View<'_>,
        selection: &Selection<'_>,
        range: FeedRange,
        out: &mut Ranges,
    ) -> Result<(), Error> {
        self.range_within(view, selection, 0..u64::MAX, range, out)
    }

    /// The same of the items of a sorted feed whose values lie within limits: positions are counted among them.
    /// O(log n) to find them.
    pub fn range_between(
        &self,
        view: &View<'_>,
        selection: &Selection<'_>,
        limits: (Bound<&[u8]>, Bound<&[u8]>),
        range: FeedRange,
        out: &mut Ranges,
    ) -> Result<(), Error> {
        let of = self.schema.order().sorted_by().ok_or(Error::WrongOrder)?;
        let positions = self.between(view, of, limits)?;
        self.range_within(view, selection, positions, range, out)
    }

    fn range_within(
        &self,
        view: &View<'_>,
        selection: &Selection<'_>,
        positions: Range<u64>,
        range: FeedRange,
        out: &mut Ranges,
    ) -> Result<(), Error> {
        let skip = match u64::try_from(range.from) {
            Ok(from) => from,
            Err(_) => {
                let all = self.count(view, selection, positions.clone())?;
                all.saturating_sub(range.from.unsigned_abs())
            }
        };
        let wanted = Wanted {
            skip,
            most: range.count,
            reverse: range.reverse,
            ..Wanted::ALL
        };
        self.walk(
            view,
            selection,
            wanted.within(positions),
            &mut |leaf, found| self.append(view, leaf, &found, range, out),
        )
    }

    /// Appends what was found in a leaf.
    fn append(
        &self,
        view: &View<'_>,
        leaf: &Leaf,
        found: &Found,
        range: FeedRange,
        out: &mut Ranges,
    ) -> Result<(), Error> {
        let layout = &leaf.layout;
        let mut runs = runs(leaf.start..leaf.end(), &found.masks, true);
        if range.reverse {
            runs.reverse();
        }
        for run in runs {
            if !range.reverse && !range.attributes {
                let mut end = out.bytes.len();
                let (from, to) = (layout.value_at(run.start), layout.value_at(run.end));
                view.append_part(leaf.at, from as u64, to as u64, &mut out.bytes)?;
                out.ends.extend(run.map(|_| {
                    end += layout.value;
                    end
                }));
                continue;
            }
            for step in 0..run.len() {
                let place = if range.reverse {
                    run.end - 1 - step
                } else {
                    run.start + step
                };
                let (from, to) = (layout.value_at(place), layout.value_at(place + 1));
                view.append_part(leaf.at, from as u64, to as u64, &mut out.bytes)?;
                out.end_item();
                if range.attributes {
                    self.append_attributes(view, leaf, place, out)?;
                }
            }
        }
        Ok(())
    }

    fn append_attributes(
        &self,
        view: &View<'_>,
        leaf: &Leaf,
        place: usize,
        out: &mut Ranges,
    ) -> Result<(), Error> {
        let attributes = self.schema.first_planes().zip(self.schema.widths());
        for (index, (first, &width)) in attributes.enumerate() {
            let attribute = leaf.attribute(view, (first, width), place)?;
            let colon = if index == 0 { "" } else { ":" };
            // Writing to a vector cannot fail.
            let _ = write!(out.bytes, "{colon}{attribute}");
        }
        out.end_item();
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
        self.count(view, &selection, 0..position).map(Some)
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
        let mut first = None;
        self.walk(view, &selection, wanted, &mut |leaf, found| {
            first = Some(position_of(leaf, &found));
            Ok(())
        })?;
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
                let attributes: Vec<u32> = image.attributes(&self.schema, place).collect();
                let hidden = image.bit(HIDDEN, place);
                out.push(
                    &self
                        .schema
                        .item_row(image.value(place), &attributes, hidden),
                );
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
