//! An interpreter, which owns Lua's state, and calls of it from outside.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use mlua_sys::{lua_State, lua_close, lua_newstate};

use super::calls::{Collection, Status};
use super::context::Context;
use super::entry::Entry;
use super::stack::{RegistryKey, State, lua};

/// What an interpreter is made with.
///
/// # Safety
/// The type is `repr(C)` and its first field is a [`Context`].
pub(crate) unsafe trait HoldsContext {
    fn context(&self) -> &Context;
}

/// An interpreter, and what it was made with. Both lie where they are until it is dropped.
pub(crate) struct Interpreter<W: HoldsContext> {
    lua: NonNull<lua_State>,
    /// From a box, which Lua has the address of.
    workspace: NonNull<W>,
}

/// Gives, resizes and takes back memory, as Lua asks for it.
///
/// # Safety
/// Lua calls it, with what [`Interpreter::new`] has passed and blocks that it was given here.
unsafe extern "C" fn allocate(
    context: *mut c_void,
    place: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    // SAFETY: `Interpreter::new` has passed the address, and Lua gives back what it was given.
    unsafe {
        let context = &*context.cast::<Context>();
        context.memory.resize(place.cast(), old, new).cast()
    }
}

/// Calls a function with data that its argument, a light pointer, points to.
///
/// # Safety
/// Lua calls it, in a protected call, with a pointer to such data that nothing else uses meanwhile.
unsafe extern "C-unwind" fn enter_with<T, F>(lua: *mut lua_State) -> c_int
where
    F: Fn(&mut State<'_>, &mut T) + Copy,
{
    // SAFETY: the pointer is as the caller says. A value of the function was given to `run_protected` or `keep_body`, and has
    // no bytes. Functions of this crate keep the rules of `State`.
    unsafe {
        let body = NonNull::<F>::dangling().read();
        let data = mlua_sys::lua_touserdata(lua, 1).cast::<T>();
        body(State::from_raw(lua), &mut *data);
    }
    0
}

impl State<'_> {
    /// Keeps a function that [`Interpreter::call_kept`] calls. It captures nothing.
    pub(crate) fn keep_body<T, F>(&mut self, _body: F) -> RegistryKey
    where
        F: Fn(&mut State<'_>, &mut T) + Copy,
    {
        const {
            assert!(size_of::<F>() == 0, "captures nothing");
        }
        self.push_entry(Entry(enter_with::<T, F>));
        self.keep()
    }
}

impl<W: HoldsContext> Interpreter<W> {
    /// A new interpreter without libraries; none where there is no memory for it.
    pub(crate) fn new(workspace: W) -> Option<Interpreter<W>> {
        let workspace = NonNull::from(Box::leak(Box::new(workspace)));
        // SAFETY: the workspace begins with the context that `allocate` is given, and outlives the state.
        let lua = unsafe { lua_newstate(allocate, workspace.as_ptr().cast()) };
        let Some(lua) = NonNull::new(lua) else {
            // SAFETY: nothing else has its address any more.
            drop(unsafe { Box::from_raw(workspace.as_ptr()) });
            return None;
        };
        let interpreter = Interpreter { lua, workspace };
        interpreter.workspace().context().set_main(lua.as_ptr());
        Some(interpreter)
    }

    pub(crate) fn workspace(&self) -> &W {
        // SAFETY: it is there until the interpreter is dropped, and nothing has a unique reference to it.
        unsafe { self.workspace.as_ref() }
    }

    /// The state, outside of a protected call: only for what raises no error.
    fn state(&self) -> &State<'_> {
        // SAFETY: it lives as long as the interpreter.
        unsafe { State::from_raw(self.lua.as_ptr()) }
    }

    /// Calls a function, which captures nothing, so that an error ends there.
    pub(crate) fn run_protected<T, F>(&self, _body: F, data: &mut T) -> Status
    where
        F: Fn(&mut State<'_>, &mut T) + Copy,
    {
        const {
            assert!(size_of::<F>() == 0, "captures nothing");
        }
        let data = (&raw mut *data).cast();
        Status(lua!(self.state(), lua_cpcall, enter_with::<T, F>, data))
    }

    /// The same with a function that [`State::keep_body`] has kept: nothing is allocated for the call.
    ///
    /// # Safety
    /// The function that is kept takes such data, and there is room on the stack for two values.
    #[inline]
    pub(crate) unsafe fn call_kept<T>(&self, body: RegistryKey, data: &mut T) -> Status {
        let data = (&raw mut *data).cast();
        let state = self.state();
        state.push_kept(body);
        lua!(state, lua_pushlightuserdata, data);
        Status(lua!(state, lua_pcall, 1, 0, 0))
    }

    /// Takes everything off the stack.
    pub(crate) fn clear_stack(&self) {
        lua!(self.state(), lua_settop, 0);
    }

    /// No script can give Lua a finalizer, so that this raises no error.
    pub(crate) fn collect(&self, what: Collection, number: c_int) {
        self.state().collect(what, number);
    }
}

impl<W: HoldsContext> Drop for Interpreter<W> {
    fn drop(&mut self) {
        self.workspace().context().memory.limit.set(usize::MAX);
        // SAFETY: nothing uses the interpreter any more, and Lua has no more use for the workspace once it is closed.
        unsafe {
            lua_close(self.lua.as_ptr());
            drop(Box::from_raw(self.workspace.as_ptr()));
        }
    }
}
