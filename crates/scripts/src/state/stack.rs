//! Values on Lua's stack.

use std::ffi::{CStr, c_int};

use mlua_sys::{
    LUA_GLOBALSINDEX, LUA_REGISTRYINDEX, lua_State, lua_insert, lua_pushlstring_, lua_replace,
    lua_toboolean, lua_tolstring, luaL_checklstring, luaL_ref,
};

/// Pushes bytes as a string.
pub(crate) unsafe fn push_bytes(state: *mut lua_State, bytes: &[u8]) {
    lua_pushlstring_(state, bytes.as_ptr().cast(), bytes.len());
}

/// The bytes of the string at an index. They are there while it stays on the stack.
pub(crate) unsafe fn bytes<'a>(state: *mut lua_State, index: c_int) -> &'a [u8] {
    let mut length = 0;
    let text = lua_tolstring(state, index, &mut length);
    if text.is_null() {
        return b"";
    }
    std::slice::from_raw_parts(text.cast(), length)
}

/// The bytes of the string at an index up to the first zero, as C reads them.
pub(crate) unsafe fn c_bytes<'a>(state: *mut lua_State, index: c_int) -> &'a [u8] {
    let text = lua_tolstring(state, index, std::ptr::null_mut());
    if text.is_null() {
        return b"";
    }
    CStr::from_ptr(text).to_bytes()
}

/// The bytes of an argument that has to be a text.
pub(crate) unsafe fn text<'a>(state: *mut lua_State, index: c_int) -> &'a [u8] {
    let mut length = 0;
    let text = luaL_checklstring(state, index, &mut length);
    std::slice::from_raw_parts(text.cast(), length)
}

/// Whether the value at an index counts as true.
pub(crate) unsafe fn is_true(state: *mut lua_State, index: c_int) -> bool {
    lua_toboolean(state, index) != 0
}

/// Makes the value on top the environment that programs are loaded into.
pub(crate) unsafe fn set_globals(state: *mut lua_State) {
    lua_replace(state, LUA_GLOBALSINDEX);
}

/// Keeps the value on top in the registry, and takes it off.
pub(crate) unsafe fn keep(state: *mut lua_State) -> c_int {
    luaL_ref(state, LUA_REGISTRYINDEX)
}

/// Moves the value on top below the one under it.
pub(crate) unsafe fn swap(state: *mut lua_State) {
    lua_insert(state, -2);
}
