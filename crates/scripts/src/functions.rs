//! Libraries of functions: their programs, which register functions and do nothing else, and the functions.
//!
//! What a program can see while it is run is a table of its own, with little in it. Its functions see what
//! scripts do, but for KEYS and ARGV and some of `redis`, in the same table: it is told where to look. The machine may
//! call this.

use std::ffi::{CStr, c_int};
use std::time::Duration;

use crate::libraries::guards::{missing_global, read_only};
use crate::libraries::redis::register::LOADING;
use crate::libraries::workspace::Workspace;
use crate::libraries::{function, parser, redis};
use crate::sandbox;
use crate::state::context::keep_error;
use crate::state::stack::{keep, push_bytes, set_globals, swap};
use mlua_sys::{
    LUA_REGISTRYINDEX, lua_State, lua_concat, lua_createtable, lua_getfield_, lua_gettop,
    lua_isstring, lua_istable, lua_next, lua_pcall, lua_pop, lua_pushboolean, lua_pushcclosure,
    lua_pushnil, lua_pushnumber, lua_pushvalue, lua_rawgeti_, lua_rawset, lua_replace,
    lua_setfield, lua_setmetatable, luaL_unref,
};

/// How long the program of a library may run.
pub(crate) const LOAD_TIME: Duration = Duration::from_millis(500);

/// Tables in the registry.
#[derive(Clone, Copy, Default)]
pub(crate) struct LibraryGlobals {
    /// What libraries see as their globals: an empty table.
    proxy: c_int,
    /// Its metatable, which says where to look.
    meta: c_int,
    /// What there is while the program of a library is run.
    while_loading: c_int,
    /// And while a function is: what scripts have, but for what `redis` has for them only.
    while_running: c_int,
}

#[cfg(test)]
impl LibraryGlobals {
    /// Where the registry holds the tables.
    pub(crate) fn places(&self) -> [c_int; 4] {
        [
            self.proxy,
            self.meta,
            self.while_loading,
            self.while_running,
        ]
    }
}

/// What `redis` has for scripts only.
const SCRIPTS_ONLY: [&CStr; 3] = [c"breakpoint", c"debug", c"replicate_commands"];

/// Makes the tables. The library `redis` of programs is on top, and is taken off.
pub(crate) unsafe fn prepare(state: *mut lua_State, workspace: *mut Workspace) -> LibraryGlobals {
    lua_createtable(state, 0, 8);
    function::add(state, LOADING);
    for (name, number) in redis::NUMBERS {
        if name.to_bytes().starts_with(b"LOG_") || *name == c"REDIS_VERSION_NUM" {
            lua_pushnumber(state, *number);
            lua_setfield(state, -2, name.as_ptr());
        }
    }
    push_bytes(state, redis::VERSION);
    lua_setfield(state, -2, c"REDIS_VERSION".as_ptr());
    sandbox::protect(state, workspace, Some(missing_global));
    lua_createtable(state, 0, 1);
    swap(state);
    lua_setfield(state, -2, c"redis".as_ptr());
    sandbox::protect(state, workspace, Some(missing_global));
    let while_loading = keep(state);
    let while_running = copy_globals(state, workspace);

    lua_createtable(state, 0, 0);
    lua_createtable(state, 0, 3);
    lua_pushcclosure(state, read_only, 0);
    lua_setfield(state, -2, c"__newindex".as_ptr());
    lua_pushboolean(state, 0);
    lua_setfield(state, -2, c"__metatable".as_ptr());
    lua_pushvalue(state, -1);
    let meta = keep(state);
    lua_setmetatable(state, -2);
    let proxy = keep(state);
    LibraryGlobals {
        proxy,
        meta,
        while_loading,
        while_running,
    }
}

/// Keeps a copy of the globals, with a `redis` of its own. Returns where.
unsafe fn copy_globals(state: *mut lua_State, workspace: *mut Workspace) -> c_int {
    (*workspace).proxies.push_globals(state);
    copy(state);
    lua_getfield_(state, -1, c"redis".as_ptr());
    if let Some(original) = (*workspace).proxies.original(state, -1) {
        lua_rawgeti_(state, LUA_REGISTRYINDEX, original);
        copy(state);
        for name in SCRIPTS_ONLY {
            lua_pushnil(state);
            lua_setfield(state, -2, name.as_ptr());
        }
        sandbox::protect(state, workspace, None);
        lua_setfield(state, -3, c"redis".as_ptr());
    }
    lua_pop(state, 1);
    lua_createtable(state, 0, 1);
    lua_pushcclosure(state, missing_global, 0);
    lua_setfield(state, -2, c"__index".as_ptr());
    lua_setmetatable(state, -2);
    keep(state)
}

/// Puts a copy of the table on top in its place.
unsafe fn copy(state: *mut lua_State) {
    let from = lua_gettop(state);
    lua_createtable(state, 0, 32);
    lua_pushnil(state);
    while lua_next(state, from) != 0 {
        lua_pushvalue(state, -2);
        swap(state);
        lua_rawset(state, from + 1);
    }
    lua_replace(state, from);
}

/// Has libraries see the table at a place in the registry.
unsafe fn show_globals(state: *mut lua_State, globals: LibraryGlobals, shown: c_int) {
    lua_rawgeti_(state, LUA_REGISTRYINDEX, globals.meta);
    lua_rawgeti_(state, LUA_REGISTRYINDEX, shown);
    lua_setfield(state, -2, c"__index".as_ptr());
    lua_pop(state, 1);
}

/// Why the program of a library was not loaded. The text is the context's.
#[derive(Clone, Copy)]
pub(crate) enum LoadError {
    /// It cannot be compiled.
    Compiling,
    /// It failed while it ran.
    Running,
}

/// Runs the program of a library, which registers its functions.
pub(crate) unsafe fn load(
    state: *mut lua_State,
    workspace: *mut Workspace,
    globals: LibraryGlobals,
    program: &[u8],
) -> Result<(), LoadError> {
    show_globals(state, globals, globals.while_loading);
    lua_rawgeti_(state, LUA_REGISTRYINDEX, globals.proxy);
    set_globals(state);
    let name = c"@user_function".as_ptr();
    if parser::load_program(state, program, name, parser::PROGRAM_MAX) != 0 {
        keep_error(state);
        return Err(LoadError::Compiling);
    }
    (*workspace).registrations.begin();
    if lua_pcall(state, 0, 0, 0) != 0 {
        if lua_istable(state, -1) == 0 {
            push_bytes(state, b"ERR ");
            swap(state);
            if lua_isstring(state, -1) != 0 {
                lua_concat(state, 2);
            }
        }
        keep_error(state);
        free_registered(state, workspace);
        return Err(LoadError::Running);
    }
    Ok(())
}

/// Frees what the program registered before it failed.
unsafe fn free_registered(state: *mut lua_State, workspace: *mut Workspace) {
    for (_, place) in &(*workspace).registrations.functions {
        luaL_unref(state, LUA_REGISTRYINDEX, *place);
    }
}

/// Pushes a function of a library, which is then about to be called.
pub(crate) unsafe fn push(
    state: *mut lua_State,
    workspace: *mut Workspace,
    globals: LibraryGlobals,
    place: c_int,
) {
    show_globals(state, globals, globals.while_running);
    (*workspace).proxies.push_globals(state);
    for name in [b"KEYS", b"ARGV"] {
        push_bytes(state, name);
        lua_pushnil(state);
        lua_rawset(state, -3);
    }
    lua_pop(state, 1);
    lua_rawgeti_(state, LUA_REGISTRYINDEX, place);
}
