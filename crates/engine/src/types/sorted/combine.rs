//! Computes unions, intersections and differences of sorted sets and sets.

use undercroft_memory::View;

use super::order::{score_of, value_of};
use super::read::SortedSet;
use super::scored::Scored;
use crate::error::Error;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::structures::bulk::Draft;
use crate::structures::elements::Group;
use crate::structures::entry::Entry;
use crate::structures::key::Key;
use crate::structures::prefetch::TOGETHER;
use crate::structures::ranges::Ranges;
use crate::transaction::writer::Writer;
use crate::types::set::{Set, SetOperation};
use crate::types::value_type::ValueType;

/// The AGGREGATE option, which determines how the scores of equal members are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// The sum of the scores. The sum of infinity and negative infinity is 0.
    Sum,
    /// The lowest score.
    Least,
    /// The highest score.
    Greatest,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum => number_or_zero(one + other),
            Aggregate::Least if other < one => other,
            Aggregate::Greatest if other > one => other,
            _ => one,
        }
    }
}

fn number_or_zero(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value }
}

/// A sorted set or a plain set, looked up as an operand. Each member of a plain set has a score of
/// 1.
#[derive(Debug)]
pub struct Source(Members);

#[derive(Debug)]
enum Members {
    Scored(SortedSet),
    Plain(Set),
}

impl Source {
    fn of(view: &View<'_>, entry: &Entry) -> Result<Source, Error> {
        match entry.value_type()? {
            ValueType::SortedSet => Ok(Source(Members::Scored(SortedSet::of(view, entry)?))),
            ValueType::Set => Ok(Source(Members::Plain(Set::of(view, entry)?))),
            _ => Err(Error::WrongType),
        }
    }

    fn length(&self, view: &View<'_>) -> Result<u64, Error> {
        match &self.0 {
            Members::Scored(set) => set.length(view),
            Members::Plain(set) => set.length(view),
        }
    }

    fn is_small(&self) -> bool {
        match &self.0 {
            Members::Scored(set) => set.is_small(),
            Members::Plain(set) => set.is_small(),
        }
    }

    fn append_all(&self, view: &View<'_>, out: &mut Scored) -> Result<(), Error> {
        match &self.0 {
            Members::Scored(set) => set.append_all(view, out),
            Members::Plain(set) => {
                let mut members = Ranges::new();
                set.append_all(view, &mut members)?;
                members.iter().for_each(|member| out.push(member, 1.0));
                Ok(())
            }
        }
    }

    fn score(&self, view: &View<'_>, member: &Key<'_>) -> Result<Option<f64>, Error> {
        match &self.0 {
            Members::Scored(set) => set.score(view, member),
            Members::Plain(set) => Ok(set.contains(view, member)?.then_some(1.0)),
        }
    }

    fn warm(&self, view: &View<'_>, members: &[Key<'_>]) {
        match &self.0 {
            Members::Scored(set) => set.warm_ahead(view, members, 0),
            Members::Plain(set) => set.warm_ahead(view, members, 0),
        }
    }
}

/// An operand and the factor by which its scores are multiplied. A missing operand counts as empty.
pub type Weighted = (Option<Source>, f64);

/// Appends the union, intersection or difference of the sources to `out`, in any order. An
/// intersection stops after `limit` members.
fn combine(
    store: &Store,
    view: &View<'_>,
    sources: &[Weighted],
    operation: SetOperation,
    (aggregate, limit): (Aggregate, usize),
    out: &mut Scored,
) -> Result<(), Error> {
    let mut there = Vec::with_capacity(sources.len());
    for (source, weight) in sources {
        if let Some(source) = source {
            there.push((source.length(view)?, source, *weight));
        }
    }
    if operation != SetOperation::Difference {
        // The sum of floating-point numbers depends on the order of addition. Like Redis, start
        // with the smallest source.
        there.sort_by_key(|(length, ..)| *length);
    }
    let first_is_there = sources.first().is_some_and(|(source, _)| source.is_some());
    match operation {
        SetOperation::Union => unite(store, view, &there, aggregate, out),
        SetOperation::Intersection if there.len() == sources.len() => {
            intersect(store, view, &there, (aggregate, limit), out)
        }
        SetOperation::Difference if first_is_there => subtract(store, view, &there, out),
        _ => Ok(()),
    }
}

/// The sources of a combination, with their lengths and weights.
type Sized<'s> = [(u64, &'s Source, f64)];

fn unite(
    store: &Store,
    view: &View<'_>,
    sources: &Sized<'_>,
    aggregate: Aggregate,
    out: &mut Scored,
) -> Result<(), Error> {
    let mut all = Vec::with_capacity(sources.len());
    for (_, source, weight) in sources {
        let mut scored = Scored::new();
        source.append_all(view, &mut scored)?;
        all.push((scored, *weight));
    }
    let members = all.iter().map(|(scored, _)| scored.len()).sum();
    let mut draft = Draft::new(store.segment.hash_key(), members);
    for (scored, weight) in &all {
        let weighed = |(member, score)| (member, number_or_zero(weight * score));
        draft.merge(scored.iter().map(weighed), |_, _, sum, score| {
            let sum = sum.map_or(score, |sum| aggregate.of(score_of(sum), score));
            Ok::<_, Error>(Some(value_of(sum)))
        })?;
    }
    let parts = draft.parts().iter();
    parts.for_each(|part| out.push(part.key, score_of(part.value)));
    Ok(())
}

fn intersect(
    store: &Store,
    view: &View<'_>,
    sources: &Sized<'_>,
    (aggregate, limit): (Aggregate, usize),
    out: &mut Scored,
) -> Result<(), Error> {
    let Some(((_, first, weight), others)) = sources.split_first() else {
        return Ok(());
    };
    let mut members = Scored::new();
    first.append_all(view, &mut members)?;
    for_each_group(store, &members, |keys, scores| {
        let mut left: Group<'_> = keys.iter().copied().collect();
        let mut sums: Vec<f64> = scores
            .iter()
            .map(|score| number_or_zero(weight * score))
            .collect();
        for (_, other, weight) in others {
            other.warm(view, &left);
            let mut kept = 0;
            for index in 0..left.len() {
                if let Some(score) = other.score(view, &left[index])? {
                    left[kept] = left[index];
                    sums[kept] = aggregate.of(sums[index], weight * score);
                    kept += 1;
                }
            }
            left.truncate(kept);
            sums.truncate(kept);
        }
        let wanted = limit.saturating_sub(out.len());
        let shared = left.iter().zip(&sums).take(wanted);
        shared.for_each(|(key, sum)| out.push(key.bytes, *sum));
        Ok(out.len() < limit)
    })
}

fn subtract(
    store: &Store,
    view: &View<'_>,
    sources: &Sized<'_>,
    out: &mut Scored,
) -> Result<(), Error> {
    let Some(((_, first, _), others)) = sources.split_first() else {
        return Ok(());
    };
    // Collect the members of packed sources in a hash table, because a lookup in a packed source is
    // a linear search.
    let (small, large): (Vec<&Source>, Vec<&Source>) = others
        .iter()
        .map(|(_, source, _)| *source)
        .partition(|source| source.is_small());
    let mut few = Scored::new();
    for source in small {
        source.append_all(view, &mut few)?;
    }
    let mut gone = Draft::new(store.segment.hash_key(), few.len());
    gone.add(few.members().iter());
    let mut members = Scored::new();
    first.append_all(view, &mut members)?;
    for_each_group(store, &members, |keys, scores| {
        let mut stays: Vec<bool> = keys.iter().map(|key| !gone.has(key)).collect();
        for other in &large {
            other.warm(view, keys);
            for (key, stays) in keys.iter().zip(&mut stays) {
                *stays = *stays && other.score(view, key)?.is_none();
            }
        }
        for ((key, score), _) in keys
            .iter()
            .zip(scores)
            .zip(stays)
            .filter(|(_, stays)| *stays)
        {
            out.push(key.bytes, *score);
        }
        Ok(true)
    })
}

/// Calls `visit` with groups of members and their scores until `visit` returns `false`. Each group
/// is the size of a batched lookup.
fn for_each_group<'m>(
    store: &Store,
    members: &'m Scored,
    mut visit: impl FnMut(&[Key<'m>], &[f64]) -> Result<bool, Error>,
) -> Result<(), Error> {
    let mut texts = members.members().iter();
    for scores in members.scores.chunks(TOGETHER) {
        let texts = texts.by_ref().take(TOGETHER);
        let keys: Group<'m> = texts.map(|member| store.key(member)).collect();
        if !visit(&keys, scores)? {
            break;
        }
    }
    Ok(())
}

impl Reader<'_, '_> {
    /// Looks up the sorted set or set at a key. Fails if the value has another type.
    pub fn source(&self, database: usize, key: &Key<'_>) -> Result<Option<Source>, Error> {
        let entry = self.find(database, key)?;
        entry.map(|entry| Source::of(self.view, &entry)).transpose()
    }

    /// Appends the union, intersection or difference of the sources to `out`, in any order. An
    /// intersection stops after `limit` members. O(members of all sources), or O(members of the
    /// smallest source * sources) for an intersection.
    pub fn combine_scored(
        &self,
        sources: &[Weighted],
        operation: SetOperation,
        aggregate: Aggregate,
        limit: usize,
        out: &mut Scored,
    ) -> Result<(), Error> {
        combine(
            self.store,
            self.view,
            sources,
            operation,
            (aggregate, limit),
            out,
        )
    }
}

impl Writer<'_, '_> {
    /// Looks up the sorted set or set at a key, like [`Reader::source`].
    pub fn source(&mut self, database: usize, key: &Key<'_>) -> Result<Option<Source>, Error> {
        let entry = self.find(database, key)?;
        entry
            .map(|entry| Source::of(self.view(), &entry))
            .transpose()
    }

    /// Combines sources like [`Reader::combine_scored`], but without a limit.
    pub fn combine_scored(
        &self,
        sources: &[Weighted],
        operation: SetOperation,
        aggregate: Aggregate,
        out: &mut Scored,
    ) -> Result<(), Error> {
        let how = (aggregate, usize::MAX);
        combine(self.store, self.view(), sources, operation, how, out)
    }
}
