//! Which items a query sees: by their mark, by conditions on attributes, by value. Whole subtrees are judged by what is
//! noted of them; within a leaf, 64 items are compared at a time.

use std::collections::HashSet;
use std::ops::Range;

use undercroft_memory::View;

use super::leaf::{HIDDEN, Leaf, range_mask};
use super::schema::Schema;
use super::summary::{Note, Span};
use crate::error::Error;

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

    /// The items of a block for which it holds; `plane` gives a bit of the attribute of each item.
    fn of_block(
        &self,
        width: usize,
        plane: impl Fn(usize) -> Result<u64, Error>,
    ) -> Result<u64, Error> {
        let any = |values: &[u32]| {
            values.iter().try_fold(0, |all, value| {
                let mut equal = u64::MAX;
                for bit in 0..width {
                    let word = plane(bit)?;
                    equal &= if value >> bit & 1 == 1 { word } else { !word };
                }
                Ok::<_, Error>(all | equal)
            })
        };
        // Both limits at once, from the highest bit on: equal so far, and decided.
        let beside = |limit: u32, less: bool| {
            let (mut same, mut decided) = (u64::MAX, 0);
            for bit in (0..width).rev() {
                let (word, set) = (plane(bit)?, limit >> bit & 1 == 1);
                if less && set {
                    decided |= same & !word;
                } else if !less && !set {
                    decided |= same & word;
                }
                same &= if set { word } else { !word };
            }
            Ok(decided)
        };
        match self {
            Test::OneOf(values) => any(values),
            Test::NoneOf(values) => any(values).map(|mask| !mask),
            Test::Less(limit) => beside(*limit, true),
            Test::Greater(limit) => beside(*limit, false),
        }
    }
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
pub(super) enum Judged {
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
    pub(super) fn judge(&self, count: u64, note: &Note) -> Judged {
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

    /// The items of a block of a leaf that are seen among those at some places.
    #[inline]
    pub(super) fn of_block(
        &self,
        view: &View<'_>,
        leaf: &Leaf,
        block: usize,
        places: &Range<usize>,
    ) -> Result<u64, Error> {
        let words = view.block(leaf.at)?;
        let plane = |plane: usize| {
            let at = leaf.layout.word(plane, block) as u64 * 8;
            Ok::<u64, Error>(words.word(at)?)
        };
        let mut mask = range_mask(block, places.start, places.end);
        match self.seen {
            Seen::All => {}
            Seen::Hidden => mask &= plane(HIDDEN)?,
            Seen::Visible => mask &= !plane(HIDDEN)?,
        }
        for condition in &self.filter.conditions {
            if mask == 0 {
                return Ok(0);
            }
            let (first, width) = (condition.first, condition.width);
            mask &= condition.test.of_block(width, |bit| plane(first + bit))?;
        }
        match self.values {
            Some(values) if mask != 0 => Ok(mask & self.of_values_in(view, leaf, block, values)?),
            _ => Ok(mask),
        }
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
    pub(super) fn sees_all(&self, count: u64, hidden: u64) -> bool {
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
    fn a_block_is_judged_as_its_items_are_one_by_one() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..3000 {
            let width = random.usize(1..=32);
            let greatest = u32::MAX >> (32 - width);
            let mut near = || random.u32(..).min(greatest) & [3, greatest][random.usize(..2)];
            let items: Vec<u32> = (0..64).map(|_| near()).collect();
            let values: Vec<u32> = (0..3).map(|_| near()).collect();
            let plane = |bit: usize| {
                let bits = items.iter().enumerate();
                Ok(bits.fold(0, |word, (at, item)| {
                    word | u64::from(item >> bit & 1) << at
                }))
            };
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
                let mask = test.of_block(width, plane).expect("a mask");
                assert_eq!(mask, naive(holds), "{test:?} {width}");
                let (low, high) = (limit & !1, limit | 1);
                let (some, all) = test.of_range(low, high);
                let each: Vec<bool> = (low..=high).map(holds).collect();
                assert!(some || !each.contains(&true), "{test:?} {limit}");
                assert!(!all || !each.contains(&false), "{test:?} {limit}");
            }
        }
    }
}
