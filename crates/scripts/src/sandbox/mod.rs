//! What a script finds, and cannot change.
//!
//! Lua's tables can be changed by whoever has them. So what a script has of the globals and of each library is an empty
//! table in front: what is read is looked for in the real one behind it, and nothing can be written. The functions that
//! pass by this, as `rawset` and `table.insert` do, are told of these tables. Functions and the machine may call it.
//!
//! - `unguarded`: scripts that only read what they find.

pub(crate) mod unguarded;

use std::ffi::{c_int, c_void};

use mlua_sys::{
    LUA_GLOBALSINDEX, LUA_REGISTRYINDEX, lua_CFunction, lua_State, lua_createtable, lua_getfield_,
    lua_getmetatable, lua_gettop, lua_next, lua_pop, lua_pushboolean, lua_pushcclosure,
    lua_pushnil, lua_pushvalue, lua_rawgeti_, lua_rawset, lua_setfield, lua_setmetatable,
    lua_settop, lua_topointer,
};

use crate::libraries::catalog;
use crate::libraries::guards::{missing_global, read_only};
use crate::libraries::workspace::Workspace;
use crate::state::stack::{keep, push_bytes, set_globals, swap};

/// Makes the globals those of every script again, wherever the last one has put others.
pub(crate) unsafe fn use_globals(state: *mut lua_State, workspace: *const Workspace) {
    lua_rawgeti_(state, LUA_REGISTRYINDEX, (*workspace).sandbox.globals.0);
    set_globals(state);
}

/// Gives a new interpreter its libraries, and guards them.
pub(crate) unsafe fn prepare(state: *mut lua_State, workspace: *mut Workspace) {
    lua_settop(state, 0);
    catalog::open(state);
    protect_all(state, workspace);
    lua_settop(state, 0);
}

/// Puts empty tables before the libraries and the globals.
unsafe fn protect_all(state: *mut lua_State, workspace: *mut Workspace) {
    let libraries = [
        c"string",
        c"table",
        c"math",
        c"coroutine",
        c"redis",
        c"cjson",
        c"cmsgpack",
        c"struct",
        c"bit",
    ];
    for name in libraries {
        lua_getfield_(state, LUA_GLOBALSINDEX, name.as_ptr());
        let behind = protect(state, workspace, None);
        if name == c"string" {
            // Methods of strings are found in it without the detour.
            push_bytes(state, b"");
            lua_getmetatable(state, -1);
            lua_rawgeti_(state, LUA_REGISTRYINDEX, behind);
            lua_setfield(state, -2, c"__index".as_ptr());
            // What a script is shown in the place of their metatable.
            lua_createtable(state, 0, 1);
            lua_pushvalue(state, -4);
            lua_setfield(state, -2, c"__index".as_ptr());
            protect(state, workspace, None);
            lua_setfield(state, -2, c"__metatable".as_ptr());
            lua_pop(state, 2);
        }
        lua_pop(state, 1);
    }
    lua_pushvalue(state, LUA_GLOBALSINDEX);
    let behind = protect(state, workspace, Some(missing_global));
    // What a script is shown in the place of its metatable.
    lua_getmetatable(state, -1);
    lua_createtable(state, 0, 1);
    lua_pushcclosure(state, missing_global, 0);
    lua_setfield(state, -2, c"__index".as_ptr());
    protect(state, workspace, None);
    lua_setfield(state, -2, c"__metatable".as_ptr());
    lua_pop(state, 1);
    let front = keep(state);
    (*workspace).sandbox.globals = (front, behind);
}

/// Moves everything in the table on top into another one, which it is put before. What is missing there is asked of
/// `missing`. Returns the place of that one in the registry.
pub(crate) unsafe fn protect(
    state: *mut lua_State,
    workspace: *mut Workspace,
    missing: Option<lua_CFunction>,
) -> c_int {
    let front = lua_gettop(state);
    lua_createtable(state, 0, 32);
    let behind = front + 1;
    lua_pushnil(state);
    while lua_next(state, front) != 0 {
        lua_pushvalue(state, -2);
        swap(state);
        lua_rawset(state, behind);
    }
    lua_pushnil(state);
    while lua_next(state, behind) != 0 {
        lua_pop(state, 1);
        lua_pushvalue(state, -1);
        lua_pushnil(state);
        lua_rawset(state, front);
    }
    if let Some(missing) = missing {
        lua_createtable(state, 0, 1);
        lua_pushcclosure(state, missing, 0);
        lua_setfield(state, -2, c"__index".as_ptr());
        lua_setmetatable(state, behind);
    }
    lua_createtable(state, 0, 3);
    lua_pushvalue(state, behind);
    lua_setfield(state, -2, c"__index".as_ptr());
    lua_pushcclosure(state, read_only, 0);
    lua_setfield(state, -2, c"__newindex".as_ptr());
    lua_pushboolean(state, 0);
    lua_setfield(state, -2, c"__metatable".as_ptr());
    lua_setmetatable(state, front);
    let place = keep(state);
    note_front(workspace, lua_topointer(state, front), place);
    place
}

unsafe fn note_front(workspace: *mut Workspace, front: *const c_void, place: c_int) {
    (*workspace).sandbox.fronts.push((front as usize, place));
}
