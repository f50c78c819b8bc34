//! When a script has to end, and what it may take.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::time::Duration;

use mlua_sys::{
    LUA_ERRMEM, LUA_GCCOLLECT, LUA_MASKCOUNT, lua_Debug, lua_State, lua_error, lua_gc, lua_sethook,
};
use undercroft_commands::script::Refused;

use crate::state::Deadline;
use crate::state::context::{Context, Pace, RunStatus};
use crate::state::raise::{push_error, raise_text};
use crate::state::stack::push_bytes;

/// Instructions between two looks at whether a script may go on: at first, as each may be a library's work on a long text,
/// and at most, as long as they are quick.
const FIRST: c_int = 32;
const MOST: c_int = 512;
/// Between two looks in less than this there may be more of them, in more than this there are fewer.
const QUICK: Duration = Duration::from_micros(100);
const SLOW: Duration = Duration::from_millis(1);

/// Has the hook called every so many instructions of what begins.
pub(crate) unsafe fn start_hook(context: *mut Context) {
    (*context).pace = Pace {
        looked_at: Duration::ZERO,
        instructions: FIRST,
    };
    lua_sethook((*context).state, Some(hook), LUA_MASKCOUNT, FIRST);
}

/// Sets when a script is looked at again that has run for so long.
unsafe fn adjust_pace(context: *mut Context, state: *mut lua_State, elapsed: Duration) {
    let Pace {
        looked_at,
        instructions,
    } = (*context).pace;
    let instructions = match elapsed.saturating_sub(looked_at) {
        taken if taken < QUICK => (instructions * 2).min(MOST),
        taken if taken > SLOW => (instructions / 16).max(1),
        _ => instructions,
    };
    (*context).pace = Pace {
        looked_at: elapsed,
        instructions,
    };
    // A coroutine has a count of its own.
    lua_sethook(state, Some(hook), LUA_MASKCOUNT, instructions);
}

/// Ends the script that runs, whatever it does about it.
pub(crate) unsafe fn stop(state: *mut lua_State) -> c_int {
    let context = Context::of(state);
    (*context).end(RunStatus::Stopped, state);
    raise_ending(context, state)
}

impl Context {
    /// From now on the next instruction fails, wherever an error was caught.
    unsafe fn end(&mut self, status: RunStatus, state: *mut lua_State) {
        self.status = status;
        lua_sethook(self.state, Some(hook), LUA_MASKCOUNT, 1);
        lua_sethook(state, Some(hook), LUA_MASKCOUNT, 1);
    }
}

/// Called every so many instructions.
unsafe extern "C-unwind" fn hook(state: *mut lua_State, _: *mut lua_Debug) {
    let context = Context::of(state);
    if (*context).calls.is_null() {
        if (*context).deadline.is_some_and(Deadline::has_passed) {
            push_error(state, (*context).deadline_error);
            lua_error(state);
        }
        lua_sethook(state, Some(hook), LUA_MASKCOUNT, MOST);
        return;
    }
    if (*context).status == RunStatus::Running && !may_go_on(context, state)
        || (*context).status != RunStatus::Running
    {
        raise_ending(context, state);
    }
}

unsafe fn may_go_on(context: *mut Context, state: *mut lua_State) -> bool {
    match (*(*context).calls).tick() {
        Ok(elapsed) => {
            adjust_pace(context, state, elapsed);
            true
        }
        Err(Refused::Error(error)) => {
            (*context).keep_text(error.text().as_bytes());
            (*context).end(RunStatus::Killed, state);
            false
        }
        Err(Refused::Stopped) => {
            (*context).end(RunStatus::Stopped, state);
            false
        }
    }
}

/// Raises where the script has to end: for functions that may take long by themselves.
pub(crate) unsafe fn check_time(state: *mut lua_State) {
    hook(state, null_mut());
}

/// What a walk through a table counts as: it may have any number of empty places, which nobody is told of.
pub(crate) const TABLE_WALK: usize = 4096;
/// So many steps are made between two questions.
const STEPS: usize = 65_536;
/// Bytes that are copied or looked at in a step.
const STEP_BYTES: usize = 16;

/// Counts steps of a function, whatever it does. Raises where the script has to end.
#[inline]
pub(crate) unsafe fn spend(state: *mut lua_State, steps: usize) {
    let context = Context::of(state);
    let spent = (*context).spent.saturating_add(steps);
    (*context).spent = spent;
    if spent >= STEPS {
        (*context).spent = 0;
        check_time(state);
    }
}

/// The same for bytes.
#[inline]
pub(crate) unsafe fn spend_bytes(state: *mut lua_State, bytes: usize) {
    spend(state, 1 + bytes / STEP_BYTES);
}

/// Has a coroutine that is about to be resumed interrupted like its script.
pub(crate) unsafe fn hook_coroutine(state: *mut lua_State, coroutine: *mut lua_State) {
    let instructions = (*Context::of(state)).pace.instructions.max(1);
    lua_sethook(coroutine, Some(hook), LUA_MASKCOUNT, instructions);
}

/// To be called wherever an error was caught: one that ends the script is raised again, so that no script sees it.
pub(crate) unsafe fn check_caught(state: *mut lua_State, status: c_int) {
    let context = Context::of(state);
    if status == LUA_ERRMEM && (*context).may_catch() && !(*context).calls.is_null() {
        (*context).end(RunStatus::OutOfMemory, state);
    }
    if !(*context).may_catch() {
        raise_ending(context, state);
    }
}

/// Raises where functions of C that call one another, by way of scripts, take too much of the thread's stack. Lua counts
/// them, too, up to 200.
pub(crate) unsafe fn check_stack(state: *mut lua_State) {
    let context = Context::of(state);
    let here = (&raw const context).addr();
    if !(*context).stack_bounds.allow(here, (*context).stack_start) {
        mlua_sys::luaL_error(state, c"C stack overflow".as_ptr());
    }
}

/// Ends the script, which has taken all memory that it may.
#[cold]
pub(crate) unsafe fn raise_memory(state: *mut lua_State) -> ! {
    let context = Context::of(state);
    if (*context).may_catch() && !(*context).calls.is_null() {
        (*context).end(RunStatus::OutOfMemory, state);
    }
    raise_text(state, b"not enough memory");
    unreachable!("raised");
}

/// Makes room for a block of memory of Lua's that may be long, by collecting garbage. Ends the script where there is none.
pub(crate) unsafe fn make_room(state: *mut lua_State, bytes: usize) {
    const SHORT: usize = 64 * 1024;
    if bytes < SHORT {
        return;
    }
    let context = Context::of(state);
    if !(*context).memory.has_room(bytes) {
        lua_gc(state, LUA_GCCOLLECT, 0);
        if !(*context).memory.has_room(bytes) {
            raise_memory(state);
        }
    }
}

/// Ends the script where something that is made in the context's text would exceed the limit on memory.
pub(crate) unsafe fn check_room(state: *mut lua_State, length: usize) {
    let context = Context::of(state);
    let text = (*context).text.len().saturating_add(length);
    (*context).memory.extra = 0;
    if !(*context).memory.has_room(text) {
        raise_memory(state);
    }
    (*context).memory.extra = text;
}

/// Pushes the context's text, which has been made.
pub(crate) unsafe fn push_scratch(state: *mut lua_State) {
    let context = Context::of(state);
    make_room(state, (*context).text.len());
    push_bytes(state, &(*context).text);
    (*context).clear_scratch();
}

/// Raises where the answer of a script gets longer than the limit on memory.
pub(crate) unsafe fn count_reply(state: *mut lua_State, length: usize) {
    let context = Context::of(state);
    (*context).reply_bytes = (*context).reply_bytes.saturating_add(length);
    if (*context).reply_bytes > (*context).memory.limit {
        raise_memory(state);
    }
}

/// Raises the error of a script that has to end.
pub(crate) unsafe fn raise_ending(context: *mut Context, state: *mut lua_State) -> c_int {
    match (*context).status {
        RunStatus::Killed => push_error(state, &(*context).text),
        RunStatus::OutOfMemory => push_bytes(state, b"not enough memory"),
        _ => push_error(state, b"ERR the script was stopped"),
    }
    lua_error(state)
}
