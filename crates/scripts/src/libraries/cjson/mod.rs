//! The library `cjson`.
//!
//! - `decode`: values of a text.
//! - `encode`: the text of a value.
//! - `settings`: the settings.

mod decode;
mod encode;
pub(crate) mod settings;

use std::ffi::{c_char, c_int};

use mlua_sys::{
    LUA_TBOOLEAN, LUA_TNIL, lua_State, lua_createtable, lua_gettop, lua_pushboolean,
    lua_pushfstring, lua_pushinteger, lua_pushlightuserdata, lua_pushnil, lua_pushstring_,
    lua_setfield, lua_toboolean, lua_type, luaL_argerror, luaL_checkoption,
};

use crate::libraries::function::{self, Function, Memory, asked, constant};
use crate::libraries::workspace::Workspace;
use crate::state::stack::push_bytes;
use crate::values::arguments;
use decode::decode;
use encode::encode;
use settings::Settings;

/// Its functions.
pub(crate) const FUNCTIONS: &[Function] = &[
    asked(c"encode", encode, "values and their bytes", Memory::Counted),
    asked(c"decode", decode, "bytes", Memory::Counted),
    constant(c"encode_sparse_array", encode_sparse_array),
    constant(c"encode_max_depth", encode_max_depth),
    constant(c"decode_max_depth", decode_max_depth),
    constant(c"encode_number_precision", encode_number_precision),
    constant(c"encode_keep_buffer", encode_keep_buffer),
    constant(c"encode_invalid_numbers", encode_invalid_numbers),
    constant(c"decode_invalid_numbers", decode_invalid_numbers),
    constant(c"new", new),
];

/// Adds what is no function to the table on top.
pub(crate) unsafe fn add_values(state: *mut lua_State) {
    lua_pushlightuserdata(state, std::ptr::null_mut());
    lua_setfield(state, -2, c"null".as_ptr());
    push_bytes(state, b"cjson");
    lua_setfield(state, -2, c"_NAME".as_ptr());
    push_bytes(state, b"2.1.0");
    lua_setfield(state, -2, c"_VERSION".as_ptr());
}

unsafe extern "C-unwind" fn new(state: *mut lua_State) -> c_int {
    lua_createtable(state, 0, 16);
    function::add(state, FUNCTIONS);
    add_values(state);
    1
}

unsafe fn settings(state: *mut lua_State) -> *mut Settings {
    &raw mut (*Workspace::of(state)).json
}

unsafe fn take_arguments(state: *mut lua_State, count: c_int) {
    if lua_gettop(state) > count {
        luaL_argerror(state, count + 1, c"found too many arguments".as_ptr());
    }
    while lua_gettop(state) < count {
        lua_pushnil(state);
    }
}

/// Sets an integer where one is given, and leaves it.
unsafe fn integer(state: *mut lua_State, index: c_int, setting: *mut c_int, range: (c_int, c_int)) {
    if lua_type(state, index) != LUA_TNIL {
        let value = arguments::integer(state, index);
        if value < range.0 as i64 || value > range.1 as i64 {
            let text = c"expected integer between %d and %d".as_ptr();
            luaL_argerror(state, 1, lua_pushfstring(state, text, range.0, range.1));
        }
        *setting = value as c_int;
    }
    lua_pushinteger(state, *setting as i64);
}

/// Sets one of some words, or a truth value, where one is given, and leaves it.
unsafe fn option(
    state: *mut lua_State,
    index: c_int,
    setting: *mut c_int,
    words: &[*const c_char],
) {
    if lua_type(state, index) == LUA_TBOOLEAN {
        *setting = lua_toboolean(state, index);
    } else if lua_type(state, index) != LUA_TNIL {
        *setting = luaL_checkoption(state, index, std::ptr::null(), words.as_ptr());
    }
    match *setting {
        0 | 1 => lua_pushboolean(state, *setting),
        other => lua_pushstring_(state, words[other as usize]),
    }
}

const OFF_ON: [*const c_char; 3] = [c"off".as_ptr(), c"on".as_ptr(), std::ptr::null()];
const OFF_ON_NULL: [*const c_char; 4] = [
    c"off".as_ptr(),
    c"on".as_ptr(),
    c"null".as_ptr(),
    std::ptr::null(),
];

unsafe extern "C-unwind" fn encode_sparse_array(state: *mut lua_State) -> c_int {
    take_arguments(state, 3);
    let settings = settings(state);
    option(state, 1, &raw mut (*settings).converts_sparse, &OFF_ON);
    integer(state, 2, &raw mut (*settings).sparse_ratio, (0, c_int::MAX));
    integer(state, 3, &raw mut (*settings).sparse_safe, (0, c_int::MAX));
    3
}

unsafe extern "C-unwind" fn encode_max_depth(state: *mut lua_State) -> c_int {
    take_arguments(state, 1);
    integer(
        state,
        1,
        &raw mut (*settings(state)).encode_depth,
        (1, c_int::MAX),
    );
    1
}

unsafe extern "C-unwind" fn decode_max_depth(state: *mut lua_State) -> c_int {
    take_arguments(state, 1);
    integer(
        state,
        1,
        &raw mut (*settings(state)).decode_depth,
        (1, c_int::MAX),
    );
    1
}

unsafe extern "C-unwind" fn encode_number_precision(state: *mut lua_State) -> c_int {
    take_arguments(state, 1);
    integer(state, 1, &raw mut (*settings(state)).precision, (1, 14));
    1
}

unsafe extern "C-unwind" fn encode_keep_buffer(state: *mut lua_State) -> c_int {
    take_arguments(state, 1);
    option(state, 1, &raw mut (*settings(state)).keeps_buffer, &OFF_ON);
    1
}

unsafe extern "C-unwind" fn encode_invalid_numbers(state: *mut lua_State) -> c_int {
    take_arguments(state, 1);
    option(
        state,
        1,
        &raw mut (*settings(state)).encodes_invalid,
        &OFF_ON_NULL,
    );
    1
}

unsafe extern "C-unwind" fn decode_invalid_numbers(state: *mut lua_State) -> c_int {
    take_arguments(state, 1);
    option(
        state,
        1,
        &raw mut (*settings(state)).decodes_invalid,
        &OFF_ON,
    );
    1
}
