//! Runs scripts in the process's interpreter, each in a single transaction.
//!
//! A script locks the shards of its KEYS. If the script accesses any other key, the first run is
//! rolled back, and the transaction restarts with all shards locked. The reply is buffered until
//! the transaction commits.

use std::sync::Arc;

use crate::arguments::{CommandError, is_keyword};
use crate::context::{Calls, Context, Interpreter, SessionScratch};
use crate::failure::{Failure, Outcome};
use crate::protocol::Protocol;
use crate::reply::{Reply, Tape};
use crate::scripts::{Permissions, Script, ScriptArguments, ScriptError, ScriptFlags, Sha, busy};
use crate::statistics::Lap;

/// How a client identifies a script: by its text or by its SHA-1.
#[derive(Clone, Copy)]
pub(super) enum ScriptName<'a> {
    Text(&'a [u8]),
    Sha(&'a [u8]),
}

const NO_SCRIPT: CommandError =
    CommandError::fixed("NOSCRIPT No matching script. Please use EVAL.");

/// Runs a script for EVAL, EVALSHA and their read-only variants.
pub(super) fn run(
    context: &mut Context<'_>,
    interpreter: &'static dyn Interpreter,
    named: ScriptName<'_>,
    called: &ScriptArguments<'_>,
    is_read_only: bool,
    reply: &mut dyn Reply,
) -> Outcome {
    let script = find(context, interpreter, named)?;
    let flags = script.flags();
    run_with(
        context,
        interpreter,
        (&script, flags),
        called,
        is_read_only,
        reply,
    )
}

/// Runs a script or a library function.
pub(super) fn run_with(
    context: &mut Context<'_>,
    interpreter: &'static dyn Interpreter,
    (script, flags): (&Arc<Script>, ScriptFlags),
    called: &ScriptArguments<'_>,
    is_read_only: bool,
    reply: &mut dyn Reply,
) -> Outcome {
    let mut permissions = permit(context, flags, is_read_only)?;
    permissions.is_function = called.function.is_some();
    let evaluation = Evaluation {
        interpreter,
        script,
        called,
        permissions,
    };
    if context.store.is_running() {
        return evaluation.join_transaction(context, reply);
    }
    evaluation.transact(context, reply)
}

/// Returns the permissions of a script, based on its flags and on the command that calls it.
/// Returns an error if the script may not start.
fn permit(
    context: &Context<'_>,
    flags: ScriptFlags,
    is_read_only: bool,
) -> Result<Permissions, Failure> {
    let is_full = match context.store.is_running() {
        true => context.session.scripts.was_full,
        false => context.is_full()?,
    };
    let write_refusal = context.write_refusal();
    if flags.are_given && is_full && !flags.allow_oom && !flags.no_writes {
        return Err(CommandError::OUT_OF_MEMORY.into());
    }
    if flags.are_given
        && !flags.no_writes
        && let Some(refusal) = &write_refusal
    {
        return Err(match context.store.store().is_replica() {
            true => CommandError::fixed(
                "READONLY You can not run script with write flag on readonly replica.",
            ),
            false => refusal.clone(),
        }
        .into());
    }
    if flags.are_given && is_read_only && !flags.no_writes {
        return Err(CommandError::fixed(
            "ERR Can not execute a script with write flag using *_ro command.",
        )
        .into());
    }
    Ok(Permissions {
        is_full: is_full && !flags.allow_oom,
        write_refusal,
        is_read_only: is_read_only || flags.no_writes,
        is_function: false,
    })
}

/// A single run of a script, with its arguments.
struct Evaluation<'a> {
    interpreter: &'static dyn Interpreter,
    script: &'a Arc<Script>,
    called: &'a ScriptArguments<'a>,
    permissions: Permissions,
}

impl Evaluation<'_> {
    /// Runs the script within the transaction of an enclosing MULTI and EXEC.
    fn join_transaction(&self, context: &mut Context<'_>, reply: &mut dyn Reply) -> Outcome {
        let mut tape = Tape::default();
        match self.run_in_transaction(context, &mut tape)? {
            None => tape.play_all(reply),
            // Write the error instead of returning it, because returning it would roll back the
            // script's earlier changes.
            Some(error) => {
                context.lap.add_error(error.text());
                error.write(reply);
            }
        }
        Ok(())
    }

    /// Runs the script in a separate transaction.
    fn transact(&self, context: &mut Context<'_>, reply: &mut dyn Reply) -> Outcome {
        let store = context.store;
        let killed = store.store().killed_scripts();
        context.session.scripts.begin(killed);
        let keys = self.called.keys.iter();
        let shards = keys.map(|key| store.key(key).shard()).collect();
        let mut scratch = SessionScratch::<(Tape, Lap)>::new(context);
        let ended = store.transact_into(shards, &mut scratch, |running, scratch| {
            let (context, (tape, lap)) = (&mut *scratch.context, &mut scratch.made);
            let mut inner = context.nested(running.access());
            let ended = self.run_in_transaction(&mut inner, tape);
            *lap = inner.lap;
            ended
        });
        let SessionScratch {
            context,
            made: (tape, mut lap),
            ..
        } = scratch;
        context.session.scripts.killed = None;
        let error = ended?;
        context.count_ran(&lap);
        context.lap.trace = std::mem::take(&mut lap.trace);
        match error {
            Some(error) => Err(error.into()),
            None => {
                tape.play_all(reply);
                Ok(())
            }
        }
    }

    /// Runs the script within a transaction. Returns the error that ended the script, if any.
    ///
    /// # Errors
    /// Returns a failure if the transaction must be rolled back.
    fn run_in_transaction(
        &self,
        context: &mut Context<'_>,
        tape: &mut Tape,
    ) -> Result<Option<CommandError>, Failure> {
        let session = &mut *context.session;
        let (database, protocol) = (session.database, session.protocol);
        session.protocol = Protocol::Resp2;
        let limits = context.host.process.script_limits;
        let store = context.store.store();
        let mut calls = Calls::new(context, limits, self.permissions.clone(), self.called);
        let mut ended = Err(ScriptError::Stopped);
        store.run_script(&mut || {
            ended = self
                .interpreter
                .run(self.script, self.called, &mut calls, tape);
        });
        let is_counted = calls.is_counted();
        let stopped = calls.end();
        let failure = match ended {
            Ok(()) => Ok(None),
            Err(ScriptError::Error(error)) => {
                if is_counted {
                    context.lap.forget_error(error.text());
                }
                Ok(Some(error))
            }
            Err(ScriptError::Stopped) => Err(stopped),
        };
        // A script's changes to the selected database and the protocol do not affect the client.
        context.session.database = database;
        context.session.protocol = protocol;
        failure
    }
}

fn find(
    context: &Context<'_>,
    interpreter: &'static dyn Interpreter,
    named: ScriptName<'_>,
) -> Result<Arc<Script>, Failure> {
    let scripts = &context.host.process.scripts;
    match named {
        ScriptName::Text(text) => {
            let limits = context.host.process.script_limits;
            let compile = |script: &Script| interpreter.compile(script, limits);
            scripts.learn(context.store, text, compile)
        }
        ScriptName::Sha(sha) => {
            let sha = Sha::parse(sha).ok_or(NO_SCRIPT)?;
            let found = scripts.find(context.store, &sha)?;
            found.ok_or_else(|| NO_SCRIPT.into())
        }
    }
}

/// Returns the flags of the script with this SHA-1, or `None` if no such script is known.
pub(super) fn flags(context: &Context<'_>, sha: &[u8]) -> Option<ScriptFlags> {
    let scripts = &context.host.process.scripts;
    let script = scripts.find(context.store, &Sha::parse(sha)?).ok()??;
    Some(script.flags())
}

/// Handles SCRIPT LOAD.
pub(super) fn load(
    context: &mut Context<'_>,
    interpreter: &'static dyn Interpreter,
    text: &[u8],
    reply: &mut dyn Reply,
) -> Outcome {
    let script = find(context, interpreter, ScriptName::Text(text))?;
    reply.bulk(script.sha().as_bytes());
    Ok(())
}

/// Returns whether a script with this SHA-1 exists and this process has an interpreter to run it.
pub(super) fn exists(context: &Context<'_>, name: &[u8]) -> Result<bool, Failure> {
    let process = context.host.process;
    match Sha::parse(name).filter(|_| process.interpreter.is_some()) {
        Some(sha) => Ok(process.scripts.find(context.store, &sha)?.is_some()),
        None => Ok(false),
    }
}

/// Handles SCRIPT FLUSH.
pub(super) fn flush(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let wait = match arguments {
        [_, _] => true,
        [_, _, how] if is_keyword(how, "SYNC") => true,
        [_, _, how] if is_keyword(how, "ASYNC") => false,
        _ => {
            return Err(
                CommandError::fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option").into(),
            );
        }
    };
    context.store.forget_scripts(wait)?;
    reply.ok();
    Ok(())
}

/// Handles SCRIPT KILL and FUNCTION KILL.
pub(super) fn kill(context: &mut Context<'_>, is_function: bool, reply: &mut dyn Reply) -> Outcome {
    let store = context.store.store();
    match store.running_script() {
        None => Err(
            CommandError::fixed("NOTBUSY No scripts in execution right now.").into(),
        ),
        Some(script) if script.has_written => Err(CommandError::fixed(
            "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait \
             the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
        )
        .into()),
        Some(script) if script.is_function != is_function => Err(busy(script.is_function).into()),
        Some(_) => {
            store.kill_scripts()?;
            reply.ok();
            Ok(())
        }
    }
}
