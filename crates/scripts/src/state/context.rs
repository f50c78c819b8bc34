//! Stores an interpreter's state outside Lua: its memory, its limits, and the running script's
//! access to the store.

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

/// Whether the running script must end, and the reason.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunStatus {
    Running,
    /// The host ended the script. The context holds the error message.
    Killed,
    /// The host ended the script without an error.
    Stopped,
    /// The script reached its memory limit.
    OutOfMemory,
}

/// When the time limit was last checked, as the time since the script started, and the number of
/// instructions until the next check.
#[derive(Clone, Copy, Default)]
pub(super) struct Pace {
    pub(super) looked_at: Duration,
    pub(super) instructions: c_int,
}

/// The part of an interpreter that all layers use. Lua stores its address.
///
/// Functions, the hook and Lua's allocator share the context on a single thread. It owns the values
/// that have destructors, because a Lua error jumps over stack frames without dropping their
/// values.
pub(crate) struct Context {
    /// The main Lua state, in which scripts run. Coroutines have separate states.
    main: Cell<*mut lua_State>,
    pub(crate) memory: Pool,
    /// A pointer to the host, which is the running script's access to the store, or null.
    host: Cell<*mut Calls<'static, 'static>>,
    scratch: UnsafeCell<Vec<u8>>,
    /// The error message of the script or the job that failed.
    error: Cell<Vec<u8>>,
    /// The address of the thread's stack at which the script started.
    pub(crate) stack_start: Cell<usize>,
    pub(super) stack_bounds: StackBounds,
    /// The number of reply bytes written so far.
    pub(crate) reply_bytes: Cell<usize>,
    pub(crate) status: Cell<RunStatus>,
    pub(super) pace: Cell<Pace>,
    /// The number of steps since the host was last asked whether to continue.
    pub(super) spent: Cell<usize>,
    /// The deadline for compiling or loading, and the error to raise after it.
    pub(crate) deadline: Cell<Option<(Deadline, &'static [u8])>>,
}

impl Context {
    /// Returns the context of a new interpreter.
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

    /// Returns the main Lua state, in which scripts run.
    pub(super) fn main(&self) -> &State<'_> {
        // SAFETY: the main state lives as long as the interpreter, which owns this context.
        unsafe { State::from_raw(self.main.get()) }
    }

    /// Returns whether scripts can catch errors. They cannot once the running script must end.
    pub(crate) fn may_catch(&self) -> bool {
        self.status.get() == RunStatus::Running
    }
}

/// Methods that access the error message.
impl Context {
    /// Sets the error message.
    pub(crate) fn set_error(&self, text: &[u8]) {
        let mut error = self.error.take();
        error.clear();
        error.extend_from_slice(text);
        self.error.set(error);
    }

    /// Appends to the error message.
    pub(crate) fn extend_error(&self, parts: &[&[u8]]) {
        let mut error = self.error.take();
        for part in parts {
            error.extend_from_slice(part);
        }
        self.error.set(error);
    }

    /// Passes the error message to `read`, and then shrinks the buffer of a long message.
    pub(crate) fn read_error<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        let mut error = self.error.take();
        let result = read(&error);
        error.shrink_to(TEXT_KEPT);
        self.error.set(error);
        result
    }

    /// Pushes the error message in an error table.
    pub(super) fn push_error(&self, state: &State<'_>) {
        let error = self.error.take();
        let text = &raw const *error;
        self.error.set(error);
        // SAFETY: the context owns the bytes, and nothing changes them during the call.
        state.push_error(unsafe { &*text });
    }
}

/// The memory, in bytes, that a text buffer retains after use.
const TEXT_KEPT: usize = 64 << 10;

/// Methods that access the store through the host.
impl Context {
    /// Calls `run`. During the call, `host` is the running script's access to the store.
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

    /// Returns whether a script with access to a store is running.
    #[inline]
    pub(crate) fn has_host(&self) -> bool {
        !self.host.get().is_null()
    }

    /// Calls `ask` with the host. Returns `None` if there is no host. `ask` must not raise a Lua
    /// error.
    #[inline]
    pub(crate) fn ask_host<R>(&self, ask: impl FnOnce(&mut Calls<'_, '_>) -> R) -> Option<R> {
        // Clear the pointer during the call, so that no second reference to the host can be
        // created.
        let host = self.host.replace(null_mut());
        // SAFETY: `with_host` borrows the host until the script has ended.
        let answer = ask(unsafe { host.as_mut()? });
        self.host.set(host);
        Some(answer)
    }
}

/// Methods that access the scratch buffer, in which functions build a string before they pass it to
/// Lua.
impl Context {
    /// Returns the scratch buffer.
    ///
    /// While a function holds a reference to the buffer, it must not call anything that uses the
    /// buffer, including scripts. The reference must end before the buffer is pushed or cleared.
    #[inline]
    pub(crate) fn scratch(&self) -> *mut Vec<u8> {
        self.scratch.get()
    }

    /// Clears the scratch buffer, and shrinks the buffer of a long text.
    pub(crate) fn clear_scratch(&self) {
        // SAFETY: callers of `scratch` hold no reference to the buffer when it is cleared.
        let scratch = unsafe { &mut *self.scratch() };
        scratch.clear();
        scratch.shrink_to(TEXT_KEPT);
        self.memory.extra.set(0);
    }
}

impl State<'_> {
    /// Stores the message of the error on top of the stack. The error is an error table or a
    /// string.
    pub(crate) fn keep_error(&self) {
        if self.is_table(-1) {
            self.push_field(-1, c"err");
        }
        self.context().set_error(self.c_bytes(-1));
    }
}

impl<'i> State<'i> {
    /// Returns the context of the interpreter.
    #[inline]
    pub(crate) fn context(&self) -> &'i Context {
        // SAFETY: `Interpreter` creates all states, and their data pointer is the address of a
        // value that starts with a `Context` and outlives the interpreter.
        unsafe { &*self.allocator_data().cast() }
    }

    /// Returns the pointer that Lua passes to the allocator.
    #[inline]
    pub(crate) fn allocator_data(&self) -> *mut c_void {
        let mut data = null_mut();
        lua!(self, lua_getallocf, &mut data);
        data
    }
}
