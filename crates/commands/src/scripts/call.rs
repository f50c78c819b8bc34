//! Defines the arguments, limits and outcomes of script calls.

use std::time::Duration;

use crate::arguments::CommandError;

/// The reason why a script did not finish.
#[derive(Debug)]
pub enum ScriptError {
    /// The script raised an error.
    Error(CommandError),
    /// The script must stop, and cannot catch this error. [`Calls`](crate::context::Calls) stores
    /// the reason.
    Stopped,
}

/// The arguments of a script call.
#[derive(Clone, Copy, Debug)]
pub struct ScriptArguments<'a> {
    /// The keys that the caller declares for the script.
    pub keys: &'a [&'a [u8]],
    /// The arguments that follow the keys.
    pub arguments: &'a [&'a [u8]],
    /// The name of the function to call, if the script is a library.
    pub function: Option<&'a [u8]>,
    /// The complete command that calls the function, including its name and arguments.
    pub words: &'a [&'a [u8]],
}

/// The limits that apply to all scripts in a process.
#[derive(Clone, Copy, Debug)]
pub struct ScriptLimits {
    /// The memory limit for one thread's interpreter, in bytes.
    pub memory: usize,
    /// The time limit for a script, or `None` for no limit. A script that exceeds it is rolled
    /// back.
    pub time: Option<Duration>,
    /// The time limit for a script on a thread that also serves other connections. A script that
    /// exceeds it is rolled back with [`Blocked::Long`](crate::Blocked::Long), and restarts on a
    /// separate thread.
    pub shared_thread_time: Option<Duration>,
    /// The time limit for a script that is called with [limited](undercroft_engine::limit_patience)
    /// patience (the time that a call may wait). If a script exceeds it, the caller restarts the
    /// script without this limit.
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

/// The reason why a command called by a script failed or did not run.
#[derive(Debug)]
pub enum CallError {
    /// The command failed, and the script may continue.
    Error(CommandError),
    /// The script must stop.
    Stopped,
}

/// Returns the error for commands that arrive while a slow script or function is running.
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
