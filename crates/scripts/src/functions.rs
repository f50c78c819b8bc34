//! Libraries of functions: their programs, which register functions and do nothing else, and the functions.
//!
//! What a program can see while it is run is a table of its own, with little in it. Its functions see what
//! scripts do, but for KEYS and ARGV and some of `redis`, in the same table: it is told where to look.

use std::ffi::{CStr, c_int};
use std::time::Duration;

use mlua_sys::{
    LUA_REGISTRYINDEX, LUA_TFUNCTION, LUA_TNIL, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE, lua_State,
    lua_createtable, lua_getfield_, lua_gettop, lua_isstring, lua_istable, lua_next, lua_pcall,
    lua_pop, lua_pushboolean, lua_pushcclosure, lua_pushnil, lua_pushnumber, lua_pushvalue,
    lua_rawgeti_, lua_replace, lua_setfield, lua_setmetatable, lua_settop, lua_touserdata,
    lua_type, luaL_ref, luaL_unref,
};
use undercroft_commands::script::{FunctionFlags, LibraryFunction, is_name};

use crate::answer::{bytes, c_bytes};
use crate::library::{self, Function, Memory, asked, chunks};
use crate::machine::{self, Ended, Job, Machine};
use crate::raise::{push_bytes, raise};
use crate::{redis, sandbox};

/// How long the program of a library may run.
pub(crate) const LOAD_TIME: Duration = Duration::from_millis(500);

/// A function that the program of a library has registered, and its place in the registry.
pub(crate) type Registered = (LibraryFunction, c_int);

/// Tables in the registry.
#[derive(Clone, Copy, Default)]
pub(crate) struct Globals {
    /// What libraries see as their globals: an empty table.
    front: c_int,
    /// Its metatable, which says where to look.
    meta: c_int,
    /// What there is while the program of a library is run.
    few: c_int,
    /// And while a function is: what scripts have, but for what `redis` has for them only.
    most: c_int,
}

#[cfg(test)]
impl Globals {
    /// Where the registry holds the tables.
    pub(crate) fn places(&self) -> [c_int; 4] {
        [self.front, self.meta, self.few, self.most]
    }
}

/// What `redis` has while the program of a library is run.
pub(crate) static LOADING: &[Function] = &[
    asked(
        c"register_function",
        register_function,
        "bytes of the names and descriptions",
        Memory::Counted,
    ),
    asked(c"log", redis::log, "bytes", Memory::Counted),
];

/// What `redis` has for scripts only.
const OF_SCRIPTS: [&CStr; 3] = [c"breakpoint", c"debug", c"replicate_commands"];

/// What is being loaded.
#[derive(Default)]
pub(crate) struct Loading {
    /// Whether functions may be registered.
    is_open: bool,
    registered: Vec<Registered>,
    /// Bytes of what was registered.
    taken: usize,
}

/// Makes the tables. The library `redis` of programs is on top, and is taken off.
pub(crate) unsafe fn prepare(state: *mut lua_State, machine: *mut Machine) {
    lua_createtable(state, 0, 8);
    library::add(state, LOADING);
    for (name, number) in redis::NUMBERS {
        if name.to_bytes().starts_with(b"LOG_") || *name == c"REDIS_VERSION_NUM" {
            lua_pushnumber(state, *number);
            lua_setfield(state, -2, name.as_ptr());
        }
    }
    push_bytes(state, redis::VERSION);
    lua_setfield(state, -2, c"REDIS_VERSION".as_ptr());
    sandbox::protect(state, machine, Some(sandbox::missing_global));
    lua_createtable(state, 0, 1);
    machine::swap(state);
    lua_setfield(state, -2, c"redis".as_ptr());
    sandbox::protect(state, machine, Some(sandbox::missing_global));
    let few = machine::keep(state);
    let most = copy_most(state, machine);

    lua_createtable(state, 0, 0);
    lua_createtable(state, 0, 3);
    lua_pushcclosure(state, sandbox::read_only, 0);
    lua_setfield(state, -2, c"__newindex".as_ptr());
    lua_pushboolean(state, 0);
    lua_setfield(state, -2, c"__metatable".as_ptr());
    lua_pushvalue(state, -1);
    let meta = machine::keep(state);
    lua_setmetatable(state, -2);
    let front = machine::keep(state);
    (*machine).globals_of_functions = Globals {
        front,
        meta,
        few,
        most,
    };
}

/// Keeps a copy of the globals, with a `redis` of its own. Returns where.
unsafe fn copy_most(state: *mut lua_State, machine: *mut Machine) -> c_int {
    (*machine).sandbox.push_real_globals(state);
    copy(state);
    lua_getfield_(state, -1, c"redis".as_ptr());
    if let Some(behind) = (*machine).sandbox.behind(state, -1) {
        lua_rawgeti_(state, LUA_REGISTRYINDEX, behind);
        copy(state);
        for name in OF_SCRIPTS {
            lua_pushnil(state);
            lua_setfield(state, -2, name.as_ptr());
        }
        sandbox::protect(state, machine, None);
        lua_setfield(state, -3, c"redis".as_ptr());
    }
    lua_pop(state, 1);
    lua_createtable(state, 0, 1);
    lua_pushcclosure(state, sandbox::missing_global, 0);
    lua_setfield(state, -2, c"__index".as_ptr());
    lua_setmetatable(state, -2);
    machine::keep(state)
}

/// Puts a copy of the table on top in its place.
unsafe fn copy(state: *mut lua_State) {
    let from = lua_gettop(state);
    lua_createtable(state, 0, 32);
    lua_pushnil(state);
    while lua_next(state, from) != 0 {
        lua_pushvalue(state, -2);
        machine::swap(state);
        mlua_sys::lua_rawset(state, from + 1);
    }
    lua_replace(state, from);
}

/// Has libraries see few things, or most.
unsafe fn show(state: *mut lua_State, machine: *const Machine, most: bool) {
    let globals = (*machine).globals_of_functions;
    let shown = if most { globals.most } else { globals.few };
    lua_rawgeti_(state, LUA_REGISTRYINDEX, globals.meta);
    lua_rawgeti_(state, LUA_REGISTRYINDEX, shown);
    lua_setfield(state, -2, c"__index".as_ptr());
    lua_pop(state, 1);
}

/// Runs the program of a job's library.
pub(crate) unsafe extern "C-unwind" fn load(state: *mut lua_State) -> c_int {
    let job = lua_touserdata(state, 1).cast::<Job<'_>>();
    let machine = (*job).machine;
    show(state, machine, false);
    lua_rawgeti_(
        state,
        LUA_REGISTRYINDEX,
        (*machine).globals_of_functions.front,
    );
    machine::set_globals(state);
    let (program, name) = ((*job).script.program(), c"@user_function".as_ptr());
    if chunks::load_text(state, program, name, chunks::PROGRAM_MAX) != 0 {
        machine::keep_error(state, machine);
        (*job).ended = Ended::Badly;
        return 0;
    }
    begin(machine);
    if lua_pcall(state, 0, 0, 0) != 0 {
        if lua_istable(state, -1) != 0 {
            lua_getfield_(state, -1, c"err".as_ptr());
            machine::keep_text(machine, c_bytes(state, -1));
        } else {
            push_bytes(state, b"ERR ");
            machine::swap(state);
            if lua_isstring(state, -1) != 0 {
                mlua_sys::lua_concat(state, 2);
            }
            machine::keep_text(machine, c_bytes(state, -1));
        }
        (*job).ended = Ended::WithError;
        forget(state, machine);
    }
    0
}

unsafe fn begin(machine: *mut Machine) {
    let loading = &mut (*machine).loading;
    loading.registered.clear();
    loading.taken = 0;
    loading.is_open = true;
}

/// Frees what the program registered before it failed.
unsafe fn forget(state: *mut lua_State, machine: *mut Machine) {
    for (_, place) in &(*machine).loading.registered {
        luaL_unref(state, LUA_REGISTRYINDEX, *place);
    }
}

impl Loading {
    /// What was registered; nothing is loaded any more.
    pub(crate) fn end(&mut self) -> Vec<Registered> {
        self.is_open = false;
        std::mem::take(&mut self.registered)
    }
}

/// Pushes a function of a library, which is then about to be called.
pub(crate) unsafe fn push(state: *mut lua_State, machine: *mut Machine, place: c_int) {
    show(state, machine, true);
    (*machine).sandbox.push_real_globals(state);
    for name in [b"KEYS", b"ARGV"] {
        push_bytes(state, name);
        lua_pushnil(state);
        mlua_sys::lua_rawset(state, -3);
    }
    lua_pop(state, 1);
    lua_rawgeti_(state, LUA_REGISTRYINDEX, place);
}

/// Where on the stack `redis.register_function` keeps what it was given.
const NAME: c_int = 2;
const DESCRIPTION: c_int = 3;
const CALLBACK: c_int = 4;

/// `redis.register_function`, with a name and a function, or with a table of named arguments.
unsafe extern "C-unwind" fn register_function(state: *mut lua_State) -> c_int {
    let machine = Machine::of(state);
    let count = lua_gettop(state);
    if !(1..=2).contains(&count) {
        return raise(
            state,
            b"ERR wrong number of arguments to redis.register_function",
        );
    }
    if !(*machine).loading.is_open {
        return raise(
            state,
            b"ERR redis.register_function can only be called on FUNCTION LOAD command",
        );
    }
    let mut flags = FunctionFlags::default();
    let problem = match count {
        1 => named_arguments(state, &raw mut flags),
        _ => two_arguments(state),
    };
    if let Some(problem) = problem {
        return raise(state, problem);
    }
    let problem = register(machine, bytes(state, NAME), description(state), flags);
    if let Some(problem) = problem {
        return raise(state, problem);
    }
    lua_settop(state, CALLBACK);
    let place = luaL_ref(state, LUA_REGISTRYINDEX);
    note_place(machine, place);
    0
}

unsafe fn description<'a>(state: *mut lua_State) -> Option<&'a [u8]> {
    (lua_isstring(state, DESCRIPTION) != 0).then(|| bytes(state, DESCRIPTION))
}

unsafe fn note_place(machine: *mut Machine, place: c_int) {
    if let Some(last) = (*machine).loading.registered.last_mut() {
        last.1 = place;
    }
}

/// Notes a function; what is wrong with it.
unsafe fn register(
    machine: *mut Machine,
    name: &[u8],
    description: Option<&[u8]>,
    flags: FunctionFlags,
) -> Option<&'static [u8]> {
    const NO_PLACE: c_int = -1;
    if !is_name(name) {
        return Some(
            b"ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one \
              character long",
        );
    }
    let registered = &mut (*machine).loading.registered;
    if registered.iter().any(|(known, _)| known.name == name) {
        return Some(b"ERR Function already exists in the library");
    }
    let function = LibraryFunction {
        name: name.to_vec(),
        description: description.map(<[u8]>::to_vec),
        flags,
    };
    registered.push((function, NO_PLACE));
    // The program's own memory is limited by Lua, and that of what it registers here.
    let taken = |(known, _): &Registered| {
        let description = known.description.as_ref().map_or(0, Vec::len);
        size_of::<Registered>() + known.name.len() + description
    };
    (*machine).loading.taken += registered.last().map_or(0, taken);
    match (*machine).loading.taken > (*machine).memory_limit() {
        true => Some(b"ERR not enough memory"),
        false => None,
    }
}

unsafe fn two_arguments(state: *mut lua_State) -> Option<&'static [u8]> {
    if lua_isstring(state, 1) == 0 {
        return Some(b"ERR first argument to redis.register_function must be a string");
    }
    if lua_type(state, 2) != LUA_TFUNCTION {
        return Some(b"ERR second argument to redis.register_function must be a function");
    }
    lua_pushnil(state);
    lua_pushvalue(state, 2);
    lua_pushvalue(state, 1);
    lua_replace(state, NAME);
    None
}

unsafe fn named_arguments(
    state: *mut lua_State,
    flags: *mut FunctionFlags,
) -> Option<&'static [u8]> {
    if lua_type(state, 1) != LUA_TTABLE {
        return Some(
            b"ERR calling redis.register_function with a single argument is only applicable to Lua table (representing \
              named arguments).",
        );
    }
    lua_settop(state, CALLBACK);
    lua_pushnil(state);
    while lua_next(state, 1) != 0 {
        if lua_type(state, -2) == LUA_TNUMBER {
            return Some(b"ERR unknown argument given to redis.register_function");
        }
        if lua_type(state, -2) != LUA_TSTRING {
            return Some(
                b"ERR named argument key given to redis.register_function is not a string",
            );
        }
        let key = c_bytes(state, -2);
        let is = |name: &CStr| key.eq_ignore_ascii_case(name.to_bytes());
        let slot = if is(c"function_name") {
            if lua_isstring(state, -1) == 0 {
                return Some(
                    b"ERR function_name argument given to redis.register_function must be a string",
                );
            }
            NAME
        } else if is(c"description") {
            if lua_isstring(state, -1) == 0 {
                return Some(
                    b"ERR description argument given to redis.register_function must be a string",
                );
            }
            DESCRIPTION
        } else if is(c"callback") {
            if lua_type(state, -1) != LUA_TFUNCTION {
                return Some(
                    b"ERR callback argument given to redis.register_function must be a function",
                );
            }
            CALLBACK
        } else if is(c"flags") {
            if lua_type(state, -1) != LUA_TTABLE {
                return Some(
                    b"ERR flags argument to redis.register_function must be a table representing function flags",
                );
            }
            if !read_flags(state, flags) {
                return Some(b"ERR unknown flag given");
            }
            lua_pop(state, 1);
            continue;
        } else {
            return Some(b"ERR unknown argument given to redis.register_function");
        };
        lua_replace(state, slot);
    }
    if lua_type(state, NAME) == LUA_TNIL {
        return Some(b"ERR redis.register_function must get a function name argument");
    }
    if lua_type(state, CALLBACK) == LUA_TNIL {
        return Some(b"ERR redis.register_function must get a callback argument");
    }
    None
}

/// Reads the flags in the table on top. Returns whether all are known.
unsafe fn read_flags(state: *mut lua_State, flags: *mut FunctionFlags) -> bool {
    for index in 1.. {
        lua_rawgeti_(state, -1, index);
        if lua_type(state, -1) == LUA_TNIL {
            break;
        }
        if lua_isstring(state, -1) == 0 || !(*flags).add(c_bytes(state, -1)) {
            return false;
        }
        lua_pop(state, 1);
    }
    lua_pop(state, 1);
    true
}
