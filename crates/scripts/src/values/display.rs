//! The text of a value, as `tostring` makes it.

use std::ffi::c_int;

use mlua_sys::{
    LUA_TBOOLEAN, LUA_TNIL, LUA_TNUMBER, LUA_TSTRING, lua_State, lua_pushfstring, lua_pushvalue,
    lua_toboolean, lua_tolstring, lua_topointer, lua_type, lua_typename,
};

use crate::state::stack::push_bytes;

/// Pushes what `tostring` makes of a value that says nothing else of itself.
pub(crate) unsafe fn push_text(state: *mut lua_State, index: c_int) {
    match lua_type(state, index) {
        LUA_TNUMBER => {
            lua_pushvalue(state, index);
            lua_tolstring(state, -1, std::ptr::null_mut());
        }
        LUA_TSTRING => lua_pushvalue(state, index),
        LUA_TBOOLEAN if lua_toboolean(state, index) != 0 => push_bytes(state, b"true"),
        LUA_TBOOLEAN => push_bytes(state, b"false"),
        LUA_TNIL => push_bytes(state, b"nil"),
        kind => {
            let (name, place) = (lua_typename(state, kind), lua_topointer(state, index));
            lua_pushfstring(state, c"%s: %p".as_ptr(), name, place);
        }
    }
}
