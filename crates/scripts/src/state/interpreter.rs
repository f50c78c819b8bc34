//! Implements an interpreter, which owns a Lua state, and the calls that enter Lua from outside.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use mlua_sys::{lua_State, lua_close, lua_newstate};

use super::calls::{Collection, Status};
use super::context::Context;
use super::entry::Entry;
use super::stack::{RegistryKey, State, lua};

/// Data that an interpreter owns. The data contains the interpreter's context.
///
/// # Safety
/// The type must be `repr(C)`, and its first field must be a [`Context`].
pub(crate) unsafe trait HoldsContext {
    fn context(&self) -> &Context;
}

/// A Lua interpreter with its workspace. The Lua state and the workspace do not move until the
/// interpreter is dropped.
pub(crate) struct Interpreter<W: HoldsContext> {
    lua: NonNull<lua_State>,
    /// The workspace, leaked from a box because Lua stores its address.
    workspace: NonNull<W>,
}

/// Allocates, resizes or frees memory for Lua.
///
/// # Safety
/// Lua must call this function, with the context from [`Interpreter::new`] and blocks that this
/// function returned.
unsafe extern "C" fn allocate(
    context: *mut c_void,
    place: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    // SAFETY: `Interpreter::new` passed the context's address to Lua, and Lua passes only blocks
    // that this function returned.
    unsafe {
        let context = &*context.cast::<Context>();
        context.memory.resize(place.cast(), old, new).cast()
    }
}

/// Calls the function `F` with the data that the Lua argument, a light userdata, points to.
///
/// # Safety
/// Lua must call this function, in a protected call, with a pointer to a `T` that nothing else uses
/// during the call.
unsafe extern "C-unwind" fn enter_with<T, F>(lua: *mut lua_State) -> c_int
where
    F: Fn(&mut State<'_>, &mut T) + Copy,
{
    // SAFETY: the caller guarantees that the pointer is valid. `F` is zero-sized, and
    // `run_protected` or `keep_body` received a value of type `F`. All functions of this crate
    // follow the rules of `State`.
    unsafe {
        let body = NonNull::<F>::dangling().read();
        let data = mlua_sys::lua_touserdata(lua, 1).cast::<T>();
        body(State::from_raw(lua), &mut *data);
    }
    0
}

impl State<'_> {
    /// Stores a function in the registry, for calls with [`Interpreter::call_kept`]. The function
    /// must capture no variables.
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
    /// Returns a new interpreter without libraries, or `None` if it cannot be allocated.
    pub(crate) fn new(workspace: W) -> Option<Interpreter<W>> {
        let workspace = NonNull::from(Box::leak(Box::new(workspace)));
        // SAFETY: the workspace starts with the context that `allocate` expects, and outlives the
        // Lua state.
        let lua = unsafe { lua_newstate(allocate, workspace.as_ptr().cast()) };
        let Some(lua) = NonNull::new(lua) else {
            // SAFETY: the Lua state was not created, so this is the only pointer to the workspace.
            drop(unsafe { Box::from_raw(workspace.as_ptr()) });
            return None;
        };
        let interpreter = Interpreter { lua, workspace };
        interpreter.workspace().context().set_main(lua.as_ptr());
        Some(interpreter)
    }

    pub(crate) fn workspace(&self) -> &W {
        // SAFETY: the workspace lives until the interpreter is dropped, and no mutable reference to
        // it exists.
        unsafe { self.workspace.as_ref() }
    }

    /// Returns the Lua state without a protected call, for calls that raise no errors.
    fn state(&self) -> &State<'_> {
        // SAFETY: the Lua state lives as long as the interpreter.
        unsafe { State::from_raw(self.lua.as_ptr()) }
    }

    /// Calls a function that receives `data`, and catches Lua errors. The function must capture no
    /// variables.
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

    /// Calls a function that [`State::keep_body`] stored, and catches Lua errors. Unlike
    /// `run_protected`, this method allocates nothing.
    ///
    /// # Safety
    /// The stored function must accept a `T`, and the stack must have room for two values.
    #[inline]
    pub(crate) unsafe fn call_kept<T>(&self, body: RegistryKey, data: &mut T) -> Status {
        let data = (&raw mut *data).cast();
        let state = self.state();
        state.push_kept(body);
        lua!(state, lua_pushlightuserdata, data);
        Status(lua!(state, lua_pcall, 1, 0, 0))
    }

    /// Removes all values from the stack.
    pub(crate) fn clear_stack(&self) {
        lua!(self.state(), lua_settop, 0);
    }

    /// Runs a garbage collector operation. Raises no error, because scripts cannot define
    /// finalizers.
    pub(crate) fn collect(&self, what: Collection, number: c_int) {
        self.state().collect(what, number);
    }
}

impl<W: HoldsContext> Drop for Interpreter<W> {
    fn drop(&mut self) {
        self.workspace().context().memory.limit.set(usize::MAX);
        // SAFETY: the interpreter is being dropped, so nothing else uses it, and Lua does not use
        // the workspace after `lua_close`.
        unsafe {
            lua_close(self.lua.as_ptr());
            drop(Box::from_raw(self.workspace.as_ptr()));
        }
    }
}
