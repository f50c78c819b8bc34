//! What a script finds, and cannot change.
//!
//! A script could change any table that it can reach. So it is given a proxy of the globals and of each library: an empty
//! table whose metatable looks up reads in the original table, and refuses writes. The functions that ignore metatables,
//! as `rawset` and `table.insert` do, know the proxies. Functions and the machine may call it.
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
    lua_rawgeti_(state, LUA_REGISTRYINDEX, (*workspace).proxies.globals.0);
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
        let original = protect(state, workspace, None);
        if name == c"string" {
            // Methods of strings are found in it without the detour.
            push_bytes(state, b"");
            lua_getmetatable(state, -1);
            lua_rawgeti_(state, LUA_REGISTRYINDEX, original);
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
    let original = protect(state, workspace, Some(missing_global));
    // What a script is shown in the place of its metatable.
    lua_getmetatable(state, -1);
    lua_createtable(state, 0, 1);
    lua_pushcclosure(state, missing_global, 0);
    lua_setfield(state, -2, c"__index".as_ptr());
    protect(state, workspace, None);
    lua_setfield(state, -2, c"__metatable".as_ptr());
    lua_pop(state, 1);
    let proxy = keep(state);
    (*workspace).proxies.globals = (proxy, original);
}

/// Moves everything in the table on top into another one, which it is put before. What is missing there is asked of
/// `missing`. Returns the place of that one in the registry.
pub(crate) unsafe fn protect(
    state: *mut lua_State,
    workspace: *mut Workspace,
    missing: Option<lua_CFunction>,
) -> c_int {
    let proxy = lua_gettop(state);
    lua_createtable(state, 0, 32);
    let original = proxy + 1;
    lua_pushnil(state);
    while lua_next(state, proxy) != 0 {
        lua_pushvalue(state, -2);
        swap(state);
        lua_rawset(state, original);
    }
    lua_pushnil(state);
    while lua_next(state, original) != 0 {
        lua_pop(state, 1);
        lua_pushvalue(state, -1);
        lua_pushnil(state);
        lua_rawset(state, proxy);
    }
    if let Some(missing) = missing {
        lua_createtable(state, 0, 1);
        lua_pushcclosure(state, missing, 0);
        lua_setfield(state, -2, c"__index".as_ptr());
        lua_setmetatable(state, original);
    }
    lua_createtable(state, 0, 3);
    lua_pushvalue(state, original);
    lua_setfield(state, -2, c"__index".as_ptr());
    lua_pushcclosure(state, read_only, 0);
    lua_setfield(state, -2, c"__newindex".as_ptr());
    lua_pushboolean(state, 0);
    lua_setfield(state, -2, c"__metatable".as_ptr());
    lua_setmetatable(state, proxy);
    let place = keep(state);
    note_proxy(workspace, lua_topointer(state, proxy), place);
    place
}

unsafe fn note_proxy(workspace: *mut Workspace, proxy: *const c_void, place: c_int) {
    (*workspace).proxies.known.push((proxy as usize, place));
}
