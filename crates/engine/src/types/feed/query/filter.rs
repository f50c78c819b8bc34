//! Selects items by visibility, by conditions on attributes, and by value. Notes, the summaries of
//! subtrees, rule out or accept complete subtrees. Within a leaf, 64 items are compared in one
//! operation.

use std::collections::HashSet;
use std::ops::Range;

use undercroft_memory::View;

use crate::error::Error;
use crate::types::feed::leaves::leaf::{HIDDEN, Layout, Leaf, range_mask};
use crate::types::feed::leaves::summary::{Note, Span};
use crate::types::feed::schema::Schema;

/// The number of blocks that are compared together, so that the comparison compiles to a few wide
/// instructions.
const LANES: usize = 8;
/// One bit of each item in [`LANES`] adjacent blocks of 64 items.
type Lanes = [u64; LANES];

/// Buffers that are reused for each leaf.
#[derive(Default)]
pub(in crate::types::feed) struct Scratch {
    /// The masks of selected items, one for each block of 64 places.
    masks: Vec<u64>,
    planes: Planes,
}

/// A contiguous copy of adjacent bit planes of a leaf.
#[derive(Default)]
struct Planes {
    words: Vec<[u8; 8]>,
    blocks: usize,
}

impl Planes {
    /// Copies adjacent bit planes of a leaf to this buffer.
    fn load(
        &mut self,
        view: &View<'_>,
        leaf: &Leaf,
        first: usize,
        count: usize,
    ) -> Result<(), Error> {
        let (layout, words) = (&leaf.layout, count * leaf.layout.blocks);
        self.blocks = layout.blocks;
        // Pad the buffer with arbitrary words, so that the last blocks can be read like all other
        // blocks.
        if self.words.len() < words + LANES {
            self.words.resize(words + LANES, [0; 8]);
        }
        let at = leaf.at + layout.word(first, 0) as u64 * 8;
        view.copy_to(at, self.words[..words].as_flattened_mut())?;
        Ok(())
    }

    /// Returns [`LANES`] blocks of a bit plane, starting at `block`. Blocks past the end of the
    /// leaf contain arbitrary bits.
    #[inline(always)]
    fn lanes(&self, bit: usize, block: usize) -> &[[u8; 8]; LANES] {
        let words = &self.words[bit * self.blocks + block..];
        words.first_chunk().expect("room after the last word")
    }
}

/// The visibility of the items that a query selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Selects the items that are not hidden.
    Visible,
    /// Selects the hidden items.
    Hidden,
    /// Selects all items, whether hidden or not.
    All,
}

/// A test that a condition applies to the value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// Passes if the value is in the list.
    OneOf(Vec<u32>),
    /// Passes if the value is not in the list.
    NoneOf(Vec<u32>),
    /// Passes if the value is less than this number.
    Less(u32),
    /// Passes if the value is greater than this number.
    Greater(u32),
}

impl Test {
    /// Returns whether the test passes for at least one value in `low..=high`, and whether it
    /// passes for every value in this range.
    fn of_range(&self, low: u32, high: u32) -> (bool, bool) {
        let within = |values: &[u32]| values.iter().any(|value| (low..=high).contains(value));
        match self {
            Test::OneOf(values) => (within(values), low == high && within(values)),
            Test::NoneOf(values) => (low != high || !within(values), !within(values)),
            Test::Less(limit) => (low < *limit, high < *limit),
            Test::Greater(limit) => (high > *limit, low > *limit),
        }
    }

    /// Removes the items that fail the test from the selected items in `masks`.
    #[inline]
    fn narrow(&self, planes: &Planes, width: usize, masks: &mut [u64]) {
        for (group, masks) in masks.chunks_mut(LANES).enumerate() {
            let plane = |bit| planes.lanes(bit, group * LANES);
            let (holds, flip) = match self {
                Test::OneOf(values) => (any(values, width, plane), 0),
                Test::NoneOf(values) => (any(values, width, plane), u64::MAX),
                Test::Less(limit) => (beside(*limit, true, width, plane), 0),
                Test::Greater(limit) => (beside(*limit, false, width, plane), 0),
            };
            for (mask, holds) in masks.iter_mut().zip(holds) {
                *mask &= holds ^ flip;
            }
        }
    }
}

/// Returns the items whose attribute value is in `values`. `plane` returns a bit plane of the
/// attribute.
#[inline(always)]
fn any<'p>(values: &[u32], width: usize, plane: impl Fn(usize) -> &'p [[u8; 8]; LANES]) -> Lanes {
    let mut all = [0; LANES];
    for value in values {
        let mut equal = [u64::MAX; LANES];
        for bit in 0..width {
            let flip = u64::from(value >> bit & 1).wrapping_sub(1);
            for (equal, word) in equal.iter_mut().zip(plane(bit)) {
                *equal &= u64::from_le_bytes(*word) ^ flip;
            }
            // After the first few bits of a wide attribute, usually no item still matches.
            if bit % 4 == 3 && equal == [0; LANES] {
                break;
            }
        }
        all.iter_mut()
            .zip(equal)
            .for_each(|(all, equal)| *all |= equal);
    }
    all
}

/// Returns the items whose attribute value is less than `limit` if `less` is set, otherwise the
/// items whose value is greater. Compares bit by bit, starting at the highest bit. `same` contains
/// the items that are still equal to `limit`, and `decided` the items to return.
#[inline(always)]
fn beside<'p>(
    limit: u32,
    less: bool,
    width: usize,
    plane: impl Fn(usize) -> &'p [[u8; 8]; LANES],
) -> Lanes {
    let (mut same, mut decided) = ([u64::MAX; LANES], [0; LANES]);
    for bit in (0..width).rev() {
        let set = limit >> bit & 1 == 1;
        let flip = if set { u64::MAX } else { 0 };
        let decides = if less == set { u64::MAX } else { 0 };
        for (lane, word) in plane(bit).iter().enumerate() {
            // The items whose bit differs from the bit of the limit.
            let other = u64::from_le_bytes(*word) ^ flip;
            decided[lane] |= same[lane] & other & decides;
            same[lane] &= !other;
        }
    }
    decided
}

/// A condition on one attribute of a schema.
#[derive(Clone, Debug)]
struct Condition {
    /// The first bit plane of the attribute.
    first: usize,
    width: usize,
    test: Test,
    /// The bits that represent the attribute in notes. In `some`, a bit is set if at least one of
    /// its values passes the test, and in `all`, if every one of its values does.
    span: Span,
    some: u64,
    all: u64,
}

/// A conjunction of conditions on attributes.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    conditions: Vec<Condition>,
}

impl Filter {
    /// Adds a condition on an attribute.
    ///
    /// # Panics
    /// Panics if the schema has no such attribute.
    pub fn add(&mut self, schema: &Schema, attribute: usize, test: Test) {
        let attributes = schema.first_planes().zip(schema.widths());
        let ((first, &width), span) = attributes
            .zip(Span::all(schema))
            .nth(attribute)
            .expect("an attribute of the schema");
        let (mut some, mut all) = (0, 0);
        for bucket in 0..span.buckets() as u64 {
            let low = (bucket << span.shift) as u32;
            let high = (((bucket + 1) << span.shift) - 1) as u32;
            let (any, every) = test.of_range(low, high);
            some |= u64::from(any) << bucket;
            all |= u64::from(every) << bucket;
        }
        self.conditions.push(Condition {
            first,
            width: width.into(),
            test,
            span,
            some,
            all,
        });
    }
}

/// The criteria by which a query selects items. An item must meet all of them.
#[derive(Debug)]
pub struct Selection<'s> {
    /// The required visibility.
    pub seen: Seen,
    /// The conditions on attributes.
    pub filter: Filter,
    /// The accepted values, or `None` to accept every value.
    pub values: Option<&'s [&'s [u8]]>,
    /// The accepted values as a set, if there are several.
    set: HashSet<&'s [u8]>,
}

/// The verdict on a subtree, based on its note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::types::feed) enum Judged {
    /// The subtree contains exactly this many selected items, and only visibility determines which
    /// items these are.
    Exactly(u64),
    /// The subtree can contain selected items.
    Perhaps,
}

impl<'s> Selection<'s> {
    /// Creates a selection by visibility and attributes.
    pub fn new(seen: Seen, filter: Filter) -> Selection<'s> {
        Selection {
            seen,
            filter,
            values: None,
            set: HashSet::new(),
        }
    }

    /// Creates a selection of all items.
    pub fn all() -> Selection<'s> {
        Selection::new(Seen::All, Filter::default())
    }

    /// Creates a selection of all items that are not hidden.
    pub fn visible() -> Selection<'s> {
        Selection::new(Seen::Visible, Filter::default())
    }

    /// Creates a selection of the items that have one of these values, whether hidden or not.
    pub fn of_values(values: &'s [&'s [u8]]) -> Selection<'s> {
        let many = values.len() > 1;
        Selection {
            seen: Seen::All,
            filter: Filter::default(),
            values: Some(values),
            set: values.iter().copied().filter(|_| many).collect(),
        }
    }

    /// Determines from a subtree's note how many of the subtree's `count` items are selected.
    pub(in crate::types::feed) fn judge(&self, count: u64, note: &Note) -> Judged {
        let hidden = note[0];
        let seen = match self.seen {
            Seen::All => count,
            Seen::Hidden => hidden,
            Seen::Visible => count.wrapping_sub(hidden),
        };
        let mut all = self.values.is_none();
        for condition in &self.filter.conditions {
            let there = condition.span.of(note);
            if there & condition.some == 0 {
                return Judged::Exactly(0);
            }
            all &= there & !condition.all == 0;
        }
        if all || seen == 0 {
            Judged::Exactly(seen)
        } else {
            Judged::Perhaps
        }
    }

    /// Returns whether the query selects only by conditions that notes and tallies can decide
    /// exactly, and not by value.
    pub(in crate::types::feed) fn is_of_ranges(&self) -> bool {
        let conditions = &self.filter.conditions;
        let exact = |condition: &Condition| condition.some == condition.all;
        self.values.is_none() && !conditions.is_empty() && conditions.iter().all(exact)
    }

    /// Returns, for each condition, the span of its attribute and the bits of the span that satisfy
    /// the condition.
    pub(in crate::types::feed) fn ranges(&self) -> impl Iterator<Item = (Span, u64)> {
        let conditions = self.filter.conditions.iter();
        conditions.map(|condition| (condition.span, condition.all))
    }

    /// Returns masks of the selected items at the given places, with one mask for each block of a
    /// leaf.
    pub(in crate::types::feed) fn of_leaf<'m>(
        &self,
        view: &View<'_>,
        leaf: &Leaf,
        places: &Range<usize>,
        scratch: &'m mut Scratch,
    ) -> Result<&'m [u64], Error> {
        let Scratch { masks, planes } = scratch;
        masks.resize(leaf.layout.blocks, 0);
        for (block, mask) in masks.iter_mut().enumerate() {
            *mask = range_mask(block, places.start, places.end);
        }
        if self.seen != Seen::All {
            planes.load(view, leaf, HIDDEN, 1)?;
            let flip = if self.seen == Seen::Hidden {
                0
            } else {
                u64::MAX
            };
            for (mask, word) in masks.iter_mut().zip(&planes.words) {
                *mask &= u64::from_le_bytes(*word) ^ flip;
            }
        }
        for condition in &self.filter.conditions {
            if masks.iter().all(|&mask| mask == 0) {
                return Ok(masks);
            }
            planes.load(view, leaf, condition.first, condition.width)?;
            condition.test.narrow(planes, condition.width, masks);
        }
        if let Some(values) = self.values {
            for (block, mask) in masks.iter_mut().enumerate() {
                if *mask != 0 {
                    *mask &= self.of_values_in(view, leaf, block, values)?;
                }
            }
        }
        Ok(masks)
    }

    /// Returns the offsets of the cache lines in a leaf that the query reads, except lines that
    /// contain only values.
    pub(in crate::types::feed) fn lines(&self, layout: &Layout) -> Vec<u64> {
        let words = |plane: usize| layout.word(plane, 0) as u64;
        // Start with the header and the plane of hidden bits.
        let mut lines: Vec<u64> = (0..words(HIDDEN + 1)).collect();
        for condition in &self.filter.conditions {
            lines.extend(words(condition.first)..words(condition.first + condition.width));
        }
        lines
            .iter_mut()
            .for_each(|word| *word = *word * 8 / 64 * 64);
        lines.dedup();
        lines
    }

    /// Returns a mask of the items in a block that have one of the accepted values.
    fn of_values_in(
        &self,
        view: &View<'_>,
        leaf: &Leaf,
        block: usize,
        values: &[&[u8]],
    ) -> Result<u64, Error> {
        let (from, to) = (leaf.start.max(block * 64), leaf.end().min(block * 64 + 64));
        let mut bytes = Vec::new();
        let (start, end) = (leaf.layout.value_at(from), leaf.layout.value_at(to));
        view.append_part(leaf.at, start as u64, end as u64, &mut bytes)?;
        let mut mask = 0;
        for (place, value) in (from..to).zip(bytes.chunks_exact(leaf.layout.value)) {
            let equal = match values {
                [one] => *one == value,
                _ => self.set.contains(value),
            };
            mask |= u64::from(equal) << (place % 64);
        }
        Ok(mask)
    }

    /// Returns whether the query selects every item of a feed with `count` items, of which `hidden`
    /// are hidden.
    pub(in crate::types::feed) fn sees_all(&self, count: u64, hidden: u64) -> bool {
        let marks = match self.seen {
            Seen::All => true,
            Seen::Visible => hidden == 0,
            Seen::Hidden => hidden == count,
        };
        marks && self.filter.conditions.is_empty() && self.values.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_single_items_get_the_same_verdict() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..3000 {
            let width = random.usize(1..=32);
            let greatest = u32::MAX >> (32 - width);
            let mut near = || random.u32(..).min(greatest) & [3, greatest][random.usize(..2)];
            let items: Vec<u32> = (0..64).map(|_| near()).collect();
            let values: Vec<u32> = (0..3).map(|_| near()).collect();
            // Each block contains the same items as the previous block, rotated by one place. The
            // last group of blocks is one block short.
            let blocks = 2 * LANES - 1;
            let word = |bit: usize| {
                let bits = items.iter().enumerate();
                bits.fold(0, |word, (at, item)| {
                    word | u64::from(item >> bit & 1) << at
                })
            };
            let mut words = Vec::new();
            for bit in 0..width {
                words.extend((0..blocks as u32).map(|block| word(bit).rotate_left(block)));
            }
            words.resize(words.len() + LANES, 0_u64);
            let words = words.into_iter().map(u64::to_le_bytes).collect();
            let planes = Planes { words, blocks };
            let naive = |test: &dyn Fn(u32) -> bool| {
                let bits = items.iter().enumerate();
                bits.fold(0, |mask, (at, &item)| mask | u64::from(test(item)) << at)
            };
            let limit = values[0];
            let tests: [(Test, &dyn Fn(u32) -> bool); 4] = [
                (Test::OneOf(values.clone()), &|item| values.contains(&item)),
                (Test::NoneOf(values.clone()), &|item| {
                    !values.contains(&item)
                }),
                (Test::Less(limit), &|item| item < limit),
                (Test::Greater(limit), &|item| item > limit),
            ];
            for (test, holds) in tests {
                let mut masks = vec![u64::MAX; blocks];
                test.narrow(&planes, width, &mut masks);
                let expected = (0..blocks as u32).map(|block| naive(holds).rotate_left(block));
                assert!(masks.iter().copied().eq(expected), "{test:?} {width}");
                let (low, high) = (limit & !1, limit | 1);
                let (some, all) = test.of_range(low, high);
                let each: Vec<bool> = (low..=high).map(holds).collect();
                assert!(some || !each.contains(&true), "{test:?} {limit}");
                assert!(!all || !each.contains(&false), "{test:?} {limit}");
            }
        }
    }
}
