//! Implements transactions: MULTI, EXEC, DISCARD, WATCH and UNWATCH.

use std::sync::Arc;
use std::time::{Duration, Instant};

use undercroft_engine::{Running, Savepoint, Store, removing};

use crate::arguments::CommandError;
use crate::context::reporting::{
    Sender, is_slow, note_latency, note_slow, note_slow_trace, show_to_monitors, show_trace,
};
use crate::context::{Context, HandlerEntry, Refusal, SessionScratch};
use crate::failure::{Failure, Outcome};
use crate::reply::{Reply, Tape, TapePosition};
use crate::session::{CommandQueue, QueuedCommand, ReplyMode};
use crate::statistics::Lap;
use crate::table::Command;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("multi", multi),
    ("exec", exec),
    ("discard", discard),
    ("watch", watch),
    ("unwatch", unwatch),
];

/// Handles MULTI.
fn multi(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    if context.session.transaction.queue.is_some() {
        return Err(CommandError::fixed("ERR MULTI calls can not be nested").into());
    }
    context.session.transaction.queue = Some(Arc::default());
    context.choose_way();
    reply.ok();
    Ok(())
}

/// Handles DISCARD.
fn discard(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    if context.session.transaction.queue.is_none() {
        return Err(CommandError::fixed("ERR DISCARD without MULTI").into());
    }
    context.discard();
    reply.ok();
    Ok(())
}

/// Handles WATCH.
fn watch(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    if context.session.transaction.queue.is_some() {
        return Err(CommandError::fixed("ERR WATCH inside MULTI is not allowed").into());
    }
    let database = context.database();
    let watches = &context.session.transaction.watches;
    let new = arguments[1..].iter().copied();
    let new = new.filter(|key| !watches.iter().any(|watch| watch.is_of(database, key)));
    let new = context.store.watch(database, new)?;
    context.session.transaction.watches.extend(new);
    reply.ok();
    Ok(())
}

/// Handles UNWATCH.
fn unwatch(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    context.session.transaction.watches.clear();
    reply.ok();
    Ok(())
}

/// Handles EXEC.
fn exec(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let Some(queue) = context.session.transaction.queue.clone() else {
        return Err(CommandError::fixed("ERR EXEC without MULTI").into());
    };
    if queue.failed {
        context.discard();
        return Err(CommandError::fixed(
            "EXECABORT Transaction discarded because of previous errors.",
        )
        .into());
    }
    let done = match CommittedTransaction::commit(context, &queue) {
        Ok(done) => done,
        // Keep the queue and the watched keys, because a blocked EXEC is retried later.
        Err(Failure::Blocked(blocked)) => return Err(Failure::Blocked(blocked)),
        Err(Failure::Reply(error)) => {
            context.discard();
            return Err(if error.text().starts_with("READONLY") {
                error
            } else {
                error.aborts_exec()
            }
            .into());
        }
    };
    // The commands that run after the commit still see the queue, but no watched keys.
    context.session.transaction.watches.clear();
    match done {
        None => reply.null_array(),
        Some(done) => done.write_replies(context, &queue, reply),
    }
    let changes_tracking = |queued: &QueuedCommand| queued.command.name == "client|tracking";
    if context.session.tracking.is_some() && queue.commands.iter().any(changes_tracking) {
        for queued in &queue.commands {
            context.remember_keys_after(queued.command, &queue.arguments(queued));
        }
    }
    context.discard();
    Ok(())
}

/// The results of a committed transaction.
#[derive(Default)]
struct CommittedTransaction {
    tape: Tape,
    /// The results of the queued commands. A command that runs after the commit has `None`.
    executed: Vec<Option<ExecutedCommand>>,
    /// The database that is selected after each command, or an empty list if no connection is in
    /// MONITOR mode.
    databases: Vec<u32>,
    /// The time when the last command ended.
    ended: Option<Instant>,
    /// The savepoint before the last command. If the command fails, its changes are rolled back to
    /// this savepoint.
    savepoint: Savepoint,
}

/// The result of a command that ran within the transaction.
struct ExecutedCommand {
    /// The positions at which the reply starts and ends on the tape.
    reply: (TapePosition, TapePosition),
    /// The running time of the command.
    time: Duration,
    /// The error that the command returned, if any.
    error: Option<CommandError>,
    /// Statistics of the commands that the command's script has run.
    lap: Lap,
}

impl CommittedTransaction {
    /// Runs all queued commands that access keys, in a single transaction. Returns `None` if a
    /// watched key has changed.
    fn commit(
        context: &mut Context<'_>,
        queue: &CommandQueue,
    ) -> Result<Option<CommittedTransaction>, Failure> {
        context.session.scripts.was_full = queue.runs_scripts && context.is_full()?;
        let watches = std::mem::take(&mut context.session.transaction.watches);
        let shards = watches.iter().map(|watch| watch.shard()).collect();
        let applied = context.session.transaction.applied;
        let mut store = context.store;
        store.expect(queue.load());
        context
            .session
            .scripts
            .begin(store.store().killed_scripts());
        let mut scratch = SessionScratch::<CommittedTransaction>::new(context);
        let shards = queue.shards.union(shards);
        let result = store.transact_into(shards, &mut scratch, |running, scratch| {
            for watch in &watches {
                if !running.is_unchanged(watch)? {
                    return Ok(false);
                }
            }
            for at in 0..queue.commands.len() {
                scratch.made.run(scratch.context, queue, at, running)?;
            }
            match applied {
                Some((Some(lane), position)) => running.access().note_applied_in(lane, position)?,
                Some((None, position)) => running.access().note_applied(position)?,
                None => {}
            }
            Ok::<_, Failure>(true)
        });
        let SessionScratch { context, made, .. } = scratch;
        context.session.transaction.watches = watches;
        context.session.scripts.killed = None;
        Ok(result?.then_some(made))
    }

    /// Runs a single command. If the command fails, rolls back its changes.
    fn run(
        &mut self,
        context: &mut Context<'_>,
        queue: &CommandQueue,
        at: usize,
        running: &Running<'_, '_>,
    ) -> Result<(), Failure> {
        let queued = &queue.commands[at];
        if context.shows {
            self.databases.push(context.session.database);
        }
        if !queued.inside {
            self.executed.push(None);
            return Ok(());
        }
        let arguments = queue.arguments(queued);
        let from = self.tape.position();
        running.renew(&mut self.savepoint);
        let start = self.ended.unwrap_or_else(Instant::now);
        let mut inner = context.nested(running.access());
        let outcome = match inner.permit(queued.command, &arguments) {
            Ok(permit) => {
                let _removing = queued.command.removes().then(removing);
                inner.run(&permit, &mut self.tape)
            }
            Err(refusal) => Err(refuse(&mut inner, *refusal).into()),
        };
        if running.starts_again() {
            return Err(CommandError::OUT_OF_MEMORY.into());
        }
        let error = match outcome {
            Ok(()) => None,
            // The source of a replica made the change, so it must not be left out.
            Err(Failure::Reply(error))
                if inner.session.transaction.applied.is_some() && error.is_lack_of_space() =>
            {
                return Err(error.into());
            }
            Err(Failure::Reply(error)) => {
                running.roll_back_to(&self.savepoint)?;
                self.tape.cut(from);
                error.write(&mut self.tape);
                Some(error)
            }
            Err(blocked) => return Err(blocked),
        };
        if Store::met_expired() {
            inner.store.remove_met()?;
            if running.starts_again() {
                return Err(CommandError::OUT_OF_MEMORY.into());
            }
        }
        let now = Instant::now();
        self.ended = Some(now);
        inner.session.activity.counters.commands += 1;
        if let Some(database) = self.databases.get_mut(at) {
            *database = inner.session.database;
        }
        self.executed.push(Some(ExecutedCommand {
            reply: (from, self.tape.position()),
            time: now.duration_since(start),
            error,
            lap: inner.lap,
        }));
        Ok(())
    }

    /// Writes the replies, and runs the commands that are not part of the transaction.
    fn write_replies(self, context: &mut Context<'_>, queue: &CommandQueue, reply: &mut dyn Reply) {
        // CLIENT REPLY OFF does not suppress confirmations of subscriptions, which are sent without
        // the enclosing array.
        let (silent, mut confirms) = (context.session.replies.mode != ReplyMode::On, false);
        if !silent {
            reply.array(queue.commands.len());
        }
        for (at, (queued, executed)) in queue.commands.iter().zip(self.executed).enumerate() {
            if let Some(executed) = executed {
                if !silent {
                    let (from, to) = executed.reply;
                    self.tape.play(from, to, reply);
                }
                let database = self.databases.get(at).copied();
                executed.report(context, queue, queued, database);
                continue;
            }
            let arguments = queue.arguments(queued);
            let mut unsent = Tape::default();
            let written: &mut dyn Reply = if silent { &mut unsent } else { reply };
            context.session.replies.confirms = false;
            run_after_commit(context, queued.command, &arguments, written);
            if silent && context.session.replies.confirms {
                confirms = true;
                unsent.play_all(reply);
            }
        }
        context.session.replies.confirms = confirms;
    }
}

impl ExecutedCommand {
    /// Counts the command, reports it to SLOWLOG if it was slow, and reports it to MONITOR if
    /// `shown` specifies its database.
    fn report(
        self,
        context: &mut Context<'_>,
        queue: &CommandQueue,
        queued: &QueuedCommand,
        shown: Option<u32>,
    ) {
        let command = queued.command;
        context.count_one(command, self.time, self.error.is_some());
        context.count_ran(&self.lap);
        if let Some(error) = self.error {
            context.count_error(error.text());
        }
        note_latency(context, command, self.time);
        note_slow_trace(context, &self.lap.trace);
        let took_long = is_slow(context, self.time);
        if !took_long && shown.is_none() {
            return;
        }
        let arguments = queue.arguments(queued);
        if took_long {
            note_slow(context, command, &arguments, self.time);
        }
        if let Some(database) = shown {
            show_to_monitors(context, Sender::Client, database, command, &arguments);
            show_trace(context, &self.lap.trace);
        }
    }
}

/// Records that a queued command is no longer allowed, and returns its error.
#[cold]
fn refuse(context: &mut Context<'_>, refusal: Refusal) -> CommandError {
    let error = refusal.error_in_exec();
    context.note_denied(refusal.call);
    error
}

/// Runs a command that is not part of the transaction.
fn run_after_commit(
    context: &mut Context<'_>,
    command: &'static Command,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) {
    let start = Instant::now();
    let outcome = match context.permit(command, arguments) {
        Ok(permit) => context.run(&permit, reply),
        Err(refusal) => Err(refuse(context, *refusal).into()),
    };
    let time = start.elapsed();
    context.count_one(command, time, outcome.is_err());
    context.session.activity.counters.commands += 1;
    if let Err(failure) = outcome {
        // After the commit, a command can no longer wait for a lock and retry.
        let error = failure.into_error();
        context.count_error(error.text());
        error.write(reply);
    }
    note_latency(context, command, time);
    note_slow(context, command, arguments, time);
    if context.shows {
        let database = context.session.database;
        show_to_monitors(context, Sender::Client, database, command, arguments);
    }
}
