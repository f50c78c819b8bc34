//! Implements `redis.call` and `redis.pcall`, which run commands in scripts.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use undercroft_commands::protocol::Protocol;
use undercroft_commands::scripts::CallError;

use crate::libraries::workspace::{Command, Workspace};
use crate::state::{HoldsContext, Kind, State};
use crate::values::numbers::append_general;
use crate::values::tape_player::push_reply;

/// The outcome of a command that a script called.
#[derive(Clone, Copy)]
enum CommandOutcome {
    Replied { as_resp3: bool },
    Stopped,
}

/// Implements `redis.call`.
pub(super) fn call(state: &mut State<'_>) -> c_int {
    call_command(state, true)
}

/// Implements `redis.pcall`.
pub(super) fn pcall(state: &mut State<'_>) -> c_int {
    call_command(state, false)
}

const NO_ARGUMENT: &[u8] = b"ERR Please specify at least one argument for this redis lib call";
const WRONG_ARGUMENT: &[u8] = b"ERR Lua redis lib command arguments must be strings or integers";

fn call_command(state: &mut State<'_>, raises: bool) -> c_int {
    let workspace = Workspace::of(state);
    if !workspace.context().has_host() {
        state.raise(b"ERR redis.call/pcall can only be called inside a script invocation");
    }
    // SAFETY: this is the only reference to the command: running it and pushing its reply call no
    // script.
    let command = unsafe { &mut *workspace.command() };
    let problem = match gather_arguments(state, command) {
        GatheredArguments::Valid => {
            let CommandOutcome::Replied { as_resp3 } = execute_command(workspace, command) else {
                state.stop();
            };
            state.set_top(0);
            push_reply(&command.reply, state, as_resp3);
            if raises && command.reply.is_error() {
                state.raise_top();
            }
            return 1;
        }
        GatheredArguments::Missing => NO_ARGUMENT,
        GatheredArguments::WrongType => WRONG_ARGUMENT,
    };
    state.push_error(problem);
    if raises {
        state.raise_top();
    }
    1
}

/// Whether the arguments of a command are valid.
enum GatheredArguments {
    Valid,
    Missing,
    /// An argument is neither a string nor a number.
    WrongType,
}

/// Collects pointers to a command's arguments on the stack. The arguments must stay there until the
/// command ends.
fn gather_arguments(state: &State<'_>, command: &mut Command) -> GatheredArguments {
    let Command {
        arguments,
        digits,
        numbers,
        ..
    } = command;
    arguments.clear();
    digits.clear();
    numbers.clear();
    let count = state.top();
    if count == 0 {
        return GatheredArguments::Missing;
    }
    for index in 1..=count {
        match state.kind(index) {
            Kind::STRING => {
                // SAFETY: the arguments stay on the stack while the command runs, and the next
                // command discards the pointers.
                let text = unsafe { state.anchored() }.bytes(index);
                arguments.push(text);
            }
            Kind::NUMBER => {
                let start = digits.len();
                append_general(digits, state.number(index), 17);
                numbers.push((arguments.len(), start..digits.len()));
                arguments.push(&[]);
            }
            _ => return GatheredArguments::WrongType,
        }
    }
    // Appending digits can reallocate the buffer, so create pointers into it only after the last
    // number.
    for (index, part) in numbers.drain(..) {
        let number = &raw const digits[part];
        // SAFETY: `digits` does not change until the next command collects its arguments.
        arguments[index] = unsafe { &*number };
    }
    GatheredArguments::Valid
}

/// Runs a command. Calls no Lua functions, because a Lua error skips destructors.
fn execute_command(workspace: &Workspace, command: &mut Command) -> CommandOutcome {
    let result = workspace.context().ask_host(|host| {
        catch_unwind(AssertUnwindSafe(|| {
            let Command {
                arguments, reply, ..
            } = command;
            reply.clear();
            let as_resp3 = host.protocol() == Protocol::Resp3;
            match host.call(arguments, reply) {
                Ok(()) => CommandOutcome::Replied { as_resp3 },
                Err(CallError::Error(error)) => {
                    reply.clear();
                    error.write(reply);
                    CommandOutcome::Replied { as_resp3 }
                }
                Err(CallError::Stopped) => CommandOutcome::Stopped,
            }
        }))
    });
    match result {
        Some(Ok(outcome)) => outcome,
        Some(Err(panic)) => {
            workspace.panic.set(Some(panic));
            CommandOutcome::Stopped
        }
        None => CommandOutcome::Stopped,
    }
}

/// Implements `redis.acl_check_cmd`.
pub(super) fn acl_check_cmd(state: &mut State<'_>) -> c_int {
    let workspace = Workspace::of(state);
    if !workspace.context().has_host() {
        state.raise(b"ERR redis.acl_check_cmd can only be called inside a script invocation");
    }
    // SAFETY: this is the only reference to the command, because this function runs no script.
    let command = unsafe { &mut *workspace.command() };
    match gather_arguments(state, command) {
        GatheredArguments::Missing => state.raise(NO_ARGUMENT),
        GatheredArguments::WrongType => state.raise(WRONG_ARGUMENT),
        GatheredArguments::Valid => {}
    }
    let is_allowed = workspace
        .context()
        .ask_host(|host| host.allows(&command.arguments));
    match is_allowed.flatten() {
        None => state.raise(b"ERR Invalid command passed to redis.acl_check_cmd()"),
        Some(is_allowed) => state.push_boolean(is_allowed),
    }
    1
}
