//! Implements the blocking commands, which wait until a key contains an element for them.

use std::time::Duration;

use undercroft_engine::Access;
use undercroft_engine::lists::End;
use undercroft_engine::waiting::{Answer, Take, WaitOutcome, Wanted};

use super::lists::{PopRequest, end};
use super::sorted::pop::Request;
use crate::arguments::CommandError;
use crate::context::{Context, HandlerEntry};
use crate::failure::Outcome;
use crate::reply::Reply;
use crate::session::wait::{self, Shape, Wait, timeout};

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("blpop", blpop),
    ("brpop", brpop),
    ("blmove", blmove),
    ("brpoplpush", brpoplpush),
    ("blmpop", blmpop),
    ("bzpopmin", bzpopmin),
    ("bzpopmax", bzpopmax),
    ("bzmpop", bzmpop),
];

/// Handles BLPOP.
fn blpop(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    pop(context, arguments, End::Left, reply)
}

/// Handles BRPOP.
fn brpop(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    pop(context, arguments, End::Right, reply)
}

fn pop(context: &mut Context<'_>, arguments: &[&[u8]], end: End, reply: &mut dyn Reply) -> Outcome {
    let take = Take::Items { end, count: 1 };
    of_keys(context, arguments, take, Shape::Pair, reply)
}

/// Handles BZPOPMIN.
fn bzpopmin(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (highest, count) = (false, 1);
    let take = Take::Scored { highest, count };
    of_keys(context, arguments, take, Shape::Member, reply)
}

/// Handles BZPOPMAX.
fn bzpopmax(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (highest, count) = (true, 1);
    let take = Take::Scored { highest, count };
    of_keys(context, arguments, take, Shape::Member, reply)
}

/// Runs a blocking command whose arguments are keys followed by a timeout.
fn of_keys(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    take: Take,
    shape: Shape,
    reply: &mut dyn Reply,
) -> Outcome {
    let Some((time, keys)) = arguments[1..].split_last() else {
        return Err(CommandError::SYNTAX.into());
    };
    let time = timeout(time)?;
    run(context, keys, take, time, shape, reply)
}

/// Handles BLMOVE.
fn blmove(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (from, to) = (end(arguments[3])?, end(arguments[4])?);
    move_item(context, &arguments[1..3], from, to, arguments[5], reply)
}

/// Handles BRPOPLPUSH.
fn brpoplpush(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (keys, time) = (&arguments[1..3], arguments[3]);
    move_item(context, keys, End::Right, End::Left, time, reply)
}

fn move_item(
    context: &mut Context<'_>,
    keys: &[&[u8]],
    from: End,
    to: End,
    time: &[u8],
    reply: &mut dyn Reply,
) -> Outcome {
    let time = timeout(time)?;
    let take = Take::Move { from, to };
    run(context, keys, take, time, Shape::Item, reply)
}

/// Handles BLMPOP.
fn blmpop(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let PopRequest { keys, end, count } = PopRequest::parse(&arguments[2..])?;
    let time = timeout(arguments[1])?;
    let take = Take::Items { end, count };
    run(context, keys, take, time, Shape::Items, reply)
}

/// Handles BZMPOP.
fn bzmpop(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let Request {
        keys,
        highest,
        count,
    } = Request::parse(&arguments[2..])?;
    let time = timeout(arguments[1])?;
    let take = Take::Scored { highest, count };
    run(context, keys, take, time, Shape::Members, reply)
}

/// Records an access to the key from which an element was popped, and to the key to which it was
/// moved.
fn note_uses(store: Access<'_>, wanted: &Wanted<'_>, answer: &Answer) {
    if let Answer::Taken(taken) = answer {
        store.note_use(&store.key(&taken.key));
        if let (Take::Move { .. }, [_, to]) = (wanted.take, wanted.keys) {
            store.note_use(&store.key(to));
        }
    }
}

/// Pops elements if any exist, and otherwise blocks until they arrive. Within a transaction, a
/// command never blocks.
fn run(
    context: &mut Context<'_>,
    keys: &[&[u8]],
    take: Take,
    time: Option<Duration>,
    shape: Shape,
    reply: &mut dyn Reply,
) -> Outcome {
    let (store, database) = (context.store, context.database());
    let wanted = Wanted {
        database,
        keys,
        take,
    };
    if store.is_running() {
        match store.take_now(&wanted)? {
            Some(answer) => {
                note_uses(store, &wanted, &answer);
                wait::write(shape, &answer, reply)?;
            }
            None if shape == Shape::Item => reply.null(),
            None => reply.null_array(),
        }
        return Ok(());
    }
    match context
        .host
        .inbox
        .take_or_wait(context.session, store, &wanted, time)?
    {
        WaitOutcome::Answered(answer) => {
            note_uses(store, &wanted, &answer);
            wait::write(shape, &answer, reply)?;
        }
        WaitOutcome::Waiting(ticket) => {
            context.session.waiting = Some(Wait::new(ticket, time, shape))
        }
    }
    Ok(())
}
