//! Implements `redis.register_function` and the `redis` table that a library's program sees while
//! it is being loaded.

use std::ffi::c_int;

use undercroft_commands::scripts::{FunctionFlags, LibraryFunction, is_name};

use super::run::log;
use crate::libraries::function::{Function, Memory, asked};
use crate::libraries::workspace::Workspace;
use crate::state::{HoldsContext, Kind, State};

/// The functions of `redis` that a library's program can call while it is being loaded.
pub(crate) static LOADING: &[Function] = &[
    asked(
        c"register_function",
        register_function,
        "bytes of the names and descriptions",
        Memory::Counted,
    ),
    asked(c"log", log, "bytes", Memory::Counted),
];

/// The stack indices at which `redis.register_function` places its arguments.
const NAME: c_int = 2;
const DESCRIPTION: c_int = 3;
const CALLBACK: c_int = 4;

/// The error message for a failed registration.
type Problem = &'static [u8];

/// Implements `redis.register_function`. The arguments are a name and a function, or a table of
/// named arguments.
fn register_function(state: &mut State<'_>) -> c_int {
    let count = state.top();
    if !(1..=2).contains(&count) {
        state.raise(b"ERR wrong number of arguments to redis.register_function");
    }
    let registrations = &Workspace::of(state).registrations;
    if !registrations.is_open() {
        state.raise(b"ERR redis.register_function can only be called on FUNCTION LOAD command");
    }
    let mut flags = FunctionFlags::default();
    let arranged = match count {
        1 => arrange_named(state, &mut flags),
        _ => arrange_two(state),
    };
    if let Err(problem) = arranged.and_then(|()| register(state, flags)) {
        state.raise(problem);
    }
    state.set_top(CALLBACK);
    let key = state.keep();
    registrations.set_last_key(key);
    0
}

/// Registers a function. Its arguments must be at the stack indices `NAME`, `DESCRIPTION` and
/// `CALLBACK`. Raises no Lua error.
fn register(state: &State<'_>, flags: FunctionFlags) -> Result<(), Problem> {
    let name = state.bytes(NAME);
    let has_description = state.is_string(DESCRIPTION);
    let description = has_description.then(|| state.bytes(DESCRIPTION).to_vec());
    if !is_name(name) {
        return Err(
            b"ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one \
              character long",
        );
    }
    let workspace = Workspace::of(state);
    let function = LibraryFunction {
        name: name.to_vec(),
        description,
        flags,
    };
    let Some(bytes) = workspace.registrations.add(function) else {
        return Err(b"ERR Function already exists in the library");
    };
    // Lua limits the memory of the library's program, but registered names and descriptions are
    // outside Lua's heap, so limit them here.
    match bytes > workspace.context().memory.limit.get() {
        true => Err(b"ERR not enough memory"),
        false => Ok(()),
    }
}

/// Moves the two arguments, a name and a function, to the stack indices `NAME` and `CALLBACK`.
fn arrange_two(state: &mut State<'_>) -> Result<(), Problem> {
    if !state.is_string(1) {
        return Err(b"ERR first argument to redis.register_function must be a string");
    }
    if state.kind(2) != Kind::FUNCTION {
        return Err(b"ERR second argument to redis.register_function must be a function");
    }
    state.push_nil();
    state.push_value(2);
    state.push_value(1);
    state.replace(NAME);
    make_strings(state);
    Ok(())
}

/// Moves the fields of the only argument, a table, to the stack indices of the arguments.
fn arrange_named(state: &mut State<'_>, flags: &mut FunctionFlags) -> Result<(), Problem> {
    if state.kind(1) != Kind::TABLE {
        return Err(
            b"ERR calling redis.register_function with a single argument is only applicable to Lua table (representing \
              named arguments).",
        );
    }
    state.set_top(CALLBACK);
    state.push_nil();
    while state.next(1) {
        match place_of(state)? {
            Some(place) => state.replace(place),
            None => {
                if !read_flags(state, flags) {
                    return Err(b"ERR unknown flag given");
                }
                state.pop(1);
            }
        }
    }
    if state.kind(NAME) == Kind::NIL {
        return Err(b"ERR redis.register_function must get a function name argument");
    }
    if state.kind(CALLBACK) == Kind::NIL {
        return Err(b"ERR redis.register_function must get a callback argument");
    }
    make_strings(state);
    Ok(())
}

/// Returns the stack index for the named argument whose name and value are on top of the stack.
/// Returns `None` for the flags.
fn place_of(state: &State<'_>) -> Result<Option<c_int>, Problem> {
    if state.kind(-2) == Kind::NUMBER {
        return Err(b"ERR unknown argument given to redis.register_function");
    }
    if state.kind(-2) != Kind::STRING {
        return Err(b"ERR named argument key given to redis.register_function is not a string");
    }
    let name = state.c_bytes(-2);
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    let (fits, place, problem): (bool, _, Problem) = match () {
        () if is(b"function_name") => (
            state.is_string(-1),
            Some(NAME),
            b"ERR function_name argument given to redis.register_function must be a string",
        ),
        () if is(b"description") => (
            state.is_string(-1),
            Some(DESCRIPTION),
            b"ERR description argument given to redis.register_function must be a string",
        ),
        () if is(b"callback") => (
            state.kind(-1) == Kind::FUNCTION,
            Some(CALLBACK),
            b"ERR callback argument given to redis.register_function must be a function",
        ),
        () if is(b"flags") => (
            state.is_table(-1),
            None,
            b"ERR flags argument to redis.register_function must be a table representing function flags",
        ),
        () => return Err(b"ERR unknown argument given to redis.register_function"),
    };
    match fits {
        true => Ok(place),
        false => Err(problem),
    }
}

/// Converts a numeric name and a numeric description to strings, so that reading them later
/// allocates nothing.
fn make_strings(state: &State<'_>) {
    state.bytes(NAME);
    if state.is_string(DESCRIPTION) {
        state.bytes(DESCRIPTION);
    }
}

/// Parses the table of flags on top of the stack. Returns whether all flags are known.
fn read_flags(state: &mut State<'_>, flags: &mut FunctionFlags) -> bool {
    for index in 1.. {
        state.push_item(-1, index);
        if state.kind(-1) == Kind::NIL {
            break;
        }
        if !state.is_string(-1) || !flags.add(state.c_bytes(-1)) {
            return false;
        }
        state.pop(1);
    }
    state.pop(1);
    true
}
