//! All libraries, in one table, from which they are made.

use std::ffi::CStr;

use super::function::{Function, Interruption, Memory, add};
use super::{base, bit, c_struct, cjson, cmsgpack, coroutine, guards, math, redis, string, table};

use crate::state::{GLOBALS, Kind, State};

/// The functions of a library.
pub(crate) struct Library {
    /// Its name in scripts; empty for the globals.
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

/// All libraries. No other function is given to a script. A static, because a constant may have another address of each
/// function wherever it is used.
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

/// A row of the table, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionRow {
    /// The name of the function in scripts; a description of one that has no name.
    pub name: String,
    /// Whether a script has it by that name.
    pub is_named: bool,
    /// The quantity that the time of a call grows with.
    pub cost: &'static str,
    /// How a call is interrupted.
    pub ends: &'static str,
    /// Memory that a call may take.
    pub memory: &'static str,
}

/// All rows of the table.
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
                Interruption::EndsAtOnce => "ends at once",
                Interruption::Asked => "the host is asked",
                Interruption::Bounded => "not within",
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

/// Puts all libraries into the globals of a new interpreter.
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
    // Methods of strings.
    state.push_bytes(b"");
    state.push_table(0, 1);
    push(state, c"string");
    state.set_field(-2, c"__index");
    state.set_metatable(-2);
    state.pop(1);
}

/// Pushes the table of a library, which is made where it is not there yet.
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
