//! Implements the list commands.

use undercroft_engine::lists::{End, Inserted, Positions};
use undercroft_numbers::parse_integer;

use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("lpush", lpush),
    ("rpush", rpush),
    ("lpushx", lpushx),
    ("rpushx", rpushx),
    ("lpop", lpop),
    ("rpop", rpop),
    ("llen", llen),
    ("lrange", lrange),
    ("lindex", lindex),
    ("lset", lset),
    ("linsert", linsert),
    ("lrem", lrem),
    ("ltrim", ltrim),
    ("lpos", lpos),
    ("lmove", lmove),
    ("rpoplpush", rpoplpush),
    ("lmpop", lmpop),
];

/// Handles LPUSH.
fn lpush(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    push(context, arguments, End::Left, false, reply)
}

/// Handles RPUSH.
fn rpush(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    push(context, arguments, End::Right, false, reply)
}

/// Handles LPUSHX.
fn lpushx(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    push(context, arguments, End::Left, true, reply)
}

/// Handles RPUSHX.
fn rpushx(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    push(context, arguments, End::Right, true, reply)
}

fn push(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    end: End,
    if_present: bool,
    reply: &mut dyn Reply,
) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let length = store.write(store.shards_of([&key]), |writer| {
        Ok::<_, Failure>(writer.list_push(database, &key, end, &arguments[2..], if_present)?)
    })?;
    store.note_use(&key);
    reply.integer(length as i64);
    Ok(())
}

/// Handles LPOP.
fn lpop(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    pop(context, arguments, End::Left, "lpop", reply)
}

/// Handles RPOP.
fn rpop(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    pop(context, arguments, End::Right, "rpop", reply)
}

fn pop(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    end: End,
    name: &str,
    reply: &mut dyn Reply,
) -> Outcome {
    let count = match arguments {
        [_, _] => None,
        [_, _, count] => Some(positive(
            count,
            "ERR value is out of range, must be positive",
        )?),
        _ => return Err(CommandError::wrong_arity(name).into()),
    };
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let items = &mut context.session.read_buffers.items;
    let found = store.write_into(store.shards_of([&key]), items, |writer, items| {
        Ok::<_, Failure>(writer.list_pop(database, &key, end, count.unwrap_or(1), items)?)
    })?;
    store.note_use(&key);
    let items = &context.session.read_buffers.items;
    match count {
        None if items.is_empty() => reply.null(),
        None => reply.bulk(items.get(0)),
        Some(_) if !found => reply.null_array(),
        Some(_) => {
            reply.array(items.len());
            reply.bulks(items);
        }
    }
    Ok(())
}

/// Parses a nonnegative integer. Returns `error` if the argument is invalid.
fn positive(argument: &[u8], error: &'static str) -> Result<u64, CommandError> {
    let value = parse_integer(argument).and_then(|value| u64::try_from(value).ok());
    value.ok_or(CommandError::fixed(error))
}

/// Handles LLEN.
fn llen(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let length = store.read(store.shards_of([&key]), |reader| {
        Ok::<_, Failure>(reader.list_length(database, &key)?)
    })?;
    context.looked_up(&key, length > 0);
    reply.integer(length as i64);
    Ok(())
}

/// Handles LRANGE.
fn lrange(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let range = (integer(arguments[2])?, integer(arguments[3])?);
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let items = &mut context.session.read_buffers.items;
    let found = store.read_into(store.shards_of([&key]), items, |reader, items| {
        Ok::<_, Failure>(reader.list_range(database, &key, range, items)?)
    })?;
    context.looked_up(&key, found);
    let items = &context.session.read_buffers.items;
    reply.array(items.len());
    reply.bulks(items);
    Ok(())
}

/// Handles LINDEX.
fn lindex(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let index = integer(arguments[2]);
    let items = &mut context.session.read_buffers.items;
    let (found, there) = store.read_into(store.shards_of([&key]), items, |reader, items| {
        let index = index.as_ref().copied().unwrap_or(0);
        Ok::<_, Failure>(reader.list_index(database, &key, index, items)?)
    })?;
    context.looked_up(&key, found);
    if found {
        // As in Redis, an invalid index is reported only if the key exists.
        index?;
    }
    if there {
        reply.bulk(context.session.read_buffers.items.get(0));
    } else {
        reply.null();
    }
    Ok(())
}

/// Handles LSET.
fn lset(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    store.write(store.shards_of([&key]), |writer| {
        if writer.list_length(database, &key)? == 0 {
            return Err(CommandError::NO_SUCH_KEY.into());
        }
        let index = integer(arguments[2])?;
        match writer.list_set(database, &key, index, arguments[3])? {
            (_, true) => Ok::<_, Failure>(()),
            (_, false) => Err(CommandError::fixed("ERR index out of range").into()),
        }
    })?;
    store.note_use(&key);
    reply.ok();
    Ok(())
}

/// Handles LINSERT.
fn linsert(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let before = is_keyword(arguments[2], "BEFORE");
    if !before && !is_keyword(arguments[2], "AFTER") {
        return Err(CommandError::SYNTAX.into());
    }
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let inserted = store.write(store.shards_of([&key]), |writer| {
        let (pivot, value) = (arguments[3], arguments[4]);
        Ok::<_, Failure>(writer.list_insert(database, &key, before, pivot, value)?)
    })?;
    store.note_use(&key);
    reply.integer(match inserted {
        Inserted::NoKey => 0,
        Inserted::NoPivot => -1,
        Inserted::Length(length) => length as i64,
    });
    Ok(())
}

/// Handles LREM.
fn lrem(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let count = integer(arguments[2])?;
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let removed = store.write(store.shards_of([&key]), |writer| {
        Ok::<_, Failure>(writer.list_remove(database, &key, count, arguments[3])?)
    })?;
    store.note_use(&key);
    reply.integer(removed as i64);
    Ok(())
}

/// Handles LTRIM.
fn ltrim(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (start, stop) = (integer(arguments[2])?, integer(arguments[3])?);
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    store.write(store.shards_of([&key]), |writer| {
        Ok::<_, Failure>(writer.list_trim(database, &key, start, stop)?)
    })?;
    store.note_use(&key);
    reply.ok();
    Ok(())
}

/// Handles LPOS.
fn lpos(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (mut rank, mut count, mut most) = (1, None, 0);
    let mut rest = &arguments[3..];
    while let [option, value, behind @ ..] = rest {
        rest = behind;
        if is_keyword(option, "RANK") {
            rank = rank_argument(value)?;
        } else if is_keyword(option, "COUNT") {
            count = Some(positive(value, "ERR COUNT can't be negative")?);
        } else if is_keyword(option, "MAXLEN") {
            most = positive(value, "ERR MAXLEN can't be negative")?;
        } else {
            return Err(CommandError::SYNTAX.into());
        }
    }
    if !rest.is_empty() {
        return Err(CommandError::SYNTAX.into());
    }
    let wanted = Positions {
        rank,
        count: count.unwrap_or(1),
        most,
    };
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let mut positions = Vec::new();
    let found = store.read_into(
        store.shards_of([&key]),
        &mut positions,
        |reader, positions| {
            let text = arguments[2];
            Ok::<_, Failure>(reader.list_positions(database, &key, text, wanted, positions)?)
        },
    )?;
    context.looked_up(&key, found);
    match (count, positions.as_slice()) {
        (None, [position, ..]) => reply.integer(*position as i64),
        (None, []) => reply.null(),
        (Some(_), positions) => {
            reply.array(positions.len());
            for position in positions {
                reply.integer(*position as i64);
            }
        }
    }
    Ok(())
}

/// Parses the value of LPOS' RANK option.
fn rank_argument(argument: &[u8]) -> Result<i64, CommandError> {
    match integer(argument)? {
        0 => Err(CommandError::fixed(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list",
        )),
        // The minimum integer has no positive counterpart. Redis treats it as the first match from
        // the tail.
        i64::MIN => Ok(-1),
        rank => Ok(rank),
    }
}

/// Parses the keyword LEFT or RIGHT.
pub(crate) fn end(argument: &[u8]) -> Result<End, CommandError> {
    if is_keyword(argument, "LEFT") {
        Ok(End::Left)
    } else if is_keyword(argument, "RIGHT") {
        Ok(End::Right)
    } else {
        Err(CommandError::SYNTAX)
    }
}

/// Handles LMOVE.
fn lmove(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (from_end, to_end) = (end(arguments[3])?, end(arguments[4])?);
    move_item(context, arguments, from_end, to_end, reply)
}

/// Handles RPOPLPUSH.
fn rpoplpush(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    move_item(context, arguments, End::Right, End::Left, reply)
}

fn move_item(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    from_end: End,
    to_end: End,
    reply: &mut dyn Reply,
) -> Outcome {
    let (store, database) = (context.store, context.database());
    let (from, to) = (store.key(arguments[1]), store.key(arguments[2]));
    let items = &mut context.session.read_buffers.items;
    let moved = store.write_into(store.shards_of([&from, &to]), items, |writer, items| {
        Ok::<_, Failure>(writer.list_move(database, (&from, from_end), (&to, to_end), items)?)
    })?;
    if moved {
        store.note_use(&from);
        store.note_use(&to);
        reply.bulk(context.session.read_buffers.items.get(0));
    } else {
        reply.null();
    }
    Ok(())
}

/// The parsed arguments of LMPOP or BLMPOP.
pub(super) struct PopRequest<'a> {
    pub(super) keys: &'a [&'a [u8]],
    pub(super) end: End,
    pub(super) count: u64,
}

impl<'a> PopRequest<'a> {
    /// Parses the arguments, which start with `numkeys`.
    pub(super) fn parse(arguments: &'a [&'a [u8]]) -> Result<PopRequest<'a>, CommandError> {
        let above_zero = |argument: &[u8], error| match positive(argument, error)? {
            0 => Err(CommandError::fixed(error)),
            number => Ok(number),
        };
        let keys = above_zero(arguments[0], "ERR numkeys should be greater than 0")?;
        let keys = usize::try_from(keys).unwrap_or(usize::MAX);
        let Some((keys, [place, rest @ ..])) = arguments[1..].split_at_checked(keys) else {
            return Err(CommandError::SYNTAX);
        };
        let end = end(place)?;
        let count = match rest {
            [] => 1,
            [option, count, rest @ ..] if is_keyword(option, "COUNT") => {
                let count = above_zero(count, "ERR count should be greater than 0")?;
                if !rest.is_empty() {
                    return Err(CommandError::SYNTAX);
                }
                count
            }
            _ => return Err(CommandError::SYNTAX),
        };
        Ok(PopRequest { keys, end, count })
    }
}

/// Handles LMPOP.
fn lmpop(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let request = PopRequest::parse(&arguments[1..])?;
    let (store, database) = (context.store, context.database());
    let keys = context.keys(request.keys);
    let items = &mut context.session.read_buffers.items;
    let found = store.write_into(store.shards_of(&keys), items, |writer, items| {
        for (index, key) in keys.iter().enumerate() {
            if writer.list_pop(database, key, request.end, request.count, items)? {
                return Ok(Some(index));
            }
        }
        Ok::<_, Failure>(None)
    })?;
    match found {
        None => reply.null_array(),
        Some(index) => {
            store.note_use(&keys[index]);
            let items = &context.session.read_buffers.items;
            reply.array(2);
            reply.bulk(request.keys[index]);
            reply.array(items.len());
            reply.bulks(items);
        }
    }
    Ok(())
}
