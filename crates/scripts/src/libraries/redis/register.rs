//! `redis.register_function`, and what else `redis` has while the program of a library is run.

use std::ffi::{CStr, c_int};

use mlua_sys::{
    LUA_REGISTRYINDEX, LUA_TFUNCTION, LUA_TNIL, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE, lua_State,
    lua_gettop, lua_isstring, lua_next, lua_pop, lua_pushnil, lua_pushvalue, lua_rawgeti_,
    lua_replace, lua_settop, lua_type, luaL_ref,
};
use undercroft_commands::script::{FunctionFlags, LibraryFunction, is_name};

use super::log;
use super::registrations::RegisteredFunction;
use crate::libraries::function::{Function, Memory, asked};
use crate::libraries::workspace::Workspace;
use crate::state::raise::raise;
use crate::state::stack::{bytes, c_bytes};

/// What `redis` has while the program of a library is run.
pub(crate) static LOADING: &[Function] = &[
    asked(
        c"register_function",
        register_function,
        "bytes of the names and descriptions",
        Memory::Counted,
    ),
    asked(c"log", log, "bytes", Memory::Counted),
];

/// Where on the stack `redis.register_function` keeps what it was given.
const NAME: c_int = 2;
const DESCRIPTION: c_int = 3;
const CALLBACK: c_int = 4;

/// `redis.register_function`, with a name and a function, or with a table of named arguments.
unsafe extern "C-unwind" fn register_function(state: *mut lua_State) -> c_int {
    let workspace = Workspace::of(state);
    let count = lua_gettop(state);
    if !(1..=2).contains(&count) {
        return raise(
            state,
            b"ERR wrong number of arguments to redis.register_function",
        );
    }
    if !(*workspace).registrations.is_open {
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
    let problem = register(workspace, bytes(state, NAME), description(state), flags);
    if let Some(problem) = problem {
        return raise(state, problem);
    }
    lua_settop(state, CALLBACK);
    let place = luaL_ref(state, LUA_REGISTRYINDEX);
    note_place(workspace, place);
    0
}

unsafe fn description<'a>(state: *mut lua_State) -> Option<&'a [u8]> {
    (lua_isstring(state, DESCRIPTION) != 0).then(|| bytes(state, DESCRIPTION))
}

unsafe fn note_place(workspace: *mut Workspace, place: c_int) {
    if let Some(last) = (*workspace).registrations.functions.last_mut() {
        last.1 = place;
    }
}

/// Notes a function; what is wrong with it.
unsafe fn register(
    workspace: *mut Workspace,
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
    let registered = &mut (*workspace).registrations.functions;
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
    let taken = |(known, _): &RegisteredFunction| {
        let description = known.description.as_ref().map_or(0, Vec::len);
        size_of::<RegisteredFunction>() + known.name.len() + description
    };
    (*workspace).registrations.bytes += registered.last().map_or(0, taken);
    match (*workspace).registrations.bytes > (*workspace).context.memory.limit {
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
