//! Implements the type interface for feeds.
//!
//! The flat list of a feed starts with a row that describes the schema ([`Schema::row`]), followed
//! by a row for each item ([`Schema::item_row`]).

use undercroft_memory::{Offset, Pool, Transaction, View};

use super::check;
use super::leaves::image::Rows;
use super::leaves::summary::NOTE_WORDS;
use super::object;
use super::root::Feed;
use super::schema::Schema;
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

/// The RDB type byte of feeds, which Redis does not have. The number is much higher than the
/// numbers that Redis is likely to assign next.
const RDB_FEED: u8 = 128;

/// Implements [`Contract`] for feeds.
pub(crate) struct Feeds;

impl Contract for Feeds {
    fn description(&self) -> &'static Description {
        &Description {
            name: "feed",
            plural: "feeds",
            width: 1,
            ordered: true,
            unique: false,
            has_elements: false,
        }
    }

    fn encoding(&self, _header: Header, _form: Form) -> Encoding {
        Encoding::Feed
    }

    fn append_items(&self, view: &View<'_>, entry: &Entry, out: &mut Ranges) -> Result<(), Error> {
        Feed::load(view, 0, entry)?.append_rows(view, out)
    }

    fn add_items(
        &self,
        writer: &mut Writer<'_, '_>,
        (database, key): (usize, &Key<'_>),
        items: &[&[u8]],
        _limits: &Limits,
    ) -> Result<(), Error> {
        let there = writer.feed(database, key)?.map(|feed| *feed.schema());
        let (schema, items) = match (there, items.split_first()) {
            (there, Some((row, items))) if let Some(schema) = Schema::of_row(row) => {
                match there {
                    None => drop(writer.feed_create(database, key, &schema)?),
                    Some(there) if there == schema => {}
                    Some(_) => return Err(Error::WrongItem),
                }
                (schema, items)
            }
            (Some(schema), _) => (schema, items),
            (None, _) => return Err(Error::WrongItem),
        };
        let (mut rows, mut attributes) = (Rows::new(&schema), Vec::new());
        for row in items {
            let item = schema.of_item_row(row, &mut attributes);
            let (value, hidden) = item.ok_or(Error::WrongItem)?;
            rows.push(value, &attributes, hidden);
        }
        writer.feed_add(database, key, -1, &rows).map(drop)
    }

    fn rdb_kinds(&self) -> &'static [u8] {
        &[RDB_FEED]
    }

    fn dump(&self, _encoding: Encoding, items: &Ranges, _version: RdbVersion, out: &mut Output) {
        out.kind(RDB_FEED);
        out.length(items.len());
        out.strings(items);
    }

    fn restore(&self, _kind: u8, input: &mut Input<'_>, items: &mut Ranges) -> Option<()> {
        let length = input.length()?;
        input.strings(length, items)?;
        let (mut rows, mut attributes) = (items.iter(), Vec::new());
        let schema = Schema::of_row(rows.next()?)?;
        let mut last: Option<&[u8]> = None;
        rows.all(|row| {
            let Some((value, _)) = schema.of_item_row(row, &mut attributes) else {
                return false;
            };
            let before = last.replace(value);
            before.is_none_or(|before| schema.order().may_follow(before, value))
        })
        .then_some(())
    }

    fn object(&self) -> Option<&'static dyn Object> {
        Some(&Feeds)
    }
}

impl Object for Feeds {
    fn pool(&self, view: &View<'_>, shard: usize, entry: &Entry) -> Result<Pool, Error> {
        Ok(Feed::load(view, shard, entry)?.pool)
    }

    fn discard(
        &self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        entry: &Entry,
    ) -> Result<(), Error> {
        Feed::load(transaction.view(), pool.shard(), entry)?.discard(transaction)
    }

    fn copy(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        entry: &Entry,
        pool: Pool,
    ) -> Result<Vec<u64>, Error> {
        let feed = Feed::load(transaction.view(), shard, entry)?;
        Ok(feed.copy(transaction, pool)?.to_vec())
    }

    fn memory_usage(&self, view: &View<'_>, entry: &Entry, _samples: u64) -> Result<u64, Error> {
        Feed::load(view, 0, entry)?.memory_usage(view)
    }

    fn check(&self, check: &mut Check<'_>, entry: &Entry) -> Result<(), Error> {
        Feed::load(check.view, check.shard, entry)?.check(check.view, check.reach)
    }

    fn tree(&self) -> Option<&'static dyn FreeableTree> {
        Some(&Feeds)
    }
}

impl FreeableTree for Feeds {
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
        let free = |transaction: &mut Transaction<'_>, leaf| {
            transaction.free(pool, leaf);
            Ok(())
        };
        let further = tree::free_next::<NOTE_WORDS>(transaction, pool, subtree, progress, free)?;
        Ok((further, 0))
    }

    fn check_left(
        &self,
        view: &View<'_>,
        subtree: Subtree,
        progress: u64,
        reach: &mut dyn FnMut(Offset),
    ) -> Result<(), Error> {
        check::check_left(view, subtree, progress, reach)
    }
}
