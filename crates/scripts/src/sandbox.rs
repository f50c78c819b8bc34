//! What a script finds, and cannot change.
//!
//! Lua's tables can be changed by whoever has them. So what a script has of the globals and of each library is an empty
//! table in front: what is read is looked for in the real one behind it, and nothing can be written. The functions that
//! pass by this, as `rawset` and `table.insert` do, are told of these tables.

use std::ffi::{c_int, c_void};

use mlua_sys::{
    LUA_GLOBALSINDEX, LUA_REGISTRYINDEX, lua_CFunction, lua_State, lua_createtable, lua_getfield_,
    lua_getmetatable, lua_gettop, lua_isnumber, lua_isstring, lua_next, lua_pop, lua_pushboolean,
    lua_pushcclosure, lua_pushnil, lua_pushvalue, lua_rawgeti_, lua_rawset, lua_setfield,
    lua_setmetatable, lua_settop, lua_topointer, lua_tostring, luaL_error,
};

use crate::library::{self, Function, constant};
use crate::machine::{self, Machine};
use crate::raise::push_bytes;
use crate::{functions, plain};

/// Where `math.random` begins.
pub(crate) const RANDOM: u64 = 0x1234_abcd_330e;

/// Tables that are in front of others.
#[derive(Default)]
pub(crate) struct Sandbox {
    /// Each with the place of what is behind it in the registry.
    fronts: Vec<(usize, c_int)>,
    /// The globals in front, and behind, in the registry.
    globals: (c_int, c_int),
}

impl Sandbox {
    /// Where the registry holds the globals in front.
    #[cfg(test)]
    pub(crate) fn place(&self) -> c_int {
        self.globals.0
    }

    /// Pushes the globals behind.
    pub(crate) unsafe fn push_real_globals(&self, state: *mut lua_State) {
        lua_rawgeti_(state, LUA_REGISTRYINDEX, self.globals.1);
    }

    /// What is behind the table at an index, in the registry, if it is one in front.
    pub(crate) unsafe fn behind(&self, state: *mut lua_State, index: c_int) -> Option<c_int> {
        let place = lua_topointer(state, index) as usize;
        let mut fronts = self.fronts.iter();
        fronts.find(|front| front.0 == place).map(|front| front.1)
    }
}

/// Makes the globals those of every script again, wherever the last one has put others.
pub(crate) unsafe fn use_globals(state: *mut lua_State, machine: *const Machine) {
    lua_rawgeti_(state, LUA_REGISTRYINDEX, (*machine).sandbox.globals.0);
    machine::set_globals(state);
}

/// Functions of the metatables of tables that are in front.
pub(crate) const GUARDS: &[Function] = &[
    constant(c"the guard of tables that are read only", read_only),
    constant(c"the guard of missing globals", missing_global),
];

/// Gives a new interpreter its libraries, and guards them.
pub(crate) unsafe fn prepare(state: *mut lua_State, machine: *mut Machine) {
    lua_settop(state, 0);
    library::open(state);
    protect_all(state, machine);
    lua_settop(state, 0);
    plain::prepare(state, machine);
    lua_settop(state, 0);
    functions::prepare(state, machine);
}

/// Puts empty tables before the libraries and the globals.
unsafe fn protect_all(state: *mut lua_State, machine: *mut Machine) {
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
        let behind = protect(state, machine, None);
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
            protect(state, machine, None);
            lua_setfield(state, -2, c"__metatable".as_ptr());
            lua_pop(state, 2);
        }
        lua_pop(state, 1);
    }
    lua_pushvalue(state, LUA_GLOBALSINDEX);
    let behind = protect(state, machine, Some(missing_global));
    // What a script is shown in the place of its metatable.
    lua_getmetatable(state, -1);
    lua_createtable(state, 0, 1);
    lua_pushcclosure(state, missing_global, 0);
    lua_setfield(state, -2, c"__index".as_ptr());
    protect(state, machine, None);
    lua_setfield(state, -2, c"__metatable".as_ptr());
    lua_pop(state, 1);
    let front = machine::keep(state);
    (*machine).sandbox.globals = (front, behind);
}

/// Moves everything in the table on top into another one, which it is put before. What is missing there is asked of
/// `missing`. Returns the place of that one in the registry.
pub(crate) unsafe fn protect(
    state: *mut lua_State,
    machine: *mut Machine,
    missing: Option<lua_CFunction>,
) -> c_int {
    let front = lua_gettop(state);
    lua_createtable(state, 0, 32);
    let behind = front + 1;
    lua_pushnil(state);
    while lua_next(state, front) != 0 {
        lua_pushvalue(state, -2);
        machine::swap(state);
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
    let place = machine::keep(state);
    note_front(machine, lua_topointer(state, front), place);
    place
}

unsafe fn note_front(machine: *mut Machine, front: *const c_void, place: c_int) {
    (*machine).sandbox.fronts.push((front as usize, place));
}

pub(crate) const READ_ONLY: &[u8] = b"Attempt to modify a readonly table";

pub(crate) unsafe extern "C-unwind" fn read_only(state: *mut lua_State) -> c_int {
    crate::raise::raise_here(state, READ_ONLY)
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
