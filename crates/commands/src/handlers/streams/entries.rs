//! Implements the commands that add, read and delete stream entries.

use smallvec::SmallVec;
use undercroft_engine::streams::{AddedEntry, EntryId, IdRange, SetId, StreamEntries, StreamId};

use super::parse::{Options, end, start, strict_id};
use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;
use crate::reply::streams::{write_entries, write_id};

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("xadd", xadd),
    ("xlen", xlen),
    ("xrange", xrange),
    ("xrevrange", xrevrange),
    ("xdel", xdel),
    ("xtrim", xtrim),
    ("xsetid", xsetid),
];

/// The maximum size of an entry in bytes, as in Redis.
const ENTRY_MAX: usize = 1 << 30;

/// The number of IDs that can be parsed without a heap allocation.
const FEW: usize = 4;

/// Handles XADD.
fn xadd(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let limits = context.host.config().stream_limits();
    let is_of_source = context.store.store().applies_source();
    let options = Options::parse(arguments, true, &limits, is_of_source)?;
    let texts = arguments.get(options.id_at + 1..).unwrap_or_default();
    let Some(id) = options
        .id
        .filter(|_| texts.len() >= 2 && texts.len() % 2 == 0)
    else {
        return Err(CommandError::wrong_arity("xadd").into());
    };
    if id == EntryId::Exactly(StreamId::MIN) {
        return Err(
            CommandError::fixed("ERR The ID specified in XADD must be greater than 0-0").into(),
        );
    }
    let is_large = texts.iter().map(|text| text.len()).sum::<usize>() > ENTRY_MAX;
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let added = store.write(store.shards_of([&key]), |writer| {
        if is_large {
            writer.stream(database, &key)?;
            return Err(CommandError::fixed("ERR Elements are too large to be stored").into());
        }
        let trim = options.trim.as_ref();
        let create = !options.keep_missing;
        Ok::<_, Failure>(writer.stream_add(database, &key, id, texts, create, trim, &limits)?)
    })?;
    store.note_written(&key);
    match added {
        AddedEntry::Added(id) => write_id(id, reply),
        AddedEntry::Missing => reply.null(),
        AddedEntry::Exhausted => {
            return Err(CommandError::fixed(
                "ERR The stream has exhausted the last possible ID, unable to add more items",
            )
            .into());
        }
        AddedEntry::NotBehind => {
            return Err(CommandError::fixed(
                "ERR The ID specified in XADD is equal or smaller than the target stream top item",
            )
            .into());
        }
    }
    Ok(())
}

/// Handles XLEN.
fn xlen(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let database = context.database();
    let length = context.look_at(arguments[1], |reader, key| {
        let stream = reader.stream(database, key)?;
        Ok(stream.map(|stream| stream.length()))
    })?;
    reply.integer(length.unwrap_or(0) as i64);
    Ok(())
}

/// Handles XRANGE.
fn xrange(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    range(context, arguments, false, reply)
}

/// Handles XREVRANGE.
fn xrevrange(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    range(context, arguments, true, reply)
}

fn range(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reverse: bool,
    reply: &mut dyn Reply,
) -> Outcome {
    let (first, last) = if reverse {
        (arguments[3], arguments[2])
    } else {
        (arguments[2], arguments[3])
    };
    let (from, to) = (start(first)?, end(last)?);
    let mut count = None;
    let mut options = arguments[4..].iter();
    while let Some(option) = options.next() {
        match options.next() {
            Some(most) if is_keyword(option, "COUNT") => {
                count = Some(u64::try_from(integer(most)?).unwrap_or(0));
            }
            _ => return Err(CommandError::SYNTAX.into()),
        }
    }
    let range = IdRange {
        from,
        to,
        count: count.unwrap_or(u64::MAX),
        reverse,
    };
    let database = context.database();
    let mut entries = StreamEntries::new();
    let found = context.look_into(arguments[1], &mut entries, |reader, key, entries| {
        let Some(stream) = reader.stream(database, key)? else {
            return Ok(None);
        };
        stream.range(reader.view(), range, entries)?;
        Ok(Some(()))
    })?;
    match (found, count) {
        (Some(()), Some(0)) => reply.null_array(),
        _ => write_entries(&entries, reply),
    }
    Ok(())
}

/// Parses each argument as an entry ID.
pub(super) fn ids(arguments: &[&[u8]]) -> Result<SmallVec<[StreamId; FEW]>, CommandError> {
    let mut ids = SmallVec::new();
    for text in arguments {
        ids.push(strict_id(text)?);
    }
    Ok(ids)
}

/// Handles XDEL.
fn xdel(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let ids = ids(&arguments[2..]);
    let gone = store.write(store.shards_of([&key]), |writer| {
        if writer.stream(database, &key)?.is_none() {
            return Ok(0);
        }
        let ids = ids.as_ref().map_err(Clone::clone)?;
        Ok::<_, Failure>(writer.stream_delete(database, &key, ids)?)
    })?;
    reply.integer(gone as i64);
    Ok(())
}

/// Handles XTRIM.
fn xtrim(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let limits = context.host.config().stream_limits();
    let is_of_source = context.store.store().applies_source();
    let options = Options::parse(arguments, false, &limits, is_of_source)?;
    let Some(trim) = options.trim else {
        return Err(CommandError::SYNTAX.into());
    };
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let gone = store.write(store.shards_of([&key]), |writer| {
        Ok::<_, Failure>(writer.stream_trim(database, &key, &trim)?)
    })?;
    reply.integer(gone as i64);
    Ok(())
}

/// Handles XSETID.
fn xsetid(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let id = strict_id(arguments[2])?;
    let (mut added, mut deleted) = (None, None);
    let mut options = arguments[3..].iter();
    while let Some(option) = options.next() {
        match options.next() {
            Some(number) if is_keyword(option, "ENTRIESADDED") => {
                let number = u64::try_from(integer(number)?)
                    .map_err(|_| CommandError::fixed("ERR entries_added must be positive"))?;
                added = Some(number);
            }
            Some(text) if is_keyword(option, "MAXDELETEDID") => {
                let greatest = strict_id(text)?;
                if id < greatest {
                    return Err(CommandError::fixed(
                        "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                    )
                    .into());
                }
                deleted = Some(greatest).filter(|id| *id != StreamId::MIN);
            }
            _ => return Err(CommandError::SYNTAX.into()),
        }
    }
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let set = store.write(store.shards_of([&key]), |writer| {
        Ok::<_, Failure>(writer.stream_set_id(database, &key, id, added, deleted)?)
    })?;
    let error = match set {
        SetId::Done => {
            reply.ok();
            return Ok(());
        }
        SetId::Missing => "ERR no such key",
        SetId::BeforeLast => {
            "ERR The ID specified in XSETID is smaller than the target stream top item"
        }
        SetId::TooFew => {
            "ERR The entries_added specified in XSETID is smaller than the target stream length"
        }
    };
    Err(CommandError::fixed(error).into())
}
