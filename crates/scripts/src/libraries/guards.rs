//! Functions that keep scripts from changing the libraries and the globals.

use std::ffi::c_int;

use mlua_sys::{
    LUA_REGISTRYINDEX, lua_State, lua_gettop, lua_isnumber, lua_isstring, lua_rawgeti_,
    lua_replace, lua_tostring, luaL_error,
};

use super::function::{Function, constant};
use super::workspace::Workspace;
use crate::state::raise::{raise_here, raise_text};

/// Functions of the metatables of proxies.
pub(crate) const GUARDS: &[Function] = &[
    constant(c"the guard of tables that are read only", read_only),
    constant(c"the guard of missing globals", missing_global),
];

const READ_ONLY: &[u8] = b"Attempt to modify a readonly table";

pub(crate) unsafe extern "C-unwind" fn read_only(state: *mut lua_State) -> c_int {
    raise_here(state, READ_ONLY)
}

pub(crate) unsafe extern "C-unwind" fn missing_global(state: *mut lua_State) -> c_int {
    if lua_gettop(state) != 2 {
        luaL_error(
            state,
            c"Wrong number of arguments to luaProtectedTableError".as_ptr(),
        );
    }
    if lua_isstring(state, -1) == 0 && lua_isnumber(state, -1) == 0 {
        luaL_error(
            state,
            c"Second argument to luaProtectedTableError must be a string or number".as_ptr(),
        );
    }
    luaL_error(
        state,
        c"Script attempted to access nonexistent global variable '%s'".as_ptr(),
        lua_tostring(state, -1),
    )
}

/// Raises an error if the first argument is a proxy: a script may not change the table that it stands for.
pub(super) unsafe fn refuse_proxy(state: *mut lua_State) {
    let workspace = Workspace::of(state);
    if (*workspace).proxies.original(state, 1).is_some() {
        raise_text(state, READ_ONLY);
    }
}

/// Replaces the first argument by the original table, if it is a proxy.
pub(super) unsafe fn replace_proxy(state: *mut lua_State) {
    let workspace = Workspace::of(state);
    if let Some(original) = (*workspace).proxies.original(state, 1) {
        lua_rawgeti_(state, LUA_REGISTRYINDEX, original);
        lua_replace(state, 1);
    }
}
