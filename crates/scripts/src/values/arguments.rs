//! Numbers that a script passes, as C on x86-64 makes integers of them: everything is an integer, and no arithmetic of a
//! function is done in fewer than 64 bits.

use std::ffi::c_int;

use mlua_sys::{LUA_TNIL, lua_State, lua_type, luaL_checknumber};

use crate::values::numbers::truncated;

/// An argument that has to be a number, as an integer.
pub(crate) unsafe fn integer(state: *mut lua_State, index: c_int) -> i64 {
    truncated(luaL_checknumber(state, index))
}

/// The same, or a default where it is missing or nil.
pub(crate) unsafe fn optional_integer(state: *mut lua_State, index: c_int, default: i64) -> i64 {
    match lua_type(state, index) <= LUA_TNIL {
        true => default,
        false => integer(state, index),
    }
}

/// An argument that Lua keeps in 32 bits: the higher ones are cut off.
pub(crate) unsafe fn int(state: *mut lua_State, index: c_int) -> i64 {
    i64::from(integer(state, index) as i32)
}

/// The same, or a default where it is missing or nil.
pub(crate) unsafe fn optional_int(state: *mut lua_State, index: c_int, default: i64) -> i64 {
    match lua_type(state, index) <= LUA_TNIL {
        true => default,
        false => int(state, index),
    }
}
