//! Implements the `coroutine` library.

use std::ffi::c_int;

use crate::libraries::function::{Function, Memory, asked, constant};
use crate::state::{Coroutine, Kind, Progress, State, upvalue};

/// The functions of `coroutine`, with the limits on each call's time and memory.
pub(crate) const FUNCTIONS: &[Function] = &[
    constant(c"create", create),
    asked(
        c"resume",
        resume,
        "the coroutine, until it yields",
        Memory::Fixed,
    ),
    constant(c"running", running),
    constant(c"status", status),
    constant(c"wrap", wrap),
    constant(c"yield", yield_values),
];

/// Functions that scripts can obtain only as results of the functions of `coroutine`.
pub(crate) const RETURNED: &[Function] = &[asked(
    c"the function that coroutine.wrap returns",
    resume_wrapped,
    "the coroutine, until it yields",
    Memory::Fixed,
)];

fn name(progress: Progress) -> &'static str {
    match progress {
        Progress::Running => "running",
        Progress::Suspended => "suspended",
        Progress::Normal => "normal",
        Progress::Dead => "dead",
    }
}

fn create(state: &mut State<'_>) -> c_int {
    if state.kind(1) != Kind::FUNCTION || state.is_native(1) {
        state.raise_argument(1, c"Lua function expected");
    }
    state.push_coroutine(1);
    1
}

/// Returns the first argument, which must be a coroutine.
fn argument<'s>(state: &'s State<'_>) -> Coroutine<'s> {
    match state.coroutine(1) {
        Some(coroutine) => coroutine,
        None => state.raise_argument(1, c"coroutine expected"),
    }
}

/// Resumes a coroutine with the top `arguments` values of the stack. Pushes the values that the
/// coroutine yields or returns, and returns their number. On failure, pushes the error and returns
/// `None`.
fn resume_with(state: &mut State<'_>, coroutine: Coroutine<'_>, arguments: c_int) -> Option<c_int> {
    state.check_stack();
    if !coroutine.has_room(arguments) {
        state.raise_here(b"too many arguments to resume");
    }
    let progress = coroutine.progress(state);
    if progress != Progress::Suspended {
        state.push_formatted(format_args!("cannot resume {} coroutine", name(progress)));
        return None;
    }
    state.hook_coroutine(coroutine);
    match coroutine.resume(state, arguments) {
        Ok(results) => {
            if !state.has_room(results + 1) {
                state.raise_here(b"too many results to resume");
            }
            coroutine.move_to(state, results);
            Some(results)
        }
        Err(status) => {
            state.check_caught(status);
            coroutine.move_to(state, 1);
            None
        }
    }
}

fn resume(state: &mut State<'_>) -> c_int {
    // SAFETY: the first argument stays on the stack, because only the values above it are moved.
    let coroutine = argument(unsafe { state.anchored() });
    let arguments = state.top() - 1;
    let resumed = resume_with(state, coroutine, arguments);
    state.push_boolean(resumed.is_some());
    let results = resumed.unwrap_or(1);
    state.insert(-(results + 1));
    results + 1
}

fn wrap(state: &mut State<'_>) -> c_int {
    create(state);
    state.push_closure(resume_wrapped, 1);
    1
}

/// Implements the function that `coroutine.wrap` returns. Its upvalue is the coroutine.
fn resume_wrapped(state: &mut State<'_>) -> c_int {
    // SAFETY: a running function keeps its upvalues alive.
    let coroutine = unsafe { state.anchored() }.coroutine(upvalue(1));
    let arguments = state.top();
    if let Some(results) = coroutine.and_then(|coroutine| resume_with(state, coroutine, arguments))
    {
        return results;
    }
    if state.is_string(-1) {
        state.push_location(1);
        state.insert(-2);
        state.concatenate(2);
    }
    state.raise_top()
}

fn yield_values(state: &mut State<'_>) -> c_int {
    state.yield_values(state.top())
}

fn status(state: &mut State<'_>) -> c_int {
    let progress = argument(state).progress(state);
    state.push_bytes(name(progress).as_bytes());
    1
}

fn running(state: &mut State<'_>) -> c_int {
    if !state.push_running() {
        state.push_nil();
    }
    1
}
