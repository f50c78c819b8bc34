//! Implements the type interface for sorted sets.

use undercroft_memory::{Offset, Pool, Transaction, View};

use super::read::SortedSet;
use super::scored::Scored;
use super::write::AddRule;
use super::{Large, object};
use crate::error::Error;
use crate::rdb_form::{Input, Output, RdbVersion};
use crate::structures::check::Check;
use crate::structures::entry::{Entry, Form, Header};
use crate::structures::key::Key;
use crate::structures::ranges::Ranges;
use crate::structures::tree::{self, Subtree};
use crate::transaction::writer::Writer;
use crate::types::contract::{Contract, Description, FreeableTree, Object};
use crate::types::limits::Limits;
use crate::types::value_type::Encoding;

/// The type whose scores are text, before Redis 4.
const RDB_SORTED_SET_1: u8 = 3;
const RDB_SORTED_SET: u8 = 5;
const RDB_ZIPLIST: u8 = 12;
const RDB_LISTPACK: u8 = 17;

/// Implements [`Contract`] for sorted sets.
pub(crate) struct SortedSets;

impl Contract for SortedSets {
    fn description(&self) -> &'static Description {
        &Description {
            name: "zset",
            plural: "sorted sets",
            width: 2,
            ordered: true,
            unique: true,
            has_elements: true,
        }
    }

    fn encoding(&self, _header: Header, form: Form) -> Encoding {
        match form {
            Form::Object => Encoding::SkipList,
            _ => Encoding::ListPack,
        }
    }

    fn append_items(&self, view: &View<'_>, entry: &Entry, out: &mut Ranges) -> Result<(), Error> {
        let mut all = Scored::new();
        SortedSet::of(view, entry)?.append_all(view, &mut all)?;
        for (member, score) in all.iter() {
            out.push(member);
            out.push(score_text(score).as_bytes());
        }
        Ok(())
    }

    fn add_items(
        &self,
        writer: &mut Writer<'_, '_>,
        (database, key): (usize, &Key<'_>),
        items: &[&[u8]],
        limits: &Limits,
    ) -> Result<(), Error> {
        let (pairs, []) = items.as_chunks::<2>() else {
            return Err(Error::NotANumber);
        };
        let members = pairs
            .iter()
            .map(|[member, text]| Some((*member, score(text)?)));
        let members = members.collect::<Option<Vec<_>>>();
        let members = members.ok_or(Error::NotANumber)?;
        let rule = AddRule::default();
        let added = writer.sorted_add(database, key, &members, rule, &limits.sorted);
        added.map(drop)
    }

    fn rdb_kinds(&self) -> &'static [u8] {
        &[RDB_SORTED_SET_1, RDB_SORTED_SET, RDB_ZIPLIST, RDB_LISTPACK]
    }

    fn dump(&self, encoding: Encoding, items: &Ranges, version: RdbVersion, out: &mut Output) {
        if encoding == Encoding::ListPack && version >= RdbVersion::V10 {
            out.kind(RDB_LISTPACK);
            return out.listpack(items.iter());
        }
        out.kind(RDB_SORTED_SET);
        out.length(items.len() / 2);
        for (index, item) in items.iter().enumerate() {
            if index % 2 == 0 {
                out.string(item);
            } else {
                out.raw(&score(item).unwrap_or_default().to_le_bytes());
            }
        }
    }

    fn restore(&self, kind: u8, input: &mut Input<'_>, items: &mut Ranges) -> Option<()> {
        match kind {
            RDB_LISTPACK => input.listpack(items)?,
            RDB_ZIPLIST => input.ziplist(items)?,
            _ => {
                for _ in 0..input.length()? {
                    input.strings(1, items)?;
                    if kind == RDB_SORTED_SET_1 {
                        items.push(read_score_text(input)?);
                    } else {
                        items.push(score_text(f64::from_le_bytes(input.take()?)).as_bytes());
                    }
                }
            }
        }
        let mut scores = items.iter().skip(1).step_by(2);
        scores.all(|text| score(text).is_some()).then_some(())
    }

    fn object(&self) -> Option<&'static dyn Object> {
        Some(&SortedSets)
    }
}

impl Object for SortedSets {
    fn pool(&self, view: &View<'_>, shard: usize, entry: &Entry) -> Result<Pool, Error> {
        Ok(Large::to_change(view, shard, entry)?.pool)
    }

    fn discard(
        &self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        entry: &Entry,
    ) -> Result<(), Error> {
        Large::to_change(transaction.view(), pool.shard(), entry)?.discard(transaction)
    }

    fn copy(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        entry: &Entry,
        pool: Pool,
    ) -> Result<Vec<u64>, Error> {
        let large = Large::to_change(transaction.view(), shard, entry)?;
        object::copy(transaction, &large, pool)
    }

    fn memory_usage(&self, view: &View<'_>, entry: &Entry, samples: u64) -> Result<u64, Error> {
        object::memory_usage(view, entry, samples)
    }

    fn check(&self, check: &mut Check<'_>, entry: &Entry) -> Result<(), Error> {
        let large = Large::to_change(check.view, check.shard, entry)?;
        check.elements(
            large.elements,
            &format!("the sorted set at {:#x}", entry.at),
        );
        object::check(check.view, check.secret, entry, check.reach)
    }

    fn tree(&self) -> Option<&'static dyn FreeableTree> {
        Some(&SortedSets)
    }
}

impl FreeableTree for SortedSets {
    fn number(&self) -> u64 {
        object::TREE
    }

    fn free_next_leaf(
        &self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        subtree: Subtree,
        progress: u64,
    ) -> Result<(Option<u64>, usize), Error> {
        // Free only the leaves, because the elements to which they refer belong to the dictionary.
        let further =
            tree::free_next::<2>(transaction, pool, subtree, progress, |transaction, leaf| {
                object::free_leaf(transaction, pool, leaf)
            })?;
        Ok((further, 0))
    }

    fn check_left(
        &self,
        view: &View<'_>,
        subtree: Subtree,
        progress: u64,
        reach: &mut dyn FnMut(Offset),
    ) -> Result<(), Error> {
        object::check_left(view, subtree, progress, reach)
    }
}

/// Formats a score as text that can be parsed back to exactly the same score.
pub(crate) fn score_text(score: f64) -> String {
    const DIGITS_MAX: f64 = (1_u64 << 62) as f64;
    let is_integer = score.abs() <= DIGITS_MAX && score.trunc() == score;
    if is_integer && score.to_bits() != (-0.0_f64).to_bits() {
        (score as i64).to_string()
    } else if (1e-5..1e17).contains(&score.abs()) || !score.is_finite() {
        score.to_string()
    } else {
        format!("{score:e}")
    }
}

/// Reads a score in the format before Redis 4: its length and its text, or a byte that represents
/// NaN or an infinity instead of a length.
fn read_score_text<'p>(input: &mut Input<'p>) -> Option<&'p [u8]> {
    match input.take()? {
        [253] => None,
        [254] => Some(b"inf"),
        [255] => Some(b"-inf"),
        [length] => input.raw(length.into()),
    }
}

/// Parses a score. Returns `None` if the text is not a number or represents NaN.
fn score(text: &[u8]) -> Option<f64> {
    let score: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!score.is_nan()).then_some(score)
}
