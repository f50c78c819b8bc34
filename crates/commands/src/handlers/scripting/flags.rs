//! Decides whether scripts are admitted, and finds the flags that scripts and functions declare.

use super::locks::LockScript;
use super::{functions, run};
use crate::arguments::CommandError;
use crate::context::Context;
use crate::scripts::ScriptFlags;
use crate::table::{Command, Group};

/// The error for an unknown script in a process without an interpreter. EVAL itself is still a
/// known command.
pub(super) const UNKNOWN: CommandError = CommandError::fixed(
    "ERR unknown script: this build has no Lua and runs only the scripts of redis-py's locks",
);

/// Rejects unknown scripts in a process without an interpreter, even if MULTI would only queue the
/// command.
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
        None if LockScript::by_text(text).is_none() => Err(UNKNOWN),
        _ => Ok(()),
    }
}

/// Returns the flags of the script or function that a command runs. Returns the default flags if
/// the command runs no script, or if the script does not exist or has an invalid first line. The
/// error is reported when the script runs.
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
