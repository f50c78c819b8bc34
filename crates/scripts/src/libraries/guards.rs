//! Functions that keep scripts from changing the libraries and the globals.

use std::ffi::c_int;

use mlua_sys::{
    LUA_REGISTRYINDEX, lua_State, lua_gettop, lua_isnumber, lua_isstring, lua_rawgeti_,
    lua_replace, lua_tostring, luaL_error,
};

use super::function::{Function, constant};
use super::workspace::Workspace;
use crate::state::raise::{raise_here, raise_text};

/// Functions of the metatables of tables that are in front.
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

/// Raises where the first argument is a table that a script may not change.
pub(super) unsafe fn refuse_protected(state: *mut lua_State) {
    let workspace = Workspace::of(state);
    if (*workspace).sandbox.behind(state, 1).is_some() {
        raise_text(state, READ_ONLY);
    }
}

/// Puts what is behind a table in the place of the one in front.
pub(super) unsafe fn redirect(state: *mut lua_State) {
    let workspace = Workspace::of(state);
    if let Some(behind) = (*workspace).sandbox.behind(state, 1) {
        lua_rawgeti_(state, LUA_REGISTRYINDEX, behind);
        lua_replace(state, 1);
    }
}
