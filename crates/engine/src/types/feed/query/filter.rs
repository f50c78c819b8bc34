//! Which items a query sees: by their mark, by conditions on attributes, by value. Whole subtrees are judged by what is
//! noted of them; within a leaf, 64 items are compared at a time.

use std::collections::HashSet;
use std::ops::Range;

use undercroft_memory::View;

use crate::error::Error;
use crate::types::feed::leaves::leaf::{HIDDEN, Layout, Leaf, range_mask};
use crate::types::feed::leaves::summary::{Note, Span};
use crate::types::feed::schema::Schema;

/// Blocks that are compared at once, so that a few wide instructions do it.
const LANES: usize = 8;
/// A bit of the items of some blocks.
type Lanes = [u64; LANES];

/// Room for what is found in one leaf after the other.
#[derive(Default)]
pub(in crate::types::feed) struct Scratch {
    /// For each block the items that are seen.
    masks: Vec<u64>,
    planes: Planes,
}

/// Bits of the items of a leaf, copied out of it in one piece.
#[derive(Default)]
struct Planes {
    words: Vec<[u8; 8]>,
    blocks: usize,
}

impl Planes {
    /// Takes some bits of all items.
    fn load(
        &mut self,
        view: &View<'_>,
        leaf: &Leaf,
        first: usize,
        count: usize,
    ) -> Result<(), Error> {
        let (layout, words) = (&leaf.layout, count * leaf.layout.blocks);
        self.blocks = layout.blocks;
        // Words behind the last one, which mean nothing, let the last blocks be taken as all others.
        if self.words.len() < words + LANES {
            self.words.resize(words + LANES, [0; 8]);
        }
        let at = leaf.at + layout.word(first, 0) as u64 * 8;
        view.copy_to(at, self.words[..words].as_flattened_mut())?;
        Ok(())
    }

    /// One of those bits, of some blocks from one on. Those of blocks that there are not mean nothing.
    #[inline(always)]
    fn lanes(&self, bit: usize, block: usize) -> &[[u8; 8]; LANES] {
        let words = &self.words[bit * self.blocks + block..];
        words.first_chunk().expect("room behind the last word")
    }
}

/// Which items a query sees by their mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Those that are not hidden.
    Visible,
    /// Those that are.
    Hidden,
    /// All.
    All,
}

/// What an attribute must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// One of these.
    OneOf(Vec<u32>),
    /// None of these.
    NoneOf(Vec<u32>),
    /// Less than this.
    Less(u32),
    /// Greater than this.
    Greater(u32),
}

impl Test {
    /// Whether it holds for any value of a range, and whether for all of them.
    fn of_range(&self, low: u32, high: u32) -> (bool, bool) {
        let within = |values: &[u32]| values.iter().any(|value| (low..=high).contains(value));
        match self {
            Test::OneOf(values) => (within(values), low == high && within(values)),
            Test::NoneOf(values) => (low != high || !within(values), !within(values)),
            Test::Less(limit) => (low < *limit, high < *limit),
            Test::Greater(limit) => (high > *limit, low > *limit),
        }
    }

    /// Of some items of some blocks, leaves those for which it holds.
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

/// The items that have one of some values; `plane` gives a bit of theirs.
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
            // Of a wide attribute few items are left soon.
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

/// The items whose value is less than a limit, or greater: from the highest bit on some are equal so far, some decided.
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
            // Where the item's bit is another one than the limit's.
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
    /// The attribute's bits.
    first: usize,
    width: usize,
    test: Test,
    /// The attribute's bits in notes: those of values for some of which it holds, and for all.
    span: Span,
    some: u64,
    all: u64,
}

/// Conditions that all have to hold.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    conditions: Vec<Condition>,
}

impl Filter {
    /// Adds a condition on an attribute.
    ///
    /// # Panics
    /// If the schema has no such attribute.
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

/// What a query sees.
#[derive(Debug)]
pub struct Selection<'s> {
    /// By their mark.
    pub seen: Seen,
    /// By their attributes.
    pub filter: Filter,
    /// By their values, where it matters.
    pub values: Option<&'s [&'s [u8]]>,
    /// The values where they are many.
    set: HashSet<&'s [u8]>,
}

/// What is known of a subtree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::types::feed) enum Judged {
    /// So many of its items are seen, and which depends on their marks only.
    Exactly(u64),
    /// Some may be seen.
    Perhaps,
}

impl<'s> Selection<'s> {
    /// Items by mark and attributes.
    pub fn new(seen: Seen, filter: Filter) -> Selection<'s> {
        Selection {
            seen,
            filter,
            values: None,
            set: HashSet::new(),
        }
    }

    /// All items.
    pub fn all() -> Selection<'s> {
        Selection::new(Seen::All, Filter::default())
    }

    /// All items that are not hidden.
    pub fn visible() -> Selection<'s> {
        Selection::new(Seen::Visible, Filter::default())
    }

    /// Items with one of these values, hidden or not.
    pub fn of_values(values: &'s [&'s [u8]]) -> Selection<'s> {
        let many = values.len() > 1;
        Selection {
            seen: Seen::All,
            filter: Filter::default(),
            values: Some(values),
            set: values.iter().copied().filter(|_| many).collect(),
        }
    }

    /// Judges a subtree with so many items.
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

    /// Whether its conditions are on values as notes and tallies tell them apart, and nothing else is asked.
    pub(in crate::types::feed) fn is_of_ranges(&self) -> bool {
        let conditions = &self.filter.conditions;
        let exact = |condition: &Condition| condition.some == condition.all;
        self.values.is_none() && !conditions.is_empty() && conditions.iter().all(exact)
    }

    /// For each condition the attribute's bits in notes, and which of them it holds for.
    pub(in crate::types::feed) fn ranges(&self) -> impl Iterator<Item = (Span, u64)> {
        let conditions = self.filter.conditions.iter();
        conditions.map(|condition| (condition.span, condition.all))
    }

    /// For each block of a leaf the items that are seen among those at some places.
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

    /// The cache lines of a leaf that are looked at, as far as they are not its values: how far behind its start they are.
    pub(in crate::types::feed) fn lines(&self, layout: &Layout) -> Vec<u64> {
        let words = |plane: usize| layout.word(plane, 0) as u64;
        // The header, and behind it who is hidden.
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

    /// The items of a block that have one of the values.
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

    /// Whether it sees every item of a feed with so many hidden ones.
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
    fn blocks_are_judged_as_their_items_are_one_by_one() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..3000 {
            let width = random.usize(1..=32);
            let greatest = u32::MAX >> (32 - width);
            let mut near = || random.u32(..).min(greatest) & [3, greatest][random.usize(..2)];
            let items: Vec<u32> = (0..64).map(|_| near()).collect();
            let values: Vec<u32> = (0..3).map(|_| near()).collect();
            // Each further block has the same items, one place further; there are as many as two groups have, less one.
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
