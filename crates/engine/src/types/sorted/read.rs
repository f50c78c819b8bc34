//! Reads sorted sets, either optimistically or under a lock.

use undercroft_memory::View;

use super::bounds::{Bounds, Limit};
use super::order::{Target, order_of};
use super::scored::Scored;
use super::{Large, pack};
use crate::error::Error;
use crate::handle::reader::Reader;
use crate::random::Random;
use crate::structures::element::Element;
use crate::structures::entry::{Entry, Form};
use crate::structures::key::Key;
use crate::structures::packed;
use crate::structures::ranges::Ranges;
use crate::types::list::clamp;
use crate::types::value_type::ValueType;

/// A sorted set found by a lookup. The sorted set can be read only through the view that the lookup
/// used.
#[derive(Debug)]
pub struct SortedSet(Body);

#[derive(Debug)]
enum Body {
    Packed(Vec<u8>),
    Large(Large),
}

/// A collection to which members are appended when a sorted set is read.
pub(super) trait Sink {
    /// Appends a member of a packed sorted set.
    fn text(&mut self, member: &[u8], score: f64);
    /// Appends a member of a large sorted set, given the element that contains it.
    fn element(&mut self, view: &View<'_>, element: &Element) -> Result<(), Error>;
}

impl Sink for Scored {
    fn text(&mut self, member: &[u8], score: f64) {
        self.push(member, score);
    }

    #[inline]
    fn element(&mut self, view: &View<'_>, element: &Element) -> Result<(), Error> {
        let score = f64::from_bits(element.word(view)?);
        self.members
            .push_with(|out| element.append_key(view, out))?;
        self.scores.push(score);
        Ok(())
    }
}

/// Collects the members without their scores.
impl Sink for Ranges {
    fn text(&mut self, member: &[u8], _: f64) {
        self.push(member);
    }

    #[inline]
    fn element(&mut self, view: &View<'_>, element: &Element) -> Result<(), Error> {
        self.push_with(|out| element.append_key(view, out))
    }
}

impl SortedSet {
    pub(crate) fn of(view: &View<'_>, entry: &Entry) -> Result<SortedSet, Error> {
        if entry.header.form() == Some(Form::Object) {
            return Ok(SortedSet(Body::Large(Large::to_read(entry)?)));
        }
        let mut bytes = Vec::new();
        entry.append_packed(view, &mut bytes)?;
        Ok(SortedSet(Body::Packed(bytes)))
    }

    /// Returns whether the sorted set is packed.
    pub fn is_small(&self) -> bool {
        matches!(self.0, Body::Packed(_))
    }

    /// Returns the number of members. O(1) for a large sorted set.
    pub fn length(&self, view: &View<'_>) -> Result<u64, Error> {
        match &self.0 {
            Body::Packed(bytes) => Ok(packed::count(bytes)? / 2),
            Body::Large(large) => Ok(large.ranks(view)?.count()),
        }
    }

    /// Prefetches the members that follow `position`. The caller passes each position in turn while
    /// iterating over `members`.
    #[inline(always)]
    pub fn warm_ahead(&self, view: &View<'_>, members: &[Key<'_>], position: usize) {
        if let Body::Large(large) = &self.0 {
            large.elements.warm_ahead(view, members, position);
        }
    }

    /// Returns the score of a member, or `None` if the member does not exist.
    pub fn score(&self, view: &View<'_>, member: &Key<'_>) -> Result<Option<f64>, Error> {
        match &self.0 {
            Body::Packed(bytes) => pack::score(bytes, member.bytes),
            Body::Large(large) => match large.elements.find(view, member)? {
                Some(element) => Ok(Some(f64::from_bits(element.word(view)?))),
                None => Ok(None),
            },
        }
    }

    /// Returns the rank of a member, or `None` if the member does not exist. O(log n).
    pub fn rank(&self, view: &View<'_>, member: &Key<'_>) -> Result<Option<u64>, Error> {
        match &self.0 {
            Body::Packed(bytes) => pack::rank(bytes, &packed::form(member.bytes)),
            Body::Large(large) => {
                let Some(element) = large.elements.find(view, member)? else {
                    return Ok(None);
                };
                let target = Target::Member {
                    order: order_of(f64::from_bits(element.word(view)?)),
                    member: member.bytes,
                    behind: false,
                };
                large.ranks(view)?.count_before(view, &target).map(Some)
            }
        }
    }

    /// Returns the rank of the first member in a range, and one past the rank of the last member.
    /// O(log n).
    pub fn ranks(
        &self,
        view: &View<'_>,
        bounds: &Bounds<'_>,
        reverse: bool,
    ) -> Result<(u64, u64), Error> {
        if let Bounds::Ranks(start, stop) = *bounds {
            let length = self.length(view)?;
            let (from, to) = clamp(start, stop, length);
            return Ok(if reverse {
                (length.saturating_sub(to), length.saturating_sub(from))
            } else {
                (from, to)
            });
        }
        match &self.0 {
            Body::Packed(bytes) => {
                let range = pack::range(bytes, bounds, reverse)?;
                Ok((range.0 as u64, range.1 as u64))
            }
            Body::Large(_) if bounds.is_empty() => Ok((0, 0)),
            Body::Large(large) => {
                let ranks = large.ranks(view)?;
                let (low, high) = bounds.targets();
                let from = match low {
                    Some(low) => ranks.count_before(view, &low)?,
                    None => 0,
                };
                let to = match high {
                    Some(high) => ranks.count_before(view, &high)?,
                    None => ranks.count(),
                };
                Ok((from.min(to), to))
            }
        }
    }

    /// Appends the members in a range to `out`, from the last to the first if `reverse` is set.
    /// O(log n + members).
    pub fn append_range(
        &self,
        view: &View<'_>,
        bounds: &Bounds<'_>,
        limit: Limit,
        reverse: bool,
        out: &mut Scored,
    ) -> Result<(), Error> {
        let ranks = limit.of(self.ranks(view, bounds, reverse)?, reverse);
        self.append_ranks(view, ranks, reverse, out)
    }

    /// Appends the members in a range to `out` without their scores, like
    /// [`append_range`](Self::append_range).
    pub fn append_members(
        &self,
        view: &View<'_>,
        bounds: &Bounds<'_>,
        limit: Limit,
        reverse: bool,
        out: &mut Ranges,
    ) -> Result<(), Error> {
        let ranks = limit.of(self.ranks(view, bounds, reverse)?, reverse);
        self.append_ranks(view, ranks, reverse, out)
    }

    /// Appends the members with ranks `from..to` to `out`, from the last to the first if `reverse`
    /// is set.
    pub(super) fn append_ranks(
        &self,
        view: &View<'_>,
        (from, to): (u64, u64),
        reverse: bool,
        out: &mut impl Sink,
    ) -> Result<(), Error> {
        match &self.0 {
            Body::Packed(bytes) => {
                let mut members = Scored::new();
                pack::append_range(bytes, (from as usize, to as usize), &mut members)?;
                let mut push = |rank: usize| {
                    if let Some((member, score)) = members.get(rank) {
                        out.text(member, score);
                    }
                };
                if reverse {
                    (0..members.len()).rev().for_each(&mut push);
                } else {
                    (0..members.len()).for_each(&mut push);
                }
                Ok(())
            }
            Body::Large(large) => large
                .ranks(view)?
                .for_each(view, (from, to), reverse, |at| {
                    out.element(view, &Element::load(view, at)?)
                }),
        }
    }

    /// Appends all members to `out`, in order. O(members).
    pub fn append_all(&self, view: &View<'_>, out: &mut Scored) -> Result<(), Error> {
        self.append_range(view, &Bounds::Ranks(0, -1), Limit::ALL, false, out)
    }

    /// Appends the next batch of a scan over a sorted set to `out`; see
    /// [`Store::scan`](crate::Store::scan). A packed sorted set is returned in a single batch.
    pub fn scan(
        &self,
        view: &View<'_>,
        cursor: u64,
        count: u64,
        out: &mut Scored,
    ) -> Result<u64, Error> {
        match &self.0 {
            Body::Packed(bytes) => {
                pack::append_all(bytes, out)?;
                Ok(0)
            }
            Body::Large(large) => large
                .elements
                .scan(view, cursor, count, |element| out.element(view, element)),
        }
    }

    /// Appends randomly chosen members to `out`. A positive `count` selects up to `count` distinct
    /// members. A negative `count` selects exactly `-count` members, possibly with repetitions.
    pub fn sample(
        &self,
        view: &View<'_>,
        random: &mut Random,
        count: i64,
        out: &mut Scored,
    ) -> Result<(), Error> {
        match &self.0 {
            Body::Packed(bytes) => {
                let all = pack::members(bytes)?;
                for index in random.choose(count, all.len()) {
                    if let Some((member, score)) = all.get(index) {
                        out.push(member, score);
                    }
                }
                Ok(())
            }
            Body::Large(large) => {
                for element in large.elements.sample(view, random, count)? {
                    out.element(view, &element)?;
                }
                Ok(())
            }
        }
    }
}

impl Reader<'_, '_> {
    /// Looks up the sorted set at a key. Fails if the value has another type.
    pub fn sorted_set(&self, database: usize, key: &Key<'_>) -> Result<Option<SortedSet>, Error> {
        match self.find_type(database, key, ValueType::SortedSet)? {
            Some(entry) => Ok(Some(SortedSet::of(self.view(), &entry)?)),
            None => Ok(None),
        }
    }
}
