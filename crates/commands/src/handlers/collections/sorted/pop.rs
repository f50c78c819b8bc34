//! Implements ZPOPMIN, ZPOPMAX and ZMPOP.

use undercroft_engine::ShardSet;
use undercroft_engine::sorted_sets::Scored;
use undercroft_numbers::parse_integer;

use super::write_scored;
use crate::arguments::{CommandError, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::protocol::Protocol;
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] =
    &[("zpopmin", zpopmin), ("zpopmax", zpopmax), ("zmpop", zmpop)];

/// Handles ZPOPMIN.
fn zpopmin(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    pop(context, arguments, false, reply)
}

/// Handles ZPOPMAX.
fn zpopmax(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    pop(context, arguments, true, reply)
}

fn pop(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    highest: bool,
    reply: &mut dyn Reply,
) -> Outcome {
    let count = match &arguments[2..] {
        [] => None,
        [count] => {
            let count = parse_integer(count).and_then(|count| u64::try_from(count).ok());
            let count = count.ok_or(CommandError::fixed(
                "ERR value is out of range, must be positive",
            ));
            Some(count?)
        }
        _ => return Err(CommandError::SYNTAX.into()),
    };
    let (store, database) = (context.store, context.database());
    let mut popped = Scored::new();
    store.sorted_pop(
        database,
        arguments[1],
        highest,
        count.unwrap_or(1),
        &mut popped,
    )?;
    // If the command has no count, the reply is not a list of pairs, even in RESP3.
    if context.session.protocol == Protocol::Resp3 && count.is_some() {
        write_scored(context, &popped, true, reply);
        return Ok(());
    }
    reply.array(popped.len() * 2);
    for (member, score) in popped.iter() {
        reply.bulk(member);
        reply.double(score);
    }
    Ok(())
}

/// The parsed arguments of ZMPOP or BZMPOP.
pub(in crate::handlers) struct Request<'a> {
    pub(in crate::handlers) keys: &'a [&'a [u8]],
    pub(in crate::handlers) highest: bool,
    pub(in crate::handlers) count: u64,
}

impl<'a> Request<'a> {
    /// Parses the arguments, which start with `numkeys`.
    pub(in crate::handlers) fn parse(
        arguments: &'a [&'a [u8]],
    ) -> Result<Request<'a>, CommandError> {
        let positive = |argument: &[u8], error: &'static str| {
            let number = parse_integer(argument).and_then(|number| u64::try_from(number).ok());
            number
                .filter(|&number| number > 0)
                .ok_or(CommandError::fixed(error))
        };
        let number = positive(arguments[0], "ERR numkeys should be greater than 0")?;
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let rest = &arguments[1..];
        if number >= rest.len() {
            return Err(CommandError::SYNTAX);
        }
        let (keys, rest) = rest.split_at(number);
        let highest = match rest[0].to_ascii_uppercase().as_slice() {
            b"MIN" => false,
            b"MAX" => true,
            _ => return Err(CommandError::SYNTAX),
        };
        let count = match &rest[1..] {
            [] => 1,
            [option, count, more @ ..] if is_keyword(option, "COUNT") => {
                let count = positive(count, "ERR count should be greater than 0")?;
                if !more.is_empty() {
                    return Err(CommandError::SYNTAX);
                }
                count
            }
            _ => return Err(CommandError::SYNTAX),
        };
        Ok(Request {
            keys,
            highest,
            count,
        })
    }
}

/// Handles ZMPOP.
fn zmpop(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let request = Request::parse(&arguments[1..])?;
    let (store, database) = (context.store, context.database());
    let keys = context.keys(request.keys);
    let shards: ShardSet = store.shards_of(&keys);
    let mut popped = Scored::new();
    let from = store.write_into(shards, &mut popped, |writer, popped| {
        for (index, key) in keys.iter().enumerate() {
            if writer.sorted_pop(database, key, request.highest, request.count, popped)? {
                return Ok::<_, Failure>(Some(index));
            }
        }
        Ok(None)
    })?;
    let Some(from) = from else {
        reply.null_array();
        return Ok(());
    };
    store.note_use(&keys[from]);
    reply.array(2);
    reply.bulk(request.keys[from]);
    reply.array(popped.len());
    for (member, score) in popped.iter() {
        reply.array(2);
        reply.bulk(member);
        reply.double(score);
    }
    Ok(())
}
