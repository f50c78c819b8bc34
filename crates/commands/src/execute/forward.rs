//! Sends commands that change keys to the source of a replica, if the process does so
//! ([`Control::forwards_writes`](crate::context::Control::forwards_writes)).
//!
//! Transactions and scripts are sent as a whole: the source runs them as it runs those of its own clients.

use std::time::Instant;

use undercroft_engine::DATABASES;

use crate::arguments::CommandError;
use crate::context::{Context, ForwardedRequest};
use crate::failure::{Blocked, Failure};
use crate::reply::{Reply, Tree};
use crate::table::{Command, EXEC, Flag, Group};

/// The commands of scripts that change keys, or that such commands need at the source.
const SCRIPTS: [&str; 5] = ["eval", "evalsha", "fcall", "script|load", "script|flush"];

/// The commands for connections and servers that a transaction for the source may contain: they change
/// neither the connection, except for its database, nor the source.
const HARMLESS: [&str; 7] = [
    "select", "ping", "echo", "time", "dbsize", "publish", "spublish",
];

/// Returns whether a queued command may be sent to the source. The administration of this server is not
/// that of the source.
fn may_be_sent(command: &Command) -> bool {
    let is_own = matches!(
        command.group,
        Group::Connection | Group::Server | Group::Pubsub
    );
    !is_own || command.flags.has(Flag::Write) || HARMLESS.contains(&command.name)
}

/// Returns whether a command that the connection may run must be sent to the source.
#[inline]
pub(super) fn applies(context: &Context<'_>, command: &'static Command) -> bool {
    let store = context.store.store();
    store.refuses_changes()
        && store.is_replica()
        && context.host.control.forwards_writes()
        && changes(context, command)
}

#[cold]
fn changes(context: &Context<'_>, command: &'static Command) -> bool {
    // The source does not know the user. Commands whose rights are checked while they run would run
    // with the rights of the server.
    let is_trusted = context.session.login.is_unrestricted();
    let may_leave = |command: &Command| is_trusted || command.name != "sort";
    match &context.session.transaction.queue {
        Some(queue) if std::ptr::eq(command, EXEC) => {
            !queue.failed
                && (queue.writes || queue.runs_scripts)
                && (is_trusted || !queue.runs_scripts)
                && queue
                    .commands
                    .iter()
                    .all(|queued| may_leave(queued.command))
        }
        Some(_) => false,
        None => {
            let is_script = command.group == Group::Scripting && SCRIPTS.contains(&command.name);
            match is_script {
                true => is_trusted,
                false => command.flags.has(Flag::Write) && may_leave(command),
            }
        }
    }
}

/// Sends a command, or the transaction that EXEC ends, and writes the source's reply.
pub(super) fn run(
    context: &mut Context<'_>,
    command: &'static Command,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Result<(), Failure> {
    let session = &*context.session;
    if !session.scripts.has_own_thread && !session.is_embedded() {
        // The source's reply is awaited.
        return Err(Failure::Blocked(Blocked::Long));
    }
    let start = Instant::now();
    let is_tracking = session.tracking.is_some();
    let queue = session.transaction.queue.clone().filter(|_| is_tracking);
    let outcome = match session.transaction.queue.is_some() {
        true => send_transaction(context, reply),
        false => {
            let words = vec![arguments.iter().map(|word| word.to_vec()).collect()];
            let key = command.keys_of(arguments).next();
            send(context, words, key.map(|(key, _)| key.to_vec())).map(|tree| tree.write(reply))
        }
    };
    context.count_one(command, start.elapsed(), outcome.is_err());
    if let Some(queue) = queue {
        for queued in &queue.commands {
            context.remember_keys_after(queued.command, &queue.arguments(queued));
        }
    } else if is_tracking {
        context.remember_keys_after(command, arguments);
    }
    Ok(outcome?)
}

/// Sends all queued commands as a transaction.
fn send_transaction(context: &mut Context<'_>, reply: &mut dyn Reply) -> Result<(), CommandError> {
    let Some(queue) = context.session.transaction.queue.clone() else {
        return Ok(());
    };
    let is_watching = !context.session.transaction.watches.is_empty();
    context.discard();
    if is_watching {
        return Err(CommandError::fixed(
            "READONLY WATCH needs a connection to the source: this store is a replica, which may have \
             seen another state of the keys",
        ));
    }
    let (mut commands, mut key, mut selected) = (vec![vec![b"MULTI".to_vec()]], None, None);
    for queued in &queue.commands {
        let arguments = queue.arguments(queued);
        // The rights may have changed since the command was queued.
        if let Err(refusal) = context.permit(queued.command, &arguments) {
            return Err(refusal.error_in_exec());
        }
        if !may_be_sent(queued.command) {
            return Err(CommandError::new(format!(
                "READONLY a transaction that changes keys of a replica is sent to the source, so it cannot \
                 contain '{}'",
                queued.command.name
            )));
        }
        if key.is_none() {
            let first = queued.command.keys_of(&arguments).next();
            key = first.map(|(key, _)| key.to_vec());
        }
        if queued.command.name == "select" {
            let text = std::str::from_utf8(arguments[1]).ok();
            let number = text.and_then(|text| text.parse::<usize>().ok());
            selected = number.filter(|&number| number < DATABASES).or(selected);
        }
        commands.push(arguments.iter().map(|word| word.to_vec()).collect());
    }
    commands.push(vec![b"EXEC".to_vec()]);
    let sent = send(context, commands, key);
    if context.audits {
        for queued in &queue.commands {
            let outcome = sent.as_ref().map(drop).map_err(CommandError::text);
            context.note_audited(queued.command, &queue.arguments(queued), outcome);
        }
    }
    let tree = sent?;
    if let (Some(number), Tree::Array(_)) = (selected, &tree) {
        context.session.database = number as u32;
    }
    tree.write(reply);
    Ok(())
}

fn send(
    context: &mut Context<'_>,
    commands: Vec<Vec<Vec<u8>>>,
    key: Option<Vec<u8>>,
) -> Result<Tree, CommandError> {
    let request = ForwardedRequest {
        commands,
        key,
        database: context.database(),
        protocol: context.session.protocol,
    };
    let control = context.host.control;
    control.forward(&request).map_err(CommandError::new)
}
