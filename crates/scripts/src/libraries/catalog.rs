//! Lists all libraries and their functions. Every interpreter builds its libraries from this table.

use std::ffi::CStr;

use super::function::{Function, Interruption, Memory, add};
use super::{base, bit, c_struct, cjson, cmsgpack, coroutine, guards, math, redis, string, table};

use crate::state::{GLOBALS, Kind, State};

/// A library of Lua functions, or the set of global functions.
pub(crate) struct Library {
    /// The library's name in scripts, or an empty string for the globals.
    pub(crate) name: &'static CStr,
    pub(crate) functions: &'static [Function],
    /// Functions without a name in scripts: results of the library's functions, and functions in
    /// metatables.
    pub(crate) returned: &'static [Function],
}

const fn library(name: &'static CStr, functions: &'static [Function]) -> Library {
    Library {
        name,
        functions,
        returned: &[],
    }
}

/// All libraries. Scripts can reach no other functions. This is a static because each use of a
/// constant can see different function addresses.
pub(crate) static LIBRARIES: &[Library] = &[
    Library {
        name: c"",
        functions: base::FUNCTIONS,
        returned: base::RETURNED,
    },
    Library {
        name: c"coroutine",
        functions: coroutine::FUNCTIONS,
        returned: coroutine::RETURNED,
    },
    library(c"table", table::FUNCTIONS),
    library(c"string", string::FUNCTIONS),
    Library {
        name: c"string",
        functions: string::patterns::FUNCTIONS,
        returned: string::patterns::RETURNED,
    },
    library(c"math", math::FUNCTIONS),
    library(c"redis", redis::FUNCTIONS),
    library(c"bit", bit::FUNCTIONS),
    library(c"struct", c_struct::FUNCTIONS),
    library(c"cmsgpack", cmsgpack::FUNCTIONS),
    library(c"cjson", cjson::FUNCTIONS),
    Library {
        name: c"",
        functions: &[],
        returned: guards::GUARDS,
    },
    Library {
        name: c"redis",
        functions: &[],
        returned: redis::register::LOADING,
    },
];

/// A function that scripts can reach, described as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionRow {
    /// The function's name in scripts, or a description of a function without a name.
    pub name: String,
    /// Whether scripts can refer to the function by `name`.
    pub is_named: bool,
    /// The quantity that determines how long a call takes, such as `bytes`.
    pub cost: &'static str,
    /// How a script's time limit interrupts a call.
    pub ends: &'static str,
    /// The memory that a call can allocate.
    pub memory: &'static str,
}

/// Returns the descriptions of all functions.
pub(crate) fn rows() -> Vec<FunctionRow> {
    let row = |library: &CStr, function: &Function, is_named: bool| {
        let library = match library.to_str() {
            Ok(library) if is_named && !library.is_empty() => format!("{library}."),
            _ => String::new(),
        };
        let bounds = function.bounds;
        FunctionRow {
            name: library + &function.name.to_string_lossy(),
            is_named,
            cost: bounds.cost,
            ends: match bounds.interruption {
                Interruption::EndsAtOnce => "immediate",
                Interruption::Asked => "interruptible",
                Interruption::Bounded => "bounded",
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
    LIBRARIES.iter().flat_map(of_library).collect()
}

/// Adds all libraries to the globals of a new interpreter.
pub(crate) fn open(state: &mut State<'_>) {
    state.push_value(GLOBALS);
    state.set_field(GLOBALS, c"_G");
    state.push_bytes(b"Lua 5.1");
    state.set_field(GLOBALS, c"_VERSION");
    for library in LIBRARIES {
        if library.functions.is_empty() {
            continue;
        }
        push(state, library.name);
        add(state, library.functions);
        state.pop(1);
    }
    push(state, c"math");
    math::add_values(state);
    push(state, c"redis");
    redis::add_values(state);
    push(state, c"cmsgpack");
    cmsgpack::add_values(state);
    push(state, c"cjson");
    cjson::add_values(state);
    state.pop(4);
    // Set the metatable of strings, which provides their methods.
    state.push_bytes(b"");
    state.push_table(0, 1);
    push(state, c"string");
    state.set_field(-2, c"__index");
    state.set_metatable(-2);
    state.pop(1);
}

/// Pushes a library's table, which is created if it does not exist.
fn push(state: &mut State<'_>, name: &CStr) {
    if name.is_empty() {
        return state.push_value(GLOBALS);
    }
    state.push_field(GLOBALS, name);
    if state.kind(-1) != Kind::TABLE {
        state.pop(1);
        state.push_table(0, 16);
        state.push_value(-1);
        state.set_field(GLOBALS, name);
    }
}
