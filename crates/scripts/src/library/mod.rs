//! Every function that a script can reach, in one table, from which the libraries are built.
//!
//! No library of Lua's own is opened: its functions are C, take integers and sizes from a script unchecked, and cannot be
//! interrupted. All functions here are this crate's. A function that is not in [`TABLE`] is in no library, and a test walks
//! everything that a script can reach and fails for one that is not in the table. `docs/scripts.md` shows the table.
//!
//! - `arguments`: numbers that a script passes.
//! - `base`: the global functions.
//! - `buffer`: text that is being made.
//! - `chunks`: the parser, which is asked whether it may go on.
//! - `coroutines`: the library `coroutine`.
//! - `format`: `string.format`.
//! - `maths`: the library `math`.
//! - `reachable`: the test that walks.
//! - `tables`: the library `table`.
//! - `texts`: the library `string`, but for patterns.

pub(crate) mod arguments;
pub(crate) mod base;
pub(crate) mod buffer;
pub(crate) mod chunks;
pub(crate) mod coroutines;
mod format;
mod maths;
#[cfg(test)]
mod reachable;
mod tables;
pub(crate) mod texts;

use std::ffi::CStr;

use mlua_sys::{
    LUA_GLOBALSINDEX, LUA_TTABLE, lua_CFunction, lua_State, lua_createtable, lua_getfield_,
    lua_pop, lua_pushcclosure, lua_pushvalue, lua_setfield, lua_setmetatable, lua_type,
};

use crate::raise::push_bytes;
use crate::{bits, functions, json, packs, patterns, redis, sandbox, structs};

/// A function, and the bounds of one call of it.
pub(crate) struct Function {
    pub(crate) name: &'static CStr,
    pub(crate) function: lua_CFunction,
    pub(crate) bounds: Bounds,
}

/// How long a call may take, and what memory.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// What the time grows with.
    pub(crate) cost: &'static str,
    /// How it comes to its end before that.
    pub(crate) ends: Ends,
    pub(crate) memory: Memory,
}

/// Whether a call can be interrupted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// It takes no longer than some instructions of Lua.
    AtOnce,
    /// The host is asked at least every 65,536 steps.
    Asked,
    /// The host is not asked: the reason is in the cost.
    Bounded,
}

/// What memory a call may take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// None, or a fixed amount.
    Fixed,
    /// That of its result, which counts for the limit of the interpreter.
    Counted,
}

/// A function of a few instructions.
pub(crate) const fn constant(name: &'static CStr, function: lua_CFunction) -> Function {
    Function {
        name,
        function,
        bounds: Bounds {
            cost: "constant",
            ends: Ends::AtOnce,
            memory: Memory::Fixed,
        },
    }
}

/// A function that asks the host while it works.
pub(crate) const fn asked(
    name: &'static CStr,
    function: lua_CFunction,
    cost: &'static str,
    memory: Memory,
) -> Function {
    Function {
        name,
        function,
        bounds: Bounds {
            cost,
            ends: Ends::Asked,
            memory,
        },
    }
}

/// A function that does not ask the host, and is bounded otherwise.
pub(crate) const fn bounded(
    name: &'static CStr,
    function: lua_CFunction,
    cost: &'static str,
    memory: Memory,
) -> Function {
    Function {
        name,
        function,
        bounds: Bounds {
            cost,
            ends: Ends::Bounded,
            memory,
        },
    }
}

/// The functions of a library.
pub(crate) struct Library {
    /// What scripts call it; empty for the globals.
    pub(crate) name: &'static CStr,
    pub(crate) functions: &'static [Function],
    /// Functions that its functions return, or that are called for its tables: a script has them, but by no name.
    pub(crate) returned: &'static [Function],
}

const fn library(name: &'static CStr, functions: &'static [Function]) -> Library {
    Library {
        name,
        functions,
        returned: &[],
    }
}

/// All libraries. No other function is given to a script. A static, as the functions of a constant may have an address of
/// their own wherever it is used.
pub(crate) static TABLE: &[Library] = &[
    Library {
        name: c"",
        functions: base::FUNCTIONS,
        returned: base::RETURNED,
    },
    Library {
        name: c"coroutine",
        functions: coroutines::FUNCTIONS,
        returned: coroutines::RETURNED,
    },
    library(c"table", tables::FUNCTIONS),
    library(c"string", texts::FUNCTIONS),
    Library {
        name: c"string",
        functions: patterns::FUNCTIONS,
        returned: patterns::RETURNED,
    },
    library(c"math", maths::FUNCTIONS),
    library(c"redis", redis::FUNCTIONS),
    library(c"bit", bits::FUNCTIONS),
    library(c"struct", structs::FUNCTIONS),
    library(c"cmsgpack", packs::FUNCTIONS),
    library(c"cjson", json::FUNCTIONS),
    Library {
        name: c"",
        functions: &[],
        returned: sandbox::GUARDS,
    },
    Library {
        name: c"redis",
        functions: &[],
        returned: functions::LOADING,
    },
];

/// What the table says of a function, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// How a script calls it; of one that has no name, what it is.
    pub name: String,
    /// Whether a script has it by that name.
    pub is_named: bool,
    /// What the time of a call grows with.
    pub cost: &'static str,
    /// How a call is interrupted.
    pub ends: &'static str,
    /// What memory a call may take.
    pub memory: &'static str,
}

/// All rows of the table.
pub(crate) fn rows() -> Vec<Row> {
    let row = |library: &CStr, function: &Function, is_named: bool| {
        let library = match library.to_str() {
            Ok(library) if is_named && !library.is_empty() => format!("{library}."),
            _ => String::new(),
        };
        let bounds = function.bounds;
        Row {
            name: library + &function.name.to_string_lossy(),
            is_named,
            cost: bounds.cost,
            ends: match bounds.ends {
                Ends::AtOnce => "ends at once",
                Ends::Asked => "the host is asked",
                Ends::Bounded => "not within",
            },
            memory: match bounds.memory {
                Memory::Fixed => "fixed",
                Memory::Counted => "counted",
            },
        }
    };
    let of_library = |library: &'static Library| {
        let named = library.functions.iter();
        let named = named.map(move |function| row(library.name, function, true));
        let returned = library.returned.iter();
        named.chain(returned.map(move |function| row(library.name, function, false)))
    };
    TABLE.iter().flat_map(of_library).collect()
}

/// Puts all libraries into the globals of a new interpreter.
pub(crate) unsafe fn open(state: *mut lua_State) {
    lua_pushvalue(state, LUA_GLOBALSINDEX);
    lua_setfield(state, LUA_GLOBALSINDEX, c"_G".as_ptr());
    push_bytes(state, b"Lua 5.1");
    lua_setfield(state, LUA_GLOBALSINDEX, c"_VERSION".as_ptr());
    for library in TABLE {
        if library.functions.is_empty() {
            continue;
        }
        push(state, library.name);
        add(state, library.functions);
        lua_pop(state, 1);
    }
    push(state, c"math");
    maths::add_values(state);
    push(state, c"redis");
    redis::add_values(state);
    push(state, c"cmsgpack");
    packs::add_values(state);
    push(state, c"cjson");
    json::add_values(state);
    lua_pop(state, 4);
    // Methods of texts.
    push_bytes(state, b"");
    lua_createtable(state, 0, 1);
    push(state, c"string");
    lua_setfield(state, -2, c"__index".as_ptr());
    lua_setmetatable(state, -2);
    lua_pop(state, 1);
}

/// Pushes the table of a library, which is made where it is not there yet.
unsafe fn push(state: *mut lua_State, name: &CStr) {
    if name.is_empty() {
        return lua_pushvalue(state, LUA_GLOBALSINDEX);
    }
    lua_getfield_(state, LUA_GLOBALSINDEX, name.as_ptr());
    if lua_type(state, -1) != LUA_TTABLE {
        lua_pop(state, 1);
        lua_createtable(state, 0, 16);
        lua_pushvalue(state, -1);
        lua_setfield(state, LUA_GLOBALSINDEX, name.as_ptr());
    }
}

/// Adds functions to the table on top.
pub(crate) unsafe fn add(state: *mut lua_State, functions: &[Function]) {
    for Function { name, function, .. } in functions {
        lua_pushcclosure(state, *function, 0);
        lua_setfield(state, -2, name.as_ptr());
    }
}
