//! Wraps functions of this crate so that Lua can call them.

use std::ffi::c_int;
use std::ptr::NonNull;

use mlua_sys::{lua_CFunction, lua_State};

use super::stack::{State, lua};

/// A function that Lua can call. Returns how many values on top of the stack are its results.
/// Either a named function or a closure that captures nothing.
pub(crate) trait Body: Fn(&mut State<'_>) -> c_int + Copy {}

impl<F: Fn(&mut State<'_>) -> c_int + Copy> Body for F {}

/// The C function through which Lua calls a function of this crate.
#[derive(Clone, Copy)]
pub(crate) struct Entry(pub(super) lua_CFunction);

/// Returns the entry of a function.
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

/// Calls a zero-sized function. Not inlined, so that each function has one address, by which a test
/// recognizes it.
///
/// # Safety
/// Lua must call this function, in a protected call.
#[inline(never)]
unsafe extern "C-unwind" fn enter<F: Body>(lua: *mut lua_State) -> c_int {
    // SAFETY: `F` is zero-sized and `Copy`, and `entry` received a value of it.
    let body = unsafe { NonNull::<F>::dangling().read() };
    // SAFETY: Lua passes its live state, and functions of this crate follow the rules of `State`.
    body(unsafe { State::from_raw(lua) })
}

impl State<'_> {
    /// Pushes a function.
    pub(crate) fn push_function<F: Body>(&self, body: F) {
        self.push_entry(entry(body));
    }

    /// Pushes a function, and pops the top `upvalues` values, which become its upvalues.
    pub(crate) fn push_closure<F: Body>(&mut self, body: F, upvalues: c_int) {
        lua!(self, lua_pushcclosure, entry(body).0, upvalues);
    }

    /// Pushes the function of an entry.
    pub(crate) fn push_entry(&self, entry: Entry) {
        lua!(self, lua_pushcclosure, entry.0, 0);
    }
}
