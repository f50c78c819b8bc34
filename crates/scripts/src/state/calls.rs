//! Calls of Lua: functions, programs, coroutines, the hook, the collector of garbage.

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
    /// Of a coroutine.
    const YIELDED: Status = Status(mlua_sys::LUA_YIELD);
    /// A program cannot be compiled.
    pub(crate) const SYNTAX: Status = Status(mlua_sys::LUA_ERRSYNTAX);
    /// There was no memory.
    pub(crate) const MEMORY: Status = Status(mlua_sys::LUA_ERRMEM);
    /// The handler of an error failed itself.
    pub(crate) const HANDLER: Status = Status(mlua_sys::LUA_ERRERR);
}

/// As many results as there are.
pub(crate) const ALL: c_int = mlua_sys::LUA_MULTRET;

/// Functions.
impl State<'_> {
    /// Calls the function that is below so many arguments on top, and leaves its results.
    pub(crate) fn call(&mut self, arguments: c_int, results: c_int) {
        lua!(self, lua_call, arguments, results);
    }

    /// The same, but an error ends here: it is left in the place of the results. An index other than 0 is that of a
    /// function that is given the error first.
    #[inline]
    pub(crate) fn call_protected(
        &mut self,
        arguments: c_int,
        results: c_int,
        handler: c_int,
    ) -> Status {
        Status(lua!(self, lua_pcall, arguments, results, handler))
    }

    /// Whether the value at one index is less than that at another, to Lua.
    pub(crate) fn is_less(&mut self, one: c_int, other: c_int) -> bool {
        lua!(self, lua_lessthan, one, other) != 0
    }

    /// Yields the values on top. The function returns the result.
    pub(crate) fn yield_values(&mut self, values: c_int) -> c_int {
        lua!(self, lua_yield, values)
    }
}

/// The text of a program, piece by piece.
pub(crate) trait ProgramText {
    /// The next piece, which is not empty; none at the end. What is pushed stays on the stack.
    fn next_piece<'p>(&'p mut self, state: &'p mut State<'_>) -> Option<&'p [u8]>;
}

/// Reads a piece of a program.
///
/// # Safety
/// [`State::load`] has passed it to Lua together with `text`.
unsafe extern "C-unwind" fn read_piece<T: ProgramText>(
    lua: *mut lua_State,
    text: *mut c_void,
    length: *mut usize,
) -> *const c_char {
    // SAFETY: `load` passes these for the time of its call. A piece stays where it is until the next one is asked for.
    let (state, text, length) =
        unsafe { (State::from_raw(lua), &mut *text.cast::<T>(), &mut *length) };
    let piece = text.next_piece(state);
    *length = piece.map_or(0, <[u8]>::len);
    piece.map_or(null(), |piece| piece.as_ptr().cast())
}

/// Writes a piece of a compiled function.
///
/// # Safety
/// [`State::dump`] has passed it to Lua together with `write`.
unsafe extern "C-unwind" fn write_piece<W: FnMut(&[u8])>(
    _: *mut lua_State,
    piece: *const c_void,
    length: usize,
    write: *mut c_void,
) -> c_int {
    if length > 0 {
        // SAFETY: `dump` passes the function, and Lua a piece, for the time of their calls.
        unsafe { (*write.cast::<W>())(std::slice::from_raw_parts(piece.cast(), length)) };
    }
    0
}

/// Programs.
impl State<'_> {
    /// Compiles a program, whose name is at an index. Pushes the function, or an error where the status is another.
    pub(crate) fn load<T: ProgramText>(&mut self, text: &mut T, name: c_int) -> Status {
        // The string stays on the stack, as the parser does not keep it.
        let name = lua!(self, lua_tolstring, name, std::ptr::null_mut());
        let text = (&raw mut *text).cast();
        Status(lua!(self, lua_load, read_piece::<T>, text, name))
    }

    /// Writes the compiled function on top. Returns whether that is possible: not of a function of this crate.
    pub(crate) fn dump<W: FnMut(&[u8])>(&self, write: &mut W) -> bool {
        let write = (&raw mut *write).cast();
        lua!(self, lua_dump_, write_piece::<W>, write) == 0
    }
}

/// Where a function is.
pub(crate) struct Location<'s> {
    /// Whether it is one of Rust or C.
    pub(crate) is_native: bool,
    pub(crate) source: &'s CStr,
    pub(crate) line: c_int,
}

impl State<'_> {
    /// Where a function is that runs, by its level: 0 is the one that asks, 1 its caller.
    pub(crate) fn location(&self, level: c_int) -> Option<Location<'_>> {
        // SAFETY: numbers and pointers, which Lua sets. The strings are those of functions that run.
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

    /// Pushes the place of a function that runs, as errors of Lua begin with it; an empty string of one that has none.
    pub(crate) fn push_location(&self, level: c_int) {
        lua!(self, luaL_where, level);
    }
}

/// What a coroutine is doing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Running,
    Suspended,
    /// It has resumed another one.
    Normal,
    Dead,
}

/// A coroutine that is an argument or an upvalue. Nothing can be borrowed of its stack.
#[derive(Clone, Copy)]
pub(crate) struct Coroutine<'s>(&'s State<'s>);

impl Coroutine<'_> {
    /// What it is doing, from the view of the coroutine or script that asks.
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
        // SAFETY: numbers and pointers, which Lua sets.
        let mut frame = unsafe { std::mem::zeroed::<lua_Debug>() };
        lua!(self.0, lua_getstack, 0, &mut frame) > 0
    }

    pub(crate) fn has_room(self, values: c_int) -> bool {
        self.0.has_room(values)
    }

    /// Resumes it with so many values from the top of `state`. Returns the number of values that it yields or returns,
    /// which are on its own stack; an error is there, too.
    pub(crate) fn resume(self, state: &mut State<'_>, arguments: c_int) -> Result<c_int, Status> {
        let Coroutine(coroutine) = self;
        lua!(state, lua_xmove, coroutine.raw(), arguments);
        // Calls of C within one another are counted across coroutines.
        // SAFETY: both are alive.
        unsafe { lua_setlevel(state.raw(), coroutine.raw()) };
        match Status(lua!(coroutine, lua_resume_, arguments)) {
            Status::DONE | Status::YIELDED => Ok(coroutine.top()),
            status => Err(status),
        }
    }

    /// Moves values from the top of its stack.
    pub(crate) fn move_to(self, state: &State<'_>, values: c_int) {
        lua!(self.0, lua_xmove, state.raw(), values);
    }

    /// The reference by which its hook is set.
    pub(crate) fn state(&self) -> &State<'_> {
        self.0
    }
}

/// Coroutines.
impl State<'_> {
    /// The coroutine at an index.
    pub(crate) fn coroutine(&self, index: c_int) -> Option<Coroutine<'_>> {
        let coroutine = lua!(self, lua_tothread, index);
        // SAFETY: a coroutine lives while it is on the stack.
        (!coroutine.is_null()).then(|| Coroutine(unsafe { State::from_raw(coroutine) }))
    }

    /// Pushes a coroutine that is to run the function at an index. It takes over the hook.
    pub(crate) fn push_coroutine(&self, function: c_int) {
        let coroutine = lua!(self, lua_newthread);
        self.push_value(function);
        lua!(self, lua_xmove, coroutine, 1);
    }

    /// Pushes the coroutine that runs. Returns whether it is one, and not the script itself.
    pub(crate) fn push_running(&self) -> bool {
        lua!(self, lua_pushthread) == 0
    }
}

/// Calls a hook.
///
/// # Safety
/// [`State::set_hook`] has passed it to Lua, which calls it in a protected call.
unsafe extern "C-unwind" fn run_hook<F: Fn(&State<'_>) + Copy>(
    lua: *mut lua_State,
    _: *mut lua_Debug,
) {
    // SAFETY: as in `entry`.
    let hook = unsafe { std::ptr::NonNull::<F>::dangling().read() };
    // SAFETY: as in `entry`.
    hook(unsafe { State::from_raw(lua) });
}

impl State<'_> {
    /// Sets the function that is called after so many instructions, again and again. It captures nothing.
    pub(crate) fn set_hook<F: Fn(&State<'_>) + Copy>(&self, _hook: F, instructions: c_int) {
        const {
            assert!(size_of::<F>() == 0, "captures nothing");
        }
        let mask = mlua_sys::LUA_MASKCOUNT;
        lua!(self, lua_sethook, Some(run_hook::<F>), mask, instructions);
    }
}

/// A task of the collector of garbage.
#[derive(Clone, Copy)]
pub(crate) enum Collection {
    Stop,
    Restart,
    All,
    /// Returns the memory in use, in KiB.
    Count,
    /// Returns what remains of it, in bytes.
    CountRemainder,
    /// Returns whether that ended a cycle.
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
