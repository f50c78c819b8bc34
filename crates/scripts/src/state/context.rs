//! What an interpreter has in addition to Lua's state: its memory, its limits, the store for the script that runs.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::time::Duration;

use mlua_sys::{lua_State, lua_getallocf, lua_getfield_, lua_istable};
use undercroft_commands::script::Calls;

use crate::state::deadline::Deadline;
use crate::state::pool::Pool;
use crate::state::stack::c_bytes;
use crate::state::thread_stack::StackBounds;

/// Whether the script that runs has to end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunStatus {
    Running,
    /// With the error in `text`.
    Killed,
    /// Without one.
    Stopped,
    /// It has taken all memory that it may.
    OutOfMemory,
}

/// When a script was looked at last, since it started, and the instructions until the next look.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pace {
    pub(super) looked_at: Duration,
    pub(super) instructions: c_int,
}

/// The part of an interpreter that functions on every floor need. Lua knows its place.
pub(crate) struct Context {
    pub(crate) state: *mut lua_State,
    pub(crate) memory: Pool,
    /// The store for the script that runs; null where none does.
    pub(crate) calls: *mut Calls<'static, 'static>,
    /// Text that is being made.
    pub(crate) text: Vec<u8>,
    /// Where on the thread's stack the script began.
    pub(crate) stack_start: usize,
    /// Bytes of the answer so far.
    pub(crate) reply_bytes: usize,
    pub(crate) status: RunStatus,
    pub(crate) pace: Pace,
    /// Steps that functions have made since it was last asked whether the script may go on.
    pub(crate) spent: usize,
    /// The thread's stack.
    pub(crate) stack_bounds: StackBounds,
    /// When a program has to be compiled, or a library loaded, and the error where it is not.
    pub(crate) deadline: Option<Deadline>,
    pub(crate) deadline_error: &'static [u8],
}

impl Context {
    /// That of an interpreter which is not there yet.
    pub(crate) fn new() -> Context {
        Context {
            state: null_mut(),
            memory: Pool::new(),
            calls: null_mut(),
            text: Vec::new(),
            stack_start: 0,
            reply_bytes: 0,
            status: RunStatus::Running,
            pace: Pace::default(),
            spent: 0,
            stack_bounds: StackBounds::of_thread(),
            deadline: None,
            deadline_error: b"",
        }
    }

    /// The context of an interpreter.
    pub(crate) unsafe fn of(state: *mut lua_State) -> *mut Context {
        let mut context = null_mut();
        lua_getallocf(state, &mut context);
        context.cast()
    }

    /// Begins a text anew, and gives back the memory of a long one.
    pub(crate) fn clear_scratch(&mut self) {
        const KEPT: usize = 64 << 10;
        self.text.clear();
        self.text.shrink_to(KEPT);
        self.memory.extra = 0;
    }

    /// Puts a text in the place of the last one.
    pub(crate) fn keep_text(&mut self, text: &[u8]) {
        self.text.clear();
        self.text.extend_from_slice(text);
    }

    /// Whether an error may be caught.
    pub(crate) fn may_catch(&self) -> bool {
        self.status == RunStatus::Running
    }
}

/// Keeps the text of the error on top.
pub(crate) unsafe fn keep_error(state: *mut lua_State) {
    if lua_istable(state, -1) != 0 {
        lua_getfield_(state, -1, c"err".as_ptr());
    }
    (*Context::of(state)).keep_text(c_bytes(state, -1));
}
