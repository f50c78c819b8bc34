//! Makes errors of what a script raises.

use std::ffi::{c_char, c_int};

use mlua_sys::{
    lua_Debug, lua_State, lua_concat, lua_createtable, lua_getinfo, lua_getstack, lua_gettop,
    lua_insert, lua_istable, lua_pushnumber, lua_pushstring_, lua_setfield, lua_settop,
};

use crate::state::stack::push_bytes;
use crate::values::display::push_text;

/// Makes of whatever was raised a table that says where.
pub(crate) unsafe extern "C-unwind" fn handle(state: *mut lua_State) -> c_int {
    lua_settop(state, 1);
    let mut place = std::mem::zeroed::<lua_Debug>();
    let level = 1;
    let mut is_known = lua_getstack(state, level, &mut place) != 0
        && lua_getinfo(state, c"Sl".as_ptr(), &mut place) != 0;
    // An error in a function of C is its caller's.
    if is_known && *place.what == b'C' as c_char {
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
