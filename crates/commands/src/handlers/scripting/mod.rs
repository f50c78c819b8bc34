//! EVAL and its like. Scripts are run by the interpreter that the process brings along; a build without it does not know
//! them. Three are known by their SHA-1 all the same, and written here in Rust: those of redis-py's locks, of which
//! redis-py 5.0 to the newest send the same texts. They answer and fail as the texts do in Redis 7.0, and take a part of
//! the time (`make bench TABLE=scripts`).
//!
//! - `functions`: libraries of functions, and calls of these.
//! - `locks`: the scripts of redis-py's locks.
//! - `run`: scripts of any text, which the interpreter of the process runs.

pub(crate) mod functions;
mod locks;
mod run;

use sha1_smol::Sha1;

use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::Outcome;
use crate::reply::Reply;
use crate::script::{Called, ScriptFlags};
use crate::table::{Command, Group};

pub(crate) use functions::count as function_count;
pub(crate) use run::{busy, is_full};

/// The commands of this file.
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

/// A script that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    /// Deletes the key where it holds the token.
    Release,
    /// Adds to the time to live of such a key, which has one, or sets it.
    Extend,
    /// Sets the time to live of such a key.
    Reacquire,
}

/// Each with its SHA-1 and the length of its text.
const SCRIPTS: [(Script, &str, usize); 3] = [
    (
        Script::Release,
        "c3f8721cbb97f72bc19e972846bd7aaf91901658",
        185,
    ),
    (
        Script::Extend,
        "a4e8783852e6b949f9ef3a97212805108459a890",
        503,
    ),
    (
        Script::Reacquire,
        "1cac51482acf5858da00f6d685d68f886cd6b6b2",
        198,
    ),
];

impl Script {
    fn by_sha(sha: &[u8]) -> Option<Script> {
        // Of most scripts the first digit tells; the digits' case bit is set.
        let first = sha.first()? | 0x20;
        let mut known = SCRIPTS.iter();
        let found =
            known.find(|(_, known, _)| known.as_bytes()[0] == first && is_keyword(sha, known));
        found.map(|(script, ..)| *script)
    }

    fn by_text(text: &[u8]) -> Option<Script> {
        // Most texts need not be hashed.
        let mut known = SCRIPTS.iter();
        known.find(|(.., length)| *length == text.len())?;
        Script::by_sha(Sha1::from(text).digest().to_string().as_bytes())
    }

    fn sha(self) -> &'static str {
        SCRIPTS[self as usize].1
    }

    /// What Redis makes of a command's error within a script.
    fn error(self, text: &str, line: u32) -> CommandError {
        let sha = self.sha();
        CommandError::new(format!("{text} script: {sha}, on @user_script:{line}."))
    }

    /// What Redis makes of an error of the script itself.
    fn own_error(self, text: &str, line: u32) -> CommandError {
        self.error(&format!("ERR user_script:{line}: {text}"), line)
    }

    fn no_argument(self, line: u32) -> CommandError {
        self.error(
            "ERR Lua redis lib command arguments must be strings or integers",
            line,
        )
    }
}

/// For a script that is none of those, where the process has no interpreter: EVAL as a command being known.
const UNKNOWN: CommandError = CommandError::fixed(
    "ERR unknown script: this build has no Lua, and of Lua scripts knows those of redis-py's locks only",
);

/// Where there is no interpreter, scripts that are not known are refused, also where they would only be queued.
pub(crate) fn admit(
    context: &Context<'_>,
    command: &Command,
    arguments: &[&[u8]],
) -> Result<(), CommandError> {
    let text = match (command.name, arguments) {
        ("eval" | "eval_ro", [_, text, ..]) | ("script|load", [_, _, text]) => text,
        _ => return Ok(()),
    };
    match context.host.process.interpreter {
        None if Script::by_text(text).is_none() => Err(UNKNOWN),
        _ => Ok(()),
    }
}

/// Returns the flags of the script or function that a command runs. None are given by a command that runs none, and by a
/// script that is not there or whose first line is wrong: running it gives the error.
pub(crate) fn flags(context: &Context<'_>, command: &Command, arguments: &[&[u8]]) -> ScriptFlags {
    if command.group != Group::Scripting {
        return ScriptFlags::default();
    }
    let found = match (command.name, arguments) {
        ("eval" | "eval_ro", [_, text, ..]) => Some(ScriptFlags::of(text)),
        ("evalsha" | "evalsha_ro", [_, sha, ..]) => run::flags(context, sha),
        ("fcall" | "fcall_ro", [_, name, ..]) => functions::flags(context, name),
        _ => None,
    };
    found.unwrap_or_default()
}

/// EVAL.
fn eval(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    evaluate(context, arguments, false, reply)
}

/// EVAL_RO.
fn eval_ro(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    evaluate(context, arguments, true, reply)
}

fn evaluate(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    is_read_only: bool,
    reply: &mut dyn Reply,
) -> Outcome {
    let known = Script::by_text(arguments[1]);
    let named = run::Named::Text(arguments[1]);
    run_any(
        context,
        arguments,
        (known, named, UNKNOWN),
        is_read_only,
        reply,
    )
}

/// Runs a script that is known, or by the interpreter; an error where there is none.
fn run_any(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    (known, named, unknown): (Option<Script>, run::Named<'_>, CommandError),
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

/// EVALSHA.
fn evalsha(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    evaluate_sha(context, arguments, false, reply)
}

/// EVALSHA_RO.
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
    let known = Script::by_sha(arguments[1]);
    let named = run::Named::Sha(arguments[1]);
    run_any(
        context,
        arguments,
        (known, named, NONE),
        is_read_only,
        reply,
    )
}

/// SCRIPT EXISTS.
fn exists(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let mut found = Vec::with_capacity(arguments.len() - 2);
    for sha in &arguments[2..] {
        found.push(Script::by_sha(sha).is_some() || run::exists(context, sha)?);
    }
    reply.array(found.len());
    for found in found {
        reply.integer(found.into());
    }
    Ok(())
}

/// SCRIPT LOAD.
fn load(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    if let Some(interpreter) = context.host.process.interpreter {
        return run::load(context, interpreter, arguments[2], reply);
    }
    let script = Script::by_text(arguments[2]);
    let script = script.ok_or_else(|| CommandError::unknown_command(arguments))?;
    reply.bulk(script.sha().as_bytes());
    Ok(())
}

/// SCRIPT FLUSH.
fn flush(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    run::flush(context, arguments, reply)
}

/// SCRIPT KILL.
fn kill(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    run::kill(context, false, reply)
}

/// SCRIPT DEBUG. A client that asked for the debugger would run its script next, for real: its connection is closed.
fn debug(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    match arguments {
        [_, _, mode] if is_keyword(mode, "NO") => {
            reply.ok();
            return Ok(());
        }
        [_, _, mode] if is_keyword(mode, "YES") || is_keyword(mode, "SYNC") => {}
        _ => return Err(CommandError::fixed("ERR Use SCRIPT DEBUG YES/SYNC/NO").into()),
    }
    context.session.close_after_reply = true;
    Err(CommandError::fixed("ERR scripts cannot be debugged: there is no debugger").into())
}

/// What a script is called with.
struct Call<'a> {
    keys: &'a [&'a [u8]],
    arguments: &'a [&'a [u8]],
}

impl<'a> Call<'a> {
    fn parse(arguments: &'a [&'a [u8]]) -> Result<Call<'a>, CommandError> {
        let (count, rest) = (integer(arguments[2])?, &arguments[3..]);
        if count > rest.len() as i64 {
            return Err(CommandError::fixed(
                "ERR Number of keys can't be greater than number of args",
            ));
        }
        let count = usize::try_from(count)
            .map_err(|_| CommandError::fixed("ERR Number of keys can't be negative"))?;
        let (keys, arguments) = rest.split_at(count);
        Ok(Call { keys, arguments })
    }

    fn called(&self) -> Called<'a> {
        Called {
            keys: self.keys,
            arguments: self.arguments,
            function: None,
            words: &[],
        }
    }

    /// One of KEYS, counted from 1 as the texts do.
    fn key(&self, number: usize) -> Option<&'a [u8]> {
        self.keys.get(number - 1).copied()
    }

    /// One of ARGV, counted from 1.
    fn argument(&self, number: usize) -> Option<&'a [u8]> {
        self.arguments.get(number - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_in_the_order_of_their_table() {
        for (script, sha, _) in SCRIPTS {
            assert_eq!(script.sha(), sha);
            assert_eq!(Script::by_sha(sha.to_uppercase().as_bytes()), Some(script));
        }
        assert_eq!(Script::by_text(&[b' '; 185]), None);
        assert_eq!(Script::by_text(b"return 1"), None);
    }
}
