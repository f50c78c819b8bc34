//! Implements ZRANGE and its variants, which read, store or remove a range of members.

use undercroft_engine::events::KeyEvent;
use undercroft_engine::sorted_sets::{Bounds, Limit, Scored};

use super::read::read;
use super::{bounds, limits, write_scored};
use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("zrange", zrange),
    ("zrevrange", zrevrange),
    ("zrangebyscore", zrangebyscore),
    ("zrevrangebyscore", zrevrangebyscore),
    ("zrangebylex", zrangebylex),
    ("zrevrangebylex", zrevrangebylex),
    ("zrangestore", zrangestore),
    ("zremrangebyrank", zremrangebyrank),
    ("zremrangebyscore", zremrangebyscore),
    ("zremrangebylex", zremrangebylex),
];

/// The property of members that the bounds of a range refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Text,
}

/// The properties that the name of a range command implies. A property is `None` if the options
/// determine it.
#[derive(Clone, Copy, Debug)]
struct Form {
    by: Option<By>,
    reverse: Option<bool>,
    stores: bool,
}

#[derive(Clone, Copy, Debug)]
struct Request<'a> {
    bounds: Bounds<'a>,
    limit: Limit,
    reverse: bool,
    with_scores: bool,
}

impl<'a> Request<'a> {
    /// Parses the arguments that follow the key.
    fn parse(arguments: &[&'a [u8]], form: Form) -> Result<Request<'a>, CommandError> {
        let (mut by, mut reverse, mut with_scores) = (form.by, form.reverse, false);
        let mut limit = Limit::ALL;
        let mut rest = &arguments[2..];
        while let [option, behind @ ..] = rest {
            rest = behind;
            if !form.stores && is_keyword(option, "WITHSCORES") {
                with_scores = true;
            } else if is_keyword(option, "LIMIT")
                && let [offset, count, behind @ ..] = behind
            {
                limit.offset = integer(offset)?;
                limit.count = integer(count)?;
                rest = behind;
            } else if form.reverse.is_none() && reverse.is_none() && is_keyword(option, "REV") {
                reverse = Some(true);
            } else if by.is_none() && is_keyword(option, "BYLEX") {
                by = Some(By::Text);
            } else if by.is_none() && is_keyword(option, "BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
        if limit.count != -1 && by == By::Rank {
            return Err(CommandError::fixed(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if with_scores && by == By::Text {
            return Err(CommandError::fixed(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let (start, stop) = (arguments[0], arguments[1]);
        let (low, high) = if reverse {
            (stop, start)
        } else {
            (start, stop)
        };
        Ok(Request {
            bounds: match by {
                By::Rank => bounds::ranks(start, stop)?,
                By::Score => bounds::scores(low, high)?,
                By::Text => bounds::texts(low, high)?,
            },
            // As in Redis, the offset of a LIMIT whose count is -1 is ignored for a range of ranks.
            limit: if by == By::Rank { Limit::ALL } else { limit },
            reverse,
            with_scores,
        })
    }
}

fn answer(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    by: Option<By>,
    reverse: Option<bool>,
    reply: &mut dyn Reply,
) -> Outcome {
    let form = Form {
        by,
        reverse,
        stores: false,
    };
    let request = Request::parse(&arguments[2..], form)?;
    let (bounds, limit, reverse) = (&request.bounds, request.limit, request.reverse);
    if request.with_scores {
        let scored = read(context, arguments[1], |reader, set| {
            let mut scored = Scored::new();
            set.append_range(reader.view(), bounds, limit, reverse, &mut scored)?;
            Ok(scored)
        })?;
        write_scored(context, &scored.unwrap_or_default(), true, reply);
        return Ok(());
    }
    let database = context.database();
    let mut members = std::mem::take(&mut context.session.read_buffers.items);
    let found = context.look_into(arguments[1], &mut members, |reader, key, members| {
        let Some(set) = reader.sorted_set(database, key)? else {
            return Ok(None);
        };
        set.append_members(reader.view(), bounds, limit, reverse, members)?;
        Ok(Some(()))
    });
    if found.is_ok() {
        reply.array(members.len());
        reply.bulks(&members);
    }
    // Return the buffer to the session, so that the next command can reuse it.
    context.session.read_buffers.items = members;
    found.map(drop)
}

/// Handles ZRANGE.
fn zrange(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    answer(context, arguments, None, None, reply)
}

/// Handles ZREVRANGE.
fn zrevrange(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    answer(context, arguments, Some(By::Rank), Some(true), reply)
}

/// Handles ZRANGEBYSCORE.
fn zrangebyscore(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    answer(context, arguments, Some(By::Score), Some(false), reply)
}

/// Handles ZREVRANGEBYSCORE.
fn zrevrangebyscore(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    answer(context, arguments, Some(By::Score), Some(true), reply)
}

/// Handles ZRANGEBYLEX.
fn zrangebylex(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    answer(context, arguments, Some(By::Text), Some(false), reply)
}

/// Handles ZREVRANGEBYLEX.
fn zrevrangebylex(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    answer(context, arguments, Some(By::Text), Some(true), reply)
}

/// Handles ZRANGESTORE.
fn zrangestore(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let form = Form {
        by: None,
        reverse: None,
        stores: true,
    };
    let request = Request::parse(&arguments[3..], form)?;
    let (store, database, limits) = (context.store, context.database(), limits(context));
    let (target, source) = (store.key(arguments[1]), store.key(arguments[2]));
    let mut scored = Scored::new();
    let shards = store.shards_of([&target, &source]);
    let found = store.write_into(shards, &mut scored, |writer, scored| {
        let set = writer.sorted_set(database, &source)?;
        if let Some(set) = &set {
            let (bounds, limit) = (&request.bounds, request.limit);
            set.append_range(writer.view(), bounds, limit, request.reverse, scored)?;
            // Redis builds a large sorted set directly only if it knows the number of members in
            // advance. Otherwise, it first adds the members to a packed set, which discards the
            // sign of negative zeros.
            let is_counted = matches!(bounds, Bounds::Ranks(..));
            if !is_counted || scored.len() as u64 <= limits.entries {
                scored.drop_signs(&limits);
            }
        }
        if set.is_none() {
            writer.tell(KeyEvent::KeyMiss, database, &source);
        }
        writer.tell_as(KeyEvent::ZRangeStore, database, &target, |writer| {
            writer.sorted_store(database, &target, scored, &limits)
        })?;
        Ok::<_, Failure>(set.is_some())
    })?;
    context.count_lookup(found);
    if found {
        store.note_use(&source);
    }
    store.note_use(&target);
    reply.integer(scored.len() as i64);
    Ok(())
}

fn remove(
    context: &mut Context<'_>,
    key: &[u8],
    bounds: &Bounds<'_>,
    reply: &mut dyn Reply,
) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(key);
    let removed = store.write(store.shards_of([&key]), |writer| {
        writer.sorted_remove_range(database, &key, bounds)
    })?;
    store.note_use(&key);
    reply.integer(removed as i64);
    Ok(())
}

/// Handles ZREMRANGEBYRANK.
fn zremrangebyrank(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let bounds = bounds::ranks(arguments[2], arguments[3])?;
    remove(context, arguments[1], &bounds, reply)
}

/// Handles ZREMRANGEBYSCORE.
fn zremrangebyscore(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let bounds = bounds::scores(arguments[2], arguments[3])?;
    remove(context, arguments[1], &bounds, reply)
}

/// Handles ZREMRANGEBYLEX.
fn zremrangebylex(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let bounds = bounds::texts(arguments[2], arguments[3])?;
    remove(context, arguments[1], &bounds, reply)
}
