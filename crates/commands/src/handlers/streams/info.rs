//! Implements XINFO, which describes streams, groups and consumers.

use undercroft_engine::View;
use undercroft_engine::streams::{
    ConsumerInfo, GroupInfo, IdRange, PendingEntry, StreamEntries, StreamId,
};

use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::Outcome;
use crate::reply::Reply;
use crate::reply::streams::{write_entries, write_entry, write_id};

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("xinfo|stream", xinfo_stream),
    ("xinfo|groups", xinfo_groups),
    ("xinfo|consumers", xinfo_consumers),
];

/// The part of the XINFO STREAM reply that does not depend on FULL.
struct StreamSummary {
    length: u64,
    leaves: u64,
    last: StreamId,
    deleted: StreamId,
    added: u64,
    first: StreamId,
    groups: u64,
}

/// The part of the XINFO STREAM reply that depends on FULL.
enum Detail {
    /// Without FULL, the first and the last entry.
    Edges(StreamEntries, StreamEntries),
    /// With FULL, entries and all consumer groups.
    Full(StreamEntries, Vec<GroupDetail>),
}

/// A consumer group with its consumers and its pending entries.
struct GroupDetail {
    info: GroupInfo,
    pending: Vec<PendingEntry>,
    consumers: Vec<(ConsumerInfo, Vec<PendingEntry>)>,
}

const NO_KEY: CommandError = CommandError::fixed("ERR no such key");
/// The default number of entries, and of pending entries, that XINFO STREAM FULL shows.
const SHOWN: u64 = 10;

/// Handles XINFO STREAM.
fn xinfo_stream(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    // As in Redis, the error for a missing key takes precedence over the error for an invalid
    // option.
    let wanted = wanted(arguments);
    let count = wanted.as_ref().ok().copied().flatten();
    let database = context.database();
    let found = context.look_at(arguments[2], |reader, key| {
        let Some(stream) = reader.stream(database, key)? else {
            return Ok(None);
        };
        let view = reader.view();
        let head = StreamSummary {
            length: stream.length(),
            leaves: stream.leaves(view)?,
            last: stream.last_id(),
            deleted: stream.max_deleted_id(),
            added: stream.entries_added(),
            first: stream.edge(view, false)?.unwrap_or_default(),
            groups: stream.group_count(view)?,
        };
        let range = |count, reverse| {
            let mut entries = StreamEntries::new();
            let range = IdRange {
                count,
                reverse,
                ..IdRange::ALL
            };
            stream.range(view, range, &mut entries)?;
            Ok::<_, undercroft_engine::Error>(entries)
        };
        let Some(count) = count else {
            let edges = Detail::Edges(range(1, false)?, range(1, true)?);
            return Ok(Some((head, edges)));
        };
        let mut groups = Vec::new();
        for info in stream.groups_info(view)? {
            groups.push(full_group(&stream, view, info, count)?);
        }
        Ok(Some((head, Detail::Full(range(count, false)?, groups))))
    })?;
    let (head, rest) = found.ok_or(NO_KEY)?;
    wanted?;
    let is_full = matches!(rest, Detail::Full(..));
    reply.map(if is_full { 9 } else { 10 });
    let number = |name: &str, number: u64, reply: &mut dyn Reply| {
        reply.bulk(name.as_bytes());
        reply.integer(number as i64);
    };
    let id = |name: &str, id: StreamId, reply: &mut dyn Reply| {
        reply.bulk(name.as_bytes());
        write_id(id, reply);
    };
    number("length", head.length, reply);
    number("radix-tree-keys", head.leaves, reply);
    number("radix-tree-nodes", head.leaves + 1, reply);
    id("last-generated-id", head.last, reply);
    id("max-deleted-entry-id", head.deleted, reply);
    number("entries-added", head.added, reply);
    id("recorded-first-entry-id", head.first, reply);
    match rest {
        Detail::Edges(first, last) => {
            number("groups", head.groups, reply);
            for (name, entries) in [("first-entry", first), ("last-entry", last)] {
                reply.bulk(name.as_bytes());
                match entries.is_empty() {
                    true => reply.null(),
                    false => write_entry(&entries, 0, reply),
                }
            }
        }
        Detail::Full(entries, groups) => {
            reply.bulk(b"entries");
            write_entries(&entries, reply);
            reply.bulk(b"groups");
            reply.array(groups.len());
            groups.iter().for_each(|group| write_full(group, reply));
        }
    }
    Ok(())
}

/// Returns the number of entries that XINFO STREAM FULL shows, or `None` if FULL is not given.
fn wanted(arguments: &[&[u8]]) -> Result<Option<u64>, CommandError> {
    match &arguments[3..] {
        [] => Ok(None),
        [full] if is_keyword(full, "FULL") => Ok(Some(SHOWN)),
        [full, word, count] if is_keyword(full, "FULL") && is_keyword(word, "COUNT") => {
            Ok(Some(match integer(count)? {
                0 => u64::MAX,
                count => u64::try_from(count).unwrap_or(SHOWN),
            }))
        }
        _ => Err(CommandError::subcommand_syntax("xinfo", arguments[1])),
    }
}

fn full_group(
    stream: &undercroft_engine::streams::Stream,
    view: &View<'_>,
    info: GroupInfo,
    count: u64,
) -> Result<GroupDetail, undercroft_engine::Error> {
    let range = IdRange {
        count,
        ..IdRange::ALL
    };
    let pending = |consumer: Option<&[u8]>| {
        let pending = stream.pending_range(view, (&info.name, consumer), range, u64::MAX)?;
        Ok::<_, undercroft_engine::Error>(pending.unwrap_or_default())
    };
    let mut consumers = Vec::new();
    for consumer in stream.consumers_info(view, &info.name)?.unwrap_or_default() {
        let own = pending(Some(&consumer.name))?;
        consumers.push((consumer, own));
    }
    Ok(GroupDetail {
        pending: pending(None)?,
        consumers,
        info,
    })
}

/// Writes a number, or a null if the number is unknown.
fn write_known(number: Option<i64>, reply: &mut dyn Reply) {
    match number {
        Some(number) => reply.integer(number),
        None => reply.null(),
    }
}

fn write_full(group: &GroupDetail, reply: &mut dyn Reply) {
    reply.map(7);
    reply.bulk(b"name");
    reply.bulk(&group.info.name);
    reply.bulk(b"last-delivered-id");
    write_id(group.info.last, reply);
    reply.bulk(b"entries-read");
    write_known(group.info.read, reply);
    reply.bulk(b"lag");
    write_known(group.info.lag, reply);
    reply.bulk(b"pel-count");
    reply.integer(group.info.pending as i64);
    reply.bulk(b"pending");
    reply.array(group.pending.len());
    for entry in &group.pending {
        reply.array(4);
        write_id(entry.id, reply);
        reply.bulk(&entry.consumer);
        reply.integer(entry.time as i64);
        reply.integer(entry.deliveries as i64);
    }
    reply.bulk(b"consumers");
    reply.array(group.consumers.len());
    for (consumer, own) in &group.consumers {
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(&consumer.name);
        reply.bulk(b"seen-time");
        reply.integer(consumer.seen as i64);
        reply.bulk(b"pel-count");
        reply.integer(consumer.pending as i64);
        reply.bulk(b"pending");
        reply.array(own.len());
        for entry in own {
            reply.array(3);
            write_id(entry.id, reply);
            reply.integer(entry.time as i64);
            reply.integer(entry.deliveries as i64);
        }
    }
}

/// Handles XINFO GROUPS.
fn xinfo_groups(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let database = context.database();
    let groups = context.look_at(arguments[2], |reader, key| {
        match reader.stream(database, key)? {
            Some(stream) => Ok(Some(stream.groups_info(reader.view())?)),
            None => Ok(None),
        }
    })?;
    let groups = groups.ok_or(NO_KEY)?;
    reply.array(groups.len());
    for group in &groups {
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(&group.name);
        reply.bulk(b"consumers");
        reply.integer(group.consumers as i64);
        reply.bulk(b"pending");
        reply.integer(group.pending as i64);
        reply.bulk(b"last-delivered-id");
        write_id(group.last, reply);
        reply.bulk(b"entries-read");
        write_known(group.read, reply);
        reply.bulk(b"lag");
        write_known(group.lag, reply);
    }
    Ok(())
}

/// Handles XINFO CONSUMERS.
fn xinfo_consumers(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let (database, group) = (context.database(), arguments[3]);
    let found = context.look_at(arguments[2], |reader, key| {
        match reader.stream(database, key)? {
            Some(stream) => Ok(Some(stream.consumers_info(reader.view(), group)?)),
            None => Ok(None),
        }
    })?;
    let consumers = found.ok_or(NO_KEY)?.ok_or_else(|| {
        let text = |bytes: &[u8]| {
            bytes
                .split(|byte| *byte == 0)
                .next()
                .unwrap_or_default()
                .to_vec()
        };
        CommandError::from_parts(&[
            b"NOGROUP No such consumer group '",
            &text(group),
            b"' for key name '",
            &text(arguments[2]),
            b"'",
        ])
    })?;
    let now = context.store.now();
    reply.array(consumers.len());
    for consumer in &consumers {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(&consumer.name);
        reply.bulk(b"pending");
        reply.integer(consumer.pending as i64);
        reply.bulk(b"idle");
        reply.integer(now.saturating_sub(consumer.seen) as i64);
    }
    Ok(())
}
