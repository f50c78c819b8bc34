//! Calls of functions, programs and coroutines in Lua, its hook and its garbage collector.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null;

use mlua_sys::{lua_Debug, lua_State};

use super::stack::{State, lua};

unsafe extern "C-unwind" {
    fn lua_setlevel(from: *mut lua_State, to: *mut lua_State);
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(pub(super) c_int);

impl Status {
    pub(crate) const DONE: Status = Status(0);
    /// A coroutine yielded.
    const YIELDED: Status = Status(mlua_sys::LUA_YIELD);
    /// A program does not compile.
    pub(crate) const SYNTAX: Status = Status(mlua_sys::LUA_ERRSYNTAX);
    /// Memory ran out.
    pub(crate) const MEMORY: Status = Status(mlua_sys::LUA_ERRMEM);
    /// The error handler itself failed.
    pub(crate) const HANDLER: Status = Status(mlua_sys::LUA_ERRERR);
}

/// Keeps all results of a call.
pub(crate) const ALL: c_int = mlua_sys::LUA_MULTRET;

/// Calls of functions.
impl State<'_> {
    /// Calls the function below the top `arguments` values, and replaces them with its results.
    pub(crate) fn call(&mut self, arguments: c_int, results: c_int) {
        lua!(self, lua_call, arguments, results);
    }

    /// Like `call`, but catches an error and leaves it in place of the results. `handler`, unless
    /// 0, is the index of a function that receives the error first.
    #[inline]
    pub(crate) fn call_protected(
        &mut self,
        arguments: c_int,
        results: c_int,
        handler: c_int,
    ) -> Status {
        Status(lua!(self, lua_pcall, arguments, results, handler))
    }

    /// Returns whether Lua's `<` holds between the values at two indices.
    pub(crate) fn is_less(&mut self, one: c_int, other: c_int) -> bool {
        lua!(self, lua_lessthan, one, other) != 0
    }

    /// Yields the top `values` values. The calling function must return this method's result to
    /// Lua.
    pub(crate) fn yield_values(&mut self, values: c_int) -> c_int {
        lua!(self, lua_yield, values)
    }
}

/// A source of program text, read piece by piece.
pub(crate) trait ProgramText {
    /// Returns the next piece, which is not empty, or `None` at the end. Values that it pushes stay
    /// on the stack.
    fn next_piece<'p>(&'p mut self, state: &'p mut State<'_>) -> Option<&'p [u8]>;
}

/// Reads a piece of a program for Lua.
///
/// # Safety
/// [`State::load`] must have passed this function to Lua together with `text`.
unsafe extern "C-unwind" fn read_piece<T: ProgramText>(
    lua: *mut lua_State,
    text: *mut c_void,
    length: *mut usize,
) -> *const c_char {
    // SAFETY: `load` passes valid pointers for the duration of its call, and a piece stays valid
    // until the next one is read.
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
        // SAFETY: `dump` passes a valid `write`, and Lua a valid piece, for the duration of this
        // call.
        unsafe { (*write.cast::<W>())(std::slice::from_raw_parts(piece.cast(), length)) };
    }
    0
}

/// Compiling and dumping programs.
impl State<'_> {
    /// Compiles a program whose name is at index `name`. Pushes the function, or the error message
    /// if the status is not `DONE`.
    pub(crate) fn load<T: ProgramText>(&mut self, text: &mut T, name: c_int) -> Status {
        // The name stays on the stack during the call, and the parser does not keep the pointer.
        let name = lua!(self, lua_tolstring, name, std::ptr::null_mut());
        let text = (&raw mut *text).cast();
        Status(lua!(self, lua_load, read_piece::<T>, text, name))
    }

    /// Writes the compiled function on top of the stack. Returns false for a native function, which
    /// has no bytecode.
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
    /// Returns the location of an active function: level 0 is the current function, level 1 its
    /// caller.
    pub(crate) fn location(&self, level: c_int) -> Option<Location<'_>> {
        // SAFETY: `lua_Debug` holds only numbers and pointers, which Lua fills in, and its strings
        // belong to active functions.
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

    /// Pushes the location of an active function, in the form of Lua's error prefixes, or an empty
    /// string if it has none.
    pub(crate) fn push_location(&self, level: c_int) {
        lua!(self, luaL_where, level);
    }
}

/// The status of a coroutine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Running,
    Suspended,
    /// The coroutine has resumed another one.
    Normal,
    Dead,
}

/// A coroutine that is an argument or an upvalue. Values on its stack cannot be borrowed.
#[derive(Clone, Copy)]
pub(crate) struct Coroutine<'s>(&'s State<'s>);

impl Coroutine<'_> {
    /// Returns the coroutine's status as seen from `here`, the coroutine or script that asks.
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

    /// Resumes the coroutine with the top `arguments` values of `state`. Returns how many values it
    /// yields or returns. These values, or an error, are on the coroutine's own stack.
    pub(crate) fn resume(self, state: &mut State<'_>, arguments: c_int) -> Result<c_int, Status> {
        let Coroutine(coroutine) = self;
        lua!(state, lua_xmove, coroutine.raw(), arguments);
        // Nested C calls are counted across coroutines.
        // SAFETY: both states are alive.
        unsafe { lua_setlevel(state.raw(), coroutine.raw()) };
        match Status(lua!(coroutine, lua_resume_, arguments)) {
            Status::DONE | Status::YIELDED => Ok(coroutine.top()),
            status => Err(status),
        }
    }

    /// Moves the top `values` values of the coroutine's stack to `state`.
    pub(crate) fn move_to(self, state: &State<'_>, values: c_int) {
        lua!(self.0, lua_xmove, state.raw(), values);
    }

    /// Returns the coroutine's state, on which its hook is set.
    pub(crate) fn state(&self) -> &State<'_> {
        self.0
    }
}

/// Coroutines.
impl State<'_> {
    /// Returns the coroutine at an index, or `None` for another value.
    pub(crate) fn coroutine(&self, index: c_int) -> Option<Coroutine<'_>> {
        let coroutine = lua!(self, lua_tothread, index);
        // SAFETY: a coroutine lives as long as it is on the stack, which the result borrows.
        (!coroutine.is_null()).then(|| Coroutine(unsafe { State::from_raw(coroutine) }))
    }

    /// Pushes a new coroutine for the function at an index. The coroutine inherits the hook.
    pub(crate) fn push_coroutine(&self, function: c_int) {
        let coroutine = lua!(self, lua_newthread);
        self.push_value(function);
        lua!(self, lua_xmove, coroutine, 1);
    }

    /// Pushes the running coroutine. Returns false if the script itself is running.
    pub(crate) fn push_running(&self) -> bool {
        lua!(self, lua_pushthread) == 0
    }
}

/// Calls a hook.
///
/// # Safety
/// [`State::set_hook`] must have passed this function to Lua, which calls it in a protected call.
unsafe extern "C-unwind" fn run_hook<F: Fn(&State<'_>) + Copy>(
    lua: *mut lua_State,
    _: *mut lua_Debug,
) {
    // SAFETY: `F` is zero-sized and `Copy`, and `set_hook` received a value of it.
    let hook = unsafe { std::ptr::NonNull::<F>::dangling().read() };
    // SAFETY: Lua passes its live state, and functions of this crate follow the rules of `State`.
    hook(unsafe { State::from_raw(lua) });
}

impl State<'_> {
    /// Sets a function that Lua calls after every `instructions` instructions. The function must
    /// capture nothing.
    pub(crate) fn set_hook<F: Fn(&State<'_>) + Copy>(&self, _hook: F, instructions: c_int) {
        const {
            assert!(size_of::<F>() == 0, "captures nothing");
        }
        let mask = mlua_sys::LUA_MASKCOUNT;
        lua!(self, lua_sethook, Some(run_hook::<F>), mask, instructions);
    }
}

/// A task of the garbage collector.
#[derive(Clone, Copy)]
pub(crate) enum Collection {
    Stop,
    Restart,
    All,
    /// Returns the memory in use, in KiB.
    Count,
    /// Returns the memory in use modulo 1 KiB, in bytes.
    CountRemainder,
    /// Collects in steps, and returns whether a cycle ended.
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
