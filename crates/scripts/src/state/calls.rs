//! Wraps Lua's function and coroutine calls, its compiler, its hook and its garbage collector.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null;

use mlua_sys::{lua_Debug, lua_State};

use super::stack::{State, lua};

unsafe extern "C-unwind" {
    fn lua_setlevel(from: *mut lua_State, to: *mut lua_State);
}

/// The outcome of a call to a Lua function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(pub(super) c_int);

impl Status {
    pub(crate) const DONE: Status = Status(0);
    /// The coroutine yielded.
    const YIELDED: Status = Status(mlua_sys::LUA_YIELD);
    /// The program does not compile.
    pub(crate) const SYNTAX: Status = Status(mlua_sys::LUA_ERRSYNTAX);
    /// Memory ran out.
    pub(crate) const MEMORY: Status = Status(mlua_sys::LUA_ERRMEM);
    /// The error handler itself failed.
    pub(crate) const HANDLER: Status = Status(mlua_sys::LUA_ERRERR);
}

/// The result count with which a call returns all of its results.
pub(crate) const ALL: c_int = mlua_sys::LUA_MULTRET;

/// Methods that call functions.
impl State<'_> {
    /// Calls the function below the top `arguments` values. Replaces the function and its arguments
    /// with the results.
    pub(crate) fn call(&mut self, arguments: c_int, results: c_int) {
        lua!(self, lua_call, arguments, results);
    }

    /// Calls a function like `call`, but leaves an error on the stack in place of the results. A
    /// nonzero `handler` is the index of a function that processes the error first.
    #[inline]
    pub(crate) fn call_protected(
        &mut self,
        arguments: c_int,
        results: c_int,
        handler: c_int,
    ) -> Status {
        Status(lua!(self, lua_pcall, arguments, results, handler))
    }

    /// Returns whether the value at index `one` is less than the value at `other` in Lua's order.
    pub(crate) fn is_less(&mut self, one: c_int, other: c_int) -> bool {
        lua!(self, lua_lessthan, one, other) != 0
    }

    /// Yields the top `values` values. The calling function must return this method's result to
    /// Lua.
    pub(crate) fn yield_values(&mut self, values: c_int) -> c_int {
        lua!(self, lua_yield, values)
    }
}

/// A source of program text that returns the text in pieces.
pub(crate) trait ProgramText {
    /// Returns the next piece, which is not empty, or `None` at the end. Values that the method
    /// pushes must stay on the stack.
    fn next_piece<'p>(&'p mut self, state: &'p mut State<'_>) -> Option<&'p [u8]>;
}

/// Supplies Lua's parser with the next piece of a program.
///
/// # Safety
/// [`State::load`] must have passed this function to Lua together with `text`.
unsafe extern "C-unwind" fn read_piece<T: ProgramText>(
    lua: *mut lua_State,
    text: *mut c_void,
    length: *mut usize,
) -> *const c_char {
    // SAFETY: `load` passes pointers that are valid during its call, and a piece stays valid until
    // the next piece is requested.
    let (state, text, length) =
        unsafe { (State::from_raw(lua), &mut *text.cast::<T>(), &mut *length) };
    let piece = text.next_piece(state);
    *length = piece.map_or(0, <[u8]>::len);
    piece.map_or(null(), |piece| piece.as_ptr().cast())
}

/// Passes a piece of a compiled function to `write`.
///
/// # Safety
/// [`State::dump`] must have passed this function to Lua together with `write`.
unsafe extern "C-unwind" fn write_piece<W: FnMut(&[u8])>(
    _: *mut lua_State,
    piece: *const c_void,
    length: usize,
    write: *mut c_void,
) -> c_int {
    if length > 0 {
        // SAFETY: during this call, the `write` that `dump` passed and the piece that Lua passed
        // are valid.
        unsafe { (*write.cast::<W>())(std::slice::from_raw_parts(piece.cast(), length)) };
    }
    0
}

/// Methods that compile programs and dump bytecode.
impl State<'_> {
    /// Compiles a program whose name is at index `name`. Pushes the compiled function, or an error
    /// message if the status is not `DONE`.
    pub(crate) fn load<T: ProgramText>(&mut self, text: &mut T, name: c_int) -> Status {
        // The parser copies the name up to its first zero byte into a string that the collector does
        // not know yet when it calls `read_piece` for the first time, which can run a script. So keep
        // an equal string on the stack, which is the same object (CVE-2025-49844).
        let name = lua!(self, lua_tolstring, name, std::ptr::null_mut());
        lua!(self, lua_pushstring, name);
        let name = lua!(self, lua_tolstring, -1, std::ptr::null_mut());
        let text = (&raw mut *text).cast();
        let status = Status(lua!(self, lua_load, read_piece::<T>, text, name));
        self.remove(-2);
        status
    }

    /// Writes the bytecode of the function on top of the stack. Returns false for a native
    /// function, which has no bytecode.
    pub(crate) fn dump<W: FnMut(&[u8])>(&self, write: &mut W) -> bool {
        let write = (&raw mut *write).cast();
        lua!(self, lua_dump_, write_piece::<W>, write) == 0
    }
}

/// The location of a function in its source.
pub(crate) struct Location<'s> {
    /// Whether the function is written in Rust or C.
    pub(crate) is_native: bool,
    pub(crate) source: &'s CStr,
    pub(crate) line: c_int,
}

impl State<'_> {
    /// Returns the location of an active function. Level 0 is the current function, and level 1 is
    /// its caller.
    pub(crate) fn location(&self, level: c_int) -> Option<Location<'_>> {
        // SAFETY: `lua_Debug` consists of numbers and pointers that Lua fills in, and its strings
        // live as long as the active functions.
        unsafe {
            let mut place = std::mem::zeroed::<lua_Debug>();
            let is_known = mlua_sys::lua_getstack(self.raw(), level, &mut place) != 0
                && mlua_sys::lua_getinfo(self.raw(), c"Sl".as_ptr(), &mut place) != 0;
            is_known.then(|| Location {
                is_native: *place.what == b'C' as c_char,
                source: CStr::from_ptr(place.source),
                line: place.currentline,
            })
        }
    }

    /// Pushes the location of an active function in the form that starts Lua's error messages, or
    /// an empty string if the location is unknown.
    pub(crate) fn push_location(&self, level: c_int) {
        lua!(self, luaL_where, level);
    }
}

/// The status of a coroutine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Running,
    Suspended,
    /// The coroutine has resumed another coroutine and waits for it.
    Normal,
    Dead,
}

/// A coroutine that is an argument or an upvalue. Values on the coroutine's stack cannot be
/// borrowed.
#[derive(Clone, Copy)]
pub(crate) struct Coroutine<'s>(&'s State<'s>);

impl Coroutine<'_> {
    /// Returns the coroutine's status from the point of view of `here`, the running coroutine or
    /// script.
    pub(crate) fn progress(self, here: &State<'_>) -> Progress {
        if self.0.raw() == here.raw() {
            return Progress::Running;
        }
        match Status(lua!(self.0, lua_status)) {
            Status::YIELDED => Progress::Suspended,
            Status::DONE if self.is_calling() => Progress::Normal,
            Status::DONE if self.0.top() > 0 => Progress::Suspended,
            _ => Progress::Dead,
        }
    }

    fn is_calling(self) -> bool {
        // SAFETY: `lua_Debug` holds only numbers and pointers, for which zero is a valid value.
        let mut frame = unsafe { std::mem::zeroed::<lua_Debug>() };
        lua!(self.0, lua_getstack, 0, &mut frame) > 0
    }

    pub(crate) fn has_room(self, values: c_int) -> bool {
        self.0.has_room(values)
    }

    /// Resumes the coroutine with the top `arguments` values of `state`. Returns the number of
    /// values that the coroutine yields or returns. The values, or an error, are on the coroutine's
    /// stack.
    pub(crate) fn resume(self, state: &mut State<'_>, arguments: c_int) -> Result<c_int, Status> {
        let Coroutine(coroutine) = self;
        lua!(state, lua_xmove, coroutine.raw(), arguments);
        // The limit on nested C calls applies across coroutines, so pass on the current depth.
        // SAFETY: both states are alive.
        unsafe { lua_setlevel(state.raw(), coroutine.raw()) };
        match Status(lua!(coroutine, lua_resume_, arguments)) {
            Status::DONE | Status::YIELDED => Ok(coroutine.top()),
            status => Err(status),
        }
    }

    /// Moves the top `values` values from the coroutine's stack to `state`.
    pub(crate) fn move_to(self, state: &State<'_>, values: c_int) {
        lua!(self.0, lua_xmove, state.raw(), values);
    }

    /// Returns the coroutine's state, on which its hook is set.
    pub(crate) fn state(&self) -> &State<'_> {
        self.0
    }
}

/// Methods that create and find coroutines.
impl State<'_> {
    /// Returns the coroutine at an index, or `None` if the value is not a coroutine.
    pub(crate) fn coroutine(&self, index: c_int) -> Option<Coroutine<'_>> {
        let coroutine = lua!(self, lua_tothread, index);
        // SAFETY: the coroutine lives as long as it is on the stack, and the result borrows the
        // stack.
        (!coroutine.is_null()).then(|| Coroutine(unsafe { State::from_raw(coroutine) }))
    }

    /// Pushes a new coroutine that runs the function at an index. The coroutine inherits the hook.
    pub(crate) fn push_coroutine(&self, function: c_int) {
        let coroutine = lua!(self, lua_newthread);
        self.push_value(function);
        lua!(self, lua_xmove, coroutine, 1);
    }

    /// Pushes the running coroutine. Returns false if the main state is running instead of a
    /// coroutine.
    pub(crate) fn push_running(&self) -> bool {
        lua!(self, lua_pushthread) == 0
    }
}

/// Calls the hook `F`.
///
/// # Safety
/// [`State::set_hook`] must have passed this function to Lua, which calls it in a protected call.
unsafe extern "C-unwind" fn run_hook<F: Fn(&State<'_>) + Copy>(
    lua: *mut lua_State,
    _: *mut lua_Debug,
) {
    // SAFETY: `F` is zero-sized and `Copy`, and `set_hook` received a value of type `F`, so a
    // dangling pointer can be read.
    let hook = unsafe { std::ptr::NonNull::<F>::dangling().read() };
    // SAFETY: Lua passes its live state, and all functions of this crate follow the rules of
    // `State`.
    hook(unsafe { State::from_raw(lua) });
}

impl State<'_> {
    /// Sets a function that Lua calls after every `instructions` instructions. The function must
    /// capture no variables.
    pub(crate) fn set_hook<F: Fn(&State<'_>) + Copy>(&self, _hook: F, instructions: c_int) {
        const {
            assert!(size_of::<F>() == 0, "captures nothing");
        }
        let mask = mlua_sys::LUA_MASKCOUNT;
        lua!(self, lua_sethook, Some(run_hook::<F>), mask, instructions);
    }
}

/// A garbage collector operation.
#[derive(Clone, Copy)]
pub(crate) enum Collection {
    Stop,
    Restart,
    All,
    /// Return the memory that Lua uses, in KiB.
    Count,
    /// Return the memory that Lua uses modulo 1 KiB, in bytes.
    CountRemainder,
    /// Collect in steps, and return whether a cycle ended.
    Step,
    SetPause,
    SetStepMultiplier,
}

impl State<'_> {
    #[inline]
    pub(crate) fn collect(&self, what: Collection, number: c_int) -> c_int {
        let what = match what {
            Collection::Stop => mlua_sys::LUA_GCSTOP,
            Collection::Restart => mlua_sys::LUA_GCRESTART,
            Collection::All => mlua_sys::LUA_GCCOLLECT,
            Collection::Count => mlua_sys::LUA_GCCOUNT,
            Collection::CountRemainder => mlua_sys::LUA_GCCOUNTB,
            Collection::Step => mlua_sys::LUA_GCSTEP,
            Collection::SetPause => mlua_sys::LUA_GCSETPAUSE,
            Collection::SetStepMultiplier => mlua_sys::LUA_GCSETSTEPMUL,
        };
        lua!(self, lua_gc, what, number)
    }
}
