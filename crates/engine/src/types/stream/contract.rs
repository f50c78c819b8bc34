//! Implements the type interface for streams.

use undercroft_memory::{Offset, Pool, Transaction, View};

use super::entries::build;
use super::group::Pending;
use super::id::StreamId;
use super::records::StreamRecord;
use super::root::Stream;
use super::{STREAM, StreamLimits, free, listpack};
use crate::error::Error;
use crate::rdb_form::{Input, Output, RdbVersion};
use crate::structures::check::Check;
use crate::structures::elements;
use crate::structures::entry::{Entry, Form, Header};
use crate::structures::key::Key;
use crate::structures::ranges::Ranges;
use crate::structures::tree::Subtree;
use crate::transaction::effect::Effect;
use crate::transaction::writer::Writer;
use crate::types::contract::{Contract, Description, FreeableTree, Object};
use crate::types::limits::Limits;
use crate::types::value_type::Encoding;

/// Implements [`Contract`] for streams.
pub(crate) struct Streams;

impl Contract for Streams {
    fn description(&self) -> &'static Description {
        &Description {
            name: "stream",
            plural: "streams",
            width: 1,
            ordered: true,
            unique: false,
            has_elements: false,
        }
    }

    fn encoding(&self, _header: Header, _form: Form) -> Encoding {
        Encoding::Stream
    }

    fn append_items(&self, view: &View<'_>, entry: &Entry, out: &mut Ranges) -> Result<(), Error> {
        Stream::load(view, 0, entry)?.append_records(view, out)
    }

    fn add_items(
        &self,
        writer: &mut Writer<'_, '_>,
        (database, key): (usize, &Key<'_>),
        items: &[&[u8]],
        _limits: &Limits,
    ) -> Result<(), Error> {
        let records: Option<Vec<_>> = items.iter().map(|row| StreamRecord::of_row(row)).collect();
        let mut records = records.ok_or(Error::WrongItem)?.into_iter().peekable();
        let mut stream = writer.stream(database, key)?;
        if let Some(StreamRecord::Stream {
            last,
            deleted,
            added,
        }) = records.next_if(|record| matches!(record, StreamRecord::Stream { .. }))
        {
            if stream.is_some() {
                return Err(Error::WrongItem);
            }
            let bytes = items.iter().map(|item| item.len() as u64).sum();
            let pool = elements::new_pool(writer.transaction, key.shard, bytes)?;
            let ids = (last, deleted, added);
            let words = Stream::root_words([0; 3], pool, ids, [0; 3]);
            writer.put_object(database, key, None, STREAM, &words)?;
            stream = writer.stream(database, key)?;
        }
        let mut stream = stream.ok_or(Error::WrongItem)?;
        let mut entries = Vec::new();
        let mut before = stream.edge(writer.view(), true)?.unwrap_or(StreamId::MIN);
        while let Some(StreamRecord::Entry { id, texts }) =
            records.next_if(|record| matches!(record, StreamRecord::Entry { .. }))
        {
            if id <= before || id > stream.last {
                return Err(Error::WrongItem);
            }
            before = id;
            entries.push((id, texts));
        }
        if stream.length() == 0 {
            let words = build(writer.transaction, stream.pool, &entries)?;
            for (at, word) in (stream.at..).step_by(8).zip(words) {
                writer.transaction.store(key.shard, at, word)?;
            }
            stream = writer.stream(database, key)?.ok_or(Error::WrongItem)?;
        } else {
            for (id, texts) in &entries {
                stream.push(writer.transaction, (*id, texts), &StreamLimits::DEFAULT)?;
            }
        }
        records.try_for_each(|record| add_group_record(writer, &stream, &record))?;
        writer.changed(database, key, Effect::Changed);
        Ok(())
    }

    fn rdb_kinds(&self) -> &'static [u8] {
        &listpack::KINDS
    }

    fn dump(&self, _encoding: Encoding, items: &Ranges, version: RdbVersion, out: &mut Output) {
        listpack::dump(items, version, out);
    }

    fn restore(&self, kind: u8, input: &mut Input<'_>, items: &mut Ranges) -> Option<()> {
        listpack::restore(kind, input, items)
    }

    fn object(&self) -> Option<&'static dyn Object> {
        Some(&Streams)
    }
}

/// Adds the group, consumer or pending entry that a record describes.
fn add_group_record(
    writer: &mut Writer<'_, '_>,
    stream: &Stream,
    record: &StreamRecord<'_>,
) -> Result<(), Error> {
    let transaction = &mut *writer.transaction;
    let group = |transaction: &Transaction<'_>, name: &[u8]| {
        let found = stream.group(transaction.view(), name)?;
        found.ok_or(Error::WrongItem)
    };
    match *record {
        StreamRecord::Group { name, last, read } => {
            if stream.has_group(transaction.view(), name)? {
                return Err(Error::WrongItem);
            }
            stream.create_group(transaction, name, last, read)?;
        }
        StreamRecord::Consumer {
            group: of,
            name,
            seen,
            active,
        } => {
            let group = group(transaction, of)?;
            if group.consumer(transaction.view(), name)?.is_some() {
                return Err(Error::WrongItem);
            }
            group.create_consumer(transaction, name, (seen, active))?;
        }
        StreamRecord::Pending {
            group: of,
            consumer,
            id,
            time,
            deliveries,
        } => {
            let group = group(transaction, of)?;
            let consumer = group.consumer(transaction.view(), consumer)?;
            let consumer = consumer.ok_or(Error::WrongItem)?.at;
            let entry = Pending {
                id,
                consumer,
                time,
                deliveries,
            };
            group.assign(transaction, &entry)?;
        }
        StreamRecord::Stream { .. } | StreamRecord::Entry { .. } => return Err(Error::WrongItem),
    }
    Ok(())
}

impl Object for Streams {
    fn pool(&self, view: &View<'_>, shard: usize, entry: &Entry) -> Result<Pool, Error> {
        Ok(Stream::load(view, shard, entry)?.pool)
    }

    fn discard(
        &self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        entry: &Entry,
    ) -> Result<(), Error> {
        Stream::load(transaction.view(), pool.shard(), entry)?.discard(transaction)
    }

    fn copy(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        entry: &Entry,
        pool: Pool,
    ) -> Result<Vec<u64>, Error> {
        let stream = Stream::load(transaction.view(), shard, entry)?;
        stream.copy(transaction, pool)
    }

    fn memory_usage(&self, view: &View<'_>, entry: &Entry, _samples: u64) -> Result<u64, Error> {
        Stream::load(view, 0, entry)?.memory_usage(view)
    }

    fn check(&self, check: &mut Check<'_>, entry: &Entry) -> Result<(), Error> {
        Stream::load(check.view, check.shard, entry)?.check(check.view, check.reach)
    }

    fn tree(&self) -> Option<&'static dyn FreeableTree> {
        Some(&Streams)
    }
}

impl FreeableTree for Streams {
    fn number(&self) -> u64 {
        free::TREE
    }

    fn free_next_leaf(
        &self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        subtree: Subtree,
        progress: u64,
    ) -> Result<(Option<u64>, usize), Error> {
        free::free_next_leaf(transaction, pool, subtree, progress)
    }

    fn check_left(
        &self,
        view: &View<'_>,
        subtree: Subtree,
        progress: u64,
        reach: &mut dyn FnMut(Offset),
    ) -> Result<(), Error> {
        free::check_left(view, subtree, progress, reach)
    }
}
