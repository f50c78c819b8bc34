//! Functions of this crate as Lua calls them.

use std::ffi::c_int;
use std::ptr::NonNull;

use mlua_sys::{lua_CFunction, lua_State};

use super::stack::{State, lua};

/// A function that Lua can call: it returns how many values on top of the stack are its results. It is the name of a
/// function, or a closure that captures nothing.
pub(crate) trait Body: Fn(&mut State<'_>) -> c_int + Copy {}

impl<F: Fn(&mut State<'_>) -> c_int + Copy> Body for F {}

/// The function of C by which Lua calls a function of this crate.
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

/// Calls a function of no size. It is not inlined, so that it has one address, by which a test knows the function.
///
/// # Safety
/// Lua calls it, in a protected call.
#[inline(never)]
unsafe extern "C-unwind" fn enter<F: Body>(lua: *mut lua_State) -> c_int {
    // SAFETY: `entry` was given such a value, which has no bytes and can be copied.
    let body = unsafe { NonNull::<F>::dangling().read() };
    // SAFETY: Lua passes its state for the time of the call, and the functions of this crate keep the rules of `State`.
    body(unsafe { State::from_raw(lua) })
}

impl State<'_> {
    /// Pushes a function.
    pub(crate) fn push_function<F: Body>(&self, body: F) {
        self.push_entry(entry(body));
    }

    /// Pushes a function whose upvalues are the values on top, which are taken off.
    pub(crate) fn push_closure<F: Body>(&mut self, body: F, upvalues: c_int) {
        lua!(self, lua_pushcclosure, entry(body).0, upvalues);
    }

    /// Pushes the function that an entry calls.
    pub(crate) fn push_entry(&self, entry: Entry) {
        lua!(self, lua_pushcclosure, entry.0, 0);
    }
}
