//! When a script has to end, and what it may take.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use mlua_sys::{
    LUA_ERRMEM, LUA_GCCOLLECT, LUA_MASKCOUNT, lua_Debug, lua_State, lua_error, lua_gc, lua_sethook,
};
use undercroft_commands::script::Refused;
use undercroft_engine::thread_time;

use crate::machine::{Machine, keep_text};
use crate::raise::{push_bytes, push_error, raise_text};

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
    /// It has taken all memory that it may.
    Memory,
}

/// Until when a program may be compiled, or a library loaded. Time in which the thread stood still, or waited for a
/// processor, is not counted.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    at: Instant,
    /// Processor time of the thread at that moment.
    worked: Duration,
}

impl Deadline {
    pub(crate) fn after(time: Duration) -> Deadline {
        Deadline {
            at: Instant::now() + time,
            worked: thread_time() + time,
        }
    }

    /// The thread's clock takes a system call, and cannot be ahead of the other.
    fn has_passed(self) -> bool {
        Instant::now() > self.at && thread_time() > self.worked
    }
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

    /// Begins a text anew, and gives back the memory of a long one.
    pub(crate) fn begin_text(&mut self) {
        const KEPT: usize = 64 << 10;
        self.text.clear();
        self.text.shrink_to(KEPT);
        self.memory.extra = 0;
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
        if (*machine).until.is_some_and(Deadline::has_passed) {
            push_error(state, (*machine).too_late);
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

/// What a walk through a table counts as: it may have any number of empty places, which nobody is told of.
pub(crate) const WALK: usize = 4096;
/// So many steps are made between two questions.
const STEPS: usize = 65_536;
/// Bytes that are copied or looked at in a step.
const STEP_BYTES: usize = 16;

/// Counts steps of a function, whatever it does. Raises where the script has to end.
#[inline]
pub(crate) unsafe fn spend(state: *mut lua_State, steps: usize) {
    let machine = Machine::of(state);
    let spent = (*machine).spent.saturating_add(steps);
    (*machine).spent = spent;
    if spent >= STEPS {
        (*machine).spent = 0;
        check_time(state);
    }
}

/// The same for bytes.
#[inline]
pub(crate) unsafe fn spend_bytes(state: *mut lua_State, bytes: usize) {
    spend(state, 1 + bytes / STEP_BYTES);
}

/// Has a coroutine that is about to be resumed interrupted like its script.
pub(crate) unsafe fn watch_coroutine(state: *mut lua_State, coroutine: *mut lua_State) {
    let instructions = (*Machine::of(state)).pace.instructions.max(1);
    lua_sethook(coroutine, Some(hook), LUA_MASKCOUNT, instructions);
}

/// To be called wherever an error was caught: one that ends the script is raised again, so that no script sees it.
pub(crate) unsafe fn check_caught(state: *mut lua_State, status: c_int) {
    let machine = Machine::of(state);
    if status == LUA_ERRMEM && (*machine).may_catch() && !(*machine).calls.is_null() {
        (*machine).end(Ending::Memory, state);
    }
    if !(*machine).may_catch() {
        raise_ending(machine, state);
    }
}

/// Where functions of C that call one another, by way of scripts, take too much of the thread's stack.
#[derive(Clone, Copy, Default)]
pub(crate) struct StackBounds {
    /// The lowest address that they may come to, and the highest one of the stack; 0 where the stack is not known.
    lowest: usize,
    highest: usize,
}

impl StackBounds {
    /// What is left for commands, and for what C does.
    const RESERVE: usize = 256 * 1024;

    /// Those of this thread.
    pub(crate) fn of_thread() -> StackBounds {
        // SAFETY: the attributes are filled in by the first call, and given back by the last one.
        unsafe {
            let mut attributes = std::mem::zeroed::<libc::pthread_attr_t>();
            if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
                return StackBounds::default();
            }
            let (mut start, mut size) = (null_mut(), 0);
            let known = libc::pthread_attr_getstack(&attributes, &mut start, &mut size) == 0;
            libc::pthread_attr_destroy(&mut attributes);
            if !known {
                return StackBounds::default();
            }
            StackBounds {
                lowest: start.addr() + StackBounds::RESERVE.min(size),
                highest: start.addr() + size,
            }
        }
    }

    /// Whether there is stack for more at an address, of a script that began at another.
    fn allow(self, here: usize, began: usize) -> bool {
        /// What a script may take of a stack, and of one that is not known.
        const TAKEN_MAX: usize = 1 << 20;
        const UNKNOWN_MAX: usize = 256 * 1024;
        let taken = began.abs_diff(here);
        if here > self.highest || began > self.highest || self.highest == 0 {
            return taken <= UNKNOWN_MAX;
        }
        here > self.lowest && taken <= TAKEN_MAX
    }
}

/// Raises where functions of C that call one another, by way of scripts, take too much of the thread's stack. Lua counts
/// them, too, up to 200.
pub(crate) unsafe fn check_stack(state: *mut lua_State) {
    let machine = Machine::of(state);
    let here = (&raw const machine).addr();
    if !(*machine).bounds.allow(here, (*machine).stack) {
        mlua_sys::luaL_error(state, c"C stack overflow".as_ptr());
    }
}

/// Ends the script, which has taken all memory that it may.
#[cold]
pub(crate) unsafe fn raise_memory(state: *mut lua_State) -> ! {
    let machine = Machine::of(state);
    if (*machine).may_catch() && !(*machine).calls.is_null() {
        (*machine).end(Ending::Memory, state);
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
    let machine = Machine::of(state);
    if !(*machine).memory.has_room(bytes) {
        lua_gc(state, LUA_GCCOLLECT, 0);
        if !(*machine).memory.has_room(bytes) {
            raise_memory(state);
        }
    }
}

/// Ends the script where something that is made in the machine's text would exceed the limit on memory.
pub(crate) unsafe fn check_room(state: *mut lua_State, length: usize) {
    let machine = Machine::of(state);
    let text = (*machine).text.len().saturating_add(length);
    (*machine).memory.extra = 0;
    if !(*machine).memory.has_room(text) {
        raise_memory(state);
    }
    (*machine).memory.extra = text;
}

/// Pushes the machine's text, which has been made.
pub(crate) unsafe fn push_made(state: *mut lua_State) {
    let machine = Machine::of(state);
    make_room(state, (*machine).text.len());
    push_bytes(state, &(*machine).text);
    (*machine).begin_text();
}

/// Raises where the answer of a script gets longer than the limit on memory.
pub(crate) unsafe fn count_answer(state: *mut lua_State, length: usize) {
    let machine = Machine::of(state);
    (*machine).answered = (*machine).answered.saturating_add(length);
    if (*machine).answered > (*machine).memory.limit {
        raise_memory(state);
    }
}

/// Raises the error of a script that has to end.
pub(crate) unsafe fn raise_ending(machine: *mut Machine, state: *mut lua_State) -> c_int {
    match (*machine).ending {
        Ending::Killed => push_error(state, &(*machine).text),
        Ending::Memory => push_bytes(state, b"not enough memory"),
        _ => push_error(state, b"ERR the script was stopped"),
    }
    lua_error(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_a_thread_stands_still_is_not_counted() {
        let deadline = Deadline::after(Duration::from_millis(20));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!deadline.has_passed());
        while thread_time() <= deadline.worked {
            std::hint::spin_loop();
        }
        assert!(deadline.has_passed());
    }
}
