//! Errors, as Redis makes them: a table whose field `err` is the text, with its code in front.

use std::ffi::{CStr, c_int};

use mlua_sys::{
    lua_State, lua_concat, lua_createtable, lua_error, lua_pushboolean, lua_setfield, luaL_where,
};

use crate::state::stack::push_bytes;

/// Pushes an error: a table with its text.
pub(crate) unsafe fn push_error(state: *mut lua_State, text: &[u8]) {
    lua_createtable(state, 0, 4);
    push_bytes(state, text);
    lua_setfield(state, -2, c"err".as_ptr());
}

/// Raises an error.
pub(crate) unsafe fn raise(state: *mut lua_State, text: &[u8]) -> c_int {
    push_error(state, text);
    lua_error(state)
}

/// The field that says of an error that it has been counted, as in Redis.
pub(crate) const COUNTED: &CStr = c"ignore_error_stats_update";

/// Says of the error on top that it has been counted.
pub(crate) unsafe fn mark_counted(state: *mut lua_State) {
    lua_pushboolean(state, 1);
    lua_setfield(state, -2, COUNTED.as_ptr());
}

/// Raises a text with the place of the line that called in front, as Lua's own libraries do. The text lies in the
/// workspace or in the program.
pub(crate) unsafe fn raise_here(state: *mut lua_State, text: &[u8]) -> c_int {
    luaL_where(state, 1);
    push_bytes(state, text);
    lua_concat(state, 2);
    lua_error(state)
}

/// Raises a text as it is.
pub(crate) unsafe fn raise_text(state: *mut lua_State, text: &[u8]) -> c_int {
    push_bytes(state, text);
    lua_error(state)
}
