//! What a script is called with, within which limits, and how it ends.

use std::time::Duration;

use crate::arguments::CommandError;

/// Why a script did not come to its end.
#[derive(Debug)]
pub enum ScriptError {
    /// By an error of its own.
    Error(CommandError),
    /// It has to end, whatever it would do about it; [`Calls`](crate::context::Calls) knows why.
    Stopped,
}

/// What a script is called with.
#[derive(Clone, Copy, Debug)]
pub struct ScriptArguments<'a> {
    /// The keys that it says it uses.
    pub keys: &'a [&'a [u8]],
    /// Everything else.
    pub arguments: &'a [&'a [u8]],
    /// The function that is called, where the script is a library.
    pub function: Option<&'a [u8]>,
    /// The command that calls a function.
    pub words: &'a [&'a [u8]],
}

/// Limits on a script that belong to the process.
#[derive(Clone, Copy, Debug)]
pub struct ScriptLimits {
    /// Bytes that the interpreter of one thread may take.
    pub memory: usize,
    /// How long a script may run; none is for ever. One that runs longer is undone.
    pub time: Option<Duration>,
    /// How long a script may run on a thread that serves others, where it is such. One that runs longer is undone and
    /// [`Blocked::Long`](crate::Blocked::Long): it starts anew on a thread of its own.
    pub shared_thread_time: Option<Duration>,
    /// The same for a call whose patience is [limited](undercroft_engine::limit_patience): the caller starts it anew
    /// without.
    pub impatient_time: Option<Duration>,
}

impl Default for ScriptLimits {
    fn default() -> ScriptLimits {
        ScriptLimits {
            memory: 256 << 20,
            time: None,
            shared_thread_time: None,
            impatient_time: None,
        }
    }
}

/// Why a command of a script was not run, or failed.
#[derive(Debug)]
pub enum CallError {
    /// The script may go on.
    Error(CommandError),
    /// It has to end.
    Stopped,
}

/// The error for commands that wait for a script, or a function, which takes long.
pub(crate) fn busy(is_function: bool) -> CommandError {
    CommandError::fixed(match is_function {
        true => {
            "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
        }
        false => {
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
        }
    })
}
