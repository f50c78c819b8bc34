//! Implements XREAD and XREADGROUP, which read stream entries.

use std::time::Duration;

use undercroft_engine::Key;
use undercroft_engine::streams::{Delivery, IdRange, StreamEntries, StreamId};
use undercroft_engine::waiting::{Take, WaitOutcome, Wanted};
use undercroft_numbers::parse_integer;

use super::no_group;
use super::parse::strict_id;
use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::protocol::Protocol;
use crate::reply::Reply;
use crate::reply::streams::write_streams;
use crate::session::wait::{self, Shape, Wait};

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[("xread", xread), ("xreadgroup", xreadgroup)];

const LAST_ID: CommandError = CommandError::fixed(
    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
     specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
);

/// The parsed arguments of XREAD or XREADGROUP.
struct Request<'a> {
    keys: &'a [&'a [u8]],
    ids: &'a [&'a [u8]],
    group: Option<(&'a [u8], &'a [u8])>,
    /// The maximum number of entries per stream. 0 means no limit.
    count: u64,
    /// How long to block: `None` does not block, and `Some(None)` blocks without a timeout.
    block: Option<Option<Duration>>,
    acknowledged: bool,
}

impl<'a> Request<'a> {
    fn parse(
        arguments: &'a [&'a [u8]],
        of_group: bool,
        scripted: bool,
    ) -> Result<Request<'a>, CommandError> {
        let mut request = Request {
            keys: &[],
            ids: &[],
            group: None,
            count: 0,
            block: None,
            acknowledged: false,
        };
        let mut place = 1;
        while let Some(&option) = arguments.get(place) {
            let more = arguments.len() - 1 - place;
            if is_keyword(option, "BLOCK") && more > 0 {
                if scripted {
                    return Err(CommandError::from_parts(&[
                        b"ERR ",
                        arguments[0],
                        b" command is not allowed with BLOCK option from scripts",
                    ]));
                }
                request.block = Some(timeout(arguments[place + 1])?);
                place += 1;
            } else if is_keyword(option, "COUNT") && more > 0 {
                request.count = u64::try_from(integer(arguments[place + 1])?).unwrap_or(0);
                place += 1;
            } else if is_keyword(option, "STREAMS") && more > 0 {
                let streams = &arguments[place + 1..];
                if !streams.len().is_multiple_of(2) {
                    // As in Redis, the error message names XREAD even if XREADGROUP was called.
                    return Err(CommandError::fixed(
                        "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
                    ));
                }
                (request.keys, request.ids) = streams.split_at(streams.len() / 2);
                break;
            } else if is_keyword(option, "GROUP") && more >= 2 {
                if !of_group {
                    return Err(CommandError::fixed(
                        "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
                    ));
                }
                request.group = Some((arguments[place + 1], arguments[place + 2]));
                place += 2;
            } else if is_keyword(option, "NOACK") {
                if !of_group {
                    return Err(CommandError::fixed(
                        "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
                    ));
                }
                request.acknowledged = true;
            } else {
                return Err(CommandError::SYNTAX);
            }
            place += 1;
        }
        if request.keys.is_empty() {
            return Err(CommandError::SYNTAX);
        }
        if of_group && request.group.is_none() {
            return Err(CommandError::fixed(
                "ERR Missing GROUP option for XREADGROUP",
            ));
        }
        Ok(request)
    }

    fn most(&self) -> u64 {
        if self.count == 0 {
            u64::MAX
        } else {
            self.count
        }
    }

    fn waited_for(&self) -> u64 {
        if self.count == 0 {
            wait::MOST_WAITED_FOR
        } else {
            self.count
        }
    }
}

/// Parses a timeout in milliseconds. Returns `None` if the timeout is zero, which means no timeout.
fn timeout(argument: &[u8]) -> Result<Option<Duration>, CommandError> {
    let milliseconds = parse_integer(argument).ok_or(CommandError::fixed(
        "ERR timeout is not an integer or out of range",
    ))?;
    let milliseconds =
        u64::try_from(milliseconds).map_err(|_| CommandError::fixed("ERR timeout is negative"))?;
    Ok((milliseconds > 0).then(|| Duration::from_millis(milliseconds)))
}

/// The streams that have entries to return, together with those entries.
type FoundStreams<'a> = Vec<(&'a [u8], StreamEntries)>;

/// Writes the entries that were found, or blocks until entries arrive. Within a transaction, a
/// command never blocks. `texts` contains the keys to wait for, followed either by the IDs or by
/// the group and the consumer.
fn finish(
    context: &mut Context<'_>,
    request: &Request<'_>,
    found: &FoundStreams<'_>,
    (take, texts): (Take, &[&[u8]]),
    reply: &mut dyn Reply,
) -> Outcome {
    let is_map = context.session.protocol == Protocol::Resp3;
    if !found.is_empty() {
        write_streams(found, is_map, reply);
        return Ok(());
    }
    let (store, database) = (context.store, context.database());
    let Some(time) = request.block.filter(|_| !store.is_running()) else {
        reply.null_array();
        return Ok(());
    };
    let wanted = Wanted {
        database,
        keys: texts,
        take,
    };
    let shape = Shape::Entries { is_map };
    let begun = context
        .host
        .inbox
        .take_or_wait(context.session, store, &wanted, time)?;
    match begun {
        WaitOutcome::Answered(answer) => wait::write(shape, &answer, reply)?,
        WaitOutcome::Waiting(ticket) => {
            context.session.waiting = Some(Wait::new(ticket, time, shape))
        }
    }
    Ok(())
}

/// Handles XREAD.
fn xread(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let request = Request::parse(arguments, false, context.scripted)?;
    let (store, database) = (context.store, context.database());
    let keys: Vec<Key<'_>> = context.keys(request.keys);
    let (found, behind) = store.read(store.shards_of(&keys), |reader| {
        let (mut found, mut behind) = (FoundStreams::new(), Vec::with_capacity(keys.len()));
        for ((key, name), text) in keys.iter().zip(request.keys).zip(request.ids) {
            let stream = reader.stream(database, key)?;
            let id = match *text {
                b"$" => stream.as_ref().map_or(StreamId::MIN, |stream| stream.last_id()),
                b">" => {
                    return Err(CommandError::fixed(
                        "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> \
                         <consumer> option.",
                    )
                    .into());
                }
                text => strict_id(text)?,
            };
            behind.push(id);
            let (Some(stream), Some(from)) = (stream, id.next()) else {
                continue;
            };
            let range = IdRange {
                from,
                count: request.most(),
                ..IdRange::ALL
            };
            let mut entries = StreamEntries::new();
            stream.range(reader.view(), range, &mut entries)?;
            if !entries.is_empty() {
                found.push((*name, entries));
            }
        }
        Ok::<_, Failure>((found, behind))
    })?;
    keys.iter().for_each(|key| store.note_use(key));
    let ids: Vec<[u8; 16]> = behind.iter().map(|id| id.to_bytes()).collect();
    let ids = ids.iter().map(|id| &id[..]);
    let texts: Vec<&[u8]> = request.keys.iter().copied().chain(ids).collect();
    let count = request.waited_for();
    finish(
        context,
        &request,
        &found,
        (Take::Entries { count }, &texts),
        reply,
    )
}

/// Handles XREADGROUP.
fn xreadgroup(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let request = Request::parse(arguments, true, context.scripted)?;
    let (group, consumer) = request.group.unwrap_or_default();
    let (store, database) = (context.store, context.database());
    let keys: Vec<Key<'_>> = context.keys(request.keys);
    let delivery = Delivery {
        group,
        consumer,
        count: request.most(),
        acknowledged: request.acknowledged,
    };
    let most = delivery.first_part(&store);
    let mut found = store.write(store.shards_of(&keys), |writer| {
        let missing = |name: &[u8]| no_group(name, group, " in XREADGROUP with GROUP option");
        let mut found = Vec::new();
        let names = request.keys.iter().zip(request.ids);
        for (place, (key, (name, text))) in keys.iter().zip(names).enumerate() {
            let names = (group, consumer);
            let mut entries = StreamEntries::new();
            let behind = match *text {
                b">" => None,
                text => {
                    let is_there = match writer.stream(database, key)? {
                        Some(stream) => stream.has_group(writer.view(), group)?,
                        None => false,
                    };
                    if !is_there {
                        return Err(missing(name).into());
                    }
                    if text == b"$" {
                        return Err(LAST_ID.into());
                    }
                    Some(strict_id(text)?).filter(|id| *id != StreamId::MAX)
                }
            };
            if let Some(id) = behind {
                writer.stream_deliver_again(database, key, names, (id, most), &mut entries)?;
                found.push((place, entries));
                continue;
            }
            let how = (most, request.acknowledged);
            // The error also rolls back the deliveries of entries from earlier keys.
            if !writer.stream_deliver(database, key, names, how, &mut entries)? {
                return Err(missing(name).into());
            }
            if !entries.is_empty() {
                found.push((place, entries));
            }
        }
        Ok::<_, Failure>(found)
    })?;
    if !store.is_running() {
        for (place, entries) in &mut found {
            let again = request.ids[*place] != b">";
            store.stream_deliver_rest(database, &keys[*place], &delivery, again, entries);
        }
    }
    let found: FoundStreams<'_> = found
        .into_iter()
        .map(|(place, entries)| (request.keys[place], entries))
        .collect();
    keys.iter().for_each(|key| store.note_use(key));
    let texts: Vec<&[u8]> = request
        .keys
        .iter()
        .copied()
        .chain([group, consumer])
        .collect();
    let take = Take::Deliver {
        count: request.waited_for(),
        acknowledged: request.acknowledged,
    };
    finish(context, &request, &found, (take, &texts), reply)
}
