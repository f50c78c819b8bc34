//! Implements the commands that add and remove members of sorted sets: ZADD, ZINCRBY and ZREM.

use undercroft_engine::sorted_sets::AddRule;

use super::limits;
use crate::algorithms::double::parse_double;
use crate::arguments::{CommandError, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::Outcome;
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] =
    &[("zadd", zadd), ("zrem", zrem), ("zincrby", zincrby)];

/// Parses the score of a member.
pub(crate) fn score(argument: &[u8]) -> Result<f64, CommandError> {
    parse_double(argument).ok_or(CommandError::NOT_A_FLOAT)
}

/// Handles ZADD.
fn zadd(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    add(context, arguments, AddRule::default(), reply)
}

/// Handles ZINCRBY, which is ZADD with the INCR option and also accepts ZADD's other options.
fn zincrby(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let rule = AddRule {
        increment: true,
        ..AddRule::default()
    };
    add(context, arguments, rule, reply)
}

fn add(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    mut rule: AddRule,
    reply: &mut dyn Reply,
) -> Outcome {
    let mut count_changed = false;
    let mut rest = &arguments[2..];
    while let [option, behind @ ..] = rest {
        let is = |name: &str| is_keyword(option, name);
        match option {
            // An argument that starts with a digit is the first score, so no more options follow.
            [b'0'..=b'9', ..] => break,
            _ if is("NX") => rule.only_new = true,
            _ if is("XX") => rule.only_existing = true,
            _ if is("GT") => rule.greater = true,
            _ if is("LT") => rule.less = true,
            _ if is("CH") => count_changed = true,
            _ if is("INCR") => rule.increment = true,
            _ => break,
        }
        rest = behind;
    }
    let members = parse_members(rest, rule)?;
    let (store, database, limits) = (context.store, context.database(), limits(context));
    let key = store.key(arguments[1]);
    let added = store.write(store.shards_of([&key]), |writer| {
        writer.sorted_add(database, &key, &members, rule, &limits)
    })?;
    store.note_use(&key);
    match added.score {
        _ if !rule.increment && count_changed => {
            reply.integer((added.added + added.updated) as i64)
        }
        _ if !rule.increment => reply.integer(added.added as i64),
        Some(score) => reply.double(score),
        None => reply.null(),
    }
    Ok(())
}

/// Checks that the options are compatible, and parses the members and their scores.
fn parse_members<'a>(
    rest: &[&'a [u8]],
    rule: AddRule,
) -> Result<Vec<(&'a [u8], f64)>, CommandError> {
    let (pairs, []) = rest.as_chunks::<2>() else {
        return Err(CommandError::SYNTAX);
    };
    if pairs.is_empty() {
        return Err(CommandError::SYNTAX);
    }
    if rule.only_new && rule.only_existing {
        return Err(CommandError::fixed(
            "ERR XX and NX options at the same time are not compatible",
        ));
    }
    if (rule.greater || rule.less) && rule.only_new || rule.greater && rule.less {
        return Err(CommandError::fixed(
            "ERR GT, LT, and/or NX options at the same time are not compatible",
        ));
    }
    if rule.increment && pairs.len() > 1 {
        return Err(CommandError::fixed(
            "ERR INCR option supports a single increment-element pair",
        ));
    }
    pairs
        .iter()
        .map(|[number, member]| Ok((*member, score(number)?)))
        .collect()
}

/// Handles ZREM.
fn zrem(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let removed = store.write(store.shards_of([&key]), |writer| {
        writer.sorted_remove(database, &key, &arguments[2..])
    })?;
    store.note_use(&key);
    reply.integer(removed as i64);
    Ok(())
}

/// Returns `true` if `rest` consists of the option `name`, and `false` if it is empty. Any other
/// arguments are a syntax error.
pub(super) fn only_option(rest: &[&[u8]], name: &str) -> Result<bool, CommandError> {
    match rest {
        [] => Ok(false),
        [option] if is_keyword(option, name) => Ok(true),
        _ => Err(CommandError::SYNTAX),
    }
}
