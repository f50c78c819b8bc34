//! Provides the single entry point that runs any command.
//!
//! Only servers and programs that embed a store call this module. No code in this crate calls it.
//!
//! - `forward`: sends commands that change keys of a replica to its source.
//! - `handlers`: defines the table of all command handlers, indexed by command number.
//! - `queue`: queues commands between MULTI and EXEC.

mod forward;
mod handlers;
mod queue;

use std::num::NonZero;
use std::sync::Arc;
use std::time::Instant;

use undercroft_engine::{Error, Load, Origin, Staged, Store, removing};

use crate::arguments::{CommandError, is_keyword};
use crate::context::reporting::{
    Sender, is_quick, is_waiting, note_latency, note_slow, note_slow_trace, show_to_monitors,
    show_trace,
};
use crate::context::{Context, Host, Permit, Timing};
use crate::failure::{Blocked, Failure};
use crate::handlers::connections::connection::refuses_to_monitor;
use crate::handlers::connections::pubsub;
use crate::handlers::scripting;
use crate::handlers::server::protected;
use crate::handlers::strings::values;
use crate::reply::Reply;
use crate::scripts::busy;
use crate::session::{ReplyMode, Session};
use crate::statistics::latency::Event;
use crate::table::{Command, EXEC, Flag, GET, Group, SET, resolve, resolve_name};

impl<'a> Context<'a> {
    /// Returns a context for commands of this connection. Create one context per batch of commands,
    /// because creating a context reads the slow log's configuration.
    #[inline]
    pub fn new(session: &'a mut Session, host: Host<'a>, store: &'a Store) -> Context<'a> {
        Context::with_handlers(&handlers::HANDLERS, session, host, store)
    }
}

/// Runs one command for the connection in `context`, and writes its reply or error. The first
/// argument is the command's name.
///
/// Most commands write exactly one reply. CLIENT REPLY OFF, CLIENT REPLY SKIP and a successful
/// SHUTDOWN write none. After the command,
/// [`Session::finish_command`](crate::session::Session::finish_command) returns whether to send the
/// reply. A plain GET or SET takes a few nanoseconds longer than [`undercroft_engine::Store::get`]
/// and `set`, and does not allocate. To keep these commands fast, the type of `reply` is generic,
/// but it can also be `&mut dyn Reply`.
///
/// # Errors
/// Returns [`Blocked`] if the command must be retried later, for example because another process
/// holds a lock for longer than the store is configured to wait. Nothing has been written to the
/// reply, and no data has changed.
#[inline]
pub fn execute<R: Reply>(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut R,
) -> Result<(), Blocked> {
    if let [[first, second, b't' | b'T'], key, rest @ ..] = arguments
        && is_plain(context)
    {
        match ([first | 0x20, second | 0x20], rest) {
            ([b'g', b'e'], []) => {
                context.session.activity.last_command = Some(GET);
                let timing = context.start_fast();
                let outcome = values::plain_get(context, key, reply);
                context.end_fast(GET, timing, &outcome);
                return finish(context, outcome, reply);
            }
            ([b's', b'e'], [value]) => {
                context.session.activity.last_command = Some(SET);
                let timing = context.start_fast();
                let outcome = values::plain_set(context, key, value, reply);
                context.end_fast(SET, timing, &outcome);
                return finish(context, outcome, reply);
            }
            _ => {}
        }
    }
    execute_any(context, arguments, reply)
}

/// Returns whether GET and SET can take the fast path, because they are not timed individually,
/// queued, shown to monitors or refused.
#[inline(always)]
pub fn is_plain(context: &Context<'_>) -> bool {
    context.direct && context.session.subscriptions.is_empty()
}

/// Like [`execute`], but runs a SET that [is plain](is_plain) and whose value is already in the
/// store's memory ([`Store::stage_room`](undercroft_engine::Store::stage_room)).
///
/// # Errors
/// Returns the same errors as `execute`, along with the value, for use in a retry.
pub fn execute_staged_set<'s, R: Reply>(
    context: &mut Context<'_>,
    key: &[u8],
    value: Staged<'s>,
    reply: &mut R,
) -> Result<(), (Blocked, Staged<'s>)> {
    context.session.activity.last_command = Some(SET);
    let timing = context.start_fast();
    let (store, database) = (context.store, context.database());
    let (outcome, value) = match store.set_staged(database, &store.key(key), value) {
        Ok(()) => {
            reply.ok();
            (Ok(()), None)
        }
        Err((error, value)) => (Err(Failure::from(error)), Some(value)),
    };
    context.end_fast(SET, timing, &outcome);
    match (finish(context, outcome, reply), value) {
        (Err(blocked), Some(value)) => Err((blocked, value)),
        _ => Ok(()),
    }
}

fn execute_any(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Result<(), Blocked> {
    let Some(renames) = context.renames else {
        return execute_named(context, arguments, reply);
    };
    if let Some(words) = renames.true_words(arguments) {
        return execute_named(context, &words, reply);
    }
    let error = CommandError::unknown_command(arguments);
    if let Some(multi) = &mut context.session.transaction.queue {
        Arc::make_mut(multi).failed = true;
    }
    finish(context, Err(error.into()), reply)
}

/// Runs a command that has its true name.
fn execute_named(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Result<(), Blocked> {
    let before = context.session.activity.counters;
    let tracking = context.session.tracking.as_ref();
    let _origin = tracking
        .and_then(|tracking| NonZero::new(tracking.origin))
        .map(Origin::set);
    let outcome = run(context, arguments, reply);
    if context.session.tracking.is_some() && !matches!(outcome, Err(Failure::Blocked(_))) {
        end_caching(context);
    }
    if let Err(Failure::Blocked(_)) = outcome {
        // Restore the counters, because the retry looks up the same keys again.
        context.session.activity.counters.hits = before.hits;
        context.session.activity.counters.misses = before.misses;
    }
    finish(context, outcome, reply)
}

/// Ends the effect of CLIENT CACHING after the next command. As in Redis, it applies to all commands
/// of a transaction, and another CLIENT command does not end it.
#[cold]
fn end_caching(context: &mut Context<'_>) {
    let command = context.session.activity.last_command;
    let is_client = command.is_some_and(|command| command.name.starts_with("client|"));
    if context.session.transaction.queue.is_none()
        && !is_client
        && let Some(tracking) = &mut context.session.tracking
    {
        tracking.caching_given = false;
    }
}

fn run(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Result<(), Failure> {
    let admitted = admit(context, arguments);
    let (command, permit) = match admitted {
        Ok(admitted) => admitted,
        Err(error) => return Err(refuse(context, arguments, error).into()),
    };
    if forward::applies(context, command) {
        let outcome = forward::run(context, command, arguments, reply);
        if context.audits {
            context.note_outcome(command, arguments, &outcome);
        }
        return outcome;
    }
    if context.session.transaction.queue.is_some() && !queue::runs_at_once(command) {
        context.session.is_audited = false;
        queue::add(context, command, arguments)?;
        reply.simple("QUEUED");
        return Ok(());
    }
    context.store.expect(command.load(arguments));
    let outcome = call(context, (command, &permit), arguments, reply);
    context.store.expect(Load::default());
    outcome
}

/// Runs a command's handler, and reports the command to INFO, LATENCY, the slow log and monitors.
#[inline(always)]
fn call(
    context: &mut Context<'_>,
    (command, permit): (&'static Command, &Permit<'_>),
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Result<(), Failure> {
    let waits = is_waiting(context, command);
    let _removing = command.removes().then(removing);
    let is_untimed = is_quick(command, arguments) && !context.timed || waits;
    if is_untimed && !context.shows {
        // The time that a blocking command spends waiting does not count as running time.
        let timing = match context.start_fast() {
            Timing::Since(_) if waits => Timing::Not,
            timing => timing,
        };
        let outcome = context.run(permit, reply);
        context.end_fast(command, timing, &outcome);
        return outcome;
    }
    let start = context.start_slow();
    let outcome = context.run(permit, reply);
    let time = context.end_slow(command, start, &outcome);
    let trace = std::mem::take(&mut context.lap.trace);
    if !matches!(outcome, Err(Failure::Blocked(_))) {
        if !is_untimed {
            note_latency(context, command, time);
            note_slow_trace(context, &trace);
            note_slow(context, command, arguments, time);
        }
        if context.shows {
            let database = context.session.database;
            show_to_monitors(context, Sender::Client, database, command, arguments);
            show_trace(context, &trace);
        }
    }
    outcome
}

/// Returns the command if the connection may run or queue it now. Otherwise returns the error that
/// refuses the command.
fn admit<'c>(
    context: &mut Context<'_>,
    arguments: &'c [&'c [u8]],
) -> Result<(&'static Command, Permit<'c>), CommandError> {
    let command = resolve(arguments).inspect_err(|_| refuse_other_protocols(context, arguments))?;
    protected::admit(context, command)
        .inspect_err(|error| context.note_forbidden(command, arguments, error))?;
    if !context.session.login.is_admitted() && !command.flags.has(Flag::NoAuth) {
        return Err(CommandError::fixed("NOAUTH Authentication required."));
    }
    context.session.activity.last_command = Some(command);
    if context.session.transaction.queue.is_some() && command.flags.has(Flag::NoMulti) {
        return Err(CommandError::fixed(
            "ERR Command not allowed inside a transaction",
        ));
    }
    let permit = match context.permit(command, arguments) {
        Ok(permit) => permit,
        Err(refusal) => {
            let error = refusal.error();
            context.note_denied(refusal.call);
            return Err(error);
        }
    };
    if command.group == Group::Scripting {
        scripting::admit(context, command, arguments)?;
    }
    let mut may_need_memory = command.flags.has(Flag::DenyOom);
    let mut writes = command.flags.has(Flag::Write);
    let refusal = context.write_refusal();
    if refusal.is_some() {
        // As in Redis, the flags that a script declares apply to the command that runs the script.
        let script = scripting::flags(context, command, arguments);
        may_need_memory |= script.declares_memory();
        writes |= script.declares_writes();
    }
    if let Some(multi) = &context.session.transaction.queue {
        writes |= std::ptr::eq(command, EXEC) && multi.writes;
        // Queueing any command takes memory.
        may_need_memory = if std::ptr::eq(command, EXEC) {
            multi.may_need_memory
        } else {
            !queue::runs_at_once(command)
        };
    }
    // The memory of a replica is limited by its source.
    let is_limited = may_need_memory && !context.store.store().is_replica();
    if is_limited && let Err(error) = make_room(context, arguments) {
        return Err(Failure::from(error).into_error());
    }
    if writes && let Some(refusal) = refusal {
        return Err(refusal);
    }
    pubsub::check_mode(context, command)?;
    if refuses_to_monitor(context.session, command) {
        return Err(CommandError::fixed(
            "ERR Replica can't interact with the keyspace",
        ));
    }
    if context.audits {
        context.begin_audited(command, arguments)?;
    }
    Ok((command, permit))
}

/// Evicts keys if the memory limit is reached, and reports the time taken to LATENCY.
fn make_room(context: &Context<'_>, arguments: &[&[u8]]) -> Result<(), Error> {
    let latency = context.host.latency();
    let brings = arguments.iter().map(|argument| argument.len()).sum();
    if !latency.watches() {
        return context.store.check_memory_for(brings);
    }
    let start = Instant::now();
    let made = context.store.check_memory_for(brings);
    let now = || context.host.now_microseconds() / 1_000_000;
    latency.note(Event::EvictionCycle, start.elapsed(), now);
    made
}

/// Closes a connection that speaks HTTP, without a reply. A malicious web page can make a browser
/// send commands in an HTTP request. As in Redis, HTTP is recognized by the first word.
#[cold]
fn refuse_other_protocols(context: &mut Context<'_>, arguments: &[&[u8]]) {
    let is = |word| arguments.first().is_some_and(|name| is_keyword(name, word));
    if is("POST") || is("HOST:") {
        context.session.replies.close_after = true;
        context.session.replies.mode = ReplyMode::Off;
        context.host.connections.suspect(context.session);
    }
}

/// Counts a refused command, and marks the current transaction as failed.
#[cold]
fn refuse(context: &mut Context<'_>, arguments: &[&[u8]], error: CommandError) -> CommandError {
    if let Ok(command) = resolve_name(arguments) {
        context.count_rejected(command);
    }
    if arguments
        .first()
        .is_some_and(|name| is_keyword(name, "EXEC"))
    {
        context.discard();
        return error.aborts_exec();
    }
    if let Some(multi) = &mut context.session.transaction.queue {
        Arc::make_mut(multi).failed = true;
    }
    error
}

/// Returns the BUSY error if a call failed because it waited for a slow script, and `None`
/// otherwise.
#[cold]
pub fn busy_with_script(store: &Store, error: &Error) -> Option<CommandError> {
    if !error.is_busy() {
        return None;
    }
    let script = store.running_script()?;
    Some(busy(script.is_function))
}

/// Returns the BUSY error if a slow script blocks the command, and `None` otherwise.
#[cold]
fn behind_script(context: &mut Context<'_>, blocked: &Blocked) -> Option<CommandError> {
    let Blocked::Lock(error) = blocked else {
        return None;
    };
    let error = busy_with_script(context.store.store(), error)?;
    if context.session.transaction.queue.is_none() {
        return Some(error);
    }
    // Within MULTI, only EXEC can be blocked. An error from EXEC discards the transaction.
    context.discard();
    Some(error.aborts_exec())
}

#[inline(always)]
fn finish<R: Reply + ?Sized>(
    context: &mut Context<'_>,
    outcome: Result<(), Failure>,
    reply: &mut R,
) -> Result<(), Blocked> {
    context.session.read_buffers.trim();
    match outcome {
        Ok(()) => {}
        Err(Failure::Reply(error)) => {
            context.count_error(error.text());
            error.write(reply);
        }
        // Do not count a blocked command, because its retry is counted.
        Err(Failure::Blocked(blocked)) => match behind_script(context, &blocked) {
            None => return Err(blocked),
            Some(error) => {
                context.count_error(error.text());
                error.write(reply);
            }
        },
    }
    context.session.activity.counters.commands += 1;
    context.store.end_command();
    Ok(())
}
