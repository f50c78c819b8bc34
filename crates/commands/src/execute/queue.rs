//! Queueing commands between MULTI and EXEC.

use std::sync::Arc;

use undercroft_engine::ShardSet;
use undercroft_engine::messages::Topic;

use crate::arguments::{CommandError, is_keyword};
use crate::config::Value;
use crate::context::Context;
use crate::handlers::scripting;
use crate::session::CommandQueue;
use crate::table::{Category, Command, Flag, Group};

/// The least that client-query-buffer-limit can be: shorter queues need no look at the configuration.
const QUEUE_ALWAYS_ALLOWED: u64 = 1 << 20;

/// Whether a command is run rather than queued between MULTI and EXEC.
pub(super) fn runs_at_once(command: &Command) -> bool {
    matches!(
        command.name,
        "exec" | "discard" | "multi" | "watch" | "quit" | "reset"
    )
}

/// Adds a command to those that EXEC will run.
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
            "ERR the queued commands are longer than client-query-buffer-limit allows",
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

/// Adds a command whose arguments are as many as its arity says, and notes what it asks of the transaction.
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
        // Without keys it works on whole databases. Where the arguments do not tell all keys, the transaction
        // finds out that it needs more shards.
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

/// Whether a command is run within EXEC's transaction, where it must be free to run again and must not wait: the
/// commands on keys, and those that change nothing but how the connection's next commands are read. All others, which
/// look at the server or change it, run once, behind the commit, in their order.
///
/// PUBLISH is part of it: its message is handed to the store, which sends it once the transaction is committed. One
/// behind a SUBSCRIBE of the same queue is not, as its message is for that subscription, too.
fn is_inside(command: &Command, arguments: &[&[u8]]) -> bool {
    if command.categories.has(Category::Pubsub) {
        return publishes(command);
    }
    match command.group {
        Group::Connection => matches!(command.name, "ping" | "echo" | "select" | "hello" | "auth"),
        Group::Server => match command.name {
            "dbsize" | "flushdb" | "flushall" | "swapdb" | "memory|usage" => true,
            // It sleeps.
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

/// Where the receivers of a message stand, at which PUBLISH looks.
fn receivers_shards(context: &Context<'_>, arguments: &[&[u8]]) -> ShardSet {
    let store = context.store;
    let names = arguments.get(1).map(|name| store.key(name).shard());
    // All patterns are looked through in one place.
    let patterns = (store.topic_count(Topic::Pattern) != 0).then_some(0);
    names.into_iter().chain(patterns).collect()
}
