//! Queues commands between MULTI and EXEC.

use std::sync::Arc;

use undercroft_engine::ShardSet;
use undercroft_engine::messages::Topic;

use crate::arguments::{CommandError, is_keyword};
use crate::config::Value;
use crate::context::Context;
use crate::handlers::scripting;
use crate::session::CommandQueue;
use crate::table::{Category, Command, Flag, Group};

/// The minimum value of `client-query-buffer-limit`, in bytes. A shorter queue is always allowed,
/// so it needs no configuration lookup.
const QUEUE_ALWAYS_ALLOWED: u64 = 1 << 20;

/// Returns whether a command between MULTI and EXEC runs immediately instead of being queued.
pub(super) fn runs_at_once(command: &Command) -> bool {
    matches!(
        command.name,
        "exec" | "discard" | "multi" | "watch" | "quit" | "reset"
    )
}

/// Queues a command for EXEC.
pub(super) fn add(
    context: &mut Context<'_>,
    command: &'static Command,
    arguments: &[&[u8]],
) -> Result<(), CommandError> {
    let Some(mut queue) = context.session.transaction.queue.take() else {
        return Ok(());
    };
    let now = Arc::make_mut(&mut queue);
    if !now.failed {
        push(now, context, command, arguments);
    }
    let too_long =
        now.bytes() as u64 > QUEUE_ALWAYS_ALLOWED && now.bytes() as u64 > longest_queue(context);
    if too_long {
        *now = CommandQueue::refused();
    }
    context.session.transaction.queue = Some(queue);
    if too_long {
        return Err(CommandError::fixed(
            "ERR the queued commands exceed client-query-buffer-limit; raise it or send fewer \
             commands in a transaction",
        ));
    }
    Ok(())
}

fn longest_queue(context: &Context<'_>) -> u64 {
    match context.host.config().value("client-query-buffer-limit") {
        Value::Memory(bytes) => bytes,
        _ => u64::MAX,
    }
}

/// Queues a command whose arity has been checked, and records the command's requirements for the
/// transaction.
fn push(
    queue: &mut CommandQueue,
    context: &Context<'_>,
    command: &'static Command,
    arguments: &[&[u8]],
) {
    let inside = is_inside(command, arguments) && !(publishes(command) && queue.subscribes);
    if inside && publishes(command) {
        queue.shards = queue.shards.union(receivers_shards(context, arguments));
    }
    let touches = command.flags.has(Flag::Write)
        || command.flags.has(Flag::ReadOnly)
        || command.flags.has(Flag::NoMandatoryKeys);
    if inside && touches {
        let keys = command.keys_of(arguments);
        let shards: ShardSet = keys
            .map(|(key, _)| context.store.key(key).shard())
            .collect();
        // A command without keys operates on entire databases. If the arguments do not reveal all
        // keys, the transaction discovers the missing shards when it runs.
        queue.shards = queue.shards.union(if shards.is_empty() {
            context.store.all_shards()
        } else {
            shards
        });
    }
    let script = scripting::flags(context, command, arguments);
    queue.may_need_memory |= command.flags.has(Flag::DenyOom) || script.declares_memory();
    queue.runs_scripts |= command.group == Group::Scripting;
    queue.writes |= command.flags.has(Flag::Write) || script.declares_writes();
    queue.subscribes |= command.name.ends_with("subscribe");
    queue.push(command, arguments, inside);
}

/// Returns whether a command runs within EXEC's transaction, in which it must be retryable and must
/// not wait. This is true of commands that access keys, and of connection commands that change
/// nothing, or that only change how later commands are read. All other commands inspect or change
/// the server. They run exactly once, in order, after the commit.
///
/// PUBLISH is part of the transaction: it passes its message to the store, which sends the message
/// after the commit. The exception is a PUBLISH that follows a SUBSCRIBE in the same queue, because
/// the new subscription must also receive the message.
fn is_inside(command: &Command, arguments: &[&[u8]]) -> bool {
    if command.categories.has(Category::Pubsub) {
        return publishes(command);
    }
    match command.group {
        Group::Connection => matches!(
            command.name,
            "ping" | "echo" | "select" | "hello" | "auth" | "client|caching"
        ),
        Group::Server => match command.name {
            "dbsize" | "flushdb" | "flushall" | "swapdb" | "memory|usage" => true,
            // DEBUG SLEEP would block the transaction, so only DEBUG OBJECT runs inside it.
            "debug" => arguments
                .get(1)
                .is_some_and(|what| is_keyword(what, "OBJECT")),
            _ => false,
        },
        _ => true,
    }
}

fn publishes(command: &Command) -> bool {
    matches!(command.name, "publish" | "spublish")
}

/// Returns the shards in which PUBLISH looks up the receivers of its message.
fn receivers_shards(context: &Context<'_>, arguments: &[&[u8]]) -> ShardSet {
    let store = context.store;
    let names = arguments.get(1).map(|name| store.key(name).shard());
    // All pattern subscriptions are stored in shard 0.
    let patterns = (store.topic_count(Topic::Pattern) != 0).then_some(0);
    names.into_iter().chain(patterns).collect()
}
