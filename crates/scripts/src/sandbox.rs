//! What a script finds, and cannot change.
//!
//! Lua's tables can be changed by whoever has them. So what a script has of the globals and of each library is an empty
//! table in front: what is read is looked for in the real one behind it, and nothing can be written. The functions that
//! pass by this, as `rawset` and `table.insert` do, are told of these tables.

use std::ffi::{CStr, c_char, c_int, c_void};

use mlua_sys::{
    LUA_GLOBALSINDEX, LUA_MULTRET, LUA_REGISTRYINDEX, LUA_TFUNCTION, LUA_TNIL, LUA_TTABLE,
    lua_CFunction, lua_State, lua_call, lua_concat, lua_createtable, lua_error, lua_getfield_,
    lua_getmetatable, lua_gettop, lua_insert, lua_isnumber, lua_isstring, lua_istable, lua_load,
    lua_next, lua_pcall, lua_pop, lua_pushboolean, lua_pushcclosure, lua_pushnil, lua_pushnumber,
    lua_pushstring_, lua_pushvalue, lua_rawgeti_, lua_rawset, lua_remove, lua_replace,
    lua_setfield, lua_setmetatable, lua_settop, lua_toboolean, lua_tocfunction, lua_tolstring,
    lua_topointer, lua_tostring, lua_type, lua_upvalueindex, luaL_argerror, luaL_checkany,
    luaL_checkinteger, luaL_checklstring, luaL_checkstack, luaL_checktype, luaL_error,
    luaL_optlstring, luaL_where, luaopen_base, luaopen_math, luaopen_string, luaopen_table,
};

use crate::answer::bytes;
use crate::machine::{self, Machine};
use crate::raise::{push_bytes, raise, raise_text};
use crate::{bits, functions, json, limits, packs, patterns, plain, redis, sorting, structs};

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

/// Gives a new interpreter its libraries, and guards them.
pub(crate) unsafe fn prepare(state: *mut lua_State, machine: *mut Machine) {
    lua_settop(state, 0);
    let libraries: [(&CStr, lua_CFunction); 4] = [
        (c"", luaopen_base),
        (c"table", luaopen_table),
        (c"string", luaopen_string),
        (c"math", luaopen_math),
    ];
    for (name, open) in libraries {
        lua_pushcclosure(state, open, 0);
        lua_pushstring_(state, name.as_ptr());
        lua_call(state, 1, 0);
    }
    for name in [
        c"dofile",
        c"loadfile",
        c"print",
        c"newproxy",
        c"getfenv",
        c"setfenv",
    ] {
        lua_pushnil(state);
        lua_setfield(state, LUA_GLOBALSINDEX, name.as_ptr());
    }
    add_functions(
        state,
        LUA_GLOBALSINDEX,
        &[
            (c"pcall", protected_call),
            (c"pairs", pairs),
            (c"load", load),
            (c"loadstring", load_string),
        ],
    );
    for name in [c"rawset", c"setmetatable"] {
        guard(state, LUA_GLOBALSINDEX, name, guarded_first);
    }
    for name in [c"next", c"rawget"] {
        guard(state, LUA_GLOBALSINDEX, name, redirected_first);
    }
    guard(state, LUA_GLOBALSINDEX, c"collectgarbage", collect_garbage);
    lua_getfield_(state, LUA_GLOBALSINDEX, c"table".as_ptr());
    for name in [c"insert", c"remove", c"setn"] {
        guard(state, 1, name, guarded_first);
    }
    guard(state, 1, c"sort", sorting::sort);
    lua_settop(state, 0);
    lua_getfield_(state, LUA_GLOBALSINDEX, c"math".as_ptr());
    add_functions(
        state,
        1,
        &[(c"random", random), (c"randomseed", random_seed)],
    );
    lua_settop(state, 0);
    lua_getfield_(state, LUA_GLOBALSINDEX, c"string".as_ptr());
    guard(state, 1, c"rep", repeat);
    add_functions(state, 1, patterns::FUNCTIONS);
    lua_settop(state, 0);
    lua_getfield_(state, LUA_GLOBALSINDEX, c"coroutine".as_ptr());
    guard(state, 1, c"resume", resume);
    lua_getfield_(state, 1, c"create".as_ptr());
    lua_getfield_(state, 1, c"resume".as_ptr());
    lua_pushcclosure(state, wrap, 2);
    lua_setfield(state, 1, c"wrap".as_ptr());
    lua_settop(state, 0);

    library(state, c"redis", redis::FUNCTIONS);
    for (name, number) in redis::NUMBERS {
        lua_pushnumber(state, *number);
        lua_setfield(state, 1, name.as_ptr());
    }
    push_bytes(state, redis::VERSION);
    lua_setfield(state, 1, c"REDIS_VERSION".as_ptr());
    lua_settop(state, 0);
    library(state, c"bit", bits::FUNCTIONS);
    lua_settop(state, 0);
    library(state, c"struct", structs::FUNCTIONS);
    lua_settop(state, 0);
    library(state, c"cmsgpack", packs::FUNCTIONS);
    for (name, text) in packs::TEXTS {
        push_bytes(state, text.as_bytes());
        lua_setfield(state, 1, name.as_ptr());
    }
    lua_settop(state, 0);
    library(state, c"cjson", json::FUNCTIONS);
    json::add_values(state);
    lua_settop(state, 0);

    protect_all(state, machine);
    lua_settop(state, 0);
    plain::prepare(state, machine);
    lua_settop(state, 0);
    functions::prepare(state, machine);
}

/// Adds functions to the table at an index.
pub(crate) unsafe fn add_functions(
    state: *mut lua_State,
    index: c_int,
    functions: &[(&CStr, lua_CFunction)],
) {
    for (name, function) in functions {
        lua_pushcclosure(state, *function, 0);
        let index = if index < 0 && index > LUA_REGISTRYINDEX {
            index - 1
        } else {
            index
        };
        lua_setfield(state, index, name.as_ptr());
    }
}

/// Adds a library to the globals, and leaves it on the stack.
unsafe fn library(state: *mut lua_State, name: &CStr, functions: &[(&CStr, lua_CFunction)]) {
    lua_createtable(state, 0, functions.len() as c_int);
    lua_pushvalue(state, -1);
    lua_setfield(state, LUA_GLOBALSINDEX, name.as_ptr());
    let index = lua_gettop(state);
    add_functions(state, index, functions);
}

/// Puts a function before one of the table at an index, which it finds as its first upvalue.
unsafe fn guard(state: *mut lua_State, index: c_int, name: &CStr, function: lua_CFunction) {
    lua_getfield_(state, index, name.as_ptr());
    lua_pushcclosure(state, function, 1);
    lua_setfield(state, index, name.as_ptr());
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

const READ_ONLY: &[u8] = b"Attempt to modify a readonly table";

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

/// Calls the function that this one is put before.
unsafe fn go_on(state: *mut lua_State) -> c_int {
    match lua_tocfunction(state, lua_upvalueindex(1)) {
        Some(function) => function(state),
        None => 0,
    }
}

/// For functions that change their first argument.
pub(crate) unsafe extern "C-unwind" fn guarded_first(state: *mut lua_State) -> c_int {
    let machine = Machine::of(state);
    if (*machine).sandbox.behind(state, 1).is_some() {
        return raise_text(state, READ_ONLY);
    }
    go_on(state)
}

/// For functions that read their first argument as it is.
unsafe extern "C-unwind" fn redirected_first(state: *mut lua_State) -> c_int {
    redirect(state);
    go_on(state)
}

/// Puts what is behind a table in the place of the one in front.
unsafe fn redirect(state: *mut lua_State) {
    let machine = Machine::of(state);
    if let Some(behind) = (*machine).sandbox.behind(state, 1) {
        lua_rawgeti_(state, LUA_REGISTRYINDEX, behind);
        lua_replace(state, 1);
    }
}

/// `pairs`. Of a protected table it walks over a copy, which the script may have.
unsafe extern "C-unwind" fn pairs(state: *mut lua_State) -> c_int {
    luaL_checktype(state, 1, LUA_TTABLE);
    let machine = Machine::of(state);
    if let Some(behind) = (*machine).sandbox.behind(state, 1) {
        lua_settop(state, 0);
        lua_createtable(state, 0, 32);
        lua_rawgeti_(state, LUA_REGISTRYINDEX, behind);
        lua_pushnil(state);
        while lua_next(state, 2) != 0 {
            lua_pushvalue(state, -2);
            machine::swap(state);
            lua_rawset(state, 1);
        }
        lua_settop(state, 1);
    }
    (*machine).sandbox.push_real_globals(state);
    lua_getfield_(state, -1, c"next".as_ptr());
    lua_remove(state, -2);
    lua_pushvalue(state, 1);
    lua_pushnil(state);
    3
}

/// `pcall`, which gives the text of an error that is a table with one, as it was before Redis 7. A script that has to end
/// catches nothing.
unsafe extern "C-unwind" fn protected_call(state: *mut lua_State) -> c_int {
    luaL_checkany(state, 1);
    let arguments = lua_gettop(state);
    lua_pushboolean(state, 1);
    lua_insert(state, 1);
    if lua_pcall(state, arguments - 1, LUA_MULTRET, 0) != 0 {
        let machine = Machine::of(state);
        if !(*machine).may_catch() {
            return limits::raise_ending(machine, state);
        }
        lua_remove(state, 1);
        if lua_istable(state, -1) != 0 {
            lua_getfield_(state, -1, c"err".as_ptr());
            if lua_isstring(state, -1) != 0 {
                lua_replace(state, -2);
            } else {
                lua_pop(state, 1);
            }
        }
        lua_pushboolean(state, 0);
        lua_insert(state, 1);
    }
    lua_gettop(state)
}

/// Leaves the function that was compiled, or nil and what is wrong.
unsafe fn loaded(state: *mut lua_State, is_sound: bool) -> c_int {
    if is_sound {
        return 1;
    }
    lua_pushnil(state);
    lua_insert(state, -2);
    2
}

unsafe extern "C-unwind" fn load_string(state: *mut lua_State) -> c_int {
    let mut length = 0;
    let text = luaL_checklstring(state, 1, &mut length);
    let name = luaL_optlstring(state, 2, text, std::ptr::null_mut());
    let text = std::slice::from_raw_parts(text.cast(), length);
    let is_sound = machine::load(state, text, CStr::from_ptr(name));
    loaded(state, is_sound)
}

/// What `load` reads.
struct Pieces {
    is_first: bool,
    /// Whether a piece waits on the stack.
    is_kept: bool,
}

/// `load`: a function gives the program piece by piece.
unsafe extern "C-unwind" fn load(state: *mut lua_State) -> c_int {
    luaL_checktype(state, 1, LUA_TFUNCTION);
    let name = luaL_optlstring(state, 2, c"=(load)".as_ptr(), std::ptr::null_mut());
    // Where the last piece lies while it is read.
    lua_settop(state, 3);
    let mut pieces = Pieces {
        is_first: true,
        is_kept: false,
    };
    let status = lua_load(state, next_piece, (&raw mut pieces).cast(), name);
    let machine = Machine::of(state);
    if status != 0 && !(*machine).may_catch() {
        return limits::raise_ending(machine, state);
    }
    loaded(state, status == 0)
}

/// The next piece of a program; none at its end.
unsafe extern "C-unwind" fn next_piece(
    state: *mut lua_State,
    pieces: *mut c_void,
    length: *mut usize,
) -> *const c_char {
    const PIECE: c_int = 3;
    let pieces = pieces.cast::<Pieces>();
    if !std::mem::take(&mut (*pieces).is_kept) {
        luaL_checkstack(state, 2, c"too many nested functions".as_ptr());
        // The function may be one that Lua's hook does not see.
        limits::check_time(state);
        lua_pushvalue(state, 1);
        lua_call(state, 0, 1);
        if lua_type(state, -1) == LUA_TNIL {
            *length = 0;
            return std::ptr::null();
        }
        if lua_isstring(state, -1) == 0 {
            luaL_error(state, c"reader function must return a string".as_ptr());
        }
        lua_replace(state, PIECE);
        if std::mem::take(&mut (*pieces).is_first)
            && bytes(state, PIECE).first() == Some(&machine::COMPILED)
        {
            (*pieces).is_kept = true;
            *length = 1;
            return c" ".as_ptr();
        }
    }
    lua_tolstring(state, PIECE, length)
}

/// `collectgarbage`: how garbage is collected is the script's own while it runs.
unsafe extern "C-unwind" fn collect_garbage(state: *mut lua_State) -> c_int {
    (*Machine::of(state)).is_tuned = true;
    go_on(state)
}

/// `string.rep`, which takes no time for what has no length.
unsafe extern "C-unwind" fn repeat(state: *mut lua_State) -> c_int {
    let mut length = 0;
    luaL_checklstring(state, 1, &mut length);
    if length == 0 {
        luaL_checkinteger(state, 2);
        push_bytes(state, b"");
        return 1;
    }
    go_on(state)
}

/// `coroutine.resume`, where there is stack for one more.
unsafe extern "C-unwind" fn resume(state: *mut lua_State) -> c_int {
    limits::check_stack(state);
    let results = go_on(state);
    let machine = Machine::of(state);
    match (*machine).may_catch() {
        true => results,
        false => limits::raise_ending(machine, state),
    }
}

/// `coroutine.wrap`: its upvalues are `coroutine.create` and `coroutine.resume`.
unsafe extern "C-unwind" fn wrap(state: *mut lua_State) -> c_int {
    luaL_checktype(state, 1, LUA_TFUNCTION);
    lua_pushvalue(state, lua_upvalueindex(1));
    lua_pushvalue(state, 1);
    lua_call(state, 1, 1);
    lua_pushvalue(state, lua_upvalueindex(2));
    lua_pushcclosure(state, resume_wrapped, 2);
    1
}

/// The function that `coroutine.wrap` makes: its upvalues are the coroutine and `coroutine.resume`.
unsafe extern "C-unwind" fn resume_wrapped(state: *mut lua_State) -> c_int {
    lua_pushvalue(state, lua_upvalueindex(2));
    lua_insert(state, 1);
    lua_pushvalue(state, lua_upvalueindex(1));
    lua_insert(state, 2);
    let arguments = lua_gettop(state) - 1;
    lua_call(state, arguments, LUA_MULTRET);
    if lua_toboolean(state, 1) == 0 {
        if lua_isstring(state, -1) != 0 {
            luaL_where(state, 1);
            lua_insert(state, -2);
            lua_concat(state, 2);
        }
        lua_error(state);
    }
    lua_gettop(state) - 1
}

/// The next number of the generator of `lrand48`, of 31 bits.
fn next_random(random: &mut u64) -> u64 {
    const MASK: u64 = (1 << 48) - 1;
    *random = random.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & MASK;
    *random >> 17
}

/// `math.random`, the same on every machine.
unsafe extern "C-unwind" fn random(state: *mut lua_State) -> c_int {
    const END: u64 = i32::MAX as u64;
    let machine = Machine::of(state);
    if (*machine).calls.is_null() {
        return raise(
            state,
            b"math.random can only be called inside a script invocation",
        );
    }
    let drawn = (next_random(&mut (*machine).random) % END) as f64 / END as f64;
    let (least, most) = match lua_gettop(state) {
        0 => {
            lua_pushnumber(state, drawn);
            return 1;
        }
        1 => (1, luaL_checkinteger(state, 1) as i32),
        2 => (
            luaL_checkinteger(state, 1) as i32,
            luaL_checkinteger(state, 2) as i32,
        ),
        _ => return luaL_error(state, c"wrong number of arguments".as_ptr()),
    };
    if least > most {
        return luaL_argerror(state, lua_gettop(state), c"interval is empty".as_ptr());
    }
    let span = f64::from(most.wrapping_sub(least).wrapping_add(1));
    lua_pushnumber(state, (drawn * span).floor() + f64::from(least));
    1
}

unsafe extern "C-unwind" fn random_seed(state: *mut lua_State) -> c_int {
    let machine = Machine::of(state);
    if (*machine).calls.is_null() {
        return raise(
            state,
            b"math.randomseed can only be called inside a script invocation",
        );
    }
    let seed = luaL_checkinteger(state, 1) as i32 as u32;
    (*machine).random = u64::from(seed) << 16 | 0x330e;
    0
}
