//! Implements the commands for pending entries: XPENDING, XACK, XCLAIM and XAUTOCLAIM.

use smallvec::SmallVec;
use undercroft_engine::streams::{Claim, Claimed, IdRange, StreamId};
use undercroft_numbers::parse_integer;

use super::entries::ids;
use super::no_group;
use super::parse::{end, start, strict_id};
use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;
use crate::reply::streams::{write_entries, write_id};

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("xack", xack),
    ("xpending", xpending),
    ("xclaim", xclaim),
    ("xautoclaim", xautoclaim),
];

/// Handles XACK.
fn xack(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let (key, group) = (store.key(arguments[1]), arguments[2]);
    // As in Redis, invalid IDs are reported only if the group exists.
    let (ids, error) = match ids(&arguments[3..]) {
        Ok(ids) => (ids, None),
        Err(error) => (SmallVec::new(), Some(error)),
    };
    let acknowledged = store.write(store.shards_of([&key]), |writer| {
        let found = writer.stream_acknowledge(database, &key, group, &ids)?;
        match &error {
            Some(error) if found.is_some() => Err(error.clone().into()),
            _ => Ok::<_, Failure>(found.unwrap_or(0)),
        }
    })?;
    reply.integer(acknowledged as i64);
    Ok(())
}

/// Handles XPENDING.
fn xpending(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let group = arguments[2];
    let database = context.database();
    match arguments.len() {
        3 => {}
        6..=9 => return pending_range(context, arguments, reply),
        _ => return Err(CommandError::SYNTAX.into()),
    }
    let info = context.look_at(arguments[1], |reader, key| {
        match reader.stream(database, key)? {
            Some(stream) => Ok(stream.pending_info(reader.view(), group)?),
            None => Ok(None),
        }
    })?;
    let info = info.ok_or_else(|| no_group(arguments[1], group, ""))?;
    reply.array(4);
    reply.integer(info.count as i64);
    match info.edges {
        None => {
            reply.null();
            reply.null();
            reply.null_array();
        }
        Some((first, last)) => {
            write_id(first, reply);
            write_id(last, reply);
            reply.array(info.consumers.len());
            for (name, pending) in &info.consumers {
                reply.array(2);
                reply.bulk(name);
                reply.bulk(pending.to_string().as_bytes());
            }
        }
    }
    Ok(())
}

fn pending_range(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (mut idle, mut place) = (0, 3);
    if is_keyword(arguments[3], "IDLE") {
        idle = integer(arguments[4])?;
        if arguments.len() < 8 {
            return Err(CommandError::SYNTAX.into());
        }
        place = 5;
    }
    let count = u64::try_from(integer(arguments[place + 2])?).unwrap_or(0);
    let range = IdRange {
        from: start(arguments[place])?,
        to: end(arguments[place + 1])?,
        count,
        reverse: false,
    };
    let consumer = arguments.get(place + 3).copied();
    let (group, database) = (arguments[2], context.database());
    let now = context.store.now();
    // If an entry's delivery time is in the future, its idle time is negative.
    let before = match idle {
        0 => u64::MAX,
        idle => u64::try_from((now as i64).saturating_sub(idle)).unwrap_or(0),
    };
    let found = context.look_at(arguments[1], |reader, key| {
        match reader.stream(database, key)? {
            Some(stream) => {
                Ok(stream.pending_range(reader.view(), (group, consumer), range, before)?)
            }
            None => Ok(None),
        }
    })?;
    let found = found.ok_or_else(|| no_group(arguments[1], group, ""))?;
    reply.array(found.len());
    for entry in &found {
        reply.array(4);
        write_id(entry.id, reply);
        reply.bulk(&entry.consumer);
        reply.integer(now.saturating_sub(entry.time) as i64);
        reply.integer(entry.deliveries as i64);
    }
    Ok(())
}

/// Parses an integer. Returns `error` if the argument is invalid.
fn number(argument: &[u8], error: &'static str) -> Result<i64, CommandError> {
    parse_integer(argument).ok_or(CommandError::fixed(error))
}

fn write_claimed(claimed: &Claimed, only_ids: bool, reply: &mut dyn Reply) {
    if !only_ids {
        return write_entries(&claimed.entries, reply);
    }
    let ids = claimed.entries.ids();
    reply.array(ids.len());
    ids.iter().for_each(|id| write_id(*id, reply));
}

/// Handles XCLAIM.
fn xclaim(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let now = i64::try_from(store.now()).unwrap_or(i64::MAX);
    let request = claim_request(arguments, now);
    let claimed = store.write(store.shards_of([&key]), |writer| {
        let is_there = match writer.stream(database, &key)? {
            Some(stream) => stream.has_group(writer.view(), arguments[2])?,
            None => false,
        };
        if !is_there {
            return Err(no_group(arguments[1], arguments[2], "").into());
        }
        let (claim, ids) = request.as_ref().map_err(Clone::clone)?;
        Ok::<_, Failure>(writer.stream_claim(database, &key, claim, ids)?)
    })?;
    let only_ids = request.is_ok_and(|(claim, _)| claim.only_ids);
    write_claimed(&claimed.unwrap_or_default(), only_ids, reply);
    Ok(())
}

/// Parses the options and the IDs of XCLAIM.
fn claim_request<'a>(
    arguments: &'a [&'a [u8]],
    now: i64,
) -> Result<(Claim<'a>, Vec<StreamId>), CommandError> {
    let idle = number(
        arguments[4],
        "ERR Invalid min-idle-time argument for XCLAIM",
    )?;
    let ids: Vec<StreamId> = arguments[5..]
        .iter()
        .map_while(|text| strict_id(text).ok())
        .collect();
    let mut claim = Claim {
        group: arguments[2],
        consumer: arguments[3],
        idle: u64::try_from(idle).unwrap_or(0),
        time: 0,
        deliveries: None,
        force: false,
        only_ids: false,
        last: StreamId::MIN,
    };
    let mut time = None;
    let mut options = arguments[5 + ids.len()..].iter();
    while let Some(option) = options.next() {
        let more = options.len() > 0;
        let mut next = || options.next().copied().unwrap_or_default();
        if is_keyword(option, "FORCE") {
            claim.force = true;
        } else if is_keyword(option, "JUSTID") {
            claim.only_ids = true;
        } else if is_keyword(option, "IDLE") && more {
            let idle = number(next(), "ERR Invalid IDLE option argument for XCLAIM")?;
            time = Some(now.wrapping_sub(idle)).filter(|time| *time != -1);
        } else if is_keyword(option, "TIME") && more {
            let at = number(next(), "ERR Invalid TIME option argument for XCLAIM")?;
            time = Some(at).filter(|time| *time != -1);
        } else if is_keyword(option, "RETRYCOUNT") && more {
            let count = number(next(), "ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
            claim.deliveries = u64::try_from(count).ok();
        } else if is_keyword(option, "LASTID") && more {
            claim.last = strict_id(next())?;
        } else {
            return Err(CommandError::quoting(
                "ERR Unrecognized XCLAIM option ",
                option,
                "",
            ));
        }
    }
    let time = time.filter(|time| (0..=now).contains(time)).unwrap_or(now);
    claim.time = time as u64;
    Ok((claim, ids))
}

/// Handles XAUTOCLAIM.
fn xautoclaim(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    const COUNT_MAX: i64 = i64::MAX / 16;
    let idle = number(
        arguments[4],
        "ERR Invalid min-idle-time argument for XAUTOCLAIM",
    )?;
    let from = start(arguments[5])?;
    let (mut count, mut only_ids) = (100, false);
    let mut options = arguments[6..].iter();
    while let Some(option) = options.next() {
        if is_keyword(option, "JUSTID") {
            only_ids = true;
        } else if is_keyword(option, "COUNT")
            && let Some(most) = options.next()
        {
            let most = parse_integer(most).filter(|most| (1..=COUNT_MAX).contains(most));
            count = most.ok_or(CommandError::fixed("ERR COUNT must be > 0"))? as u64;
        } else {
            return Err(CommandError::SYNTAX.into());
        }
    }
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let claim = Claim {
        group: arguments[2],
        consumer: arguments[3],
        idle: u64::try_from(idle).unwrap_or(0),
        time: 0,
        deliveries: None,
        force: false,
        only_ids,
        last: StreamId::MIN,
    };
    let claimed = store.stream_claim_from(database, &key, &claim, (from, count))?;
    let claimed = claimed.ok_or_else(|| no_group(arguments[1], arguments[2], ""))?;
    reply.array(3);
    write_id(claimed.next.unwrap_or_default(), reply);
    write_claimed(&claimed, only_ids, reply);
    reply.array(claimed.gone.len());
    claimed.gone.iter().for_each(|id| write_id(*id, reply));
    Ok(())
}
