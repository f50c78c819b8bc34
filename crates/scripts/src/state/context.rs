//! What an interpreter has in addition to Lua's state: its memory, its limits, the store for the script that runs.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::time::Duration;

use mlua_sys::lua_State;
use undercroft_commands::context::Calls;

use super::deadline::Deadline;
use super::pool::Pool;
use super::stack::{State, lua};
use super::thread_stack::StackBounds;

/// Whether the script that runs has to end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunStatus {
    Running,
    /// By the host, with an error that is the context's error text.
    Killed,
    /// By the host, without an error.
    Stopped,
    /// It has taken all memory that it may.
    OutOfMemory,
}

/// When a script was looked at last, since it started, and the instructions until the next look.
#[derive(Clone, Copy, Default)]
pub(super) struct Pace {
    pub(super) looked_at: Duration,
    pub(super) instructions: c_int,
}

/// The part of an interpreter that functions on every floor need. Lua knows its address.
///
/// Functions, the hook and Lua's allocator share it, all on one thread. Values that need to be dropped lie here, and not
/// in the frames of functions, which an error of Lua jumps over.
pub(crate) struct Context {
    /// The state in which scripts run, and not coroutines.
    main: Cell<*mut lua_State>,
    pub(crate) memory: Pool,
    /// The store for the script that runs; null where none does.
    host: Cell<*mut Calls<'static, 'static>>,
    scratch: UnsafeCell<Vec<u8>>,
    /// The text of the error by which a script ended.
    error: Cell<Vec<u8>>,
    /// Where on the thread's stack the script began.
    pub(crate) stack_start: Cell<usize>,
    pub(super) stack_bounds: StackBounds,
    /// Bytes of the reply so far.
    pub(crate) reply_bytes: Cell<usize>,
    pub(crate) status: Cell<RunStatus>,
    pub(super) pace: Cell<Pace>,
    /// Steps that functions have made since the host was last asked.
    pub(super) spent: Cell<usize>,
    /// The deadline of compiling or loading, and the error after it.
    pub(crate) deadline: Cell<Option<(Deadline, &'static [u8])>>,
}

impl Context {
    /// The context of a new interpreter.
    pub(crate) fn new() -> Context {
        Context {
            main: Cell::new(null_mut()),
            memory: Pool::new(),
            host: Cell::new(null_mut()),
            scratch: UnsafeCell::default(),
            error: Cell::default(),
            stack_start: Cell::new(0),
            stack_bounds: StackBounds::of_thread(),
            reply_bytes: Cell::new(0),
            status: Cell::new(RunStatus::Running),
            pace: Cell::default(),
            spent: Cell::new(0),
            deadline: Cell::new(None),
        }
    }

    pub(super) fn set_main(&self, main: *mut lua_State) {
        self.main.set(main);
    }

    /// The state in which scripts run.
    pub(super) fn main(&self) -> &State<'_> {
        // SAFETY: it lives as long as the interpreter.
        unsafe { State::from_raw(self.main.get()) }
    }

    /// Whether a script may catch an error: not once it has to end.
    pub(crate) fn may_catch(&self) -> bool {
        self.status.get() == RunStatus::Running
    }
}

/// The text of an error.
impl Context {
    /// Keeps the text of an error.
    pub(crate) fn set_error(&self, text: &[u8]) {
        let mut error = self.error.take();
        error.clear();
        error.extend_from_slice(text);
        self.error.set(error);
    }

    /// Adds parts to it.
    pub(crate) fn extend_error(&self, parts: &[&[u8]]) {
        let mut error = self.error.take();
        for part in parts {
            error.extend_from_slice(part);
        }
        self.error.set(error);
    }

    /// Calls a function with it, and gives back the memory of a long one.
    pub(crate) fn read_error<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        let mut error = self.error.take();
        let result = read(&error);
        error.shrink_to(TEXT_KEPT);
        self.error.set(error);
        result
    }

    /// Pushes it as an error table.
    pub(super) fn push_error(&self, state: &State<'_>) {
        let error = self.error.take();
        let text = &raw const *error;
        self.error.set(error);
        // SAFETY: the bytes stay where they are, in the context.
        state.push_error(unsafe { &*text });
    }
}

/// Bytes that a text may keep when it is done with.
const TEXT_KEPT: usize = 64 << 10;

/// The store for the script that runs.
impl Context {
    /// Runs a script that is given a store.
    pub(crate) fn with_host<R>(&self, host: &mut Calls<'_, '_>, run: impl FnOnce() -> R) -> R {
        struct Reset<'c>(&'c Context);
        impl Drop for Reset<'_> {
            fn drop(&mut self) {
                self.0.host.set(null_mut());
            }
        }
        self.host.set((&raw mut *host).cast());
        let _reset = Reset(self);
        run()
    }

    /// Whether a script runs that was given a store.
    #[inline]
    pub(crate) fn has_host(&self) -> bool {
        !self.host.get().is_null()
    }

    /// Calls a function with the store, which raises no error of Lua's; none where there is no store.
    #[inline]
    pub(crate) fn ask_host<R>(&self, ask: impl FnOnce(&mut Calls<'_, '_>) -> R) -> Option<R> {
        // Taken away meanwhile, so that there is one reference to it.
        let host = self.host.replace(null_mut());
        // SAFETY: `with_host` borrows it until the script has ended.
        let answer = ask(unsafe { host.as_mut()? });
        self.host.set(host);
        Some(answer)
    }
}

/// Text that a function makes before it becomes a string of Lua's.
impl Context {
    /// The scratch text.
    ///
    /// A function makes a reference of it while nothing that it calls uses the scratch text, and so calls no script
    /// meanwhile. The reference ends before the scratch text is pushed or cleared.
    #[inline]
    pub(crate) fn scratch(&self) -> *mut Vec<u8> {
        self.scratch.get()
    }

    /// Empties the scratch text, and gives back the memory of a long one.
    pub(crate) fn clear_scratch(&self) {
        // SAFETY: there is no other reference, as `scratch` says.
        let scratch = unsafe { &mut *self.scratch() };
        scratch.clear();
        scratch.shrink_to(TEXT_KEPT);
        self.memory.extra.set(0);
    }
}

impl State<'_> {
    /// Keeps the text of the error on top, which is a table with one or a string.
    pub(crate) fn keep_error(&self) {
        if self.is_table(-1) {
            self.push_field(-1, c"err");
        }
        self.context().set_error(self.c_bytes(-1));
    }
}

impl<'i> State<'i> {
    /// The context of the interpreter.
    #[inline]
    pub(crate) fn context(&self) -> &'i Context {
        // SAFETY: `Interpreter` makes all states, and passes the address of something that begins with a context and
        // lives as long as the interpreter.
        unsafe { &*self.allocator_data().cast() }
    }

    /// The pointer that Lua passes to the allocator.
    #[inline]
    pub(crate) fn allocator_data(&self) -> *mut c_void {
        let mut data = null_mut();
        lua!(self, lua_getallocf, &mut data);
        data
    }
}
