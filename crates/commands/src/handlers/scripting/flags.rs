//! Which scripts may be run or queued, and what they say of themselves.

use super::locks::LockScript;
use super::{functions, run};
use crate::arguments::CommandError;
use crate::context::Context;
use crate::scripts::ScriptFlags;
use crate::table::{Command, Group};

/// For a script that is none of those, where the process has no interpreter: EVAL as a command being known.
pub(super) const UNKNOWN: CommandError = CommandError::fixed(
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
        None if LockScript::by_text(text).is_none() => Err(UNKNOWN),
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
