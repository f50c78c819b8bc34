//! Wraps functions of this crate so that Lua can call them.

use std::ffi::c_int;
use std::ptr::NonNull;

use mlua_sys::{lua_CFunction, lua_State};

use super::stack::{State, lua};

/// A function that Lua can call: a named function or a closure that captures no variables. Returns
/// the number of its results, which are on top of the stack.
pub(crate) trait Body: Fn(&mut State<'_>) -> c_int + Copy {}

impl<F: Fn(&mut State<'_>) -> c_int + Copy> Body for F {}

/// The C function through which Lua calls a function of this crate.
#[derive(Clone, Copy)]
pub(crate) struct Entry(pub(super) lua_CFunction);

/// Returns the C function through which Lua calls `body`.
pub(crate) const fn entry<F: Body>(_body: F) -> Entry {
    const {
        assert!(size_of::<F>() == 0, "captures nothing");
    }
    Entry(enter::<F>)
}

#[cfg(test)]
impl Entry {
    pub(crate) fn address(self) -> usize {
        self.0 as usize
    }
}

/// Calls the zero-sized function `F`. Never inlined, so that each function has a single address,
/// which a test uses to identify the function.
///
/// # Safety
/// Lua must call this function, in a protected call.
#[inline(never)]
unsafe extern "C-unwind" fn enter<F: Body>(lua: *mut lua_State) -> c_int {
    // SAFETY: `F` is zero-sized and `Copy`, and `entry` received a value of type `F`, so a dangling
    // pointer can be read.
    let body = unsafe { NonNull::<F>::dangling().read() };
    // SAFETY: Lua passes its live state, and all functions of this crate follow the rules of
    // `State`.
    body(unsafe { State::from_raw(lua) })
}

impl State<'_> {
    /// Pushes a function that has no upvalues.
    pub(crate) fn push_function<F: Body>(&self, body: F) {
        self.push_entry(entry(body));
    }

    /// Pops the top `upvalues` values, and pushes a function that has them as its upvalues.
    pub(crate) fn push_closure<F: Body>(&mut self, body: F, upvalues: c_int) {
        lua!(self, lua_pushcclosure, entry(body).0, upvalues);
    }

    /// Pushes the Lua function for an entry.
    pub(crate) fn push_entry(&self, entry: Entry) {
        lua!(self, lua_pushcclosure, entry.0, 0);
    }
}
