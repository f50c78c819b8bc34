//! Errors, as Redis makes them: a table whose field `err` is the text, with its code in front.

use std::ffi::{CStr, c_int};

use mlua_sys::{
    lua_Debug, lua_State, lua_concat, lua_createtable, lua_error, lua_getinfo, lua_getstack,
    lua_gettop, lua_insert, lua_istable, lua_pushboolean, lua_pushlstring_, lua_pushnumber,
    lua_pushstring_, lua_setfield, lua_settop, luaL_where,
};

use crate::library::base::push_text;

/// Pushes bytes as a string.
pub(crate) unsafe fn push_bytes(state: *mut lua_State, bytes: &[u8]) {
    lua_pushlstring_(state, bytes.as_ptr().cast(), bytes.len());
}

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
/// machine or in the program.
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

/// Makes of whatever was raised a table that says where.
pub(crate) unsafe extern "C-unwind" fn handle(state: *mut lua_State) -> c_int {
    lua_settop(state, 1);
    let mut place = std::mem::zeroed::<lua_Debug>();
    let level = 1;
    let mut is_known = lua_getstack(state, level, &mut place) != 0
        && lua_getinfo(state, c"Sl".as_ptr(), &mut place) != 0;
    // An error in a function of C is its caller's.
    if is_known && *place.what == b'C' as std::ffi::c_char {
        is_known = lua_getstack(state, level + 1, &mut place) != 0
            && lua_getinfo(state, c"Sl".as_ptr(), &mut place) != 0;
    }
    if lua_istable(state, 1) == 0 {
        lua_createtable(state, 0, 4);
        push_bytes(state, b"ERR ");
        push_text(state, 1);
        lua_concat(state, 2);
        lua_setfield(state, -2, c"err".as_ptr());
        lua_insert(state, 1);
        lua_settop(state, 1);
    }
    if is_known {
        lua_pushstring_(state, place.source);
        lua_setfield(state, 1, c"source".as_ptr());
        lua_pushnumber(state, f64::from(place.currentline));
        lua_setfield(state, 1, c"line".as_ptr());
    }
    debug_assert_eq!(lua_gettop(state), 1);
    1
}
