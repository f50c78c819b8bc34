//! When a script has to end, and what it may take.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use mlua_sys::{LUA_MASKCOUNT, lua_Debug, lua_State, lua_error, lua_sethook};
use undercroft_commands::script::Refused;

use crate::machine::{Machine, keep_text};
use crate::raise::{push_error, raise_text};

/// Instructions between two looks at whether a script may go on: at first, as each may be a library's work on a long text,
/// and at most, as long as they are quick.
const FIRST: c_int = 32;
const MOST: c_int = 512;
/// Between two looks in less than this there may be more of them, in more than this there are fewer.
const QUICK: Duration = Duration::from_micros(100);
const SLOW: Duration = Duration::from_millis(1);

/// Whether the script that runs has to end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    No,
    /// With the error in `text`.
    Killed,
    /// Without one.
    Stopped,
}

/// When a script was looked at last, since it started, and the instructions until the next look.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pace {
    looked: Duration,
    instructions: c_int,
}

/// Has the hook called every so many instructions of what begins.
pub(crate) unsafe fn watch(machine: *mut Machine) {
    (*machine).pace = Pace {
        looked: Duration::ZERO,
        instructions: FIRST,
    };
    lua_sethook((*machine).state, Some(hook), LUA_MASKCOUNT, FIRST);
}

/// Sets when a script is looked at again that has run for so long.
unsafe fn pace(machine: *mut Machine, state: *mut lua_State, elapsed: Duration) {
    let Pace {
        looked,
        instructions,
    } = (*machine).pace;
    let instructions = match elapsed.saturating_sub(looked) {
        taken if taken < QUICK => (instructions * 2).min(MOST),
        taken if taken > SLOW => (instructions / 16).max(1),
        _ => instructions,
    };
    (*machine).pace = Pace {
        looked: elapsed,
        instructions,
    };
    // A coroutine has a count of its own.
    lua_sethook(state, Some(hook), LUA_MASKCOUNT, instructions);
}

impl Machine {
    /// Ends the script that runs, whatever it does about it.
    pub(crate) unsafe fn stop(machine: *mut Machine, state: *mut lua_State) -> c_int {
        (*machine).end(Ending::Stopped, state);
        raise_ending(machine, state)
    }

    /// From now on the next instruction fails, wherever an error was caught.
    unsafe fn end(&mut self, ending: Ending, state: *mut lua_State) {
        self.ending = ending;
        lua_sethook(self.state, Some(hook), LUA_MASKCOUNT, 1);
        lua_sethook(state, Some(hook), LUA_MASKCOUNT, 1);
    }

    /// Whether an error may be caught.
    pub(crate) fn may_catch(&self) -> bool {
        self.ending == Ending::No
    }
}

/// Called every so many instructions.
unsafe extern "C-unwind" fn hook(state: *mut lua_State, _: *mut lua_Debug) {
    let machine = Machine::of(state);
    if (*machine).calls.is_null() {
        let until = (*machine).loading.until;
        if until.is_some_and(|until| Instant::now() > until) {
            push_error(state, b"ERR FUNCTION LOAD timeout");
            lua_error(state);
        }
        lua_sethook(state, Some(hook), LUA_MASKCOUNT, MOST);
        return;
    }
    if (*machine).ending == Ending::No && !may_go_on(machine, state)
        || (*machine).ending != Ending::No
    {
        raise_ending(machine, state);
    }
}

unsafe fn may_go_on(machine: *mut Machine, state: *mut lua_State) -> bool {
    match (*(*machine).calls).tick() {
        Ok(elapsed) => {
            pace(machine, state, elapsed);
            true
        }
        Err(Refused::Error(error)) => {
            keep_text(machine, error.text().as_bytes());
            (*machine).end(Ending::Killed, state);
            false
        }
        Err(Refused::Stopped) => {
            (*machine).end(Ending::Stopped, state);
            false
        }
    }
}

/// Raises where the script has to end: for functions that may take long by themselves.
pub(crate) unsafe fn check_time(state: *mut lua_State) {
    hook(state, null_mut());
}

/// Steps that were made since it was last asked whether the script may go on.
#[derive(Default)]
pub(crate) struct Steps(usize);

impl Steps {
    /// What a walk through a table counts as: it may have any number of empty places, which nobody is told of.
    pub(crate) const WALK: usize = 4096;
    /// So many are made between two questions.
    const MOST: usize = 65_536;

    /// Counts steps. Raises where the script has to end.
    pub(crate) unsafe fn count(&mut self, state: *mut lua_State, steps: usize) {
        self.0 += steps;
        if self.0 >= Steps::MOST {
            self.0 = 0;
            check_time(state);
        }
    }
}

/// Raises where functions of C that call one another, by way of scripts, take too much of the thread's stack. Lua counts
/// them, but each coroutine anew.
pub(crate) unsafe fn check_stack(state: *mut lua_State) {
    const TAKEN_MAX: usize = 256 * 1024;
    let machine = Machine::of(state);
    let here = (&raw const machine).addr();
    if (*machine).stack.abs_diff(here) > TAKEN_MAX {
        mlua_sys::luaL_error(state, c"C stack overflow".as_ptr());
    }
}

/// Raises where something that is made in the machine's text would exceed the limit on memory.
pub(crate) unsafe fn check_room(state: *mut lua_State, length: usize) {
    let machine = Machine::of(state);
    if (*machine).text.len().saturating_add(length) > (*machine).memory.limit {
        raise_text(state, b"not enough memory");
    }
}

/// Raises where the answer of a script gets longer than the limit on memory.
pub(crate) unsafe fn count_answer(state: *mut lua_State, length: usize) {
    let machine = Machine::of(state);
    (*machine).answered = (*machine).answered.saturating_add(length);
    if (*machine).answered > (*machine).memory.limit {
        raise_text(state, b"not enough memory");
    }
}

/// Raises the error of a script that has to end.
pub(crate) unsafe fn raise_ending(machine: *mut Machine, state: *mut lua_State) -> c_int {
    match (*machine).ending {
        Ending::Killed => push_error(state, &(*machine).text),
        _ => push_error(state, b"ERR the script was stopped"),
    }
    lua_error(state)
}
