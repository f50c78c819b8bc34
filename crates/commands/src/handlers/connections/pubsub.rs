//! Implements SUBSCRIBE, PUBLISH, PUBSUB and the other publish/subscribe commands.

use undercroft_engine::glob::{Case, matches};
use undercroft_engine::messages::Topic;

use crate::arguments::CommandError;
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::protocol::Protocol;
use crate::reply::Reply;
use crate::session::ReplyMode;
use crate::table::Command;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("subscribe", subscribe),
    ("unsubscribe", unsubscribe),
    ("psubscribe", psubscribe),
    ("punsubscribe", punsubscribe),
    ("ssubscribe", ssubscribe),
    ("sunsubscribe", sunsubscribe),
    ("publish", publish),
    ("spublish", spublish),
    ("pubsub|channels", channels),
    ("pubsub|numpat", numpat),
    ("pubsub|numsub", numsub),
    ("pubsub|shardchannels", shard_channels),
    ("pubsub|shardnumsub", shard_numsub),
];

/// Returns the words that confirm subscribing to and unsubscribing from a kind of topic.
fn kinds(topic: Topic) -> (&'static [u8], &'static [u8]) {
    match topic {
        Topic::Channel => (b"subscribe", b"unsubscribe"),
        Topic::Pattern => (b"psubscribe", b"punsubscribe"),
        Topic::Shard => (b"ssubscribe", b"sunsubscribe"),
    }
}

/// Rejects most commands on a RESP2 connection with subscriptions, because RESP2 does not
/// distinguish replies from messages.
pub(crate) fn check_mode(context: &Context<'_>, command: &Command) -> Result<(), CommandError> {
    let session = &context.session;
    if session.subscriptions.is_empty() || session.protocol == Protocol::Resp3 {
        return Ok(());
    }
    match command.name {
        "subscribe" | "unsubscribe" | "psubscribe" | "punsubscribe" | "ssubscribe"
        | "sunsubscribe" | "ping" | "quit" | "reset" => Ok(()),
        name => Err(CommandError::new(format!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
             this context"
        ))),
    }
}

fn confirm(
    context: &mut Context<'_>,
    kind: &[u8],
    topic: Topic,
    name: Option<&[u8]>,
    reply: &mut dyn Reply,
) {
    context.session.replies.confirms = context.session.replies.mode != ReplyMode::On;
    reply.push(3);
    reply.bulk(kind);
    reply.bulk_or_null(name);
    reply.integer(context.session.subscriptions.confirmed(topic) as i64);
}

fn subscribe_to(
    context: &mut Context<'_>,
    topic: Topic,
    names: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let mut new = names.to_vec();
    new.sort_unstable();
    new.dedup();
    new.retain(|name| !context.session.subscriptions.has(topic, name));
    if !new.is_empty() {
        context.host.inbox.subscribe(context.session, topic, &new)?;
    }
    for name in names {
        context.session.subscriptions.insert(topic, name);
        confirm(context, kinds(topic).0, topic, Some(name), reply);
    }
    Ok(())
}

fn unsubscribe_from(
    context: &mut Context<'_>,
    topic: Topic,
    names: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let all: Vec<Vec<u8>> = context
        .session
        .subscriptions
        .names(topic)
        .cloned()
        .collect();
    let (names, everything) = match names {
        [] => (all.iter().map(Vec::as_slice).collect(), true),
        names => (names.to_vec(), false),
    };
    let mut old = names.clone();
    old.sort_unstable();
    old.dedup();
    old.retain(|name| context.session.subscriptions.has(topic, name));
    if !old.is_empty() {
        context
            .host
            .inbox
            .unsubscribe(context.session, topic, &old)?;
    }
    for name in &names {
        context.session.subscriptions.remove(topic, name);
        confirm(context, kinds(topic).1, topic, Some(name), reply);
    }
    if everything && names.is_empty() {
        confirm(context, kinds(topic).1, topic, None, reply);
    }
    Ok(())
}

/// Cancels all subscriptions without sending confirmations to the client.
pub(crate) fn unsubscribe_all(context: &mut Context<'_>) -> Result<(), Failure> {
    for topic in Topic::ALL {
        let names: Vec<Vec<u8>> = context
            .session
            .subscriptions
            .names(topic)
            .cloned()
            .collect();
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        if names.is_empty() {
            continue;
        }
        context
            .host
            .inbox
            .unsubscribe(context.session, topic, &names)?;
        for name in names {
            context.session.subscriptions.remove(topic, name);
        }
    }
    Ok(())
}

/// Handles SUBSCRIBE.
fn subscribe(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    subscribe_to(context, Topic::Channel, &arguments[1..], reply)
}

/// Handles PSUBSCRIBE.
fn psubscribe(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    subscribe_to(context, Topic::Pattern, &arguments[1..], reply)
}

/// Handles SSUBSCRIBE.
fn ssubscribe(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    subscribe_to(context, Topic::Shard, &arguments[1..], reply)
}

/// Handles UNSUBSCRIBE.
fn unsubscribe(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    unsubscribe_from(context, Topic::Channel, &arguments[1..], reply)
}

/// Handles PUNSUBSCRIBE.
fn punsubscribe(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    unsubscribe_from(context, Topic::Pattern, &arguments[1..], reply)
}

/// Handles SUNSUBSCRIBE.
fn sunsubscribe(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    unsubscribe_from(context, Topic::Shard, &arguments[1..], reply)
}

/// Handles PUBLISH.
fn publish(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let receivers = context
        .store
        .publish(Topic::Channel, arguments[1], arguments[2])?;
    reply.integer(receivers as i64);
    Ok(())
}

/// Handles SPUBLISH.
fn spublish(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let receivers = context
        .store
        .publish(Topic::Shard, arguments[1], arguments[2])?;
    reply.integer(receivers as i64);
    Ok(())
}

fn list_topics(
    context: &mut Context<'_>,
    topic: Topic,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let pattern = match arguments {
        [_, _] => None,
        [_, _, pattern] => Some(*pattern),
        _ => {
            return Err(CommandError::subcommand_syntax("pubsub", arguments[1]).into());
        }
    };
    let mut names = context.store.topics(topic)?;
    if let Some(pattern) = pattern {
        names.retain(|name| matches(pattern, name, Case::Sensitive) == Ok(true));
    }
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name));
    Ok(())
}

fn count_receivers(
    context: &mut Context<'_>,
    topic: Topic,
    names: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let counts: Result<Vec<u64>, _> = names
        .iter()
        .map(|name| context.store.receivers(topic, name))
        .collect();
    let counts = counts?;
    reply.array(names.len() * 2);
    for (name, count) in names.iter().zip(counts) {
        reply.bulk(name);
        reply.integer(count as i64);
    }
    Ok(())
}

/// Handles PUBSUB CHANNELS.
fn channels(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    list_topics(context, Topic::Channel, arguments, reply)
}

/// Handles PUBSUB SHARDCHANNELS.
fn shard_channels(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    list_topics(context, Topic::Shard, arguments, reply)
}

/// Handles PUBSUB NUMSUB.
fn numsub(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    count_receivers(context, Topic::Channel, &arguments[2..], reply)
}

/// Handles PUBSUB SHARDNUMSUB.
fn shard_numsub(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    count_receivers(context, Topic::Shard, &arguments[2..], reply)
}

/// Handles PUBSUB NUMPAT.
fn numpat(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    reply.integer(context.store.topics(Topic::Pattern)?.len() as i64);
    Ok(())
}
