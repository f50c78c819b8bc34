//! Implements EVAL and EVALSHA, their read-only variants, and SCRIPT.

use super::call::Call;
use super::flags::UNKNOWN;
use super::locks::{self, LockScript};
use super::run;
use crate::arguments::{CommandError, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::Outcome;
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("eval", eval),
    ("evalsha", evalsha),
    ("eval_ro", eval_ro),
    ("evalsha_ro", evalsha_ro),
    ("script|exists", exists),
    ("script|load", load),
    ("script|flush", flush),
    ("script|kill", kill),
    ("script|debug", debug),
];

/// Handles EVAL.
fn eval(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    evaluate(context, arguments, false, reply)
}

/// Handles EVAL_RO.
fn eval_ro(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    evaluate(context, arguments, true, reply)
}

fn evaluate(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    is_read_only: bool,
    reply: &mut dyn Reply,
) -> Outcome {
    let known = LockScript::by_text(arguments[1]);
    let named = run::ScriptName::Text(arguments[1]);
    run_any(
        context,
        arguments,
        (known, named, UNKNOWN),
        is_read_only,
        reply,
    )
}

/// Runs a known lock script natively, and any other script in the interpreter. Returns the error
/// `unknown` if the process has no interpreter.
fn run_any(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    (known, named, unknown): (Option<LockScript>, run::ScriptName<'_>, CommandError),
    is_read_only: bool,
    reply: &mut dyn Reply,
) -> Outcome {
    let call = Call::parse(arguments)?;
    if let Some(script) = known.filter(|_| !is_read_only) {
        return locks::run(script, &call, context, reply);
    }
    let interpreter = context.host.process.interpreter.ok_or(unknown)?;
    run::run(
        context,
        interpreter,
        named,
        &call.called(),
        is_read_only,
        reply,
    )
}

/// Handles EVALSHA.
fn evalsha(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    evaluate_sha(context, arguments, false, reply)
}

/// Handles EVALSHA_RO.
fn evalsha_ro(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    evaluate_sha(context, arguments, true, reply)
}

fn evaluate_sha(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    is_read_only: bool,
    reply: &mut dyn Reply,
) -> Outcome {
    const NONE: CommandError = CommandError::fixed("NOSCRIPT No matching script. Please use EVAL.");
    if arguments[1].len() != 40 {
        return Err(NONE.into());
    }
    let known = LockScript::by_sha(arguments[1]);
    let named = run::ScriptName::Sha(arguments[1]);
    run_any(
        context,
        arguments,
        (known, named, NONE),
        is_read_only,
        reply,
    )
}

/// Handles SCRIPT EXISTS.
fn exists(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let mut found = Vec::with_capacity(arguments.len() - 2);
    for sha in &arguments[2..] {
        found.push(LockScript::by_sha(sha).is_some() || run::exists(context, sha)?);
    }
    reply.array(found.len());
    for found in found {
        reply.integer(found.into());
    }
    Ok(())
}

/// Handles SCRIPT LOAD.
fn load(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    if let Some(interpreter) = context.host.process.interpreter {
        return run::load(context, interpreter, arguments[2], reply);
    }
    let script = LockScript::by_text(arguments[2]);
    let script = script.ok_or_else(|| CommandError::unknown_command(arguments))?;
    reply.bulk(script.sha().as_bytes());
    Ok(())
}

/// Handles SCRIPT FLUSH.
fn flush(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    run::flush(context, arguments, reply)
}

/// Handles SCRIPT KILL.
fn kill(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    run::kill(context, false, reply)
}

/// Handles SCRIPT DEBUG. An attempt to enable the debugger closes the connection, because the
/// client's next script would otherwise run normally instead of in the debugger.
fn debug(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    match arguments {
        [_, _, mode] if is_keyword(mode, "NO") => {
            reply.ok();
            return Ok(());
        }
        [_, _, mode] if is_keyword(mode, "YES") || is_keyword(mode, "SYNC") => {}
        _ => return Err(CommandError::fixed("ERR Use SCRIPT DEBUG YES/SYNC/NO").into()),
    }
    context.session.replies.close_after = true;
    Err(CommandError::fixed("ERR the script debugger is not supported").into())
}
