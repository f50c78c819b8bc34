//! The arguments, limits and outcomes of a script call.

use std::time::Duration;

use crate::arguments::CommandError;

/// Why a script did not finish.
#[derive(Debug)]
pub enum ScriptError {
    /// The script raised an error.
    Error(CommandError),
    /// The script must end, and cannot catch this. [`Calls`](crate::context::Calls) keeps the
    /// reason.
    Stopped,
}

/// The arguments of a script call.
#[derive(Clone, Copy, Debug)]
pub struct ScriptArguments<'a> {
    /// The keys that the caller declares.
    pub keys: &'a [&'a [u8]],
    /// The other arguments.
    pub arguments: &'a [&'a [u8]],
    /// The function to call, if the script is a library.
    pub function: Option<&'a [u8]>,
    /// The complete command that calls a function.
    pub words: &'a [&'a [u8]],
}

/// The process-wide limits on scripts.
#[derive(Clone, Copy, Debug)]
pub struct ScriptLimits {
    /// The bytes of memory that the interpreter of one thread may use.
    pub memory: usize,
    /// How long a script may run, or `None` for no limit. A script that runs longer is rolled back.
    pub time: Option<Duration>,
    /// How long a script may run on a thread that serves other connections, too. A script that runs
    /// longer is rolled back with [`Blocked::Long`](crate::Blocked::Long), and restarts on a
    /// separate thread.
    pub shared_thread_time: Option<Duration>,
    /// How long a script may run in a call whose patience is
    /// [limited](undercroft_engine::limit_patience). The caller restarts a longer script without
    /// that limit.
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

/// Why a command called by a script failed or did not run.
#[derive(Debug)]
pub enum CallError {
    /// The command failed, and the script may continue.
    Error(CommandError),
    /// The script must end.
    Stopped,
}

/// The error for commands that arrive while a slow script or function runs.
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
